#!/bin/sh
# perf persistent add and drop: targets of a session that goes on (exclusive)
# SPDX-License-Identifier: GPL-2.0

# The counts are known exactly, also of threads that start and end meanwhile.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

call=syscalls:sys_enter_getppid
calls=500
sysctl=/proc/sys/kernel
paranoid=$(cat $sysctl/perf_event_paranoid)
max=$(cat $sysctl/perf_event_persistent_max 2> /dev/null)
pid_max=$(cat $sysctl/pid_max)
rate=$(cat $sysctl/perf_event_max_sample_rate)
percent=$(cat $sysctl/perf_cpu_time_max_percent)

restore() {
	[ "$(id -u)" -eq 0 ] || return
	echo "$paranoid" > $sysctl/perf_event_paranoid
	[ -z "$max" ] || echo "$max" > $sysctl/perf_event_persistent_max
	echo "$pid_max" > $sysctl/pid_max
	# 0 and 100 fix the rate.
	echo 50 > $sysctl/perf_cpu_time_max_percent
	echo "$rate" > $sysctl/perf_event_max_sample_rate
	echo "$percent" > $sysctl/perf_cpu_time_max_percent
}

take_back() {
	for pid in $idle $relay $busy $adding
	do
		kill -KILL "$pid" 2> /dev/null
	done
	restore
}

# The count of the session
count() {
	perf persistent read -x, "$name" 2> /dev/null | awk -F, -v e=$call '$3 == e { print $1 }'
}

# start_idle PERF OPTION...: start a session of an idle task
start_idle() {
	sleep 1000 &
	idle=$!
	must "$@" -p $idle
}

# relay PROCESSES: run threads that start others and end, as fast as they can
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

# called N: have the relay make its calls, for the Nth time
called() {
	kill -USR1 "$relay"
	wait_for has_called "$1" || fail "the relay does not call"
}

# test_exact PROCESSES OPTION...: in each round, expect exactly $calls
test_exact() {
	start_idle perf stat --persistent="$name" -e $call
	relay "$1"
	pids=$relay
	if [ "$1" -gt 1 ]
	then
		# One of the children, whose main threads have exited
		child=$(grep -ls "^PPid:.$relay\$" /proc/[0-9]*/status | head -n 1 | tr -dc 0-9)
		[ -n "$child" ] || fail "the relay has no children"
		pids=$pids,$child
	fi
	shift
	round=1
	while [ $round -le 5 ]
	do
		must perf persistent add --pid "$pids" "$@" "$name"
		grep "exited while" "$dir/out" && fail "round $round: no process has exited"
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

# waiting COMMAND...: run it in a process that waits for go(). A shell makes one call
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

# instances NAME: the number of instances of a session
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

# test_samples PERF OPTION...: expect 30 samples
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
	begin "Samples of an added process have names, a buffer, the group and the filter"
	test_samples -e $call
	test_samples --per-thread -e $call
	test_samples -e "{$call,syscalls:sys_enter_write}:S"
	test_samples -e $call -e syscalls:sys_enter_write --filter 'fd == 1000'
	perf script -i "$dir/data" 2> /dev/null | grep sys_enter_write &&
		fail "the filter is not that of the session"
	finish
}

# expect_samples NUMBER FILE: of the calls, in a perf.data file
expect_samples() {
	perf script -F comm,event -i "$2" > "$dir/samples" 2> "$dir/err" ||
		fail "$2 is unreadable: $(cat "$dir/err")"
	is=$(grep -c "^ *syscall-basic *$call" "$dir/samples")
	[ "$is" -eq "$1" ] || fail "$2 has $is samples and not $1: $(cat "$dir/err")"
}

test_flushed() {
	begin "After something was added, a log is followed by another, and each is complete"
	start_idle perf record --persistent="$name,discard" -c 1 -m 16 -e $call
	must perf persistent flush -o "$dir/log" "$name"
	# A log without samples is not kept.
	for says in "appended" "renamed $dir/log to $dir/log.1"
	do
		waiting "exec perf bench syscall basic -l 30"
		must perf persistent add --pid $waiting "$name"
		go
		must_fail "$dir/log was started before processes were added" \
			perf persistent flush -o "$dir/log" --max-size 1G --until-full "$name"
		must_succeed "$says" perf persistent flush -o "$dir/log" "$name"
		must perf persistent flush -o "$dir/log" "$name"
		expect_samples 30 "$dir/log"
	done
	expect_samples 30 "$dir/log.1"
	[ -e "$dir/log.2" ] && fail "there is one more: $(ls "$dir")"
	kill $idle
	stop
	finish
}

# is_comm NAME PID: true if the process has that name
is_comm() {
	[ "$(cat "/proc/$2/comm")" = "$1" ]
}

test_dropped() {
	begin "A dropped process leaves no samples whose event perf cannot tell"
	sleep 1000 &
	idle=$!
	waiting "perf bench syscall basic -l 30; exec sleep 1000"
	must perf record --persistent="$name" -c 1 -m 16 -e $call -p "$idle,$waiting"
	touch "$dir/go"
	wait_for is_comm sleep $waiting || fail "the process does not go on"
	must perf persistent dump -o "$dir/dumped" "$name"
	expect_samples 30 "$dir/dumped"
	must perf persistent drop --pid $waiting "$name"
	must perf persistent dump -o "$dir/dumped" "$name"
	must perf record --history -e "persistent/$name/" -o "$dir/followed" -- true
	expect_samples 0 "$dir/dumped"
	expect_samples 0 "$dir/followed"
	kill $idle $waiting
	stop
	finish
}

test_dropped_log() {
	begin "Other samples in a buffer of a dropped process are in the next log, which forgets it"
	bench="taskset 1 perf bench syscall basic -l 30"
	waiting "$bench; exec sleep 1000"
	stays=$waiting
	waiting "until [ -e $dir/second ]; do sleep 0.1; done; $bench; exec sleep 1000"
	must perf record --persistent="$name,discard" -c 1 -m 16 -e $call -p "$stays,$waiting"
	must perf persistent flush -o "$dir/full" "$name"
	size=$(($(wc -c < "$dir/full") + 1200))
	was=$(grep -c "^l" "$dir/full.pos")
	touch "$dir/go"
	wait_for is_comm sleep $stays || fail "the first does not go on"
	touch "$dir/second"
	wait_for is_comm sleep $waiting || fail "the second does not go on"
	must perf persistent drop --pid $waiting "$name"
	must_succeed "is full" \
		perf persistent flush -o "$dir/full" --max-size ${size}B --until-full "$name"
	must perf persistent flush -o "$dir/full" "$name"
	expect_samples 30 "$dir/full"
	is=$(grep -c "^l" "$dir/full.pos")
	[ "$is" -eq $((was / 2)) ] || fail "$dir/full.pos has $is events, and had $was before"
	kill $stays $waiting
	stop
	finish
}

# Both processes write to the same buffers, which perf looks up by the first one.
test_followed() {
	begin "A reader of a session goes on when one of its processes is dropped"
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
		# perf reads the buffers ten times a second.
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

test_left() {
	begin "A reader of a session ends when all processes that were not dropped have exited"
	sleep 1000 &
	idle=$!
	waiting true
	must perf record --persistent="$name" -c 1 -m 16 -e $call -p "$idle,$waiting"
	rm -f "$dir/followed"
	perf record -e "persistent/$name/" -o "$dir/followed" > "$dir/follow" 2>&1 &
	follower=$!
	wait_for [ -s "$dir/followed" ] || fail "it does not start: $(cat "$dir/follow")"
	must perf persistent drop --pid $idle "$name"
	go
	wait_for [ ! -e "/proc/$follower/fd/0" ] || { fail "it does not end"; kill $follower; }
	wait $follower || fail "$(cat "$dir/follow")"
	kill $idle
	stop
	finish
}

# add_and_drop PID: repeat until $dir/change is gone
add_and_drop() {
	while [ -e "$dir/change" ]
	do
		perf persistent add --pid "$1" "$name"
		perf persistent drop --pid "$1" "$name"
	done > "$dir/changed" 2>&1
}

# change FUNCTION...: call it with another process, in the background
change() {
	sleep 1000 &
	other=$!
	touch "$dir/change"
	"$@" $other &
	changing=$!
}

end_change() {
	rm "$dir/change"
	wait $changing
	grep -v "^$name: id" "$dir/changed" && fail "it cannot be changed"
	kill $other $idle
	stop
}

test_opened() {
	begin "A session can be opened while its processes change"
	start_idle perf record --persistent="$name" -c 1 -m 16 -e $call -e syscalls:sys_enter_write
	change add_and_drop
	for _ in $(seq 5)
	do
		must perf record --no-bpf-event -e "persistent/$name/" -o "$dir/opened" -- true
		must perf stat -e "persistent/$name/" -- true
		must perf persistent read "$name"
		must perf persistent dump -o "$dir/dumped" "$name"
		must perf persistent list -v "$name"
	done
	end_change
	finish
}

# replace PID PID: swap the measured process until $dir/change is gone
replace() {
	while [ -e "$dir/change" ]
	do
		perf persistent add --pid "$2" "$name"
		perf persistent drop --pid "$1" "$name"
		set -- "$2" "$1"
	done > "$dir/changed" 2>&1
}

# may_find_none COMMAND...: expect success, or that all targets were dropped
may_find_none() {
	"$@" > "$dir/out" 2>&1 || grep -q "its targets were dropped meanwhile" "$dir/out" ||
		fail "'$*' fails: $(cat "$dir/out")"
}

test_replaced() {
	begin "A session can be opened while its only process is replaced by another"
	start_idle perf record --persistent="$name" -c 1 -m 16 -e $call \
		-e syscalls:sys_enter_write -e syscalls:sys_enter_read
	change replace $idle
	for _ in $(seq 10)
	do
		may_find_none perf record --no-bpf-event -e "persistent/$name/" \
			-o "$dir/opened" -- true
		may_find_none perf stat -e "persistent/$name/" -- true
		may_find_none perf persistent dump -o "$dir/dumped" "$name"
		may_find_none perf persistent status "$name"
		must perf persistent read "$name"
	done
	end_change
	finish
}

test_group() {
	begin "A group is added once, also while threads start and end"
	start_idle perf stat --persistent="$name" -e "{$call,cpu-clock,page-faults}"
	must_fail "the session already measures it" perf persistent add --pid $idle "$name"
	relay 1
	for _ in $(seq 40)
	do
		must_succeed "measures [1-9]" perf persistent add --pid "$relay" "$name"
		must perf persistent drop --pid "$relay" "$name"
	done
	kill -KILL "$relay" "$idle"
	wait "$relay" "$idle" 2> /dev/null
	stop
	finish
}

test_stuck() {
	begin "If the kernel refuses a sibling for good, its error is reported soon"
	if [ "$(id -u)" -ne 0 ]
	then
		skip "not root"
		return
	fi
	start_idle perf record --persistent="$name" -m 1 \
		-e '{cpu-clock/period=10000000/,task-clock/freq=900/}'
	echo 50 > $sysctl/perf_cpu_time_max_percent
	echo 500 > $sysctl/perf_event_max_sample_rate
	must_fail "cannot add thread $$ to session '$name': Invalid argument" \
		timeout 20 perf persistent add --pid $$ "$name"
	restore
	kill $idle
	stop
	finish
}

test_disabled() {
	begin "An added process is disabled if the session is"
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

# Its sibling is opened enabled, as all siblings are.
test_disabled_sibling() {
	begin "An added process has a disabled event of a group disabled"
	start_idle perf stat --persistent="$name" -e "{task-clock,$call}"
	must perf persistent disable --event $call "$name"
	waiting "perf bench syscall basic -l 30"
	must perf persistent add --pid $waiting "$name"
	go
	[ "$(count)" = "<not counted>" ] || fail "$(count) is counted"
	must perf persistent read "$name"
	and_says " [1-9][0-9.,]*.* task-clock"
	kill $idle
	stop
	finish
}

test_held() {
	begin "No process is added while the counters are reserved"
	start_idle perf stat --persistent="$name" -e $call
	must perf persistent disable "$name"
	holder=$(perf persistent reserve -d "$name")
	waiting "perf bench syscall basic -l 30"
	must_fail "no process can be added to session '$name' while its counters are reserved" \
		perf persistent add --pid $waiting "$name"
	kill "$holder"
	wait_for must_succeed disabled perf persistent list "$name"
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

# start_busy: start a process with many threads, and stop it
start_busy() {
	perf bench futex hash -t 64 -r 1000 > /dev/null 2>&1 &
	busy=$!
	wait_for has_threads 65 || fail "there are no threads"
	kill -STOP $busy
}

# shellcheck disable=SC2317
has_threads() {
	set -- "$1" "/proc/$busy/task"/*
	[ $# -gt "$1" ]
}

end_busy() {
	kill -KILL $busy
	wait $busy 2> /dev/null
}

# start_adding: add the threads in the background, and wait for the first ones
start_adding() {
	file="$pmu/ids/$(perf persistent list -x, "$name" | cut -d, -f2)/instances"
	looks=1000000
	perf persistent add --pid $busy "$name" > "$dir/added" 2>&1 &
	adding=$!
	until read -r now < "$file" && [ "$now" -gt "$had" ]
	do
		looks=$((looks - 1))
		[ $looks -gt 0 ] || { fail "nothing is added: $(cat "$dir/added")"; return 1; }
	done
}

# test_signal SIGNAL: send it before all threads were added; may take some rounds
test_signal() {
	for _ in $(seq 20)
	do
		start_adding || return
		kill "-$1" $adding
		wait $adding || break
		must perf persistent drop --pid $busy "$name"
	done
	grep -q interrupted "$dir/added" || fail "$1: it says $(cat "$dir/added")"
	[ "$(instances "$name")" -eq "$had" ] || fail "$1: something was added"
}

test_interrupted() {
	begin "Nothing is added if the command is interrupted"
	start_idle perf stat --persistent="$name" -e $call
	had=$(instances "$name")
	start_busy
	# SIGINT is not tested: the shell ignores it in background commands.
	test_signal HUP
	test_signal TERM
	# With nohup the threads are added all the same.
	(
		trap "" HUP
		start_adding
		kill -HUP $adding
		wait $adding
	) || fail "SIGHUP is not ignored: $(cat "$dir/added")"
	grep -q "measures 65 more threads" "$dir/added" || fail "it says $(cat "$dir/added")"
	end_busy
	kill $idle
	stop
	finish
}

test_limits() {
	begin "Nothing is added if not all is within a limit, and the limit is named"
	start_idle perf stat --persistent="$name" -e $call
	had=$(instances "$name")
	start_busy
	all=$(cat "$pmu"/ids/*/instances | awk '{ n += $1 } END { print n }')
	echo $((all + 9)) > $sysctl/perf_event_persistent_max
	must_fail "cannot add process $busy .*kernel.perf_event_persistent_max or" \
		perf persistent add --pid $busy "$name"
	restore
	[ "$(instances "$name")" -eq "$had" ] || fail "something was added"
	must_succeed "measures 65 more threads" perf persistent add --pid $busy "$name"
	end_busy
	kill $idle
	stop
	finish
}

test_many() {
	begin "Descendants are added and dropped, whatever the limit on open files is at first"
	start_idle perf stat --persistent="$name" -e $call
	had=$(instances "$name")
	rm -f "$dir/many"
	sh -c "for i in \$(seq 30); do sleep 1000 & echo \$! >> $dir/many; done
		: > $dir/started; wait" &
	busy=$!
	wait_for [ -e "$dir/started" ] || fail "it does not start"
	must_succeed "measures 31 more threads" \
		sh -c "ulimit -Sn 16; perf persistent add --descendants --pid $busy $name"
	must_succeed changed \
		sh -c "ulimit -Sn 16; perf persistent drop --descendants --pid $busy $name"
	[ "$(instances "$name")" -eq "$had" ] || fail "not all are dropped"
	# shellcheck disable=SC2046
	kill -KILL $(cat "$dir/many")
	end_busy
	kill $idle
	stop
	finish
}

# other: make calls after go(), in a process whose pid is $busy
other() {
	read -r self _ < /proc/self/stat
	[ "$self" -eq "$busy" ] || exit
	exec sh -c "until [ -e $dir/go ]; do sleep 0.1; done; exec perf bench syscall basic -l 30"
}

# End the process, and start one with its pid.
recycle() {
	end_busy
	for _ in $(seq 2000)
	do
		[ -w $sysctl/ns_last_pid ] && echo $((busy - 1)) > $sysctl/ns_last_pid
		other > /dev/null 2>&1 &
		[ $! -eq "$busy" ] && return
		wait $!
	done
	fail "no process gets the number $busy again"
	return 1
}

# catch: stop adding threads half-way, which may take some rounds
catch() {
	for _ in $(seq 20)
	do
		start_busy
		start_adding && kill -STOP $adding
		[ "$(instances "$name")" -lt $((had + 60)) ] && return
		kill -CONT "$adding"
		wait "$adding"
		end_busy
		stop
		must perf stat --persistent="$name" -e $call -p $idle
	done
	fail "it is never caught in the middle"
	return 1
}

# perf looks for threads first, and then opens them by their pids.
test_recycled() {
	begin "Nothing is measured of a process that has the number of one that ended"
	if [ ! -w $sysctl/ns_last_pid ]
	then
		set -- /proc/[0-9]*
		[ $# -lt 300 ] || { skip "no number can be had again soon"; return; }
		echo 600 > $sysctl/pid_max
		# The first 300 pids are used only once.
		until [ "$(sh -c "echo \$\$")" -gt 300 ]
		do
			:
		done
	fi
	start_idle perf stat --persistent="$name" -e $call
	had=$(instances "$name")
	rm -f "$dir/go"
	if catch && recycle
	then
		kill -CONT "$adding"
		wait "$adding"
		was=$(count)
		touch "$dir/go"
		wait "$busy" || fail "the other process fails"
		[ "$(count)" = "$was" ] || fail "$(count) calls and not $was: $(cat "$dir/added")"
	fi
	restore
	kill $idle
	stop
	finish
}

# Processes start others and end at once.
test_ended() {
	begin "A warning says how many processes ended that may have left others"
	start_idle perf stat --persistent="$name" -e $call
	sh -c "while :; do sh -c '$prog & $prog; $prog & $prog; $prog & $prog'; done" \
		> /dev/null 2>&1 &
	busy=$!
	for _ in $(seq 50)
	do
		must perf persistent add --descendants --pid $busy "$name"
		grep -q "^[1-9][0-9]* of the processes exited while" "$dir/out" && break
		must perf persistent drop --pid $busy "$name"
	done
	and_says "^[1-9][0-9]* of the processes exited while"
	end_busy
	kill $idle
	stop
	finish
}

# A process alternates with one of root's that has the same pid
start_setuid() {
	chmod 755 "$dir"
	shell=$(command -v sh)
	cp -L "$shell" "$dir/privileged"
	chmod 4755 "$dir/privileged"
	mkfifo "$dir/never"
	cat > "$dir/turn" <<-END
		[ -e $dir/end ] && exec $dir/privileged -p -c ": > $dir/is; read -r _ < $dir/never"
		exec $dir/privileged -p -c "exec $shell -c 'exec $shell $dir/turn'"
	END
	su -s "$shell" nobody -c "exec $shell $dir/turn" > "$dir/turned" 2>&1 &
	busy=$!
}

test_setuid() {
	begin "A user adds nothing of a process that becomes privileged"
	if ! as_nobody perf version > /dev/null 2>&1
	then
		skip "no user to be"
		return
	fi
	echo 2 > $sysctl/perf_event_paranoid
	session=u$(as_nobody id -u)-$name
	must as_nobody perf stat --persistent="$name" -e page-faults:u true
	start_setuid
	rm -f "$dir/added"
	# At least 40 times, and until it was added once
	for try in $(seq 400)
	do
		as_nobody perf persistent add --pid $busy "$session" > "$dir/out" 2>&1
		status=$?
		echo "$status: $(cat "$dir/out")" >> "$dir/added"
		[ $status -lt 128 ] || fail "it crashes: $status, $(cat "$dir/out")"
		[ "$try" -ge 40 ] && grep -q "^0: " "$dir/added" && break
	done
	touch "$dir/end"
	wait_for [ -e "$dir/is" ] || fail "it is not privileged: $(cat "$dir/turned")"
	must_fail "needs permission to measure it" \
		as_nobody perf persistent add --pid $busy "$session"
	grep -q "^0: " "$dir/added" || fail "it was never added: $(cat "$dir/added")"
	must perf persistent list -v "$session"
	and_says "pid $busy, exited"
	grep "pid $busy" "$dir/out" | grep -v ", exited" &&
		fail "the privileged program is measured"
	# "true" counts for itself, the instances of the other process are hidden.
	must_fail "session '$session': [0-9]* of [0-9]* instances may not be read; their counts" \
		as_nobody perf persistent read "$session"
	and_says "page-faults:u"
	must_fail "instances may not be read" as_nobody perf persistent read -A "$session"
	must perf persistent read "$session"
	restore
	end_busy
	stop "$session"
	finish
}

test_nothing() {
	begin "Adding fails completely or not at all"
	start_idle perf stat --persistent="$name" -e $call
	had=$(instances "$name")
	waiting true
	must_fail "no such process" perf persistent add --pid "$waiting,99999999" "$name"
	# The zombie has exited and is not reaped.
	sh -c "sleep 1 & echo \$! > $dir/zombie; exec sleep 1000" &
	parent=$!
	wait_for [ -s "$dir/zombie" ]
	wait_for is_zombie
	must_fail "no such process" \
		perf persistent add --pid "$waiting" --pid "$(cat "$dir/zombie")" "$name"
	must_fail "already measures it" perf persistent add --pid "$waiting,$idle" "$name"
	[ "$(instances "$name")" -eq "$had" ] || fail "something was added"
	must perf persistent add --descendants --pid "$waiting,$parent" "$name"
	go
	kill $parent $idle
	stop
	finish
}

test_child() {
	begin "A child that inherited the events can be neither added nor dropped by itself"
	start_idle perf stat --persistent="$name" -e $call
	sh -c "until [ -e $dir/fork ]; do sleep 0.1; done
	       sleep 1000 & echo \$! > $dir/child; wait" &
	parent=$!
	must perf persistent add --pid $parent "$name"
	touch "$dir/fork"
	wait_for [ -s "$dir/child" ] || fail "the process does not fork"
	child=$(cat "$dir/child")
	must_fail "already measures it" perf persistent add --pid "$child" "$name"
	must_fail "does not measure process $child" perf persistent drop --pid "$child" "$name"
	must perf persistent drop --pid $parent "$name"
	kill "$child" $parent $idle
	stop
	finish
}

test_refused() {
	begin "What cannot be is refused with the reason"
	start_idle perf stat --persistent="$name" -i -e $call
	must perf stat --persistent="$name-2" -a -e $call
	must_fail "measures CPUs" perf persistent add --pid $$ "$name-2"
	must perf stat --persistent="$name-3" -e mem:0x1000:w -p $$
	must_fail "disclose the addresses" perf persistent add --pid 1 "$name-3"
	stop "$name-3"
	must_fail "measures CPUs" perf persistent drop --pid $$ "$name-2"
	must_fail "does not follow children" perf persistent add --pid $$ --descendants "$name"
	must_fail "does not measure process $$" perf persistent drop --pid "$idle,$$" "$name"
	must_fail "^--pid 1,x: use process ids" perf persistent add --pid 1,x "$name"
	must_fail "use process ids" perf persistent add --pid 0 "$name"
	must_fail "use --pid" perf persistent add --no-pid "$name"
	must_fail "no session named" perf persistent add --pid $$ "$name-3"
	must_fail "Error: name one session, and processes with -p" perf persistent add "$name"
	must perf persistent set --mode 0644 "$name"
	must_fail "needs permission to measure it" as_nobody perf persistent add --pid $idle "$name"
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
test_flushed
test_dropped
test_dropped_log
test_followed
test_left
test_opened
test_replaced
test_group
test_stuck
test_disabled
test_disabled_sibling
test_held
test_nothing
test_interrupted
test_limits
test_many
test_recycled
test_ended
test_setuid
test_child
test_refused

cleanup
exit $err
