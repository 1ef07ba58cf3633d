#!/bin/sh
# perf persistent read --exits (exclusive)
# SPDX-License-Identifier: GPL-2.0

# Each task that has ended has a line with its name and its counts; missing ones are
# reported.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

events="-e page-faults -e context-switches"
pid=

take_back() {
	touch "$dir/done"
	[ -n "$pid" ] && kill "$pid" 2> /dev/null
}

# start OPTION...: count without samples
start() {
	# shellcheck disable=SC2086
	must perf record --persistent="$name",discard -s -n $events "$@"
}

exists() {
	[ -e "$pmu/events/$1" ]
}

stop() {
	must perf persistent stop "$name"
}

# pipeline NUMBER: print a pipeline of programs
pipeline() {
	printf '%s' "$prog"
	i=1
	while [ $i -lt "$1" ]
	do
		printf ' | %s' "$prog"
		i=$((i + 1))
	done
}

# Read the counts of single tasks, without thousands separators
exits() {
	LC_ALL=C perf persistent read --exits "$name" > "$dir/exits" 2> "$dir/err" ||
		fail "it cannot be read: $(cat "$dir/err")"
	grep '^ *[0-9]' "$dir/exits" > "$dir/rows"
}

# has_rows NUMBER [NAME]: expect so many tasks, with that name
has_rows() {
	exits
	nr=$(awk -v comm="${2:-}" '!comm || $3 == comm' "$dir/rows" | wc -l)
	[ "$nr" -eq "$1" ] || fail "$nr of $1 lines ${2:-}: $(cat "$dir/exits" "$dir/err")"
}

# The sums over all tasks are the counts of the session, in all columns.
sums_are_exact() {
	exits
	perf persistent read -x, "$name" > "$dir/counts" 2>&1
	awk '{ faults += $4; switches += $5 } END { print faults; print switches }' \
		"$dir/rows" > "$dir/sums"
	cut -d, -f1 "$dir/counts" | cmp -s - "$dir/sums" ||
		fail "$(cat "$dir/exits") is not $(cat "$dir/counts")"
}

nothing_is_missing() {
	[ -s "$dir/err" ] && fail "it says $(cat "$dir/err")"
	awk '$4 == "-"' "$dir/rows" | grep . && fail "it has no count"
}

test_pipeline() {
	begin "The lines of a pipeline of 50 and of its shell sum up to what was counted"
	start sh -c "$(pipeline 50); true"
	has_rows 50 prog
	has_rows 51
	sums_are_exact
	nothing_is_missing
	finish
}

test_json() {
	begin "JSON has the same"
	must perf persistent read --exits -j "$name"
	json_is_valid "$dir/out" || fail "it is not JSON: $(cat "$dir/out")"
	[ "$(grep -c '"comm": "prog"' "$dir/out")" -eq 50 ] || fail "$(cat "$dir/out")"
	and_says '"lost": 0, "lost-side-band": 0, "overwritten-bytes": 0'
	sed -n 's/.*"counter-value": \([0-9]*\), .*"page-faults".*/\1/p' "$dir/out" |
		awk '{ n += $1 } END { print n }' > "$dir/sum"
	[ "$(cat "$dir/sum")" = "$(head -n 1 "$dir/sums")" ] || fail "the sum is $(cat "$dir/sum")"
	stop
	finish
}

test_process() {
	begin "Of a process, children have lines while it goes on, and it has one when it has not"
	sh -c "while [ ! -e $dir/go ]; do sleep 0.1; done; $prog; $prog; touch $dir/went
		while [ ! -e $dir/done ]; do sleep 0.1; done" 2> /dev/null &
	pid=$!
	start -p $pid
	touch "$dir/go"
	wait_for [ -e "$dir/went" ] || fail "nothing runs"
	has_rows 2 prog
	has_rows 0 sh
	touch "$dir/done"
	wait $pid
	sums_are_exact
	nothing_is_missing
	awk -v pid=$pid '$1 == pid' "$dir/rows" | grep -q . || fail "$(cat "$dir/exits")"
	pid=
	stop
	finish
}

test_orphan() {
	begin "A task that left a child behind has its count when that has ended, too"
	start sh -c "sh -c 'while [ ! -e $dir/orphaned ]; do sleep 0.1; done' > /dev/null 2>&1 &
		true"
	exits
	grep -q "tasks with running children" "$dir/err" || fail "it says $(cat "$dir/err")"
	awk '$4 == "-"' "$dir/rows" | grep -q " sh " || fail "$(cat "$dir/exits")"
	touch "$dir/orphaned"
	wait_for all_exited || fail "it does not end: $(perf persistent list "$name")"
	sums_are_exact
	nothing_is_missing
	stop
	finish
}

# shellcheck disable=SC2317
all_exited() {
	perf persistent list "$name" | grep -q exited
}

test_add() {
	begin "A process that is added has lines for its children as well"
	start sh -c "$prog; true"
	sh -c "while [ ! -e $dir/added ]; do sleep 0.1; done; $prog; $prog; true" 2> /dev/null &
	pid=$!
	must perf persistent add --pid $pid "$name"
	touch "$dir/added"
	wait $pid
	pid=
	has_rows 3 prog
	sums_are_exact
	nothing_is_missing
	finish
}

test_cleared() {
	begin "When it is cleared, there are the tasks that end later"
	must perf persistent clear "$name"
	has_rows 0 prog
	grep -q "no counts for the initial tasks of $name: counts of some" "$dir/err" ||
		fail "it says $(cat "$dir/err")"
	sh -c "while [ ! -e $dir/added.again ]; do sleep 0.1; done; $prog; true" 2> /dev/null &
	pid=$!
	must perf persistent add --pid $pid "$name"
	touch "$dir/added.again"
	wait $pid
	pid=
	has_rows 1 prog
	stop
	finish
}

test_samples() {
	begin "A session that samples has them as well"
	must perf record --persistent="$name" -s -c 1 -e page-faults -m 64 \
		sh -c "$prog; $prog; true"
	has_rows 2 prog
	nothing_is_missing
	must perf persistent dump "$name" -o "$dir/data"
	perf script -D -i "$dir/data" 2> /dev/null | grep -q PERF_RECORD_READ ||
		fail "a snapshot has them not"
	stop
	finish
}

test_full() {
	begin "Tasks that did not fit into the buffers are reported, never silently left out"
	start -m 1 sh -c "i=0; while [ \$i -lt 60 ]; do $prog; i=\$((i + 1)); done"
	exits
	grep -q "dropped, buffer full: [0-9]* records, so counts are missing" "$dir/err" ||
		fail "it says $(cat "$dir/err")"
	grep -q "no counts for the initial tasks of $name: counts of some" "$dir/err" ||
		fail "it says $(cat "$dir/err")"
	stop
	must perf record --persistent="$name" -s -n -m 1 -e page-faults \
		sh -c "i=0; while [ \$i -lt 120 ]; do $prog; i=\$((i + 1)); done"
	exits
	grep -q "overwritten: [0-9]* bytes" "$dir/err" || fail "it says $(cat "$dir/err")"
	stop
	finish
}

test_escapes() {
	begin "The name of a task cannot control the terminal"
	odd=$(printf '\033]0;x\007')
	cp "$prog" "$dir/$odd"
	must perf record --persistent="$name-odd",discard -s -n -e page-faults \
		sh -c "'$dir/$odd'; true"
	must_succeed '?]0;x?' perf persistent read --exits "$name-odd"
	grep -q "$(printf '\033')" "$dir/out" && fail "escapes: $(cat -v "$dir/out")"
	must perf persistent stop "$name-odd"
	finish
}

test_refused() {
	begin "A session without such counts is refused, with the way to start one"
	must perf stat --persistent="$name" -e page-faults true
	must_fail "^$name, id [0-9]*, does not have per-task counts: .*-s" \
		perf persistent read --exits "$name"
	stop
	must_fail "^-s needs -p, -t or a command, and cannot be used with -i" \
		perf record --persistent="$name" -s -a -e page-faults
	must_fail "^-s needs -p, -t or a command, and cannot be used with -i" \
		perf record --persistent="$name" -s -i -e page-faults true
	must_fail ":S" perf record --persistent="$name" -s -e '{page-faults,dummy}:S' true
	must_fail "no session named" perf persistent read --exits no-such
	must_fail "^--exits needs" perf persistent read --exits
	must_fail "^--exits needs" perf persistent read --exits -A "$name"
	must_fail "^--exits needs" perf persistent read --exits -x, "$name"
	must_fail "^--exits needs" perf persistent read --exits --openmetrics "$name"
	must_fail "^--exits needs" perf persistent read --exits -v "$name"
	exists "$name" && fail "something was started"
	finish
}

# Before Linux 7.3 there are no records of children that exit.
# shellcheck disable=SC2317
tells_exits() {
	perf record --persistent="$name-try" -s -n -e page-faults sh -c "$prog; true" || return
	perf persistent read --exits "$name-try"
	status=$?
	perf persistent stop "$name-try"
	return "$status"
}

need_feature
need "this kernel does not tell the counts of children that end" tells_exits

test_pipeline
test_json
test_process
test_orphan
test_add
test_cleared
test_samples
test_full
test_escapes
test_refused

cleanup
exit $err
