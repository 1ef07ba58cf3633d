#!/bin/sh
# perf persistent list (exclusive)
# SPDX-License-Identifier: GPL-2.0

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

long="$name-with-a-name-that-is-longer-than-a-column-of-it"
paranoid=/proc/sys/kernel/perf_event_paranoid
was_paranoid=$(cat $paranoid)
busy=
sys=/sys/devices/system/cpu
cpu1=$sys/cpu1/online

# The target column of a session on all CPUs, of which some may be offline
enabled=enabled
[ "$(cat $sys/online)" = "$(cat $sys/present)" ] || enabled="[0-9]* of [0-9]* offline"

take_back() {
	[ "$(id -u)" -eq 0 ] && echo "$was_paranoid" > $paranoid
	[ -w $cpu1 ] && echo 1 > $cpu1
	[ "$busy" ] && kill "$busy"
}

start() {
	must perf record --persistent="$1" -a -e cpu-clock/freq=9/ -e context-switches -m 16
}

# has NAME STATE TARGET: expect them in the list
has() {
	perf persistent list -x ';' "$1" > "$dir/list"
	cut -d ';' -f 4,5 "$dir/list" | grep -qx "$2;$3" ||
		fail "not '$2' and '$3' but '$(cat "$dir/list")'"
}

test_table() {
	begin "The list has a line for each, in columns that fit"
	start "$name"
	start "$long"
	must_succeed "^$name  *[0-9]* " perf persistent list
	and_says "^$long  *[0-9]* "
	# Without a terminal, lines are not truncated.
	and_says " $enabled  all CPUs .* cpu-clock context-switches$"
	awk 'NR == 1 { at = index($0, "OWNER") }
	     substr($0, at - 2) !~ /^  [^ ]/ { exit 1 }' "$dir/out" ||
		fail "the columns do not fit: $(cat "$dir/out")"
	awk 'NR > 1 { print $2 }' "$dir/out" > "$dir/ids"
	sort -n "$dir/ids" | cmp -s - "$dir/ids" || fail "it is not in the order of ids"
	grep -q "member" "$dir/out" && fail "it shows details that nobody asked for"
	must_succeed "instance 1: CPU [0-9]*, enabled, buffer [0-9]*: 64K overwrite" \
		perf persistent list -v
	and_says "^    mode ---------, group root$"
	and_says "member 0: cpu-clock/freq=9/"
	finish
}

test_names() {
	begin "The list of named sessions has just these, and unknown names are errors"
	id=$(($(sed 's/id=//' "$pmu/events/$long")))
	must_succeed "^$name " perf persistent list "$name"
	grep -q "^$long " "$dir/out" && fail "it has others: $(cat "$dir/out")"
	must_succeed "^$long " perf persistent list $id
	grep -q "^$name " "$dir/out" && fail "it has others: $(cat "$dir/out")"
	perf persistent list no-such "$name" 2147483647 > "$dir/out" 2>&1
	status=$?
	[ $status -eq 1 ] || fail "the exit status is $status"
	and_says "'no-such'"
	and_says "id 2147483647"
	and_says "^$name "
	must_succeed "^$name;" perf persistent list -x ';' "$name" "$name" "$name"
	[ "$(wc -l < "$dir/out")" -eq 1 ] || fail "it is there twice: $(cat "$dir/out")"
	must_succeed "\"name\": \"$name\"" perf persistent list -j "$name"
	grep -q "\"name\": \"$long\"" "$dir/out" && fail "it has others: $(cat "$dir/out")"
	must_succeed "member 0: cpu-clock/freq=9/" perf persistent list -v "$name"
	finish
}

test_programs() {
	begin "The list as JSON and with separators says the same"
	id=$(($(sed 's/id=//' "$pmu/events/$name")))
	must_succeed "\"name\": \"$name\", \"id\": $id, \"owner\": \"root\", \"uid\": 0," \
		perf persistent list -j
	and_says "\"uid\": 0, \"gid\": 0, \"mode\": \"0000\", \"cpus\""
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	and_says '"events": \["cpu-clock","context-switches"\]'
	and_says '"setting-up": false, "states": {"enabled": [0-9]*[^}]*}, "target": "all CPUs"'
	must_succeed "\"event\": \"cpu-clock/freq=9/\"" perf persistent list -v -j
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	and_says '"cpu": 0, "state": "enabled"'
	grep -q '"[a-z]*_[a-z_]*":' "$dir/out" && fail "keys without hyphens: $(cat "$dir/out")"
	events="cpu-clock context-switches"
	must_succeed "^$name;$id;root;$enabled;all CPUs;[0-9]*;0;[0-9]*;0;$events$" \
		perf persistent list -x ';'
	must_fail "cannot be used together" perf persistent list -j -x,
	must_fail "the separator is empty" perf persistent list -x ''
	printf '[{"a": "\\"}]", "b": [1, 2.5, {}]}]\n' > "$dir/json"
	json_is_valid "$dir/json" || fail "JSON is not recognized"
	printf '[{"a": "b"} {"c": 1}]\n' > "$dir/json"
	json_is_valid "$dir/json" && fail "what is no JSON is taken for it"
	finish
}

test_lost() {
	begin "Side-band that was lost does not count as lost samples"
	must perf record --persistent="$name-side",discard,sideband=4K -a -e cpu-clock/freq=1/
	run_programs 100
	must_succeed ";0;cpu-clock$" perf persistent list -x ';' "$name-side"
	must_succeed "[1-9][0-9]* side-band records" \
		perf persistent dump -o "$dir/data" "$name-side"
	stop "$name-side"
	finish
}

test_state() {
	begin "The list shows disabled sessions, and the number of instances if not all are"
	must perf stat --persistent="$name-off" -C 0 -D -1 -e cpu-clock
	has "$name-off" disabled ".*CPU.*"
	stop "$name-off"
	has "$name" "$enabled" "all CPUs"
	if [ "$enabled" != enabled ] || ! { echo 0 > $cpu1; } 2> /dev/null
	then
		skip "CPU 1 cannot be taken offline"
		return
	fi
	set -- $sys/cpu[0-9]*
	has "$name" "2 of $(($# * 2)) offline" "all CPUs"
	echo 1 > $cpu1
	has "$name" "$enabled" "all CPUs"
	must_succeed "CPU 1, enabled.*, CPU was offline once, for [0-9][0-9smhd]*" \
		perf persistent list -v "$name"
	finish
}

test_target() {
	begin "The list tells tasks from CPUs, and shows exited tasks"
	sleep 1000 &
	busy=$!
	for options in "record --persistent=$name-task -m 4" "stat --persistent=$name-task"
	do
		# shellcheck disable=SC2086
		must perf $options -p $busy -e cpu-clock
		has "$name-task" enabled "pid $busy"
		stop "$name-task"
	done
	must perf stat --persistent="$name-task" -p $busy,$$ -e cpu-clock
	has "$name-task" enabled "2 tasks"
	if unshare --pid --fork true 2> /dev/null
	then
		must_succeed ";enabled;tasks elsewhere;" \
			unshare --pid --fork perf persistent list -x ';' "$name-task"
		must_succeed "instance 1: a task elsewhere, enabled" \
			unshare --pid --fork perf persistent list -v "$name-task"
	fi
	kill $busy
	wait $busy 2> /dev/null
	busy=
	has "$name-task" "1 of 2 exited" "2 tasks"
	stop "$name-task"
	# Side-band is on all CPUs.
	must perf record --persistent="$name-cpu" -C 0 -e cpu-clock -m 4
	if [ -e $cpu1 ]
	then
		has "$name-cpu" enabled "CPU 0"
	fi
	stop "$name-cpu"
	finish
}

test_descriptors() {
	begin "With few descriptors all members and instances are shown"
	must perf stat --persistent="$name-many" -a \
		-e cpu-clock,task-clock,page-faults,minor-faults,major-faults,context-switches \
		-e cpu-migrations,alignment-faults,emulation-faults,cgroup-switches,bpf-output
	must_succeed "member 10: bpf-output" \
		sh -c "ulimit -n 16; perf persistent list -v $name-many"
	shown=$(grep -c "instance [0-9]*: CPU [0-9]*, [a-z]*, no buffer" "$dir/out")
	there=$(cat "$pmu/ids/$(awk 'NR == 2 { print $2 }' "$dir/out")/instances")
	[ "$shown" -eq "$there" ] || fail "$shown of $there instances: $(cat "$dir/out")"
	stop "$name-many"
	must_succeed "^$name .* cpu-clock context-switches$" \
		sh -c "ulimit -n 4; perf persistent list"
	finish
}

# counters: print the held and the free counters of CPU 0
counters() {
	perf persistent list --counters 2> "$dir/err" | awk '$1 == 0 { print $2, $3 }'
}

# Pinned events take all free counters, and the next one gets none.
all_counters() {
	before=$(counters)
	nr=${before#* }
	events=$(seq "$nr" | sed "s/.*/cycles:D/" | tr "\n" ,)
	events=${events%,}
	must perf stat --persistent="$name-all" -C 0 -e "$events"
	now=$(counters)
	[ "$now" = "$((${before% *} + nr)) 0" ] ||
		fail "held and free: '$now' with $nr events more than '$before'"
	perf persistent read -x, "$name-all" > "$dir/out" 2>&1
	[ "$(grep -c "^[1-9][0-9]*,,cycles:D,.*,100.00," "$dir/out")" -eq "$nr" ] ||
		fail "not all $nr have a counter: $(cat "$dir/out")"
	must_succeed "not counted" perf stat -C 0 -e cycles:D sleep 0.1
	stop "$name-all"
	[ "$(counters)" = "$before" ] || fail "'$(counters)' are left, not '$before'"
}

test_counters() {
	begin "The list of counters has a line for each CPU, or tells why not"
	must_fail "cannot be used with" perf persistent list --counters -j
	must_fail "cannot be used with" perf persistent list --counters "$name"
	must_fail "cannot be used with" perf persistent list --counters -v
	must_fail "cannot be used together" perf persistent list -v -x,
	if perf stat -x, -a -e cycles true 2>&1 | grep -q '^[0-9]'
	then
		must_succeed "^CPU  USED  FREE  PMU$" perf persistent list --counters
		and_says "^  0  "
		all_counters
		if { echo 0 > $cpu1; } 2> /dev/null
		then
			must_succeed "^  0  " perf persistent list --counters
			grep -q "^  1  " "$dir/out" && fail "CPU 1 is listed, and is offline"
			echo 1 > $cpu1
		fi
	else
		must_fail "no hardware PMU" perf persistent list --counters
	fi
	finish
}

test_users() {
	begin "A user sees all sessions, but the details of their own only"
	if [ "$(id -u)" -ne 0 ] || ! as_nobody true 2> /dev/null
	then
		skip "needs root and su"
		return
	fi
	echo 2 > $paranoid
	must_fail "CAP_PERFMON" as_nobody perf persistent list --counters
	echo -1 > $paranoid
	mine="u65534-$name"
	must_succeed "^$name .* root  *-  *CPU.*  -  cpu-clock context-switches" \
		as_nobody perf persistent list
	must_succeed ";[0-9]*;;cpu-clock context-switches$" \
		as_nobody "perf persistent list -x ';' $name"
	as_nobody perf persistent list -j "$name" > "$dir/out"
	grep -q -e '"states"' -e '"target"' -e '"lost"' "$dir/out" &&
		fail "JSON tells: $(cat "$dir/out")"
	must_succeed "details not shown: owned by root.*needs CAP_PERFMON" \
		as_nobody perf persistent list -v
	and_says "^    mode ---------, group root$"
	must_succeed "^$mine: id" \
		as_nobody perf record --persistent="$name" -a -e context-switches:u -m 1
	must_succeed "^$mine .* nobody  *$enabled  *all CPUs .*m[0-9]*s " \
		as_nobody perf persistent list
	must_succeed "member 0: context-switches:u" as_nobody perf persistent list -v
	and_says "^    mode rw-------, group "
	must_succeed "\"owner\": \"nobody\", \"uid\": 65534, .*\"mode\": \"0600\".*\"lost\": 0" \
		as_nobody perf persistent list -j
	stop "$mine"
	echo "$was_paranoid" > $paranoid
	finish
}

# start_and_stop: repeat until told to end; many events make the session slow to read
start_and_stop() {
	until [ -e "$dir/end" ]
	do
		perf stat --persistent="$name-short" -a -e "$(repeat 60 context-switches)"
		perf persistent stop "$name-short"
	done > "$dir/short" 2>&1
}

test_ends_meanwhile() {
	begin "Sessions that end while they are listed or read are left out"
	start_and_stop &
	for _ in $(seq 8)
	do
		for command in "list -v" "list -v -j" "read -A" "read -j"
		do
			# shellcheck disable=SC2086
			must perf persistent $command
			grep -qi "cannot\|invalid\|ended" "$dir/out" &&
				fail "$command: $(cat "$dir/out")"
		done
	done
	touch "$dir/end"
	wait
	finish
}

need_feature
need "only root may use all CPUs" [ "$(id -u)" -eq 0 ]

test_table
test_names
test_programs
test_lost
test_state
test_target
test_descriptors
test_counters
test_ends_meanwhile
test_users

cleanup
exit $err
