#!/bin/sh
# perf persistent events: a session that is idle or ends while it is read (exclusive)
# SPDX-License-Identifier: GPL-2.0

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

pid=

max_rate=/proc/sys/kernel/perf_event_max_sample_rate
max_percent=/proc/sys/kernel/perf_cpu_time_max_percent
percent=
second=

restore_rate() {
	[ -n "$percent" ] || return
	echo "$rate" > "$max_rate"
	echo "$percent" > "$max_percent"
	percent=
}

take_back() {
	touch "$dir/go"
	[ -n "$pid" ] && kill "$pid" 2> /dev/null
	[ -n "$second" ] && kill "$second" 2> /dev/null
	restore_rate
}

start() {
	must perf record --persistent="$name" -a -m 16 -e context-switches -c 1000000
}

# A command that runs until it is told to end, and reports that it did
lasting() {
	rm -f "$dir/ready" "$dir/go" "$dir/end"
	echo "touch $dir/ready; until [ -e $dir/go ]; do sleep 0.1; done; touch $dir/end; exit 7"
}

# follow COMMAND...: run it in the background, with its output in $dir/follow
follow() {
	"$@" > "$dir/follow" 2>&1 &
	pid=$!
}

says() {
	grep -q "$1" "$dir/follow" || fail "perf does not say '$1' but '$(cat "$dir/follow")'"
}

# ends_with STATUS: expect the follower to exit with it
ends_with() {
	wait_for [ ! -e "/proc/$pid/fd/0" ] || { fail "it does not end"; kill "$pid"; }
	wait "$pid"
	status=$?
	pid=
	[ $status -eq "$1" ] || fail "status $status, not $1: $(cat "$dir/follow")"
}

# top EVENT...: its output comes late, since it is no terminal
top() {
	perf top --stdio -d 2 "$@" <> "$dir/keys" > "$dir/follow" 2>&1 &
	pid=$!
	wait_for grep -q perf_event "/proc/$pid/maps" ||
		fail "it does not start: $(cat "$dir/follow")"
	sleep 2
}

# The number of times that the reading thread has slept so far
waits() {
	awk '/^voluntary_ctxt/ { print $2 }' "/proc/$pid/status"
}

# waits_at_most NUMBER WHAT: per second, over the time that a sleep of two seconds took
waits_at_most() {
	from=$(cut -d ' ' -f 1 /proc/uptime)
	before_it=$(waits)
	sleep 2
	now=$(waits)
	to=$(cut -d ' ' -f 1 /proc/uptime)
	awk -v waits=$((now - before_it)) -v rate="$1" -v secs="$from $to" 'BEGIN {
		split(secs, at)
		exit waits > rate * (at[2] - at[1])
	}' || fail "$2: $((now - before_it)) wake-ups from $from to $to seconds after boot"
}

test_command() {
	begin "A command runs to its end when the session that is followed ends before"
	for how in stop ttl
	do
		start
		follow perf record -e "persistent/$name/" -o "$dir/data" -- sh -c "$(lasting)"
		wait_for [ -e "$dir/ready" ] || fail "it does not start: $(cat "$dir/follow")"
		if [ $how = stop ]
		then
			stop
		else
			must perf persistent set --ttl 1s "$name"
			wait_for [ ! -e "$pmu/events/$name" ] || fail "it does not expire"
		fi
		sleep 0.5
		waits_at_most 0 "of a session that ended"
		touch "$dir/go"
		ends_with 7
		[ -e "$dir/end" ] || fail "$how: the command was ended"
		says "session $name, id [0-9]*, has ended"
		must perf report --stdio -i "$dir/data"
	done
	start
	must_succeed "perf stat: session $name, id [0-9]*, has ended" \
		perf stat -e "persistent/$name/" -- perf persistent stop "$name"
	# This would be no record of a CSV file.
	start
	must perf stat -x, -e "persistent/$name/" -- perf persistent stop "$name"
	grep -q "^\[ perf stat" "$dir/out" && fail "-x, writes: $(cat "$dir/out")"
	finish
}

test_tasks() {
	begin "A session whose tasks have ended has not ended"
	sh -c "until [ -e $dir/exit ]; do sleep 0.1; done" &
	task=$!
	must perf record --persistent="$name" -p $task -m 1 -e context-switches -c 1000000
	follow perf record -e "persistent/$name/" -o "$dir/data" -- sh -c "$(lasting)"
	wait_for [ -e "$dir/ready" ] || fail "it does not start: $(cat "$dir/follow")"
	touch "$dir/exit"
	wait $task
	sleep 0.5
	waits_at_most 0 "of tasks that ended"
	touch "$dir/go"
	ends_with 7
	grep -q "has ended" "$dir/follow" && fail "perf says '$(cat "$dir/follow")'"
	stop
	finish
}

test_no_command() {
	begin "Without a command perf record ends with the session, and says so"
	start
	follow perf record -e "persistent/$name/" -o "$dir/ended"
	wait_for [ -s "$dir/ended" ] || fail "it does not start: $(cat "$dir/follow")"
	stop
	ends_with 0
	says "session $name, id [0-9]*, has ended"
	finish
}

has_trace() {
	perf trace -h 2>&1 | grep -q -e --event
}

test_trace() {
	begin "perf trace waits for its command, too"
	if ! has_trace
	then
		skip "this perf has no trace"
		return
	fi
	start
	follow perf trace -e "persistent/$name/" -- sh -c "$(lasting)"
	wait_for [ -e "$dir/ready" ] || fail "it does not start: $(cat "$dir/follow")"
	stop
	sleep 0.5
	waits_at_most 0 "of a session that ended"
	touch "$dir/go"
	wait_for [ ! -e "/proc/$pid/fd/0" ] || { fail "it does not end"; kill "$pid"; }
	wait "$pid"
	pid=
	[ -e "$dir/end" ] || fail "perf trace ends before its command"
	says "session $name, id [0-9]*, has ended"
	finish
}

test_idle() {
	begin "A follower of an idle session reads it ten times a second at most"
	for policy in "" ,discard
	do
		must perf record --persistent="$name$policy" -a -m 16 -e page-faults:u -c 1000000000
		follow perf record -q -e "persistent/$name/" -o "$dir/idle"
		wait_for [ -s "$dir/idle" ] || fail "it does not start: $(cat "$dir/follow")"
		sleep 2
		# Ten reads, and waits of other kinds: locks, output
		waits_at_most 15 "of an idle session$policy"
		kill -INT "$pid"
		wait "$pid"
		pid=
		stop
		rm -f "$dir/idle"
	done
	must perf record --persistent="$name" -a -m 16 -e page-faults:u -c 1000000000
	top -e "persistent/$name/"
	waits_at_most 15 "of perf top"
	kill "$pid"
	wait "$pid"
	pid=
	if has_trace
	then
		follow perf trace -e "persistent/$name/" -- sh -c "$(lasting)"
		wait_for [ -e "$dir/ready" ] || fail "it does not start: $(cat "$dir/follow")"
		waits_at_most 15 "of perf trace"
		touch "$dir/go"
		wait "$pid"
		pid=
	fi
	stop
	finish
}

test_turn() {
	begin "A consumer that waits for another one to end can be interrupted, and says so"
	must perf record --persistent="$name,discard" -a -m 16 -e page-faults:u -c 1000000000
	follow perf record -q --consume -e "persistent/$name/" -o "$dir/first"
	wait_for [ -s "$dir/first" ] || fail "it does not start: $(cat "$dir/follow")"
	perf record --consume -e "persistent/$name/" -o "$dir/second" > "$dir/out" 2>&1 &
	second=$!
	wait_for grep -q "waiting for it to end" "$dir/out" || fail "it does not wait"
	kill -INT "$second"
	wait_for [ ! -e "/proc/$second/fd/0" ] || { fail "it does not end"; kill -KILL "$second"; }
	wait "$second" && fail "it succeeds"
	second=
	and_says "of session '$name' cannot be consumed: Interrupted system call"
	! grep -q "mmap" "$dir/out" || fail "it speaks of mmap: $(cat "$dir/out")"
	kill -INT "$pid"
	wait "$pid"
	pid=
	stop
	rm -f "$dir/first" "$dir/second"
	finish
}

test_settings() {
	begin "A mere reader of sessions is not told of rates, which are the session's"
	must perf record --persistent="$name" -a -m 16 -e page-faults:u -c 1000000000
	if [ "$(id -u)" -eq 0 ]
	then
		percent=$(cat "$max_percent")
		rate=$(cat "$max_rate")
		# 0 and 100 fix the rate.
		echo 50 > "$max_percent"
		echo 1000 > "$max_rate" || fail "the rate cannot be lowered"
	fi
	must perf record -e "persistent/$name/" -o "$dir/data" -- true
	! grep -q "Lowering" "$dir/out" || fail "it says $(cat "$dir/out")"
	restore_rate
	stop
	finish
}

test_top() {
	begin "perf top ends with the session, says so, and does not spin"
	start
	top -e "persistent/$name/"
	stop
	ends_with 0
	says "session $name, id [0-9]*, has ended"
	# Together with other events, which go on
	start
	top -F 1 -e "persistent/$name/" -e cpu-clock
	stop
	sleep 0.5
	waits_at_most 20 "of other events"
	kill "$pid"
	ends_with 0
	finish
}

test_delegated() {
	begin "A reader to whom a session is delegated gets all records until its end"
	if ! { [ "$(id -u)" -eq 0 ] && as_nobody true 2> /dev/null; }
	then
		echo "not root, or no user nobody, skipped"
		finish
		return
	fi
	must perf record --persistent="$name,mode=0644" -a -m 64 -e cpu-clock/freq=500/
	follow as_nobody perf record -e "persistent/$name/" -o -
	wait_for [ -s "$dir/follow" ] || fail "it does not start"
	sleep 0.5
	stop
	ends_with 0
	grep -aq "overwritten" "$dir/follow" && fail "it says that records were overwritten"
	finish
}

need_feature
mkfifo "$dir/keys"

test_command
test_tasks
test_no_command
test_trace
test_idle
test_turn
test_settings
test_delegated
test_top

cleanup
exit $err
