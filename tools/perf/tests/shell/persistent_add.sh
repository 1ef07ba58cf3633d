#!/bin/sh
# perf persistent add and drop: targets of a session that goes on (exclusive)
# SPDX-License-Identifier: GPL-2.0

# What is measured is known exactly, also of threads that start and end meanwhile.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

call=syscalls:sys_enter_getppid
calls=500

take_back() {
	for pid in $idle $relay
	do
		kill -KILL "$pid" 2> /dev/null
	done
}

# What the session has counted
count() {
	perf persistent read -x, "$name" 2> /dev/null | awk -F, -v e=$call '$3 == e { print $1 }'
}

# A session of a task that does nothing: start_idle PERF OPTION...
start_idle() {
	sleep 1000 &
	idle=$!
	must "$@" -p $idle
}

# relay PROCESSES: threads that start others and end, as fast as they can
relay() {
	rm -f "$dir/called"
	perf test -w relay $calls "$1" > "$dir/called" &
	relay=$!
	wait_for grep -q started "$dir/called" || fail "the relay does not start"
}

# shellcheck disable=SC2317
has_called() {
	[ "$(grep -c called "$dir/called")" -eq "$1" ]
}

# called N: the relay has called for the Nth time, each time as often
called() {
	kill -USR1 "$relay"
	wait_for has_called "$1" || fail "the relay does not call"
}

# test_exact PROCESSES OPTION...
test_exact() {
	start_idle perf stat --persistent="$name" -e $call
	relay "$1"
	shift
	round=1
	while [ $round -le 10 ]
	do
		must perf persistent add --pid "$relay" "$@" "$name"
		was=$(count)
		called $round
		is=$(count)
		[ $((is - was)) -eq $calls ] ||
			fail "round $round: $((is - was)) calls are counted and not $calls"
		must_succeed changed perf persistent drop --pid "$relay" "$@" "$name"
		round=$((round + 1))
	done
	was=$(count)
	called $round
	[ "$(count)" = "$was" ] || fail "calls are counted of what was dropped"
	kill -KILL "$relay" "$idle"
	wait "$relay" "$idle" 2> /dev/null
	stop
	finish
}

test_threads() {
	begin "Threads that start and end while they are added are measured, each once"
	test_exact 1
}

test_descendants() {
	begin "So are those of children"
	test_exact 3 --descendants
}

# waiting COMMAND...: a process that does it when it is told to. A shell makes the call
# itself when it starts.
waiting() {
	rm -f "$dir/go" "$dir/begun"
	sh -c ": > $dir/begun; until [ -e $dir/go ]; do sleep 0.1; done; $*" > /dev/null &
	waiting=$!
	wait_for [ -e "$dir/begun" ] || fail "the process does not start"
}

go() {
	touch "$dir/go"
	wait "$waiting" || fail "the process fails"
}

# instances NAME
instances() {
	cat "$pmu/ids/$(perf persistent list -x, "$1" | cut -d, -f2)/instances"
}

test_children() {
	begin "Children of what was added are measured, and it is read when all have ended"
	start_idle perf stat --persistent="$name" -e $call
	waiting "perf bench syscall basic -l 30; exec perf bench syscall basic -l 7"
	must_succeed "measures 1 more thread" perf persistent add --pid $waiting "$name"
	go
	[ "$(count)" = 37 ] || fail "$(count) calls are counted and not 37"
	must perf persistent drop --pid $waiting "$name"
	[ "$(count)" = "<not counted>" ] || fail "$(count) calls are counted of what was dropped"
	must_succeed "ended with its last target" perf persistent drop --pid $idle "$name"
	[ -e "$pmu/events/$name" ] && fail "it has not ended"
	kill $idle
	finish
}

# test_samples PERF OPTION...
test_samples() {
	start_idle perf record --persistent="$name" -c 1 -m 64 "$@"
	waiting "exec perf bench syscall basic -l 30"
	must perf persistent add --pid $waiting "$name"
	perf persistent list -v "$name" > "$dir/list"
	[ "$(grep -c "pid $idle" "$dir/list")" -eq "$(grep -c "pid $waiting" "$dir/list")" ] ||
		fail "it does not have the events that the other has: $(cat "$dir/list")"
	go
	must perf persistent dump -o "$dir/data" "$name"
	is=$(perf script -F comm,pid,event -i "$dir/data" 2> "$dir/err" |
		grep -c "^ *syscall-basic *$waiting *$call")
	[ "$is" -eq 30 ] || fail "$*: there are $is samples and not 30: $(cat "$dir/err")"
	kill $idle
	stop
}

test_recording() {
	begin "What is recorded of it has names, a buffer, its group and its filter"
	test_samples -e $call
	test_samples --per-thread -e $call
	test_samples -e "{$call,syscalls:sys_enter_write}:S"
	test_samples -e $call -e syscalls:sys_enter_write --filter 'fd == 1000'
	perf script -i "$dir/data" 2> /dev/null | grep sys_enter_write &&
		fail "the filter is not that of the session"
	finish
}

# Both have their samples in the same buffers, which perf asks the first one about.
test_followed() {
	begin "Whoever reads a session goes on when one of its processes is dropped"
	for dropped in first second
	do
		[ $dropped = second ] && waiting "exec perf bench syscall basic -l 30"
		sleep 1000 &
		idle=$!
		[ $dropped = first ] && waiting "exec perf bench syscall basic -l 30"
		must perf record --persistent="$name" -c 1 -m 64 -e $call -p "$idle,$waiting"
		rm -f "$dir/followed"
		perf record -e "persistent/$name/" -o "$dir/followed" > "$dir/follow" 2>&1 &
		follower=$!
		wait_for [ -s "$dir/followed" ] || fail "it does not start: $(cat "$dir/follow")"
		must perf persistent drop --pid $idle "$name"
		# It looks into the buffers ten times a second.
		sleep 0.5
		[ -e "/proc/$follower/fd/0" ] || fail "$dropped: it ends: $(cat "$dir/follow")"
		go
		stop
		wait_for [ ! -e "/proc/$follower/fd/0" ] || {
			fail "$dropped: it does not end with the session"
			kill $follower
		}
		wait $follower || fail "$dropped: $(cat "$dir/follow")"
		is=$(perf script -F comm,pid,event -i "$dir/followed" 2> "$dir/err" |
			grep -c "^ *syscall-basic *$waiting *$call")
		[ "$is" -eq 30 ] || fail "$dropped: $is samples and not 30: $(cat "$dir/err")"
		kill $idle
	done
	finish
}

# add_and_drop PID: until the file is gone
add_and_drop() {
	while [ -e "$dir/change" ]
	do
		perf persistent add --pid "$1" "$name"
		perf persistent drop --pid "$1" "$name"
	done > "$dir/changed" 2>&1
}

test_opened() {
	begin "A session can be opened while its processes change"
	start_idle perf record --persistent="$name" -c 1 -m 16 -e $call -e syscalls:sys_enter_write
	sleep 1000 &
	other=$!
	touch "$dir/change"
	add_and_drop $other &
	changing=$!
	for _ in $(seq 15)
	do
		must perf record -e "persistent/$name/" -o "$dir/opened" -- true
		must perf stat -e "persistent/$name/" -- true
		must perf persistent read "$name"
		must perf persistent dump -o "$dir/dumped" "$name"
		must perf persistent list -v "$name"
	done
	rm "$dir/change"
	wait $changing
	grep -v "^$name: id" "$dir/changed" && fail "it cannot be changed"
	kill $other $idle
	stop
	finish
}

test_disabled() {
	begin "It is disabled as the session is"
	start_idle perf stat --persistent="$name" -e $call
	must perf persistent disable "$name"
	waiting "perf bench syscall basic -l 30"
	must perf persistent add --pid $waiting "$name"
	go
	[ "$(count)" = "<not counted>" ] || fail "$(count) is counted"
	kill $idle
	stop
	finish
}

# shellcheck disable=SC2317
is_zombie() {
	grep -q "^State:.Z" "/proc/$(cat "$dir/zombie")/status"
}

test_nothing() {
	begin "What cannot be added as a whole is not added"
	start_idle perf stat --persistent="$name" -e $call
	had=$(instances "$name")
	waiting true
	must_fail "no such process" perf persistent add --pid "$waiting,99999999" "$name"
	# It has ended and is not waited for.
	sh -c "sleep 1 & echo \$! > $dir/zombie; exec sleep 1000" &
	parent=$!
	wait_for [ -s "$dir/zombie" ]
	wait_for is_zombie
	must_fail "no such process" \
		perf persistent add --pid "$waiting" --pid "$(cat "$dir/zombie")" "$name"
	must_fail "measures it already" perf persistent add --pid "$waiting,$idle" "$name"
	[ "$(instances "$name")" -eq "$had" ] || fail "something was added"
	must perf persistent add --descendants --pid "$waiting,$parent" "$name"
	go
	kill $parent $idle
	stop
	finish
}

test_refused() {
	begin "What cannot be is refused with the reason"
	start_idle perf stat --persistent="$name" -i -e $call
	must perf stat --persistent="$name-2" -a -e $call
	must_fail "measures CPUs" perf persistent add --pid $$ "$name-2"
	must_fail "measures CPUs" perf persistent drop --pid $$ "$name-2"
	must_fail "does not follow children" perf persistent add --pid $$ --descendants "$name"
	must_fail "does not measure process $$" perf persistent drop --pid "$idle,$$" "$name"
	must_fail "use numbers of processes" perf persistent add --pid 1,x "$name"
	must_fail "use numbers of processes" perf persistent add --pid 0 "$name"
	must_fail "no session named" perf persistent add --pid $$ "$name-3"
	must_fail "Usage" perf persistent add "$name"
	must perf persistent set --mode 0644 "$name"
	must_fail "it takes the rights" as_nobody perf persistent add --pid $idle "$name"
	must_fail "needs CAP_PERFMON" as_nobody perf persistent drop --pid $idle "$name"
	[ -n "$(count)" ] || fail "what was refused has changed the session"
	kill $idle
	stop "$name" "$name-2"
	finish
}

need_feature
need "no events of system calls, or no right to them" perf stat -e $call true

test_threads
test_descendants
test_children
test_recording
test_followed
test_opened
test_disabled
test_nothing
test_refused

cleanup
exit $err
