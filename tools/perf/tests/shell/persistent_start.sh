#!/bin/sh
# perf record and stat --persistent (exclusive)
# SPDX-License-Identifier: GPL-2.0

# sysfs and the contents of a snapshot show which events the commands leave in the
# kernel.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

sysctl=/proc/sys/kernel
paranoid=$(cat $sysctl/perf_event_paranoid)
limit=$(cat $sysctl/perf_event_persistent_max 2> /dev/null)
max_ttl=$(cat $sysctl/perf_event_persistent_max_ttl 2> /dev/null)
cpu1=/sys/devices/system/cpu/cpu1/online
cgroup=/sys/fs/cgroup/$name
cpus=$(getconf _NPROCESSORS_ONLN 2> /dev/null || grep -c ^processor /proc/cpuinfo)
page=$(getconf PAGE_SIZE 2> /dev/null || echo 4096)
busy=
waiting=

# Undo the changes that root made
restore() {
	if [ -w $sysctl/perf_event_persistent_max ]
	then
		echo "$limit" > $sysctl/perf_event_persistent_max
		echo "$max_ttl" > $sysctl/perf_event_persistent_max_ttl
		echo "$paranoid" > $sysctl/perf_event_paranoid
		[ ! -w $cpu1 ] || echo 1 > $cpu1
	fi
}

take_back() {
	[ -n "$busy" ] && kill "$busy" 2> /dev/null
	[ -n "$waiting" ] && kill "$waiting" 2> /dev/null
	[ -d "$cgroup" ] && rmdir "$cgroup"
	restore
}

exists() {
	[ -e "$pmu/events/$1" ]
}

# shellcheck disable=SC2317
is_gone() {
	! exists "$1"
}

# value NAME FILE: print a sysfs file of a session
value() {
	cat "$pmu/ids/$(($(sed 's/id=//' "$pmu/events/$1")))/$2"
}

is() {
	[ "$(value "$name" "$1")" = "$2" ]
}

# has FILE VALUE: expect it of the test's session
has() {
	exists "$name" || return
	is "$1" "$2" || fail "$1 is '$(value "$name" "$1")', not '$2'"
}

# start record|stat OPTION...: at a low rate, because others measure as well
start() {
	tool=$1
	shift
	[ "$tool" = record ] && set -- -F 99 "$@"
	must perf "$tool" --persistent="$name" "$@"
	exists "$name" || fail "'perf $tool $*' leaves nothing"
}

# Read the attrs of the session's events from a snapshot
attrs() {
	must perf persistent dump -q "$name" -o "$dir/data"
	perf evlist -v -i "$dir/data" > "$dir/attrs" 2>&1
}

attrs_have() {
	grep -q -e "$1" "$dir/attrs" || fail "no '$1' in $(cat "$dir/attrs")"
}

count_samples() {
	perf script -F event -i "$dir/data" 2> /dev/null | grep -c "^ *$1:"
}

test_without_feature() {
	begin "A kernel without persistent events is named as the reason"
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf record --persistent="$name" -p $$ -e cpu-clock
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf stat --persistent="$name" -a -e cpu-clock
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf stat --persistent true
	finish
}

# Remains of a killed perf are checked when the other tests are done.
kill_waiting() {
	perf record --persistent="$name-delay" -a -e cpu-clock -D 100000 > "$dir/delay" 2>&1 &
	waiting=$!
	wait_for exists "$name-delay" || fail "nothing is there while perf waits"
	left=$(value "$name-delay" time_left)
	if [ "$left" -eq 0 ] || [ "$left" -gt 30000000000 ]
	then
		fail "what is not set up yet has $left ns to live"
	fi
	kill -KILL $waiting
	wait $waiting 2> /dev/null
	waiting=
}

# killed TIME: expect a whole session, or a partial one that ends in half a minute
killed() {
	timeout -s KILL "$1" perf record --persistent="$name-kill-$1",ttl=5m -a \
		-e "$many" -m 1 > "$dir/kill" 2>&1
	exists "$name-kill-$1" || return
	instances=$(value "$name-kill-$1" instances)
	left=$(value "$name-kill-$1" time_left)
	if [ "$left" -gt 30000000000 ]
	then
		[ "$instances" -eq $((33 * cpus)) ] ||
			fail "$instances of $((33 * cpus)) instances have $left ns to live"
		grep -q "^$name-kill-$1: id" "$dir/kill" || fail "it is there and nobody was told"
		perf persistent stop "$name-kill-$1" > /dev/null ||
			fail "$name-kill-$1 cannot be stopped"
	elif [ "$left" -eq 0 ]
	then
		fail "what perf was killed at has no end"
	fi
}

test_kill() {
	begin "While perf sets up a session, its remains have half a minute to live"
	many=$(repeat 32 cpu-clock/period=10000000/)
	kill_waiting
	for time in 0.1 0.2 0.25 0.3 0.4 0.5 0.7
	do
		killed $time
	done
	finish
}

test_killed() {
	begin "The remains of a killed perf are gone after that"
	for event in "$pmu"/events/"$name"-*
	do
		[ -e "$event" ] || continue
		wait_for is_gone "${event##*/}" || fail "${event##*/} is still there"
	done
	finish
}

test_interrupted() {
	begin "A signal while perf waits undoes everything, and perf says so"
	for signal in INT TERM
	do
		# SIGINT is not tested: the shell ignores it in background commands.
		env --default-signal="$signal" true 2> /dev/null || [ $signal != INT ] || continue
		[ $signal = INT ] && default="env --default-signal=INT" || default=
		$default perf stat --persistent="$name" -e cpu-clock -D 100000 > "$dir/out" 2>&1 &
		waiting=$!
		wait_for exists "$name" || fail "nothing is there while perf waits"
		kill -$signal $waiting
		wait $waiting && fail "perf succeeds after SIG$signal"
		waiting=
		exists "$name" && fail "something was left after SIG$signal"
		grep -q "nothing was left" "$dir/out" || fail "perf says '$(cat "$dir/out")'"
	done
	finish
}

test_cpus() {
	begin "-a is on all CPUs, -C on some, and their side-band on all"
	start record -a -e cpu-clock -e page-faults
	has members 3
	has instances $((3 * cpus))
	has time_left 0
	# Each CPU has two buffers of 512K and a page
	has buffer_bytes $((2 * cpus * (512 * 1024 + page)))
	stop
	start record -C 0 -e cpu-clock
	has instances $((1 + cpus))
	stop
	start stat -C 0 -e cpu-clock,page-faults
	has members 2
	has instances 2
	has cpus 0
	has buffer_bytes 0
	stop
	start stat
	has instances $(($(value "$name" members) * cpus))
	must_fail "CPU" perf stat --persistent="$name-2" -C 4095 -e cpu-clock
	stop
	finish
}

test_new_cpu() {
	begin "With -a an offline CPU gets the same events when it comes online"
	if ! { echo 0 > $cpu1; } 2> /dev/null
	then
		skip "CPU 1 cannot be taken offline"
		return
	fi
	start record -a -e '{cpu-clock,task-clock}' -e page-faults:u
	has instances $((4 * cpus))
	must_succeed "CPU 1, offline" perf persistent list -v
	echo 1 > $cpu1
	must_succeed "CPU 1, enabled" perf persistent list -v
	stop
	echo 0 > $cpu1
	perf stat --persistent="$name" -a -e cpu-clock sleep 1000 > "$dir/out" 2>&1 &
	waiting=$!
	wait_for grep -q "persistent stop" "$dir/out" || fail "it does not start"
	# shellcheck disable=SC2010
	ls -l "/proc/$waiting/fd" | grep perf_event && fail "the events stay open in perf"
	kill $waiting
	wait $waiting
	waiting=
	echo 1 > $cpu1
	stop
	finish
}

test_tasks() {
	begin "-p and -t are on their tasks"
	sh -c 'while :; do :; done' &
	busy=$!
	# One event on each CPU, so that children have buffers to write to
	for target in "-p $busy" "-t $busy" "-p $busy -i"
	do
		# shellcheck disable=SC2086
		start record $target -e cpu-clock -e page-faults -m 4
		has instances $((3 * cpus))
		stop
	done
	start record -p $busy --per-thread -e cpu-clock -m 4
	has instances 2
	has cpus ""
	stop
	start stat -p $busy,$$ -e task-clock,page-faults
	has instances 4
	has cpus ""
	stop
	start stat -t $busy -e '{task-clock,page-faults}' -e context-switches:u
	has instances 3
	stop
	must_fail "BPF filter" perf record --persistent="$name" -u 0 -e cpu-clock -m 1
	kill $busy
	wait $busy 2> /dev/null
	must_fail "$busy\|No such process" perf record --persistent="$name" -p $busy -e cpu-clock
	must_fail "$busy" perf stat --persistent="$name" -p $busy -e cpu-clock
	must_fail "$busy" perf stat --persistent="$name" -t $busy -e cpu-clock
	busy=
	finish
}

test_threads() {
	begin "Threads that start and end while a group is opened do not matter"
	perf test -w relay 1 > "$dir/relay" &
	busy=$!
	wait_for grep -qs started "$dir/relay" || fail "the relay does not start"
	for _ in $(seq 20)
	do
		must perf stat --persistent="$name" -p $busy -e '{cpu-clock,page-faults,cs}' -i
		stop
	done
	kill -KILL $busy
	wait $busy 2> /dev/null
	busy=
	finish
}

# has_target TARGET: expect it in the list
has_target() {
	perf persistent list -x ';' "$name" | cut -d ';' -f 5 | grep -qx "$1" ||
		fail "not '$1' but '$(perf persistent list -x ';' "$name")'"
}

test_cgroups() {
	begin "-G and --for-each-cgroup count cgroups"
	mkdir "$cgroup" 2> /dev/null
	# The controller joins a version 2 hierarchy only after it left another one.
	if ! perf stat --persistent="$name" -a -e cpu-clock -G "${cgroup##*/}" > "$dir/out" 2>&1
	then
		grep -q "${cgroup##*/}" "$dir/out" || fail "perf says '$(cat "$dir/out")'"
		mkdir "$dir/v1"
		mount -t cgroup -o perf_event cgroup "$dir/v1" 2> /dev/null && umount "$dir/v1"
		sleep 0.5
	fi
	perf persistent stop "$name" > /dev/null 2>&1
	if ! perf stat --persistent="$name" -a -e cpu-clock -G "${cgroup##*/}" > "$dir/out" 2>&1
	then
		skip "no perf_event controller"
		return
	fi
	has instances "$cpus"
	grep -q "in cgroup /${cgroup##*/}," "$dir/out" || fail "perf says '$(cat "$dir/out")'"
	has_target "/${cgroup##*/}"
	stop
	start stat -a -e cpu-clock,page-faults -G "${cgroup##*/},"
	has_target "all CPUs"
	stop
	start stat -C 0 -e cpu-clock -G "${cgroup##*/}"
	has_target "CPU 0 in /${cgroup##*/}"
	stop
	start stat -a -e '{cpu-clock,page-faults}' --for-each-cgroup "${cgroup##*/},/"
	has members 4
	has_target "2 cgroups"
	stop
	start record -a -e cpu-clock,page-faults -G "${cgroup##*/}"
	has members 3
	has instances $((3 * cpus))
	stop
	must_fail "no-such" perf stat --persistent="$name" -a -e cpu-clock -G no-such
	finish
}

test_command() {
	begin "perf waits for a command, has its status, and the session stays"
	perf record --persistent="$name" -e cpu-clock -m 4 -- sh -c 'exit 7' > "$dir/out" 2>&1
	[ $? -eq 7 ] || fail "record does not have the status: $(cat "$dir/out")"
	has instances $((2 * cpus))
	stop
	perf record --persistent="$name" -a -e cpu-clock -- sh -c 'exit 7' > "$dir/out" 2>&1
	[ $? -eq 7 ] || fail "record -a does not have the status: $(cat "$dir/out")"
	attrs
	[ "$(count_samples cpu-clock)" -gt 0 ] || fail "it recorded nothing meanwhile"
	stop
	perf stat --persistent="$name" -e '{task-clock,page-faults}' -D 200 -- \
		sh -c 'sleep 0.5; exit 7' > "$dir/out" 2>&1
	[ $? -eq 7 ] || fail "stat -D does not have the status: $(cat "$dir/out")"
	has instances 2
	stop
	for delay in "" "-D 2000"
	do
		# shellcheck disable=SC2086
		must_fail "failed to run '$dir/no-such'" \
			perf stat --persistent="$name" -e task-clock $delay "$dir/no-such"
		exists "$name" && fail "something was left"
	done
	finish
}

test_wait() {
	begin "A signal that ends perf ends the command, and the session stays"
	# A command that cannot be run is reported with USR1, but not from outside.
	for signal in TERM USR1
	do
		# Use a file in which nobody else wrote the name
		perf record --persistent="$name" -e cpu-clock -m 1 sleep 100 \
			> "$dir/wait.$signal" 2>&1 &
		waiting=$!
		wait_for grep -qs "^$name" "$dir/wait.$signal" ||
			fail "perf says '$(cat "$dir/wait.$signal")'"
		kill -$signal $waiting
		wait $waiting
		[ $? -eq 143 ] || fail "$signal: not the status of a command that was terminated"
		waiting=
		has instances $((2 * cpus))
		stop
	done
	must perf stat --persistent="$name" -e task-clock -- sh -c 'ulimit -n'
	files=$(sed -n 's/^Max open files *\([0-9]*\).*/\1/p' /proc/self/limits)
	grep -q "^$files\$" "$dir/out" ||
		fail "the command may open other than $files files: $(cat "$dir/out")"
	stop
	finish
}

test_delay() {
	begin "-D -1 starts disabled, -D waits before it enables, and side-band runs"
	start record -a -e cpu-clock -e dummy -D -1
	sh -c true
	attrs
	[ "$(count_samples cpu-clock)" -eq 0 ] || fail "it is not disabled"
	perf script --show-task-events -i "$dir/data" 2> /dev/null | grep -q PERF_RECORD_COMM ||
		fail "there is no side-band"
	grep -q disabled "$dir/out" "$dir/attrs" || fail "nothing says that it is disabled"
	stop
	start record -a -e cpu-clock -D 300
	sleep 0.3
	attrs
	[ "$(count_samples cpu-clock)" -gt 0 ] || fail "it is not enabled"
	has time_left 0
	stop
	perf stat --persistent="$name" -a -e cpu-clock -D 5000 > /dev/null 2>&1 &
	wait_for exists "$name" || fail "it does not start"
	must_fail "^--ttl: session '$name' is still being set up" \
		perf persistent set "$name" --ttl 1h
	kill $!
	wait
	finish
}

test_attrs() {
	begin "The events have the attributes that were asked for"
	start record -a -e cpu-clock:u -F 123 --call-graph dwarf,4096 -k mono -m 256
	attrs
	attrs_have "cpu-clock:u:.*{ sample_period, sample_freq }: 123,"
	attrs_have "cpu-clock:u:.*freq: 1,"
	attrs_have "cpu-clock:u:.*exclude_kernel: 1"
	attrs_have "cpu-clock:u:.*sample_stack_user: 4096"
	attrs_have "cpu-clock:u:.*clockid: 1"
	attrs_have "dummy:u:.*clockid: 1"
	attrs_have "cpu-clock:u:.*write_backward: 1"
	stop
	must perf record --persistent="$name",discard -a -c 5000000 -g --all-cgroups \
		-e '{cpu-clock,page-faults}:S'
	sleep 0.3
	attrs
	attrs_have "cpu-clock:.*{ sample_period, sample_freq }: 5000000,"
	attrs_have "cpu-clock:.*sample_type: .*CALLCHAIN"
	attrs_have "cpu-clock:.*sample_type: .*READ"
	attrs_have "cpu-clock:.*read_format: .*GROUP"
	attrs_have "dummy:u:.*cgroup: 1"
	grep -q write_backward "$dir/attrs" && fail "it overwrites"
	[ "$(count_samples cpu-clock)" -gt 0 ] || fail "the leader has no samples"
	stop
	finish
}

test_filter() {
	begin "A filter is the kernel's, for the tracepoint that it was given for"
	if ! perf check feature -q libtraceevent ||
	   [ ! -r /sys/kernel/tracing/events/sched/sched_process_exec/id ]
	then
		skip "no tracepoints"
		return
	fi
	printf '#!/bin/sh\n' > "$dir/wanted"
	cp "$dir/wanted" "$dir/other"
	chmod +x "$dir/wanted" "$dir/other"
	start record -a -e sched:sched_process_exec --filter "filename == \"$dir/wanted\""
	"$dir/wanted"
	"$dir/other"
	"$dir/wanted"
	attrs
	[ "$(count_samples sched:sched_process_exec)" -eq 2 ] ||
		fail "$(count_samples sched:sched_process_exec) execs, not 2"
	stop
	must_fail "no_such_field" perf stat --persistent="$name" -p $$ \
		-e sched:sched_process_exec --filter 'no_such_field == 1'
	must_fail "filter" perf record --persistent="$name" -a -e cpu-clock --filter 'ip > 0'
	exists "$name" && fail "something was left"
	finish
}

test_stat() {
	begin "perf stat --persistent counts on, and says what it left out"
	start stat -a -e cpu-clock,page-faults
	perf stat -x, -o "$dir/stat" -e "persistent/$name/" -- sh -c true > /dev/null 2>&1
	count=$(grep page-faults "$dir/stat" | cut -d, -f1)
	[ "$count" -gt 0 ] || fail "it counts '$count' page faults"
	stop
	start stat -p $$
	grep -q "^$name: .* task-clock context-switches cpu-migrations page-faults" "$dir/out" ||
		fail "perf says '$(cat "$dir/out")'"
	# An event given by name is not replaced by another one.
	if grep -q "^cycles is left out" "$dir/out"
	then
		must_fail "cycles" perf stat --persistent="$name-2" -e cycles
		must_fail "cycles" perf record --persistent="$name-2" -e cycles
		must_succeed "^cycles is not supported here, falling back to cpu-clock" \
			perf record --persistent="$name-2" -a
		grep -q "^$name-2: id [0-9]*, cpu-clock on CPUs" "$dir/out" ||
			fail "perf says '$(cat "$dir/out")'"
		stop "$name-2"
	fi
	stop
	finish
}

test_period() {
	begin "A period applies to software events"
	must perf record --persistent="$name" -e page-faults/period=100/ -e page-faults -c 1 \
		-- perf test -w brstack 1
	must perf persistent dump "$name" -o "$dir/data"
	perf script -i "$dir/data" -F event,period > "$dir/out" 2> "$dir/err"
	all=$(grep -c " 1 *page-faults:" "$dir/out")
	some=$(grep -c " 100 *page-faults/period=100/:" "$dir/out")
	[ "$all" -ge 100 ] || fail "only $all faults"
	{ [ "$some" -ge 1 ] && [ "$some" -le $((all / 100)) ]; } ||
		fail "$some samples of $all faults with a period of 100"
	must_fail "the period of 'page-faults/period=100/' cannot be changed: choose another" \
		perf persistent set "$name" --period 5
	must_fail "the period of 'page-faults/period=100/' cannot be changed" \
		perf persistent set "$name" --event page-faults/period=100/ --period 5
	stop
	finish
}

test_ttl() {
	begin "A time to live ends the session; an invalid one is refused"
	for ttl in 90 2m 3d
	do
		must perf stat --persistent="$name",ttl=$ttl -e cpu-clock
		case $ttl in
		90)	secs=90 ;;
		2m)	secs=120 ;;
		3d)	secs=259200 ;;
		esac
		left=$(($(value "$name" time_left) / 1000000000))
		if [ $left -gt "$secs" ] || [ $left -lt $((secs - 30)) ]
		then
			fail "ttl=$ttl: $left seconds are left"
		fi
		stop
	done
	must perf record --persistent="$name",discard,ttl=1s -a -e cpu-clock
	wait_for is_gone "$name" || fail "it does not end"
	for bad in ttl=0 ttl=-1 ttl= ttl=1ms ttl=99999999999999999999 ttl=200000d time=1 ttl \
		   full overwrite loop discard=1 mode=0999 mode=01000 mode=-1 mode= mode=rw-r----- \
		   group=no-such-group group= group owner=no-such-user owner= \
		   sideband sideband= sideband=0 sideband=0K sideband=-4 sideband=5T sideband=x \
		   sideband=10Kx sideband=+4 sideband=1e3
	do
		must_fail "$name,$bad: '$bad'" perf record --persistent="$name,$bad" -e cpu-clock
	done
	must perf stat --persistent="$name",ttl=5s,ttl=none -a -e cpu-clock
	has time_left 0
	stop
	must_fail "discard" perf stat --persistent="$name",discard -e cpu-clock
	must_fail "sideband=" perf stat --persistent="$name",sideband=64 -e cpu-clock
	finish
}

test_unprinted() {
	begin "A session whose name nobody gave and nobody was told is not kept"
	set -- "$pmu"/ids/*
	was=$#
	must_fail "^cannot print the name of the session: No space left on device$" \
		sh -c "perf stat --persistent -a -e cpu-clock > /dev/full"
	and_says "^nothing was left running$"
	set -- "$pmu"/ids/*
	[ $# -eq $was ] || fail "there are $# sessions and not $was"
	sh -c "perf stat --persistent=$name -a -e cpu-clock > /dev/full" 2> "$dir/out"
	exists "$name" || fail "a session with a name does not stay: $(cat "$dir/out")"
	stop
	finish
}

# unread OPTION...: start a session when its line has no reader
unread() {
	{
		sleep 0.3
		perf stat -e cpu-clock "$@" 2> "$dir/out"
		echo $? > "$dir/status"
	} | true
	status=$(cat "$dir/status")
}

test_unread() {
	begin "A reader that has gone ends neither perf nor the command"
	unread --persistent="$name" -a
	[ "$status" -eq 0 ] || fail "status $status: $(cat "$dir/out")"
	exists "$name" || fail "a session with a name does not stay: $(cat "$dir/out")"
	stop
	# The command is ended by SIGPIPE.
	unread --persistent="$name" sh -c "sh -c 'kill -PIPE \$\$'; [ \$? -eq 141 ] && exit 7"
	[ "$status" -eq 7 ] || fail "status $status, not that of the command: $(cat "$dir/out")"
	stop
	unread --persistent -a
	[ "$status" -eq 1 ] || fail "status $status, not 1: $(cat "$dir/out")"
	and_says "^nothing was left running$"
	finish
}

test_names() {
	begin "Without a name the kernel gives one; its own cannot be taken"
	for spec in --persistent --persistent= --persistent=,ttl=1m
	do
		must perf stat $spec -e cpu-clock
		given=$(sed -n 's/^\(p[0-9]*\): id.*/\1/p' "$dir/out")
		exists "$given" || fail "$spec: perf says '$(cat "$dir/out")'"
		perf persistent stop "$given" > /dev/null || fail "$given cannot be stopped"
	done
	must_fail "is reserved" perf stat --persistent=p12345 -e cpu-clock
	must_fail "u1000-web.*prefix of a user" perf stat --persistent=u1000-web -e cpu-clock
	start stat -e cpu-clock
	must_fail "$name: the name is taken" perf record --persistent="$name" -e cpu-clock
	stop
	finish
}

test_words() {
	begin "A name that an event could have is found between the slashes; a term is refused"
	for word in r1 rec race read cycles
	do
		exists $word && continue
		must perf stat --persistent=$word -a -e cpu-clock
		must_succeed cpu-clock perf stat -e "persistent/$word/" true
		stop $word
	done
	for word in id event instance config period name cpu
	do
		must_fail "'$word' is an event term" perf stat --persistent=$word -e cpu-clock
	done
	for word in discard sideband ttl mode group owner =discard discard,ttl=1s ttl=1s \
		    mode=0640,discard
	do
		must_fail "--persistent=,${word#=}\|--persistent=,${word%%,*}" \
			perf record --persistent="$word" -e cpu-clock
	done
	finish
}

test_buffers() {
	begin "perf prints the buffers' number and size, and how to empty those that fill"
	sum=$((2 * cpus * 64 * page / 1024))
	size="\(${sum}K\|$((sum / 1024))M\)"
	must_succeed ", $((2 * cpus)) buffers, $size in total, overwriting" \
		perf record --persistent="$name" -a -e cpu-clock -F 9 -m 64
	grep -q "perf persistent dump $name'" "$dir/out" || fail "perf says '$(cat "$dir/out")'"
	stop
	must_succeed "$((2 * cpus)) buffers, .* in total, discarding new records when full" \
		perf record --persistent="$name",discard -a -e cpu-clock -F 9 -m 64
	grep -q "perf persistent flush -o <log> $name'" "$dir/out" ||
		fail "perf says '$(cat "$dir/out")'"
	stop
	finish
}

# has_buffers MEMBER PAGES: expect them on all CPUs
has_buffers() {
	count=$(perf persistent list -v "$name" | sed -n "/member [0-9]*: $1/,/member/p" |
		grep -c ": $(($2 * page / 1024))K ")
	[ "$count" -eq "$cpus" ] ||
		fail "$count buffers of $1 have $2 pages: $(perf persistent list -v)"
}

test_side_band() {
	begin "The buffers for side-band can have a size of their own"
	for size in 32 $((32 * page / 1024))K
	do
		must perf record --persistent="$name",sideband="$size" -a -e cpu-clock -F 9 -m 16
		has buffer_bytes $((cpus * (16 + 1 + 32 + 1) * page))
		has_buffers cpu-clock 16
		has_buffers dummy 32
		stop
	done
	must perf record --persistent="$name",sideband=4 -a -e cpu-clock -F 9
	has buffer_bytes $((cpus * (512 * 1024 + page + 5 * page)))
	stop
	finish
}

test_refused() {
	begin "Events that cannot be persistent are refused by name, with the reason"
	for option in "-o $dir/x" "--switch-output" "--control fd:1" "--max-size 1M" "-r 1" \
		      "--overwrite" "-B" "-N" "--buildid-all" "--mmap-flush 4K" "--synth no" \
		      "--switch-max-files 2" "--num-thread-synthesize 2" "-D 10-20"
	do
		# shellcheck disable=SC2086
		must_fail "^${option%% *}.* is not supported with --persistent: ." \
			perf record --persistent="$name" -e cpu-clock $option
	done
	for option in "-o $dir/x" "-I 100" "-x," "-j" "-r 2" "-d" "-A -a" "--per-core -a" \
		      "--per-thread" "--timeout 100" "--control fd:1" "-n" "-M IPC" \
		      "--no-scale" "--hide-zero-events" "--percore-show-thread" "--no-csv-summary" \
		      "--csv-summary"
	do
		# shellcheck disable=SC2086
		must_fail "^${option%%[ ,]*}.* is not supported with --persistent: ." \
			perf stat --persistent="$name" -e cpu-clock $option
	done
	for tool in record stat
	do
		must_fail "^--persistent: -C cannot be used with -p$" \
			perf $tool --persistent="$name" -e cpu-clock -C 0 -p $$
	done
	for tool in record stat
	do
		must_fail "no-persistent" perf $tool --no-persistent -e cpu-clock true
	done
	must_fail "^--persistent: -a cannot be used with -t$" \
		perf record --persistent="$name" -e cpu-clock -a -t $$
	must_fail "^--persistent: -t cannot be used with -p$" \
		perf record --persistent="$name" -e cpu-clock -t $$ -p $$
	if perf check feature -q libtraceevent
	then
		must_fail "^--exclude-perf is not supported with --persistent: ." perf record \
			--persistent="$name" -e sched:sched_switch --exclude-perf
	fi
	must_fail "record is not supported" perf stat record --persistent="$name" -o "$dir/x"
	for event in duration_time user_time '{cpu-clock,page-faults}:W' cpu-clock:P
	do
		must_fail "cannot be persistent: ." perf stat --persistent="$name" -e "$event"
	done
	must_fail "cannot be persistent: ." \
		perf record --persistent="$name" -e cpu-clock/no-overwrite/
	must_fail "cannot be persistent: .*--per-thread" \
		perf record --persistent="$name" -e cpu-clock/inherit/ --per-thread -p $$
	must_fail "may not fit into -m 2, use -m 4 or more" \
		perf record --persistent="$name" -a -e cpu-clock -m 2 --call-graph dwarf
	exists "$name" && fail "something was started"
	[ -e "$dir/x" ] && fail "a file was left"
	finish
}

test_limits() {
	begin "At a limit nothing is started, and perf says what to do"
	must_fail "at most 128" perf stat --persistent="$name" -e "$(repeat 129 cpu-clock)"
	if ! { echo 1 > $sysctl/perf_event_persistent_max; } 2> /dev/null
	then
		skip "not root"
		return
	fi
	must_fail "kernel.perf_event_persistent_max" \
		perf stat --persistent="$name" -e cpu-clock,page-faults
	must_fail "user.max_perf_persistent or kernel.perf_event_persistent_max is reached" \
		as_nobody perf stat --persistent="$name" -e task-clock:u,page-faults:u -- true
	restore
	must_fail "not enough memory for its buffer, use a smaller -m$" \
		perf record --persistent="$name" -a -m 256G -e cpu-clock
	exists "$name" && fail "something was left"
	finish
}

test_user() {
	begin "Without rights, perf says what is not allowed, and the way out"
	if ! as_nobody perf version > /dev/null 2>&1
	then
		skip "no user to be"
		return
	fi
	echo 2 > $sysctl/perf_event_paranoid
	uid=$(as_nobody id -u)
	must_fail "perf_event_paranoid" as_nobody perf stat --persistent="$name" -a -e cpu-clock:u
	must_succeed "^task-clock .*perf_event_paranoid.*, falling back to task-clock:u" \
		as_nobody perf stat --persistent="$name" -e task-clock true
	grep -q "^u$uid-$name: id [0-9]*, task-clock:u of command" "$dir/out" ||
		fail "perf says '$(cat "$dir/out")'"
	stop "u$uid-$name"
	must_succeed "^cpu-clock needs permission.*, falling back to cpu-clock:u" \
		as_nobody perf record --persistent="$name" -e cpu-clock -m 1 true
	stop "u$uid-$name"
	must as_nobody perf record --persistent="$name" -m 1 true
	stop "u$uid-$name"
	first=$(as_nobody 'sleep 1000 > /dev/null & echo $!')
	second=$(as_nobody 'sleep 1000 > /dev/null & echo $!')
	must as_nobody perf record --persistent="$name" -m 1 -p "$first,$second" \
		-e '{task-clock:u,page-faults:u}:S'
	stop "u$uid-$name"
	kill "$first" "$second"
	must_fail "owner= needs CAP_PERFMON" \
		as_nobody perf stat --persistent="$name,owner=root" -e task-clock:u true
	must_fail "group= needs CAP_PERFMON, or a group that you belong to" \
		as_nobody perf stat --persistent="$name,group=root" -e task-clock:u true
	must as_nobody perf stat --persistent="$name,mode=0644,group=$(as_nobody id -gn)" \
		-e task-clock:u true
	must_succeed "mode rw-r--r--, group $(as_nobody id -gn)" perf persistent list -v
	stop "u$uid-$name"
	must_fail perf_event_persistent_max_ttl \
		as_nobody perf stat --persistent="$name",ttl=100d -e cpu-clock:u true
	# More seconds than an int can have
	echo 4000000000 > $sysctl/perf_event_persistent_max_ttl
	must as_nobody perf stat --persistent="$name",ttl=100d -e cpu-clock:u true
	stop "u$uid-$name"
	must_fail "at most 4000000000s" \
		as_nobody perf stat --persistent="$name",ttl=50000d -e cpu-clock:u true
	echo "$max_ttl" > $sysctl/perf_event_persistent_max_ttl
	must_fail "perf_event_mlock_kb" \
		as_nobody perf record --persistent="$name" -m 65536 -e cpu-clock:u true
	must as_nobody perf record --persistent="$name" -e page-faults:u true
	exists "u$uid-$name" || fail "perf says '$(cat "$dir/out")'"
	[ "$(value "u$uid-$name" time_left)" -gt 0 ] || fail "it lives for ever"
	perf persistent stop "u$uid-$name" > /dev/null || fail "it cannot be stopped"
	restore
	finish
}

test_namespace() {
	begin "Root in a user namespace is told that a session has a time to live"
	if ! as_nobody unshare --user --map-root-user true 2> /dev/null
	then
		skip "no user namespaces"
		return
	fi
	echo 2 > $sysctl/perf_event_paranoid
	uid=$(as_nobody id -u)
	must_succeed "^id [0-9]* ends in [0-9]*s: CAP_PERFMON in a user namespace is not enough" \
		as_nobody "unshare --user --map-root-user \
			perf stat --persistent=$name,ttl=none -e page-faults:u true"
	must_succeed "^id [0-9]* ends in [0-9]*s: CAP_PERFMON in a user namespace is not enough" \
		as_nobody "unshare --user --map-root-user sh -c 'perf stat --persistent=$name-2 \
			-e page-faults:u true; exec perf persistent set --ttl none u$uid-$name-2'"
	restore
	stop "u$uid-$name"
	stop "u$uid-$name-2"
	finish
}

test_delegated() {
	begin "mode=, group= and owner= let a user do what the mode says, and nobody else"
	if ! as_nobody perf version > /dev/null 2>&1 || [ ! -w $sysctl/perf_event_paranoid ]
	then
		skip "no user to be"
		return
	fi
	echo 2 > $sysctl/perf_event_paranoid
	group=$(as_nobody id -gn)
	start stat -a -e cpu-clock
	must_fail "owned by root" as_nobody perf persistent read "$name"
	stop
	must_succeed ", mode rw-r-----, group $group$" \
		perf stat --persistent="$name,mode=0640,group=$group" -a -e cpu-clock
	must_succeed "cpu-clock" as_nobody perf persistent read "$name"
	must_fail "owned by root" as_nobody perf persistent stop "$name"
	stop
	must perf record --persistent="$name,mode=640,group=root" -a -e cpu-clock -F 99 -m 4
	must_fail "owned by root" as_nobody perf persistent dump -o "/tmp/$name.data" "$name"
	stop
	must_succeed ", mode rw-------, owner nobody$" \
		perf stat --persistent="$name,mode=600,owner=nobody,ttl=1h" -a -e cpu-clock
	has uid "$(as_nobody id -u)"
	restore
	stop
	finish
}

test_no_equal_sign() {
	begin "A name after a blank is not taken for a command"
	for tool in record stat
	do
		must_fail "^did you mean --persistent=$name" \
			perf $tool --persistent "$name" -e cpu-clock
		and_says "^failed to run '$name': No such file or directory"
		and_says "^nothing was left running"
	done
	must perf stat --persistent true
	given=$(sed -n 's/^\(p[0-9]*\): id.*/\1/p' "$dir/out")
	stop "$given"
	finish
}

[ -e "$pmu/type" ] || test_without_feature
need_feature

test_kill
test_interrupted
test_cpus
test_new_cpu
test_tasks
test_threads
test_cgroups
test_command
test_wait
test_delay
test_attrs
test_filter
test_stat
test_period
test_ttl
test_unprinted
test_unread
test_names
test_words
test_buffers
test_side_band
test_refused
test_limits
test_user
test_namespace
test_delegated
test_no_equal_sign
test_killed

cleanup
exit $err
