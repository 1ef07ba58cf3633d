#!/bin/sh
# perf persistent flush (exclusive)
# SPDX-License-Identifier: GPL-2.0

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

exec_event=sched:sched_process_exec
log="$dir/log"

start() {
	must perf record --persistent="$name,full" -a -e $exec_event -m "$1"
}

flush() {
	must perf persistent flush -o "$log" "$name"
}

# The log has that many execs of the program, none of them twice.
expect_execs() {
	perf script -i "$log" 2> "$dir/err" |
		grep "$exec_event: *filename=$prog " > "$dir/execs"
	grep -qiE "unknown|invalid|corrupt|found .* (bad|unordered)" "$dir/err" &&
		fail "the log is unreadable: $(cat "$dir/err")"
	count=$(wc -l < "$dir/execs")
	[ "$count" -eq "$1" ] || fail "$count of $1 execs are in the log"
	[ -z "$(sort "$dir/execs" | uniq -d)" ] || fail "some are there twice"
}

test_flush() {
	begin "What was flushed is in the log, once, with names, and the next flush goes on"
	start 64
	run_programs 10
	flush
	grep -q "appended .*MB to $log" "$dir/out" || fail "what was done is not said"
	expect_execs 10
	run_programs 5
	flush
	flush
	expect_execs 15
	grep -v "^ *prog " "$dir/execs" && fail "programs have no names"
	perf report -i "$log" --stdio > "$dir/out" 2>&1 || fail "perf report fails"
	finish
}

test_room() {
	begin "A flushed buffer has room again: nothing is lost"
	stop
	start 16
	rm -f "$log" "$log.pos"
	for i in 1 2 3
	do
		run_programs 30
		flush
		grep -q "lost" "$dir/out" && fail "$(cat "$dir/out")"
	done
	expect_execs 90
	finish
}

test_lost() {
	begin "What found no room is counted, once, and the first records stay"
	stop
	rm -f "$log" "$log.pos"
	start 1
	run_programs 30
	flush
	grep -q "want of room in the buffer: [1-9]" "$dir/out" || fail "no loss is told"
	flush
	grep -q "want of room" "$dir/out" && fail "it is told again"
	perf script -i "$log" -D 2> /dev/null | grep -q "LOST_SAMPLES:.* lost samples :[1-9]" ||
		fail "the log does not say it"
	rm -f "$log" "$log.pos"
	finish
}

test_killed() {
	begin "However often a flush is killed, nothing is lost and nothing is there twice"
	stop
	start 256
	for i in 1 2 3 4 5 6 7 8 9
	do
		run_programs 3
		# Sooner and later: at each step once
		perf persistent flush -q -o "$log" "$name" > /dev/null 2>&1 &
		pid=$!
		sleep "0.$i"
		kill -KILL $pid 2> /dev/null
		wait $pid 2> /dev/null
	done
	flush
	expect_execs 27
	finish
}

test_torn_log() {
	begin "What a killed flush left at the end of the log is cut off"
	printf 'half a record' >> "$log"
	run_programs 2
	flush
	expect_execs 29
	finish
}

test_refused() {
	begin "What cannot be flushed, or appended to, is refused by name"
	must_fail "no-such" perf persistent flush -o "$dir/x" no-such
	must_fail "which log" perf persistent flush "$name"
	echo text > "$dir/text"
	must_fail "$dir/text.pos is missing" perf persistent flush -o "$dir/text" "$name"
	[ "$(cat "$dir/text")" = text ] || fail "it was changed"
	must_fail "no regular file" perf persistent flush -o /dev/null "$name"
	must_fail "$dir/none/x" perf persistent flush -o "$dir/none/x" "$name"
	cp "$log" "$dir/short"
	sed 's/^size .*/size 99999999/' "$log.pos" > "$dir/short.pos"
	must_fail "does not belong" perf persistent flush -o "$dir/short" "$name"
	sed 's/^\(p [0-9]*\) .*/\1 99999999/' "$log.pos" > "$dir/short.pos"
	must_fail "$dir/short.pos is ahead" perf persistent flush -o "$dir/short" "$name"
	cp "$log.pos" "$dir/short.pos"
	if [ "$(id -u)" -eq 0 ]
	then
		chown nobody "$dir/short.pos"
		must_fail "$dir/short.pos is owned by" \
			perf persistent flush -o "$dir/short" "$name"
	fi
	# A limit on the size of files does what a full disk does.
	run_programs 20
	limit="trap '' XFSZ; ulimit -f $(($(wc -c < "$log") / 512)); exec perf"
	must_fail "$log" sh -c "$limit persistent flush -o $log $name"
	expect_execs 29
	flush
	expect_execs 49
	stop
	start 64
	must_fail "$log is of another recording" perf persistent flush -o "$log" "$name"
	expect_execs 49
	stop
	must perf record --persistent="$name" -a -e $exec_event
	must_fail "overwrites the oldest" perf persistent flush -o "$dir/x" "$name"
	[ -e "$dir/x" ] && fail "a file was left"
	stop
	finish
}

need_feature
need_tracepoints

test_flush
test_room
test_lost
test_killed
test_torn_log
test_refused

cleanup
exit $err
