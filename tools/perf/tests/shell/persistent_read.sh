#!/bin/sh
# perf persistent events: reading (exclusive)
# SPDX-License-Identifier: GPL-2.0

# Running sessions are opened again, by one reader or by several.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

exec_event=sched:sched_process_exec
busy=

take_back() {
	[ -n "$busy" ] && kill "$busy" 2> /dev/null
}

count_execs() {
	perf script -i "$1" 2> /dev/null | grep -c "$exec_event: *filename=$prog "
}

# Run a follower that creates $dir/ready and waits for $dir/done
follow_until() {
	echo "touch $dir/$1.ready; until [ -e $dir/$1.done ]; do sleep 0.1; done"
}

start() {
	must perf record --persistent="$name$1" -a -e $exec_event -e cpu-clock/freq=9/ -m 64
}

test_by_id() {
	begin "persistent/id=N/ is the same as persistent/NAME/"
	id=$(perf persistent list | sed -n "s/^$name *\([0-9]*\) .*/\1/p")
	must perf record -q -e "persistent/id=$id/" -o "$dir/data" -- sh -c "$prog; $prog; true"
	[ "$(count_execs "$dir/data")" -eq 2 ] || fail "$(count_execs "$dir/data") of 2 execs"
	finish
}

test_beside() {
	begin "Ordinary events beside: those of the command and those that run already"
	must perf record -q -e "persistent/$name/" -e page-faults -c 1 -o "$dir/data" -- \
		sh -c "$prog; true"
	perf script -i "$dir/data" > "$dir/script" 2> "$dir/err" || fail "$(cat "$dir/err")"
	grep -q "$exec_event: *filename=$prog " "$dir/script" || fail "the exec is missing"
	grep page-faults "$dir/script" | grep -qv "prog\|perf\| sh " && fail "others' page faults"
	grep -q page-faults "$dir/script" || fail "there are no page faults"
	perf stat -x, -o "$dir/stat" -e "persistent/$name/" -e page-faults -- "$prog" 2> /dev/null
	[ "$(grep -c "$exec_event\|cpu-clock\|page-faults" "$dir/stat")" -eq 3 ] ||
		fail "perf stat prints $(cat "$dir/stat")"
	finish
}

test_pipe() {
	begin "perf record -o - | perf script shows new records"
	perf record -q -e "persistent/$name/" -o - -- sh -c "$prog; $prog; $prog" \
		2> /dev/null | perf script -i - > "$dir/piped" 2> /dev/null
	nr=$(grep -c "$exec_event: *filename=$prog " "$dir/piped")
	[ "$nr" -eq 3 ] || fail "$nr of 3 execs"
	finish
}

# shellcheck disable=SC2317
has_piece() {
	ls "$dir"/piece.2* > /dev/null 2>&1
}

test_switch_output() {
	begin "perf record --switch-output cuts in pieces, and nothing is lost between"
	perf record -q -e "persistent/$name/" --switch-output -o "$dir/piece" -- \
		sh -c "$(follow_until switch)" 2> "$dir/out" &
	pid=$!
	wait_for [ -e "$dir/switch.ready" ] || fail "does not start"
	run_programs 3
	kill -USR2 $pid
	run_programs 3
	wait_for has_piece || fail "there is no first piece"
	run_programs 3
	touch "$dir/switch.done"
	wait $pid || fail "$(cat "$dir/out")"
	total=0
	for piece in "$dir"/piece.2*
	do
		total=$((total + $(count_execs "$piece")))
	done
	[ $total -eq 9 ] || fail "$total of 9 execs"
	finish
}

test_history() {
	begin "--history starts with existing records, and goes on"
	start
	run_programs 3
	must perf record -q -e "persistent/$name/" --history -o "$dir/data" -- sh -c "$prog; true"
	[ "$(count_execs "$dir/data")" -eq 4 ] || fail "$(count_execs "$dir/data") of 4 execs"
	perf record -q -e "persistent/$name/" -o "$dir/data" -- "$prog" 2> /dev/null
	[ "$(count_execs "$dir/data")" -eq 1 ] || fail "without it, it begins before"
	must_fail "overwrites the oldest records" \
		perf record -e "persistent/$name/" --consume -o "$dir/x" true
	[ "$(wc -l < "$dir/out")" -eq 1 ] || fail "more than one error: $(cat "$dir/out")"
	must_fail "running sessions" perf record -e cpu-clock --history -o "$dir/x" true
	finish
}

test_stat_interval() {
	begin "perf stat -I prints the counts of each interval, from the start on"
	perf stat -x, -o "$dir/stat" -I 300 -e "persistent/$name/" -- \
		sh -c "$prog; $prog; sleep 1" > /dev/null 2>&1
	total=$(grep $exec_event "$dir/stat" | awk -F, '{ n += $2 } END { print n }')
	# The shell, the two programs, sleep, and perhaps others
	if [ "$total" -lt 4 ] || [ "$total" -gt 8 ]
	then
		fail "$total execs in all: $(cat "$dir/stat")"
	fi
	must_fail "^persistent// does not name a session: use persistent/NAME/$" \
		perf stat -e persistent// true
	must_fail "^-r" perf stat -r 2 -e "persistent/$name/" true
	finish
}

follow_counts() {
	rm -f "$dir/ended"
	perf stat -I 100 -e "persistent/$name-2/" > "$dir/ended" 2>&1 &
	pid=$!
	wait_for [ -s "$dir/ended" ] || fail "it does not start"
}

has_ended() {
	if ! wait_for [ ! -e "/proc/$pid/fd/0" ]
	then
		fail "it does not end: $(cat "$dir/ended")"
		kill $pid
	fi
	wait $pid || fail "it failed: $(cat "$dir/ended")"
	grep -q "session $name-2, id [0-9]*, has ended" "$dir/ended" ||
		fail "it does not say so: $(cat "$dir/ended")"
}

test_stat_end() {
	begin "perf stat without a command ends with the session or its last task"
	must perf stat --persistent="$name-2" -e task-clock -- true
	must_succeed "task-clock" timeout 20 perf stat -e "persistent/$name-2/,duration_time"
	must_succeed "task-clock" timeout 20 perf stat -I 100 -e "persistent/$name-2/"
	stop "$name-2"
	must perf stat --persistent="$name-2" -a -e context-switches
	follow_counts
	stop "$name-2"
	has_ended
	# Without its last process, a session has ended. Those that were dropped do not count.
	sleep 1000 &
	busy=$!
	must perf stat --persistent="$name-2" -e task-clock -p $$,$busy
	follow_counts
	must perf persistent drop --pid $$ "$name-2"
	kill -0 $pid || fail "it ended too early: $(cat "$dir/ended")"
	must perf persistent drop --pid $busy "$name-2"
	has_ended
	kill $busy
	busy=
	# Without sessions, there is nothing that ends.
	timeout 2 perf stat --null -a > "$dir/out" 2>&1 && fail "--null ends: $(cat "$dir/out")"
	finish
}

# A process with events on each CPU moves to another CPU and back, and has more counters then.
test_stat_shared() {
	begin "perf stat -I scales each interval by itself if events take turns"
	free_counters || return
	taskset 1 sh -c "while :; do :; done" &
	busy=$!
	must perf record --persistent="$name-2" -m 1 -c 1000000000 \
		-e "$(repeat "$free" cycles)" -p $busy
	must perf stat --persistent="$name-3" -a -e "$(repeat $((free / 2)) cycles)"
	perf stat -x, -o "$dir/stat" -I 500 --interval-count 6 -e "persistent/$name-2/" \
		> "$dir/out" 2>&1 &
	pid=$!
	sleep 1
	taskset -p 2 $busy > /dev/null
	stop "$name-3"
	sleep 1
	taskset -p 1 $busy > /dev/null
	wait $pid || fail "$(cat "$dir/out")"
	kill $busy
	busy=
	stop "$name-2"
	awk -F, '$2 ~ /^[0-9]/ { n++; wrong += $2 > 1e12 } END { exit wrong || !n }' \
		"$dir/stat" || fail "$(cat "$dir/stat")"
	finish
}

test_trace() {
	begin "perf trace prints new records, with names, in order"
	must perf trace -e "persistent/$name/" -o "$dir/trace" -- sh -c "$prog; $prog"
	[ "$(grep -c "prog/.*sched_process_exec(filename: .*(prog)" "$dir/trace")" -eq 2 ] ||
		fail "not 2 execs: $(cat "$dir/trace")"
	finish
}

test_top() {
	begin "perf top shows the samples of the session"
	perf persistent stop "$name" > /dev/null
	must perf record --persistent="$name" -a -e cpu-clock/freq=199/
	# A terminal without input
	mkfifo "$dir/keys"
	perf top --stdio -e "persistent/$name/" <> "$dir/keys" > "$dir/top" 2>&1 &
	pid=$!
	wait_for grep -q "[0-9]% .*\[k\]" "$dir/top" ||
		fail "nothing is shown: $(tail -20 "$dir/top")"
	kill $pid
	wait $pid
	stop
	start
	finish
}

test_readers() {
	begin "Two followers, a dump and a stat at once: each has all, and the session goes on"
	for reader in one two
	do
		perf record -q -e "persistent/$name/" -o "$dir/$reader" -- \
			sh -c "$(follow_until $reader)" 2> "$dir/out" &
		eval "$reader=$!"
	done
	wait_for [ -e "$dir/one.ready" ] && wait_for [ -e "$dir/two.ready" ]
	run_programs 5
	perf stat -o "$dir/stat" -e "persistent/$name/" true
	perf persistent dump -q "$name" -o "$dir/data" || fail "no dump"
	touch "$dir/one.done"
	run_programs 5
	touch "$dir/two.done"
	# shellcheck disable=SC2154
	wait "$one" || fail "$(cat "$dir/out")"
	# shellcheck disable=SC2154
	wait "$two" || fail "$(cat "$dir/out")"
	[ "$(count_execs "$dir/two")" -eq 10 ] || fail "$(count_execs "$dir/two") of 10 execs"
	[ "$(count_execs "$dir/one")" -ge 5 ] || fail "$(count_execs "$dir/one") of 5 execs"
	perf record -q -e "persistent/$name/" -o "$dir/data" -- "$prog" 2> /dev/null
	[ "$(count_execs "$dir/data")" -eq 1 ] || fail "it does not go on"
	finish
}

test_growth() {
	begin "Following does not grow, in memory or in open files"
	perf record -q -e "persistent/$name/" -o "$dir/data" -- \
		sh -c "$(follow_until grow)" 2> "$dir/out" &
	pid=$!
	wait_for [ -e "$dir/grow.ready" ] || fail "does not start"
	run_programs 5
	rss=$(awk '/^VmRSS/ { print $2 }' /proc/$pid/status)
	files=$(find /proc/$pid/fd | wc -l)
	run_programs 25
	now=$(awk '/^VmRSS/ { print $2 }' /proc/$pid/status)
	# Each buffer is copied as far as needed
	[ "$now" -le $((rss + 2048)) ] || fail "from ${rss}K to ${now}K"
	[ "$(find /proc/$pid/fd | wc -l)" -eq "$files" ] || fail "more open files"
	touch "$dir/grow.done"
	wait $pid || fail "$(cat "$dir/out")"
	[ "$(count_execs "$dir/data")" -eq 30 ] || fail "$(count_execs "$dir/data") of 30 execs"
	finish
}

test_tiny_loop() {
	begin "Following a buffer that is overwritten faster than it is read: nothing is torn"
	must perf record --persistent="$name" -a -e raw_syscalls:sys_enter -g -m 1
	must perf record -e "persistent/$name/" -o "$dir/data" \
		dd if=/dev/zero of=/dev/null bs=1 count=5000
	grep -q "records overwritten before they could be read: [1-9]" "$dir/out" ||
		fail "nothing is said of what was overwritten"
	perf script -i "$dir/data" > /dev/null 2> "$dir/err" || fail "it cannot be read"
	grep -qiE "unknown|invalid|corrupt|found .* (bad|unordered)" "$dir/err" &&
		fail "$(cat "$dir/err")"
	stop
	finish
}

test_shared_loop() {
	begin "One event of an overwrite buffer that others fill is followed as fast as they do"
	if ! command -v taskset > /dev/null
	then
		skip "no taskset"
		return
	fi
	must perf record --persistent="$name" -C 0 -m 8 -e cpu-clock/period=100000/ -e $exec_event
	id=$(perf persistent list | sed -n "s/^$name *\([0-9]*\) .*/\1/p")
	# Instance 2 counts the execs on this CPU
	must perf record -e "persistent/id=$id,instance=2/" -o "$dir/data" -- taskset 1 \
		sh -c "for i in \$(seq 40); do $prog; sleep 0.05; done"
	[ "$(count_execs "$dir/data")" -ge 30 ] ||
		fail "$(count_execs "$dir/data") of 40 execs: $(cat "$dir/out")"
	perf script -i "$dir/data" 2> /dev/null | grep -q cpu-clock && fail "another event"
	stop
	finish
}

test_stopped() {
	begin "Following ends when the session does"
	rm -f "$dir/data"
	perf record -q -e "persistent/$name/" -o "$dir/data" 2> "$dir/out" &
	pid=$!
	# The file is not empty once perf follows the session.
	wait_for [ -s "$dir/data" ]
	run_programs 2
	stop
	wait_for [ ! -e /proc/$pid ] || { fail "it does not end"; kill -INT $pid; }
	wait $pid || fail "$(cat "$dir/out")"
	[ "$(count_execs "$dir/data")" -eq 2 ] || fail "$(count_execs "$dir/data") of 2 execs"
	finish
}

test_hand_over() {
	begin "One consumer takes over from another: no record is missing and none doubled"
	start ,discard
	run_programs 4
	perf record -e "persistent/$name/" --consume -o "$dir/first" -- \
		sh -c "$(follow_until first)" > "$dir/first.out" 2>&1 &
	first=$!
	wait_for [ -e "$dir/first.ready" ] || fail "the first does not start"
	must_fail "of session '$name' cannot be consumed: another process consumes its buffers" \
		perf persistent flush -o "$dir/log" "$name"
	perf record -e "persistent/$name/" --consume -o "$dir/second" -- \
		sh -c "$(follow_until second)" > "$dir/second.out" 2>&1 &
	second=$!
	run_programs 5
	wait_for grep -q "waiting for it to end" "$dir/second.out" || fail "it does not wait"
	(sleep 0.3; touch "$dir/first.done") &
	run_programs 20
	wait_for [ -e "$dir/second.ready" ] || fail "the second does not take over"
	run_programs 5
	touch "$dir/second.done"
	wait $first || fail "$(cat "$dir/first.out")"
	wait $second || fail "$(cat "$dir/second.out")"
	first=$(count_execs "$dir/first")
	second=$(count_execs "$dir/second")
	if [ "$first" -eq 0 ] || [ "$second" -eq 0 ]
	then
		fail "one has nothing: $first, $second"
	fi
	[ $((first + second)) -eq 34 ] || fail "$first and $second of 34 execs"
	stop
	finish
}

# consume NAME SESSION...: run perf in the background
consume() {
	what=$1
	shift
	# shellcheck disable=SC2046
	perf record $(printf -- "-e persistent/%s/ " "$@") --consume -o "$dir/$what" -- \
		sh -c "$(follow_until "$what")" > "$dir/$what.out" 2>&1 &
}

test_two_sessions() {
	begin "Consumers of two sessions do not wait for each other, in whichever order they are"
	for session in 1 2
	do
		must perf record --persistent="$name-$session,discard" -a -m 16 \
			-e context-switches -c 1000
	done
	rm -f "$dir"/*.done "$dir"/*.ready
	consume holder "$name-2"
	holder=$!
	wait_for [ -e "$dir/holder.ready" ] || fail "$(cat "$dir/holder.out")"
	consume first "$name-1" "$name-2"
	first=$!
	wait_for grep -q "session '$name-2': waiting" "$dir/first.out" ||
		fail "the first does not wait: $(cat "$dir/first.out")"
	# The second consumer starts with name-1, too, which the first one has.
	consume second "$name-2" "$name-1"
	second=$!
	wait_for grep -q "session '$name-1': waiting" "$dir/second.out" ||
		fail "the second does not wait: $(cat "$dir/second.out")"
	for one in holder first second
	do
		wait_for [ -e "$dir/$one.ready" ] || fail "$one: $(cat "$dir/$one.out")"
		touch "$dir/$one.done"
	done
	wait $holder $first $second
	stop "$name-1" "$name-2"
	finish
}

# A dump has the event names as typed, so tools that search for them find them.
test_tools() {
	begin "report, diff, sched, timechart, kmem, evlist, inject read a dump"
	perf record --persistent="$name" -a -m 16 -e sched:sched_switch -e sched:sched_wakeup \
		-e sched:sched_stat_runtime -e sched:sched_migrate_task -e kmem:kmalloc \
		-e kmem:kfree -e kmem:kmem_cache_alloc -e kmem:kmem_cache_free -e power:cpu_idle \
		> "$dir/out" 2>&1 || {
		skip "$(head -1 "$dir/out")"
		return
	}
	perf persistent dump -q "$name" -o "$dir/data" || fail "no dump"
	for tool in "report --stdio" "evlist -v" "sched latency" "kmem stat --slab" \
		    "timechart -o $dir/timechart.svg" "inject -b -o $dir/injected"
	do
		# shellcheck disable=SC2086
		perf ${tool%% *} -i "$dir/data" ${tool#"${tool%% *}"} > "$dir/tool" 2> "$dir/err" ||
			fail "perf $tool: $(tail -3 "$dir/err")"
	done
	perf diff "$dir/data" "$dir/data" > "$dir/tool" 2>&1 || fail "perf diff: $(cat "$dir/tool")"
	[ -s "$dir/timechart.svg" ] || fail "there is no chart"
	perf evlist -i "$dir/data" | grep -q "^sched:sched_switch$" || fail "names are lost"
	stop
	finish
}

need_feature
need_tracepoints

start
test_by_id
test_beside
test_pipe
test_switch_output
stop
test_history
test_stat_interval
test_stat_end
test_stat_shared
test_trace
test_top
test_readers
test_growth
test_stopped
test_tiny_loop
test_shared_loop
test_hand_over
test_two_sessions
test_tools

cleanup
exit $err
