#!/bin/sh
# perf persistent dump (exclusive)
# SPDX-License-Identifier: GPL-2.0

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

exec_event=sched:sched_process_exec
busy=

take_back() {
	[ -n "$busy" ] && kill "$busy" 2> /dev/null
}

start() {
	must perf record --persistent="$name$1" -a -e $exec_event -m 64
}

# count_execs FILE [PERF SCRIPT OPTION]...: the number of execs of the program
count_execs() {
	file=$1
	shift
	perf script -i "$file" "$@" 2> "$dir/err" | grep -c "$exec_event: *filename=$prog "
}

# expect_execs FILE WANTED [PERF SCRIPT OPTION]...: expect that number
expect_execs() {
	file=$1
	wanted=$2
	shift 2
	count=$(count_execs "$file" "$@")
	[ "$count" -eq "$wanted" ] || fail "$count of $wanted execs are in $file: $(cat "$dir/err")"
}

test_percent() {
	begin "Parts of the time in percent work on a dump and on a followed session"
	start
	run_programs 20
	must perf persistent dump "$name" -o "$dir/data"
	must perf record --history -e "persistent/$name/" -o "$dir/follow" true
	for file in "$dir/data" "$dir/follow"
	do
		all=$(perf script -i "$file" 2> /dev/null | grep -c "$exec_event:")
		# Samples at the boundary may be in both halves.
		first=$(perf script --time 0%-50% -i "$file" 2>&1 | grep -c "$exec_event:")
		last=$(perf script --time 50%-100% -i "$file" 2>&1 | grep -c "$exec_event:")
		if [ "$first" -eq 0 ] || [ "$last" -eq 0 ] || [ "$first" -ge "$all" ] ||
		   [ $((first + last)) -lt "$all" ]
		then
			fail "$file: $first and $last of $all"
		fi
	done
	finish
}

test_pipe() {
	begin "A dump goes through a pipe, and messages about it to stderr"
	perf persistent dump "$name" -o - 2> "$dir/out" |
		perf script -i - > "$dir/script" 2> "$dir/err"
	[ "$(grep -c "$exec_event: *filename=$prog " "$dir/script")" -eq 20 ] ||
		fail "the pipe has '$(cat "$dir/script" "$dir/err")'"
	grep -q "wrote .* MB standard output" "$dir/out" || fail "it says '$(cat "$dir/out")'"
	[ -e ./- ] && fail "there is a file -"
	if [ -c /dev/full ]
	then
		perf persistent dump "$name" -o - > /dev/full 2> "$dir/out" &&
			fail "a full disk is no error"
		grep -q "cannot write standard output: No space" "$dir/out" ||
			fail "'$(cat "$dir/out")'"
		[ "$(grep -vc "Couldn't synthesize" "$dir/out")" -eq 1 ] ||
			fail "it goes on after the first error: $(cat "$dir/out")"
	fi
	finish
}

test_closed_pipe() {
	begin "A dump to a file is complete even if nobody reads the messages"
	{
		perf persistent dump "$name" -o "$dir/unread"
		echo $? > "$dir/status"
	} 2>&1 | true
	wait_for [ -s "$dir/status" ] || fail "it does not end"
	[ "$(cat "$dir/status")" = 0 ] || fail "its status is $(cat "$dir/status")"
	ls "$dir"/unread.?????? > /dev/null 2>&1 && fail "it leaves $(ls "$dir")"
	must perf script -i "$dir/unread"
	finish
}

# has_data FILE: true if it has non-executable mappings of this shell
has_data() {
	perf script --show-mmap-events -i "$1" 2> "$dir/err" |
		grep -q "PERF_RECORD_MMAP2 $$/$$: .* rw-p "
}

test_data() {
	begin "With -d, tasks that are there have their mappings of data, and only then"
	must perf record --persistent="$name-d" -d -a -e $exec_event -m 64
	for session in "$name" "$name-d"
	do
		must perf persistent dump "$session" -o "$dir/$session"
		must perf record -e "persistent/$session/" -o "$dir/follow-$session" true
	done
	for file in "$name" "follow-$name"
	do
		has_data "$dir/$file" && fail "$file has mappings of data"
		has_data "$dir/$file-d" || fail "$file-d has none: $(cat "$dir/err")"
	done
	stop "$name-d"
	finish
}

# bpf_programs FILE: the symbols of BPF programs
bpf_programs() {
	perf script --show-bpf-events -i "$1" 2> /dev/null |
		grep -o "PERF_RECORD_KSYMBOL .* bpf_prog_.*" | sort
}

test_bpf() {
	begin "BPF programs that were loaded before the session have symbols"
	perf test -w bpf_program > "$dir/loaded" 2>&1 &
	busy=$!
	wait_for [ -s "$dir/loaded" ]
	must perf record -a -e cpu-clock -o "$dir/data" true
	bpf_programs "$dir/data" > "$dir/wanted"
	if [ ! -s "$dir/wanted" ]
	then
		skip "no BPF program can be loaded and seen: $(cat "$dir/loaded")"
		take_back
		busy=
		return
	fi
	must perf record --persistent="$name-bpf,discard" -a -e cpu-clock
	must perf persistent dump "$name-bpf" -o "$dir/data"
	must perf persistent flush "$name-bpf" -o "$dir/bpf-log"
	for file in "$dir/data" "$dir/bpf-log"
	do
		bpf_programs "$file" | cmp -s - "$dir/wanted" ||
			fail "$file has '$(bpf_programs "$file")'"
	done
	take_back
	busy=
	stop "$name-bpf"
	finish
}

# The other programs ran before the pause of 2 s, so "the last second" excludes them.
test_last() {
	begin "--last has the samples of the last seconds, --max-size the newest that fit"
	sleep 2
	run_programs 5
	must perf persistent dump --last 1s "$name" -o "$dir/data"
	count=$(count_execs "$dir/data")
	case $count in
	[1-5]) ;;
	*) fail "$count of 5 execs are in the last second" ;;
	esac
	grep -q "older samples left out: [1-9]" "$dir/out" || fail "it says '$(cat "$dir/out")'"
	perf script -i "$dir/data" 2> /dev/null | grep "filename=$prog " | grep -v "^ *prog " &&
		fail "programs have no names"
	must perf persistent dump --last 1h "$name" -o "$dir/data"
	expect_execs "$dir/data" 25
	grep -q "left out" "$dir/out" && fail "something was left out of an hour"
	# Disable it, so that the next snapshot has the same contents
	must perf persistent disable "$name"
	must perf persistent dump "$name" -o "$dir/data"
	size=$(wc -c < "$dir/data")
	max=$((size - 1000))
	must perf persistent dump --max-size ${max}B "$name" -o "$dir/data"
	[ "$(wc -c < "$dir/data")" -le $max ] || fail "more than $max bytes"
	grep -q "left out: [1-9]" "$dir/out" || fail "nothing was left out: '$(cat "$dir/out")'"
	# The newest samples are there, also those from after the pause.
	count=$(count_execs "$dir/data")
	if [ "$count" -lt 5 ] || [ "$count" -ge 25 ]
	then
		fail "$count execs fit"
	fi
	must_fail "at least [0-9]* bytes are needed" \
		perf persistent dump --max-size 1K "$name" -o "$dir/none"
	for bad in 10X 10x 10 10Kx -1 -1K +1K 0K 1e3 1e3K 1.5M 99999999999G " 1K" ""
	do
		must_fail "^invalid size '$bad' for --max-size" \
			perf persistent dump --max-size "$bad" "$name" -o "$dir/none"
	done
	must_fail "invalid time 'soon'" perf persistent dump --last soon "$name" -o "$dir/none"
	if [ "$(linux32 uname -m 2> /dev/null)" = i686 ]
	then
		must_fail "not supported on 32-bit kernels" \
			linux32 perf persistent dump "$name" -o "$dir/none"
	fi
	[ -e "$dir/none" ] && fail "a file was left"
	must perf persistent enable "$name"
	finish
}

test_several() {
	begin "Several sessions are written to a file each, which %n and strftime name"
	start -2
	must perf stat --persistent="$name-3" -a -e context-switches
	run_programs 3
	(cd "$dir" && must perf persistent dump "$name" "$name-2")
	expect_execs "$dir/perf.data.$name" 28
	expect_execs "$dir/perf.data.$name-2" 3
	day=$(date +%Y)
	must perf persistent dump "$name" -o "$dir/%n-%Y.data"
	[ -e "$dir/$name-$day.data" ] || fail "there is no $name-$day.data: $(ls "$dir")"
	must perf persistent dump "$name" -o "$dir/100%%"
	[ -e "$dir/100%" ] || fail "there is no 100%: $(ls "$dir")"
	must_fail "use -o $dir/one.%n" perf persistent dump "$name" "$name-2" -o "$dir/one"
	[ -e "$dir/one" ] && fail "a file was left"
	must_fail "needs a file of its own" perf persistent dump "$name" "$name-2" -o -
	rm -f "$dir/perf.data.$name-2"
	(cd "$dir" && must_fail "no-such" perf persistent dump no-such "$name-2")
	[ -e "$dir/perf.data.$name-2" ] || fail "a bad name keeps the others"
	must perf persistent dump --all -o "$dir/all.%n"
	for session in "$name" "$name-2"
	do
		[ -s "$dir/all.$session" ] || fail "--all leaves out $session"
	done
	[ -e "$dir/all.$name-3" ] && fail "--all writes what only counts"
	stop "$name" "$name-2" "$name-3"
	finish
}

test_ended() {
	begin "A session that ends while others are dumped is an error only if it was named"
	start
	start -2
	bytes=$pmu/ids/$(perf persistent list -x, "$name-2" | cut -d, -f2)/buffer_bytes
	mkfifo "$dir/fifo"
	if ! mount --bind "$dir/fifo" "$bytes" 2> /dev/null
	then
		skip "cannot mount over $bytes"
		stop "$name" "$name-2"
		return
	fi
	rm -f "$dir"/all.*
	id=$(($(sed 's/id=//' "$pmu/events/$name-2")))
	perf persistent dump --all -o "$dir/all.%n" > "$dir/out" 2>&1 &
	pid=$!
	# perf waits when it asks for the buffers of the second session.
	wait_for [ -s "$dir/all.$name" ]
	sleep 0.5
	perf persistent stop "$name-2" > /dev/null
	echo 65536 > "$dir/fifo" &
	wait $pid || fail "$(cat "$dir/out")"
	kill $! 2> /dev/null
	and_says "cannot read session '$id': it has ended"
	[ "$(ls "$dir"/all.*)" = "$dir/all.$name" ] || fail "$(ls "$dir")"
	stop
	finish
}

test_flushed() {
	begin "Flushed records are not reported as overwritten"
	must perf record --persistent="$name,discard" -a -e $exec_event -m 64
	run_programs 5
	must perf persistent flush -o "$dir/log" "$name"
	run_programs 2
	must perf persistent dump "$name" -o "$dir/data"
	grep -q "already flushed or consumed: [1-9]" "$dir/out" || fail "'$(cat "$dir/out")'"
	grep -q "overwritten" "$dir/out" && fail "'$(cat "$dir/out")'"
	expect_execs "$dir/data" 2
	must perf record --history -e "persistent/$name/" -o "$dir/data" true
	grep -q "already flushed or consumed: [1-9]" "$dir/out" || fail "'$(cat "$dir/out")'"
	grep -q "overwritten" "$dir/out" && fail "'$(cat "$dir/out")'"
	stop
	finish
}

test_lost_names() {
	begin "Lost names are reported, and not counted as samples"
	# No samples, and one page of side-band
	must perf record --persistent="$name,discard" -a -e $exec_event --filter 'pid < 0' -m 1
	run_programs 60
	must perf persistent dump "$name" -o "$dir/data"
	grep -q "dropped, buffer full: [1-9][0-9]* side-band records" "$dir/out" ||
		fail "it is not said: '$(cat "$dir/out")'"
	grep -q "dropped, buffer full: [0-9]* samples" "$dir/out" &&
		fail "samples are said to be lost: '$(cat "$dir/out")'"
	must perf persistent flush -o "$dir/names" "$name"
	grep -q "dropped, buffer full: [1-9][0-9]* side-band records" "$dir/out" ||
		fail "flush does not say it: '$(cat "$dir/out")'"
	for file in "$dir/data" "$dir/names"
	do
		perf script -i "$file" -D > "$dir/script" 2> "$dir/err"
		grep -q "PERF_RECORD_LOST: .* lost:[1-9]" "$dir/script" ||
			fail "$file does not say it"
		grep -q "LOST_SAMPLES" "$dir/script" && fail "$file says that samples were lost"
		perf report -i "$file" --stdio 2>&1 | grep -q "samples and lost" &&
			fail "perf report says that samples were lost"
	done
	must perf record --history -e "persistent/$name/" -o "$dir/data" true
	grep -q "dropped, buffer full: [1-9][0-9]* side-band records" "$dir/out" ||
		fail "perf record does not say it: '$(cat "$dir/out")'"
	stop
	finish
}

test_horizon() {
	begin "If side-band was overwritten, older samples are reported, if any"
	must perf record --persistent="$name" -a -e $exec_event --filter 'pid < 0' -m 1
	page=$(getconf PAGE_SIZE 2> /dev/null || echo 4096)
	# Some comm, fork, exit and mmap records each
	run_programs $((page / 50))
	must perf persistent dump "$name" -o "$dir/data"
	grep -q "names of tasks that ended before [0-9.]* are lost \]" "$dir/out" ||
		fail "it says '$(cat "$dir/out")'"
	stop
	finish
}

# is STATE: true if list shows that state
is() {
	perf persistent list -x, "$name" 2> /dev/null | grep -q "^$name,[0-9]*,[^,]*,$1,"
}

all_execs() {
	perf script -i "$1" 2> "$dir/err" | grep -c "$exec_event:"
}

test_stop() {
	begin "stop --dump has all that was recorded until the stop, also meanwhile"
	start
	perf record --history -e "persistent/$name/" -o "$dir/follow" > "$dir/followed" 2>&1 &
	follower=$!
	run_programs 10
	(while :; do "$prog"; done) > /dev/null 2>&1 &
	busy=$!
	must_succeed "^$name: id [0-9]* stopped$" perf persistent stop --dump "$dir/data" "$name"
	kill $busy
	wait $busy
	busy=
	and_says "perf persistent dump: wrote .* $dir/data "
	[ -e "$pmu/events/$name" ] && fail "it goes on"
	wait $follower || fail "$(cat "$dir/followed")"
	wanted=$(all_execs "$dir/follow")
	count=$(all_execs "$dir/data")
	if [ "$count" -lt 10 ] || [ "$count" -ne "$wanted" ]
	then
		fail "$count of $wanted execs are in the dump"
	fi
	start
	start -2
	run_programs 3
	must_fail "^-N needs --dump" perf persistent stop -N "$name"
	must_fail "use --dump $dir/one.%n" \
		perf persistent stop --dump "$dir/one" "$name" "$name-2"
	must perf persistent stop --dump "$dir/%n.end" "$name" "$name-2"
	expect_execs "$dir/$name.end" 3
	expect_execs "$dir/$name-2.end" 3
	start
	run_programs 3
	perf persistent stop --dump - "$name" 2> "$dir/out" |
		perf script -i - > "$dir/script" 2> "$dir/err"
	[ "$(grep -c "$exec_event: *filename=$prog " "$dir/script")" -eq 3 ] ||
		fail "the pipe has '$(cat "$dir/script" "$dir/err")'"
	and_says "^$name: id [0-9]* stopped$"
	finish
}

test_not_stopped() {
	begin "If stop --dump fails or is killed, the session is as before"
	start
	must_fail "session '$name' was not stopped, because the dump failed" \
		perf persistent stop --dump "$dir/none/x" "$name"
	is enabled || fail "it is not enabled: $(perf persistent list)"
	must perf persistent disable "$name"
	must_fail "was not stopped, because the dump failed" \
		perf persistent stop --dump "$dir/none/x" "$name"
	is disabled || fail "it is not disabled: $(perf persistent list)"
	must perf persistent enable "$name"
	# Write more than fits into a pipe that nobody reads
	run_programs 100
	mkfifo "$dir/pipe"
	exec 3<> "$dir/pipe"
	perf persistent stop --dump - "$name" > "$dir/pipe" 2> "$dir/err" &
	pid=$!
	wait_for is held || fail "it is not held: $(perf persistent list)"
	kill -KILL $pid
	wait $pid
	wait_for is enabled || fail "it does not go on: $(perf persistent list)"
	exec 3<&-
	must perf stat --persistent="$name-2" -a -e context-switches
	must_fail "only counts" perf persistent stop --dump "$dir/x" "$name-2"
	[ -e "$dir/x" ] && fail "a file was left"
	stop "$name" "$name-2"
	finish
}

# caches NUMBER COMMAND...: expect perf COMMAND to put so many objects into an empty cache
caches() {
	wanted=$1
	shift
	rm -rf "$dir/cache"
	must perf --buildid-dir "$dir/cache" "$@"
	count=$(perf --buildid-dir "$dir/cache" buildid-cache -l 2> "$dir/err" | wc -l)
	[ "$count" -eq "$wanted" ] || fail "'$*' puts $count objects into the cache, not $wanted"
}

test_old() {
	begin "An existing file is kept, as FILE.old or in place"
	start
	rm -rf "$dir/data" "$dir/data.old"
	echo first > "$dir/data"
	mkdir "$dir/data.old"
	must_fail "cannot rename $dir/data to $dir/data.old" \
		perf persistent dump -o "$dir/data" "$name"
	# Progress is printed if it takes long.
	[ "$(grep -cv "MB written" "$dir/out")" -eq 1 ] || fail "there is more: $(cat "$dir/out")"
	[ "$(cat "$dir/data")" = first ] || fail "it was replaced"
	rmdir "$dir/data.old"
	echo older > "$dir/data.old"
	must perf persistent dump -o "$dir/data" "$name"
	[ "$(cat "$dir/data.old")" = first ] || fail "it is not in FILE.old"
	must perf evlist -i "$dir/data"
	ls "$dir"/data.?????? > /dev/null 2>&1 && fail "something was left"
	stop
	rm -f "$dir/data.old"
	finish
}

test_interrupted() {
	begin "A dump that is interrupted leaves no file behind"
	start
	run_programs 20
	for i in 1 2 3 4 5
	do
		perf persistent dump -q -o "$dir/cut" "$name" > /dev/null 2>&1 &
		pid=$!
		sleep "0.$i"
		kill -TERM $pid 2> /dev/null
		wait $pid
	done
	ls "$dir"/cut.?????? > /dev/null 2>&1 && fail "it leaves $(ls "$dir")"
	stop
	finish
}

test_build_ids() {
	begin "stop --dump puts objects that have samples into the build-id cache, dump if told to"
	start
	run_programs 3
	caches 0 persistent dump -o "$dir/data" "$name"
	objects=$(perf buildid-list -i "$dir/data" --with-hits 2> "$dir/err" | wc -l)
	[ "$objects" -gt 0 ] || fail "the dump tells no build-id: $(cat "$dir/err")"
	caches "$objects" persistent dump --buildid-cache -o "$dir/data" "$name"
	caches "$objects" persistent stop --dump "$dir/data" "$name"
	start
	run_programs 3
	caches 0 persistent stop -N --dump "$dir/data" "$name"
	finish
}

need_feature
need_tracepoints

test_percent
test_pipe
test_closed_pipe
test_data
test_bpf
test_last
test_several
test_ended
test_flushed
test_lost_names
test_horizon
test_stop
test_not_stopped
test_old
test_interrupted
test_build_ids

cleanup
exit $err
