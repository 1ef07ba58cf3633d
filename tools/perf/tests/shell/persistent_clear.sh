#!/bin/sh
# perf persistent clear (exclusive)
# SPDX-License-Identifier: GPL-2.0

# Counts and buffers start anew, and no current reader loses anything.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

exec_event=sched:sched_process_exec
pid=
added=

take_back() {
	touch "$dir/go" "$dir/done"
	for process in $pid $added
	do
		kill "$process" 2> /dev/null
	done
}

start() {
	must perf record --persistent="$name$1" -a -e $exec_event -m 64
}

clear_it() {
	must_succeed "^$name: id [0-9]* cleared$" perf persistent clear "$name"
}

# expect_execs FILE NUMBER: of the program, with names, none twice
expect_execs() {
	perf script -i "$1" 2> "$dir/err" | grep "$exec_event: *filename=$prog " > "$dir/execs"
	grep -qiE "unknown|invalid|corrupt|found .* (bad|unordered)" "$dir/err" &&
		fail "$1 is unreadable: $(cat "$dir/err")"
	[ "$(wc -l < "$dir/execs")" -eq "$2" ] ||
		fail "$(wc -l < "$dir/execs") of $2 execs are in $1"
	[ -z "$(sort "$dir/execs" | uniq -d)" ] || fail "some are there twice"
	grep -v "^ *prog " "$dir/execs" && fail "programs have no names"
}

test_dump() {
	begin "A snapshot and --history have what came since it was cleared, and no more"
	start
	run_programs 20
	clear_it
	must perf persistent dump "$name" -o "$dir/data"
	expect_execs "$dir/data" 0
	run_programs 3
	must perf persistent dump "$name" -o "$dir/data"
	expect_execs "$dir/data" 3
	grep -q "overwritten\|consumed" "$dir/out" && fail "it says '$(cat "$dir/out")'"
	must perf record --history -e "persistent/$name/" -o "$dir/data" true
	expect_execs "$dir/data" 3
	grep -q "overwritten\|consumed" "$dir/out" && fail "it says '$(cat "$dir/out")'"
	stop
	finish
}

test_overwritten() {
	begin "Records overwritten since then are reported, and no earlier ones"
	must perf record --persistent="$name" -a -e cpu-clock -c 100000 -m 1
	sleep 1
	must perf persistent disable "$name"
	must perf persistent dump "$name" -o "$dir/data"
	grep -q "older records were overwritten" "$dir/out" || fail "it says '$(cat "$dir/out")'"
	clear_it
	must perf persistent dump "$name" -o "$dir/data"
	grep -q "(0 samples)" "$dir/out" || fail "it says '$(cat "$dir/out")'"
	must perf persistent enable "$name"
	sleep 1
	must perf persistent dump "$name" -o "$dir/data"
	grep -q "([1-9][0-9]* samples)" "$dir/out" || fail "it says '$(cat "$dir/out")'"
	grep -q "older records were overwritten" "$dir/out" || fail "it says '$(cat "$dir/out")'"
	stop
	finish
}

test_names() {
	begin "Tasks have names and symbols, those that ended since then too"
	start
	cp "$(command -v sh)" "$dir/before"
	"$dir/before" -c "until [ -e $dir/go ]; do sleep 0.1; done; exec $prog" 2> /dev/null &
	pid=$!
	wait_for grep -q "$dir/before" "/proc/$pid/cmdline"
	clear_it
	touch "$dir/go"
	wait $pid
	pid=
	must perf persistent dump "$name" -o "$dir/data"
	expect_execs "$dir/data" 1
	perf script --show-mmap-events --show-task-events -i "$dir/data" > "$dir/script" 2>&1
	grep -q "PERF_RECORD_MMAP2.*$dir/before" "$dir/script" || fail "there are no mappings"
	grep -q "PERF_RECORD_COMM.*: before:" "$dir/script" || fail "there is no name"
	stop
	finish
}

# The count of execs in the CSV of perf persistent read
count() {
	perf persistent read -x ';' "$name" | grep ";$exec_event;" | cut -d ';' -f 1
}

test_counts() {
	begin "Counts start anew for new readers, and go on for those who read already"
	must perf stat --persistent="$name" -a -e $exec_event
	must_succeed "started [0-9.]* seconds ago:" perf persistent read "$name"
	run_programs 50
	rm -f "$dir/go"
	perf stat -x, -o "$dir/stat" -e "persistent/$name/" -- \
		sh -c "touch $dir/ready; until [ -e $dir/go ]; do sleep 0.1; done" &
	pid=$!
	wait_for [ -e "$dir/ready" ] || fail "perf stat does not start"
	run_programs 50
	[ "$(count)" -ge 100 ] || fail "$(count) before"
	clear_it
	# Each perf is an exec itself.
	[ "$(count)" -lt 50 ] || fail "$(count) after"
	touch "$dir/go"
	wait $pid || fail "perf stat fails"
	pid=
	[ "$(grep $exec_event "$dir/stat" | cut -d, -f1)" -ge 50 ] ||
		fail "perf stat has '$(cat "$dir/stat")'"
	must_succeed "started [0-9.]* seconds ago, cleared [0-9.]* seconds ago:" \
		perf persistent read "$name"
	must_succeed '"age": [0-9]*, "cleared": [0-9]*, "counts"' \
		perf persistent read -j "$name"
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	stop
	finish
}

# Run a follower that creates $dir/ready and waits for $dir/done
follow_until_done() {
	rm -f "$dir/ready" "$dir/done"
	perf record -e "persistent/$name/" "$@" -o "$dir/followed" -- \
		sh -c "touch $dir/ready; until [ -e $dir/done ]; do sleep 0.1; done" \
		> "$dir/follow" 2>&1 &
	pid=$!
	wait_for [ -e "$dir/ready" ] || fail "it does not start: $(cat "$dir/follow")"
}

end_follower() {
	touch "$dir/done"
	wait $pid || fail "it fails: $(cat "$dir/follow")"
	pid=
}

test_added() {
	begin "A process that is added later does not hide that the session was cleared"
	# Started first, it has the lower pid, and comes first in the list of instances.
	sleep 1000 &
	added=$!
	sleep 1000 &
	pid=$!
	must perf stat --persistent="$name" -p $pid -e context-switches
	clear_it
	must perf persistent add -p $added "$name"
	must_succeed ", cleared [0-9.]* seconds ago:" perf persistent read "$name"
	must_succeed '"cleared": [0-9]*, "counts"' perf persistent read -j "$name"
	stop
	kill $added $pid
	pid=
	added=
	finish
}

test_follower() {
	begin "A follower of a session that is cleared neither loses nor repeats records"
	start
	run_programs 5
	follow_until_done
	for _ in 1 2 3
	do
		run_programs 10
		clear_it
	done
	run_programs 10
	end_follower
	expect_execs "$dir/followed" 40
	grep -q "overwritten\|lost\|consumed" "$dir/follow" && fail "it says '$(cat "$dir/follow")'"
	must perf persistent dump "$name" -o "$dir/data"
	expect_execs "$dir/data" 10
	stop
	finish
}

lost() {
	perf persistent list -x ';' | grep "^$name;" | cut -d ';' -f 9
}

test_full() {
	begin "A discard session has room again, and its earlier losses are not reported again"
	must perf record --persistent="$name,discard" -a -e cpu-clock -c 1000000 -m 1
	sleep 1
	must perf persistent disable "$name"
	[ "$(lost)" -gt 0 ] || fail "nothing is lost"
	clear_it
	[ "$(lost)" -eq 0 ] || fail "$(lost) are lost"
	must perf persistent dump "$name" -o "$dir/data"
	grep -q "(0 samples)" "$dir/out" || fail "it says '$(cat "$dir/out")'"
	grep -q "dropped, buffer full: [0-9]* samples" "$dir/out" && fail "$(cat "$dir/out")"
	must perf persistent enable "$name"
	sleep 1
	must perf persistent disable "$name"
	must perf persistent dump "$name" -o "$dir/data"
	grep -q "([1-9][0-9]* samples)" "$dir/out" || fail "it says '$(cat "$dir/out")'"
	grep -q "dropped, buffer full: $(lost) samples" "$dir/out" || fail "$(cat "$dir/out")"
	stop
	finish
}

test_flush() {
	begin "A log has the records and the losses since then"
	must perf record --persistent="$name,discard" -a -e $exec_event -m 64
	run_programs 5
	must perf persistent flush -o "$dir/log" "$name"
	run_programs 7
	clear_it
	run_programs 3
	must perf persistent flush -o "$dir/log" "$name"
	expect_execs "$dir/log" 8
	stop
	rm -f "$dir/log" "$dir/log.pos"
	must perf record --persistent="$name,discard" -a -e cpu-clock -c 1000000 -m 1
	sleep 1
	must perf persistent disable "$name"
	clear_it
	must perf persistent flush -o "$dir/log" "$name"
	grep -q "dropped, buffer full: [0-9]* samples" "$dir/out" &&
		fail "it says '$(cat "$dir/out")'"
	must perf persistent enable "$name"
	sleep 1
	must perf persistent disable "$name"
	must perf persistent flush -o "$dir/log" "$name"
	grep -q "dropped, buffer full: $(lost) samples" "$dir/out" ||
		fail "of $(lost) it says '$(cat "$dir/out")'"
	stop
	finish
}

test_gap() {
	begin "A follower of a discard session is told of records that were taken, if any"
	must perf record --persistent="$name,discard" -a -e $exec_event -m 64
	follow_until_done
	run_programs 10
	clear_it
	run_programs 10
	end_follower
	expect="$(grep -c "already flushed or consumed: [1-9]" "$dir/follow")"
	perf script -i "$dir/followed" 2> /dev/null | grep -c "filename=$prog " > "$dir/execs"
	if [ "$(cat "$dir/execs")" -ne 20 ] && [ "$expect" -eq 0 ]
	then
		fail "$(cat "$dir/execs") of 20 execs: $(cat "$dir/follow")"
	fi
	stop
	finish
}

test_consumer() {
	begin "Nothing is cleared while another process consumes the buffers"
	must perf record --persistent="$name,discard" -a -e $exec_event -m 64
	run_programs 5
	follow_until_done --consume
	must_fail "^cannot clear session '$name': another process consumes its buffers" \
		perf persistent clear "$name"
	perf persistent read -j "$name" | grep -q '"cleared"' && fail "it was cleared"
	end_follower
	clear_it
	stop
	finish
}

test_several() {
	begin "Several or all sessions are cleared, and those that cannot be are named"
	start
	start -2
	must_succeed "^$name: id [0-9]* cleared$" perf persistent clear "$name" "$name-2"
	and_says "^$name-2: id [0-9]* cleared$"
	must_succeed "^$name-2: id [0-9]* cleared$" perf persistent clear --mine
	must_succeed "^$name: id [0-9]* cleared$" perf persistent clear "$name" "$name"
	[ "$(wc -l < "$dir/out")" -eq 1 ] || fail "it is cleared twice: $(cat "$dir/out")"
	must_fail "no session named 'no-such'" perf persistent clear no-such "$name"
	and_says "^$name: id [0-9]* cleared$"
	must_fail "Usage: perf persistent clear" perf persistent clear
	if [ "$(id -u)" -eq 0 ] && as_nobody true 2> /dev/null
	then
		must_fail "cannot clear session '$name': owned by root; needs CAP_PERFMON" \
			as_nobody perf persistent clear "$name"
	fi
	stop "$name" "$name-2"
	finish
}

need_feature
need_tracepoints

test_dump
test_overwritten
test_names
test_counts
test_added
test_follower
test_full
test_flush
test_gap
test_consumer
test_several

cleanup
exit $err
