#!/bin/sh
# perf persistent set of running events (exclusive)
# SPDX-License-Identifier: GPL-2.0

# The events of a session get a filter, a period or a frequency while they run.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

exec=sched:sched_process_exec
exit=sched:sched_process_exit
changed="^$name: id [0-9]* changed$"

# count EVENT: the sum of its counts
count() {
	perf persistent read -x ';' "$name" | grep ";$1;" | cut -d ';' -f 1
}

# counts EVENT: expect 10 more; other programs, also the test's, may add to them
counts() {
	first=$(count "$1")
	run_programs 10
	second=$(count "$1")
	[ $((second - first)) -ge 10 ] || fail "$1 counts $((second - first))"
}

counts_nothing() {
	first=$(count "$1")
	run_programs 10
	second=$(count "$1")
	[ "$second" -eq "$first" ] || fail "$1 counts $((second - first))"
}

# has_filter EVENT FILTER: expect it in each instance; empty for no filter
has_filter() {
	perf persistent list -v "$name" | sed -n "/ member [0-9]*: $1/,/ member /{/instance/p}" \
		> "$dir/list"
	if [ "$2" ]
	then
		grep -vqF "filter \"$2\"" "$dir/list" && fail "$1: $(cat "$dir/list")"
		grep -qF "filter \"$2\"" "$dir/list" || fail "$1 has no filter"
	else
		grep -q "filter" "$dir/list" && fail "$1: $(cat "$dir/list")"
	fi
}

test_filter() {
	begin "A filter is set, added to and dropped, of all tracepoints and of one"
	counts $exec
	counts $exit
	must_succeed "$changed" perf persistent set "$name" --filter 'pid == 1'
	has_filter $exec 'pid == 1'
	has_filter $exit 'pid == 1'
	has_filter cpu-clock ''
	counts_nothing $exec
	counts_nothing $exit
	must_succeed "$changed" perf persistent set "$name" --event $exec --drop-filter
	has_filter $exec ''
	has_filter $exit 'pid == 1'
	counts $exec
	counts_nothing $exit
	must_succeed "$changed" \
		perf persistent set "$name" --event $exit --filter 'pid > 1 || pid == 0'
	counts $exit
	must_succeed "$changed" \
		perf persistent set "$name" --event $exit --add-filter 'pid == 1'
	has_filter $exit '(pid > 1 || pid == 0) && (pid == 1)'
	counts_nothing $exit
	must_succeed "$changed" perf persistent set "$name" --event $exec --add-filter 'pid > 0'
	has_filter $exec 'pid > 0'
	counts $exec
	must_succeed "$changed" perf persistent set "$name" --drop-filter
	has_filter $exec ''
	has_filter $exit ''
	must_succeed "$changed" perf persistent set "$name" --add-filter 'pid > 0'
	must_succeed "$changed" perf persistent set "$name" --add-filter 'pid < 2'
	has_filter $exec '(pid > 0) && (pid < 2)'
	has_filter $exit '(pid > 0) && (pid < 2)'
	must_succeed "$changed" perf persistent set "$name" --drop-filter
	counts $exec
	counts $exit
	finish
}

test_utf8() {
	begin "Text that is UTF-8 is the same in the list and in JSON"
	filter='comm != "caf\303\251 \342\202\254"'
	# shellcheck disable=SC2059
	filter=$(printf "$filter")
	must_succeed "$changed" perf persistent set "$name" --event $exec --filter "$filter"
	has_filter $exec "$filter"
	perf persistent list -v -j "$name" > "$dir/list"
	json_is_valid "$dir/list" || fail "no JSON: $(cat "$dir/list")"
	grep -qF "\"filter\": \"$(echo "$filter" | sed 's/"/\\"/g')\"" "$dir/list" ||
		fail "$(cat "$dir/list")"
	if command -v python3 > /dev/null
	then
		python3 -c 'import json, sys
members = json.load(open(sys.argv[1], encoding="utf-8"))[0]["members"]
sys.exit(members[0]["instances"][0]["filter"] != sys.argv[2])' "$dir/list" "$filter" ||
			fail "python3 reads something else: $(cat "$dir/list")"
	fi
	must perf persistent set "$name" --drop-filter
	finish
}

test_by_number() {
	begin "An event is found by the number that the list shows"
	number=$(perf persistent list -v "$name" | sed -n "s/ *member \([0-9]*\): $exit.*/\1/p")
	must_succeed "$changed" perf persistent set "$name" --event "$number" --filter 'pid == 1'
	has_filter $exit 'pid == 1'
	has_filter $exec ''
	must_succeed "$changed" perf persistent set "$name" --event "$number" --drop-filter
	finish
}

test_controller() {
	begin "A user who may control a session, but not read it, can set a filter"
	if ! { [ "$(id -u)" -eq 0 ] && as_nobody true 2> /dev/null; }
	then
		skip "needs root and su"
		return
	fi
	must perf persistent set "$name" --mode 0002
	must_succeed "$changed" \
		as_nobody perf persistent set "$name" --event 0 --filter "'pid == 1'"
	has_filter $exec 'pid == 1'
	has_filter $exit ''
	must_fail "the right r, which" \
		as_nobody perf persistent set "$name" --add-filter "'pid == 1'"
	must_succeed "$changed" as_nobody perf persistent set "$name" --drop-filter
	has_filter $exec ''
	must perf persistent set "$name" --mode 0
	finish
}

# One filter for three tracepoints, of which two have the field
test_all_or_none() {
	begin "A filter that one event of three does not take leaves all as they were"
	must perf stat --persistent="$name-3" -a -e $exec -e sched:sched_switch -e $exit
	must perf persistent set "$name-3" --filter 'common_pid == 7'
	must_fail "^cannot change session '$name-3': filter 'pid == 1' is not valid for its" \
		perf persistent set "$name-3" --filter 'pid == 1' --ttl 1h
	perf persistent list -v "$name-3" | grep " instance " > "$dir/list"
	grep -vF 'filter "common_pid == 7"' "$dir/list" && fail "it was changed"
	grep -q . "$dir/list" || fail "there is no list"
	must_succeed "^$name-3 .* [0-9][0-9smhd]*  *-  " perf persistent list
	must_fail "invalid filter 'prev_pid' for 'sched:sched_switch'" \
		perf persistent set "$name-3" --event sched:sched_switch --filter prev_pid
	must perf persistent set "$name-3" --event sched:sched_switch --filter 'prev_pid == 1'
	must_fail "the current filters differ: \"common_pid == 7\" and \"prev_pid == 1\"" \
		perf persistent set "$name-3" --add-filter 'common_pid > 1'
	stop "$name-3"
	finish
}

test_refused() {
	begin "Invalid changes are named, and change nothing"
	must_fail "'cpu-clock/freq=1/' is not a tracepoint: only tracepoints take filters" \
		perf persistent set "$name" --event cpu-clock/freq=1/ --filter 'pid == 1' --ttl 1h
	must_fail "the period of '$exec' cannot be changed" \
		perf persistent set "$name" --event $exec --period 7 --ttl 1h
	must_fail "'cpu-clock/freq=1/' was started with a frequency: use --freq" \
		perf persistent set "$name" --event cpu-clock/freq=1/ --period 1000000
	must_fail "use --freq, or choose another event with --event" \
		perf persistent set "$name" --period 1000000
	must_fail "the frequency is at most [0-9]* (kernel.perf_event_max_sample_rate)" \
		perf persistent set "$name" --freq 1000000000
	must_fail "session '$name' has no event 'no-such' (see 'perf persistent list -v $name')" \
		perf persistent set "$name" --event no-such --filter 'pid == 1'
	must_fail "session '$name' has no event '99'" \
		perf persistent disable "$name" --event 99
	for bad in 0 -1 1x "" 99999999999999999999
	do
		must_fail "^invalid number '$bad' for --period: use 1 or more$" \
			perf persistent set "$name" --period "$bad"
		must_fail "^invalid number '$bad' for --freq: use 1 or more$" \
			perf persistent set "$name" --freq "$bad"
	done
	must_fail "cannot use --period with --freq" \
		perf persistent set "$name" --period 1 --freq 1
	must_fail "cannot use more than one of --filter, --add-filter and --drop-filter" \
		perf persistent set "$name" --filter 'pid == 1' --drop-filter
	must_fail "the filter is empty: use --drop-filter" perf persistent set "$name" --filter ""
	must_fail "^--event $exec: use it with --filter" \
		perf persistent set "$name" --event $exec --ttl 1h
	must_fail "event" perf persistent stop "$name" --event $exec
	must_succeed "^$name .* [0-9][0-9smhd]*  *-  " perf persistent list
	has_filter $exec ''
	has_filter $exit ''
	finish
}

test_no_tracepoint() {
	begin "A session without tracepoints takes no filter, and one of counters no period"
	must perf stat --persistent="$name-2" -a -e context-switches
	must_fail "session '$name-2' has no tracepoint: only tracepoints take filters" \
		perf persistent set "$name-2" --filter 'pid == 1'
	must_fail "session '$name-2' has no event with a period or frequency that can be changed" \
		perf persistent set "$name-2" --period 10
	stop "$name-2"
	finish
}

# samples SESSION: the number of samples in a dump
samples() {
	perf persistent dump "$1" -o "$dir/data" > "$dir/out" 2>&1 || fail "$(cat "$dir/out")"
	perf script -f -i "$dir/data" -F event 2> /dev/null | grep -c cpu-clock
}

# shellcheck disable=SC2317
has_samples() {
	[ "$(samples "$1")" -ge "$2" ]
}

# The rate goes from two a second to hundreds.
test_freq() {
	begin "A clock that was started with a frequency gets another one"
	must_succeed "$changed" perf persistent set "$name" --freq 500
	wait_for has_samples "$name" 500 || fail "there are $(samples "$name") samples"
	must_succeed "$changed" perf persistent set "$name" --event cpu-clock/freq=1/ --freq 1
	finish
}

test_period() {
	begin "An event that was started with a period gets another one"
	must perf record --persistent="$name-p" -a -m 64 -e cpu-clock/period=1000000000/
	must_fail "was started with a period: use --period" \
		perf persistent set "$name-p" --freq 500
	must perf persistent set "$name-p" --period 2000000
	wait_for has_samples "$name-p" 500 || fail "there are $(samples "$name-p") samples"
	stop "$name-p"
	finish
}

test_disable() {
	begin "One event is disabled and enabled"
	must_succeed "^$name: id [0-9]* disabled$" perf persistent disable "$name" --event $exec
	counts_nothing $exec
	counts $exit
	must_succeed "^$name: id [0-9]* enabled$" perf persistent enable "$name" --event $exec
	counts $exec
	finish
}

test_exited() {
	begin "Exited tasks cannot be enabled or changed, but disabled and stopped"
	sleep 1000 &
	pid=$!
	must perf stat --persistent="$name-task" -p $pid -e $exec
	kill $pid
	wait $pid 2> /dev/null
	for command in enable "set --filter pid==1" "set --event 0 --drop-filter"
	do
		# shellcheck disable=SC2086
		must_fail "session '$name-task': all its tasks have exited" \
			perf persistent $command "$name-task"
	done
	must_succeed "disabled$" perf persistent disable "$name-task"
	stop "$name-task"
	finish
}

need_feature
need_tracepoints

must perf record --persistent="$name" -a -m 64 -e $exec -e $exit -e cpu-clock/freq=1/
test_filter
test_utf8
test_by_number
test_controller
test_all_or_none
test_refused
test_no_tracepoint
test_freq
test_period
test_disable
test_exited

cleanup
exit $err
