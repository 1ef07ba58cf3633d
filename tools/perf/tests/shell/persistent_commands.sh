#!/bin/sh
# perf persistent commands (exclusive)
# SPDX-License-Identifier: GPL-2.0

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

long="$name-with-a-name-that-is-longer-than-a-column-of-it"
paranoid=/proc/sys/kernel/perf_event_paranoid
was_paranoid=$(cat $paranoid)

take_back() {
	[ "$(id -u)" -eq 0 ] && echo "$was_paranoid" > $paranoid
}

# The last command said as well
and_says() {
	grep -q -e "$1" "$dir/out" || fail "it does not say '$1' but '$(cat "$dir/out")'"
}

# Replace what is a value by V, strings by S, until one is left of valid JSON.
json_is_valid() {
	{
		tr '\n\t' '  ' < "$1"
		echo
	} | sed -E 's/"([^"\\]|\\["\\n]|\\u[0-9a-f]{4})*"/S/g
		s/-?[0-9]+(\.[0-9]+)?/V/g
		s/true|false/V/g
		s/ //g
		:reduce
		s/\{(S:[SV](,S:[SV])*)?\}/V/g
		t reduce
		s/\[([SV](,[SV])*)?\]/V/g
		t reduce' | grep -qx V
}

start() {
	must perf record --persistent="$1" -a -e cpu-clock/freq=9/ -e context-switches -m 16
}

# The sum of what an event has counted
count() {
	perf persistent read -x, "$name" | grep ",$1," | cut -d, -f1
}

test_list() {
	begin "The list has a line for each, in columns that fit, and opens nothing"
	start "$name"
	start "$long"
	must_succeed "^$name  *[0-9]* " perf persistent list
	and_says "^$long  *[0-9]* "
	awk 'NR == 1 { at = index($0, "OWNER") }
	     substr($0, at - 2) !~ /^  [^ ]/ { exit 1 }' "$dir/out" ||
		fail "the columns do not fit: $(cat "$dir/out")"
	awk 'NR > 1 { print $2 }' "$dir/out" > "$dir/ids"
	sort -n "$dir/ids" | cmp -s - "$dir/ids" || fail "it is not in the order of ids"
	grep -q "member" "$dir/out" && fail "it shows details that nobody asked for"
	must_succeed "instance 1: CPU [0-9]*, enabled, buffer [0-9]*: 64K loop" \
		perf persistent list -v
	and_says "^    mode ---------, group root$"
	and_says "member 0: cpu-clock/freq=9/"
	finish
}

test_list_for_programs() {
	begin "The list as JSON and with separators says the same"
	id=$(sed 's/id=//' "$pmu/events/$name")
	id=$((id))
	must_succeed "\"name\": \"$name\", \"id\": $id, \"owner\": \"root\", \"uid\": 0," \
		perf persistent list -j
	and_says "\"uid\": 0, \"gid\": 0, \"mode\": \"0000\", \"cpus\""
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	and_says '"events": \["cpu-clock","context-switches"\]'
	must_succeed "\"event\": \"cpu-clock/freq=9/\"" perf persistent list -v -j
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	and_says '"cpu": 0, "state": "enabled"'
	must_succeed "^$name;$id;root;[0-9 -]*;[0-9]*;0;[0-9]*;0;cpu-clock context-switches$" \
		perf persistent list -x ';'
	must_fail "cannot be used together" perf persistent list -j -x,
	printf '[{"a": "\\"}]", "b": [1, 2.5, {}]}]\n' > "$dir/json"
	json_is_valid "$dir/json" || fail "JSON is not recognized"
	printf '[{"a": "b"} {"c": 1}]\n' > "$dir/json"
	json_is_valid "$dir/json" && fail "what is no JSON is taken for it"
	finish
}

test_read() {
	begin "Counts go on from one reading to the next, and add up from the CPUs"
	first=$(count context-switches)
	sleep 0.1
	second=$(count context-switches)
	[ "$second" -gt "$first" ] || fail "'$second' after '$first'"
	must_succeed "msec cpu-clock/freq=9/" perf persistent read "$name"
	and_says "^$name, id [0-9]*, started "
	grep -q dummy "$dir/out" && fail "it shows side-band"
	must_succeed "dummy" perf persistent read -v "$name"
	must_succeed "^CPU 0 .*context-switches" perf persistent read -A "$name"
	must_succeed '"value": [0-9.]*, "unit": "msec"' perf persistent read -j "$name" "$long"
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	must_succeed '"cpu": 0, "state": "enabled", "value"' perf persistent read -A -j "$name"
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	must_succeed "^[0-9.]*,msec,cpu-clock/freq=9/,[0-9]*,100.00,$name,[0-9]*$" \
		perf persistent read -x, "$name"
	finish
}

test_pause() {
	begin "What is paused counts nothing until it is resumed, and says so"
	must_succeed "^$name: id [0-9]* paused$" perf persistent pause "$name"
	must_succeed "^$name: id [0-9]* paused$" perf persistent pause "$name"
	perf persistent list -v | sed -n "/^$name /,/^$long /p" > "$dir/list"
	grep -q "enabled" "$dir/list" && fail "not all is paused: $(cat "$dir/list")"
	grep -q "instance .* paused" "$dir/list" || fail "the list does not say so"
	first=$(count context-switches)
	sleep 0.2
	second=$(count context-switches)
	[ "$second" -eq "$first" ] || fail "'$second' after '$first'"
	must_succeed "^$name: id [0-9]* resumed$" perf persistent resume "$name"
	must_succeed "^$name: id [0-9]* resumed$" perf persistent resume "$name"
	perf persistent list -v | sed -n "/^$name /,/^$long /p" > "$dir/list"
	grep -q "paused" "$dir/list" && fail "not all is resumed: $(cat "$dir/list")"
	sleep 0.2
	[ "$(count context-switches)" -gt "$second" ] || fail "it does not go on"
	finish
}

test_offline() {
	begin "What is on a CPU that is offline is read, paused and resumed with the rest"
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online
	do
		[ -w "$cpu" ] && break
	done
	if [ ! -w "$cpu" ]
	then
		skip "no CPU can go offline"
		return
	fi
	nr=${cpu%/online}
	nr=${nr##*cpu}
	echo 0 > "$cpu"
	must_succeed "CPU $nr, offline" perf persistent list -v
	must_succeed "^CPU $nr .*context-switches" perf persistent read -A "$name"
	must_succeed "paused" perf persistent pause "$name"
	echo 1 > "$cpu"
	must_succeed "CPU $nr, paused.*its CPU was offline 1 times" perf persistent list -v
	must_succeed "resumed" perf persistent resume "$name"
	perf persistent list -v | sed -n "/^$name /,/^$long /p" > "$dir/list"
	grep -q "CPU $nr, enabled" "$dir/list" || fail "it does not go on: $(cat "$dir/list")"
	finish
}

# Since boot
centiseconds() {
	cut -d ' ' -f 1 /proc/uptime | tr -d .
}

# Stop it when it has begun, for longer than a second.
test_progress() {
	begin "A dump that takes longer than a second shows how far it is"
	for try in $(seq 20)
	do
		perf persistent dump "$name" -o "$dir/data" > "$dir/out" 2>&1 &
		pid=$!
		# It runs in slices, so that it is stopped as soon as it has its thread.
		while [ -e "/proc/$pid/exe" ] && kill -STOP $pid 2> /dev/null
		do
			set -- "/proc/$pid/task"/*
			[ $# -gt 1 ] && break
			kill -CONT $pid
		done
		sleep 1.2
		kill -CONT $pid 2> /dev/null
		wait $pid || fail "try $try: $(cat "$dir/out")"
		grep -q "[0-9]* of [0-9]* MB written" "$dir/out" && break
	done
	and_says "[0-9]* of [0-9]* MB written"
	and_says "perf persistent dump: wrote"
	before=$(centiseconds)
	perf persistent dump "$name" -o "$dir/data" > "$dir/out" 2>&1
	took=$(($(centiseconds) - before))
	[ $took -lt 100 ] && grep -q "MB written" "$dir/out" &&
		fail "it says so of what took $took hundredths of a second"
	finish
}

test_perf_list() {
	begin "perf list shows what runs, and whose it is"
	must_succeed "persistent/$name/ .*Persistent event" perf list persistent
	and_says "Runs as id [0-9]* of root: cpu-clock context-switches"
	must_succeed "persistent/$name/" perf list --raw-dump pmu
	finish
}

# complete WORD...: what the shell would offer after these words
complete_perf() {
	bash -c '
		. "$0"
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
		_perf
		printf "%s\n" "${COMPREPLY[@]}"' "$completion" "$@" > "$dir/out" 2>&1
}

test_completion() {
	begin "The shell completes subcommands and names"
	completion=
	for file in "$(dirname "$0")/../../perf-completion.sh" /etc/bash_completion.d/perf \
		    /usr/share/bash-completion/completions/perf
	do
		[ -e "$file" ] && completion=$file && break
	done
	if [ -z "$completion" ] || ! command -v bash > /dev/null
	then
		skip "bash or perf-completion.sh is missing"
		return
	fi
	complete_perf perf persistent ""
	for command in list read dump pause resume stop
	do
		grep -qx $command "$dir/out" || fail "$command is missing in '$(cat "$dir/out")'"
	done
	for command in read dump pause resume stop
	do
		complete_perf perf persistent $command "$name"
		grep -qx "$name" "$dir/out" || fail "$command: '$(cat "$dir/out")'"
	done
	complete_perf perf persistent stop "$long" "$name"
	grep -qx "$name" "$dir/out" || fail "a second name: '$(cat "$dir/out")'"
	complete_perf perf persistent list ""
	grep -qx "$name" "$dir/out" && fail "list takes no name"
	complete_perf perf record -e "persistent/$name"
	grep -qx "persistent/$name/" "$dir/out" || fail "-e: '$(cat "$dir/out")'"
	complete_perf perf persistent stop --m
	grep -qx -e --mine "$dir/out" || fail "--mine: '$(cat "$dir/out")'"
	finish
}

test_trace() {
	begin "perf trace names what is asked of the kernel"
	case $(uname -m) in
	x86_64 | i?86)
		;;
	*)
		skip "elsewhere perf trace names no ioctls"
		return
		;;
	esac
	if ! perf trace -e ioctl true > /dev/null 2>&1
	then
		skip "perf trace cannot be used"
		return
	fi
	perf trace -e ioctl perf persistent list -v > "$dir/out" 2>&1
	and_says "cmd: PERF_QUERY_PERSISTENT"
	finish
}

test_errors() {
	begin "What is wrong is said of what was typed, and the rest is done"
	for command in read pause resume stop
	do
		must_fail "'no-such'.*perf persistent list" perf persistent $command no-such
		must_fail "id 2147483647" perf persistent $command 2147483647
		must_fail "'0' is no id" perf persistent $command 0
		must_fail "'a/../b' is neither" perf persistent $command a/../b
		must_fail "Usage: perf persistent $command" perf persistent $command
	done
	must_fail "'no-such'" perf persistent read no-such "$name"
	and_says "context-switches"
	must_fail "'lst' is no subcommand" perf persistent lst
	must_fail "Usage" perf persistent list "$name"
	must_fail "Usage" perf persistent stop --mine "$name"
	must_fail "Too many open files" sh -c "ulimit -n 4; perf persistent list"
	finish
}

test_users() {
	begin "A user sees all, and does to their own what root does, and to no other"
	if [ "$(id -u)" -ne 0 ] || ! as_nobody true 2> /dev/null
	then
		skip "needs root and su"
		return
	fi
	echo -1 > $paranoid
	mine="u65534-$name"
	must_succeed "^$name .* root .* cpu-clock context-switches" as_nobody perf persistent list
	must_succeed "owned by root, mode ---------; needs CAP_PERFMON" \
		as_nobody perf persistent list -v
	and_says "^    mode ---------, group root$"
	for command in read dump pause resume stop
	do
		must_fail "^$name, id [0-9]*,.*owned by root, mode ---------; needs CAP_PERFMON" \
			as_nobody perf persistent $command "$name"
	done
	must_succeed "nothing that runs is yours" as_nobody perf persistent stop --mine
	must_succeed "^$mine: id" \
		as_nobody perf record --persistent="$name" -a -e context-switches:u -m 1
	must_succeed "^$mine .* nobody .*m[0-9]*s " as_nobody perf persistent list
	must_succeed "member 0: context-switches:u" as_nobody perf persistent list -v
	and_says "^    mode rw-------, group "
	must_succeed "\"owner\": \"nobody\", \"uid\": 65534, .*\"mode\": \"0600\"" \
		as_nobody perf persistent list -j
	must_succeed "context-switches:u" as_nobody perf persistent read "$mine"
	must_succeed "$mine: id [0-9]* paused" as_nobody perf persistent pause "$mine"
	must_succeed "$mine: id [0-9]* resumed" as_nobody perf persistent resume "$mine"
	must_succeed "of $mine" as_nobody perf persistent dump -o /tmp/nobody-$$.data "$mine"
	rm -f /tmp/nobody-$$.data
	echo 2 > $paranoid
	must_fail "it is yours, but you have lost.*perf_event_paranoid" \
		as_nobody perf persistent read "$mine"
	echo -1 > $paranoid
	must_fail "$name, id [0-9]*, cannot be stopped" as_nobody perf persistent stop --all
	and_says "^$mine: id [0-9]* stopped"
	echo "$was_paranoid" > $paranoid
	must_succeed "^$name " perf persistent list
	grep -q "^$mine " "$dir/out" && fail "$mine is still there"
	finish
}

test_stop() {
	begin "Names and ids are stopped one by one, each with a line, also after an error"
	id=$(sed 's/id=//' "$pmu/events/$long")
	must_fail "'no-such'" perf persistent stop "$name" no-such "$id"
	and_says "^$name: id [0-9]* stopped$"
	and_says "^$long: id $((id)) stopped$"
	[ -e "$pmu/events/$name" ] && fail "$name is still there"
	[ -e "$pmu/events/$long" ] && fail "$long is still there"
	# Whoever tries this may have others that they want to keep.
	if [ -z "$(ls "$pmu/ids")" ]
	then
		start "$name"
		must_succeed "^$name: id [0-9]* stopped$" perf persistent stop --mine
		must_succeed "nothing that runs is yours" perf persistent stop --mine
		must_succeed "nothing runs" perf persistent stop --all
		must_succeed '^\[\]$' perf persistent list -j
		perf persistent list > "$dir/out" 2>&1 || fail "an empty list is an error"
		[ -s "$dir/out" ] && fail "an empty list has '$(cat "$dir/out")'"
	fi
	finish
}

test_without_feature() {
	begin "A kernel without persistent events is named as the reason"
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf persistent list -j
	for command in read pause resume stop
	do
		must_fail CONFIG_PERF_EVENTS_PERSISTENT perf persistent $command "$name"
	done
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf persistent stop --mine
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf persistent stop --all
	finish
}

[ -e "$pmu/type" ] || test_without_feature
need_feature

test_list
test_list_for_programs
test_read
test_pause
test_offline
test_progress
test_perf_list
test_completion
test_trace
test_errors
test_users
test_stop

cleanup
exit $err
