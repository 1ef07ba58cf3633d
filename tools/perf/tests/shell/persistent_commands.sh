#!/bin/sh
# perf persistent commands (exclusive)
# SPDX-License-Identifier: GPL-2.0

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

long="$name-with-a-name-that-is-longer-than-a-column-of-it"

start() {
	must perf record --persistent="$1" -a -e cpu-clock/freq=9/ -e context-switches -m 16
}

# count EVENT: the sum of its counts
count() {
	perf persistent read -x, "$name" | grep ",$1," | cut -d, -f1
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
	must_succeed '"counter-value": [0-9.]*, "unit": "msec"' \
		perf persistent read -j "$name" "$long"
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	must_succeed '"cpu": 0, "instance": [0-9]*, "state": "enabled", "counter-value"' \
		perf persistent read -A -j "$name"
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	must_succeed "^[0-9.]*,msec,cpu-clock/freq=9/,[0-9]*,100.00,$name,[0-9]*,,,$" \
		perf persistent read -x, "$name"
	finish
}

# calls N: run a process that waits, makes N calls in a child, and then one itself. A shell
# makes one call when it starts.
calls() {
	sh -c ": > $dir/begun.$1; until [ -e $dir/go ]; do sleep 0.1; done
	       perf bench syscall basic -l $1; exec perf bench syscall basic -l 1" > /dev/null &
	wait_for [ -e "$dir/begun.$1" ] || fail "the process does not start"
}

test_per_process() {
	begin "The count of each process, with its children, and their sum"
	calls 30
	first=$!
	calls 7
	second=$!
	must perf stat --persistent="$name-2" -e syscalls:sys_enter_getppid -p "$first,$second"
	touch "$dir/go"
	wait $first $second
	perf persistent read --per-process -x, "$name-2" | cut -d, -f1,9 > "$dir/read"
	printf '%s\n' "31,$first" "8,$second" 39, | cmp -s - "$dir/read" ||
		fail "$(cat "$dir/read")"
	must_succeed "^pid $first  *31 *syscalls:sys_enter_getppid" \
		perf persistent read --per-process "$name-2"
	and_says "^all processes  *39 *syscalls:sys_enter_getppid"
	must_succeed "\"pid\": $second, \"counter-value\": 8," \
		perf persistent read --per-process -j "$name-2"
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	# Processes that have no number in another pid namespace are in the sum only.
	if unshare --pid --fork true 2> /dev/null
	then
		unshare --pid --fork perf persistent read --per-process -x, "$name-2" |
			cut -d, -f1,9 > "$dir/read"
		echo "39," | cmp -s - "$dir/read" || fail "elsewhere: $(cat "$dir/read")"
	fi
	must_succeed "^ .*context-switches" perf persistent read --per-process "$name"
	must_fail "cannot use --per-process with" perf persistent read --per-process -A "$name"
	stop "$name-2"
	finish
}

test_shared_counters() {
	begin "A process that shares its counters has the counts of others not scaled"
	if ! perf stat -x, -e cycles true 2>&1 | grep -q '^[0-9]'
	then
		skip "no PMU of the CPU"
		return
	fi
	(while :; do :; done) &
	first=$!
	(while :; do :; done) &
	second=$!
	must perf record --persistent="$name-2" -e cycles -c 100000000 -p "$first,$second"
	# More than there are counters
	must perf stat -e "$(printf 'cycles,%.0s' $(seq 30))cycles" -p $first sleep 2
	must perf persistent disable "$name-2"
	kill $first $second
	perf persistent read --per-process -x, "$name-2" | cut -d, -f5,9 > "$dir/read"
	grep -q "^[0-9][0-9]\.[0-9]*,$first$" "$dir/read" || fail "$first: $(cat "$dir/read")"
	grep -qx "100.00,$second" "$dir/read" || fail "$second: $(cat "$dir/read")"
	stop "$name-2"
	finish
}

# The time since boot
centiseconds() {
	cut -d ' ' -f 1 /proc/uptime | tr -d .
}

# Stop perf when it has started to write, for longer than a second.
test_progress() {
	begin "A dump that takes longer than a second shows how far it is"
	progress='[0-9.]* of [0-9.]* MB written'
	for try in $(seq 20)
	do
		perf persistent dump "$name" -o "$dir/data" > "$dir/out" 2>&1 &
		pid=$!
		# Run perf in slices, so that it is stopped as soon as it has its file.
		while [ -e "/proc/$pid/exe" ] && kill -STOP $pid 2> /dev/null
		do
			set -- "$dir/data".??????
			[ -e "$1" ] && break
			kill -CONT $pid
		done
		sleep 1.2
		kill -CONT $pid 2> /dev/null
		wait $pid || fail "try $try: $(cat "$dir/out")"
		grep -q "$progress" "$dir/out" && break
	done
	and_says "$progress"
	and_says "perf persistent dump: wrote"
	started=$(centiseconds)
	perf persistent dump "$name" -o "$dir/data" > "$dir/out" 2>&1
	took=$(($(centiseconds) - started))
	[ $took -lt 100 ] && grep -q "$progress" "$dir/out" &&
		fail "it says so of what took $took hundredths of a second"
	finish
}

test_perf_list() {
	begin "perf list shows sessions and their owners"
	must_succeed "persistent/$name/ .*Persistent event" perf list persistent
	and_says "Session [0-9]* of root: cpu-clock context-switches"
	must_succeed "persistent/$name/" perf list --raw-dump pmu
	finish
}

# complete WORD...: print the completions after these words
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
	for command in list read dump flush status enable disable set mark reserve stop
	do
		grep -qx $command "$dir/out" || fail "$command is missing in '$(cat "$dir/out")'"
	done
	for command in list read dump flush status enable disable set mark reserve stop
	do
		complete_perf perf persistent $command "$name"
		grep -qx "$name" "$dir/out" || fail "$command: '$(cat "$dir/out")'"
	done
	complete_perf perf persistent stop "$long" "$name"
	grep -qx "$name" "$dir/out" || fail "a second name: '$(cat "$dir/out")'"
	complete_perf perf record -e "persistent/$name"
	grep -qx "persistent/$name/" "$dir/out" || fail "-e: '$(cat "$dir/out")'"
	complete_perf perf persistent stop --m
	grep -qx -e --mine "$dir/out" || fail "--mine: '$(cat "$dir/out")'"
	complete_perf perf persistent list --c
	grep -qx -e --counters "$dir/out" || fail "--counters: '$(cat "$dir/out")'"
	complete_perf perf persistent set --ttl "$name"
	grep -qx "$name" "$dir/out" && fail "a name for a time"
	finish
}

test_trace() {
	begin "perf trace shows the ioctls of persistent events by name"
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
	begin "Errors quote the argument as typed, and the other arguments are handled"
	for command in read enable disable stop
	do
		must_fail "no session named 'no-such' (see 'perf persistent list')" \
			perf persistent $command no-such
		must_fail "no session with id 2147483647" perf persistent $command 2147483647
		must_fail "invalid id '0': use a number from 1 to 2147483647" \
			perf persistent $command 0
		must_fail "invalid name 'a/../b': use a lower-case letter" \
			perf persistent $command a/../b
	done
	for command in enable disable stop
	do
		must_fail "Usage: perf persistent $command" perf persistent $command
		must_fail "Error: give either names, --mine or --all" \
			perf persistent $command --mine "$name"
		must_fail "Error: give either names, --mine or --all" \
			perf persistent $command --mine --all
	done
	must_fail "'no-such'" perf persistent read no-such "$name"
	and_says "context-switches"
	must_fail "^unknown subcommand 'lst'" perf persistent lst
	must_fail "^unknown subcommand 'pause'" perf persistent pause "$name"
	must_fail "Error: give either names or --all" perf persistent dump --all "$name"
	must_fail "Error: name one session" perf persistent set --ttl 1h "$name" two
	must_fail "Error: name one session" perf persistent flush -o "$dir/log" "$name" two
	must_fail "Error: name a session" perf persistent status
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
	# Do not stop other sessions, which the user may want to keep.
	if [ -z "$(ls "$pmu/ids")" ]
	then
		start "$name"
		must_succeed "^$name: id [0-9]* stopped$" perf persistent stop --mine
		must_succeed "no session of yours to stop" perf persistent stop --mine
		must_succeed "no session to stop" perf persistent stop --all
		must_succeed '^\[\]$' perf persistent list -j
		perf persistent list > "$dir/out" 2>&1 || fail "an empty list is an error"
		[ -s "$dir/out" ] && fail "an empty list has '$(cat "$dir/out")'"
	fi
	finish
}

# The output exceeds a pipe: perf reads the rest after the session ended.
test_end() {
	begin "A session that ends while it is read is an error, and the reason is named"
	events=$(awk -v label="$(printf %0200d 0)" 'BEGIN {
		for (i = 0; i < 120; i++)
			printf "-e task-clock/name=e%s_%d/ ", label, i
	}')
	# shellcheck disable=SC2086
	perf stat --persistent="$name" -a $events > "$dir/out" 2>&1 || fail "it does not start"
	mkfifo "$dir/pipe"
	perf persistent read -A -j "$name" > "$dir/pipe" 2> "$dir/says" &
	pid=$!
	{
		head -c 1 > "$dir/begun"
		must perf persistent stop "$name"
		cat > "$dir/rest"
	} < "$dir/pipe"
	wait $pid && fail "it succeeds with $(grep -c counter-value "$dir/rest") counts"
	mv "$dir/says" "$dir/out"
	and_says "cannot read session '$name': it has ended"
	rm -f "$dir/rest"
	finish
}

test_without_feature() {
	begin "A kernel without persistent events is named as the reason"
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf persistent list -j
	for command in read enable disable stop
	do
		must_fail CONFIG_PERF_EVENTS_PERSISTENT perf persistent $command "$name"
	done
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf persistent stop --mine
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf persistent stop --all
	finish
}

[ -e "$pmu/type" ] || test_without_feature
need_feature

test_end
start "$name"
start "$long"
test_read
test_per_process
test_shared_counters
test_progress
test_perf_list
test_completion
test_trace
test_errors
test_stop

cleanup
exit $err
