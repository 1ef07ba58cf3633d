#!/bin/sh
# perf persistent reserve (exclusive)
# SPDX-License-Identifier: GPL-2.0

# Sessions give up their counters while others need them.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

paranoid=/proc/sys/kernel/perf_event_paranoid
was_paranoid=$(cat $paranoid)
pids=
# A file that a user can read
released=/tmp/__perf_test.released.$$

take_back() {
	rm -f "$released"
	# shellcheck disable=SC2086
	[ -n "$pids" ] && kill -KILL $pids 2> /dev/null
	[ "$(id -u)" -eq 0 ] && echo "$was_paranoid" > $paranoid
}

reserve() {
	perf persistent reserve "$@"
}

# state_is STATE [SESSION]: true if all its instances but side-band have it
state_is() {
	[ "$(perf persistent list -x ';' "${2:-$name}" | cut -d ';' -f 4)" = "$1" ]
}

must_be() {
	wait_for state_is "$1" "${2:-$name}" ||
		fail "it is not $1: $(perf persistent list "${2:-$name}")"
}

# A command that writes its pid, and runs until it is killed
cat > "$dir/command" << EOF
echo \$\$ > "$dir/pid.new"
mv "$dir/pid.new" "$dir/pid"
exec sleep 1000
EOF

# begin_to_hold OPTION...: hold until killed; sets $holder and $command to the pids
begin_to_hold() {
	rm -f "$dir/pid"
	perf persistent reserve "$@" -- sh "$dir/command" > "$dir/held" 2>&1 &
	holder=$!
	wait_for [ -s "$dir/pid" ] || fail "the command is not started: $(cat "$dir/held")"
	command=$(cat "$dir/pid")
	pids="$pids $holder $command"
}

end_command() {
	kill -KILL "$1" 2> /dev/null
}

test_command() {
	begin "The session is held when the command starts, and as long as it runs"
	must_succeed "^$name;.*;held;" reserve "$name" -- perf persistent list -x ';' "$name"
	must_be enabled
	must_succeed "^$name;.*;held;" reserve "$name" perf persistent list -x ';' "$name"
	must_be enabled
	# All words after it belong to the command.
	must_succeed "^-- x$" reserve "$name" printf "%s x\n" --
	must_be enabled
	id=$(sed 's/id=//' "$pmu/events/$name")
	must_succeed "^$name;.*;held;" reserve "$((id))" -- perf persistent list -x ';' "$name"
	must_be enabled
	finish
}

test_status() {
	begin "The exit status is that of the command"
	for status in 0 7 255
	do
		reserve "$name" -- sh -c "exit $status" > "$dir/out" 2>&1
		got=$?
		[ $got -eq $status ] || fail "$got instead of $status: $(cat "$dir/out")"
	done
	reserve "$name" -- sh -c "kill -KILL \$\$"
	got=$?
	[ $got -eq 137 ] || fail "$got after SIGKILL"
	must_fail "^failed to run '$dir/no-such': No such file" \
		perf persistent reserve "$name" -- "$dir/no-such"
	must_be enabled
	must_fail "^'no-such-one' is neither a session nor a command: No such file" \
		perf persistent reserve no-such-one true
	must_fail "^'no-such-one' is neither a session nor a command: No such file" \
		perf persistent reserve "$name" no-such-one -- touch "$dir/started"
	[ -e "$dir/started" ] && fail "the command was started"
	finish
}

# The current counts and times of the session
values() {
	perf persistent read -j "$name" | sed 's/"age": [0-9]*//'
}

test_times() {
	begin "A session that is held counts nothing, and its times stand still"
	cat > "$dir/look" << EOF
perf persistent read -j "$name" | sed 's/"age": [0-9]*//' > "$dir/before"
"$prog"
sleep 0.3
perf persistent read -j "$name" | sed 's/"age": [0-9]*//' > "$dir/after"
EOF
	must reserve "$name" -- sh "$dir/look"
	grep -q counter-value "$dir/before" || fail "no counts: $(cat "$dir/before")"
	cmp -s "$dir/before" "$dir/after" ||
		fail "'$(cat "$dir/after")' after '$(cat "$dir/before")'"
	sleep 0.1
	values > "$dir/later"
	cmp -s "$dir/later" "$dir/after" && fail "it does not go on: $(cat "$dir/later")"
	# Enabled time equals running time: the gap is in neither
	grep -q '"pcnt-running": 100.000000' "$dir/later" || fail "$(cat "$dir/later")"
	finish
}

test_killed() {
	begin "Counters are given back when perf is killed, or the command, or both"
	begin_to_hold "$name"
	must_be held
	kill -KILL $holder
	wait $holder
	must_be enabled
	[ -e "/proc/$command" ] || fail "the command has ended as well"
	end_command "$command"

	begin_to_hold "$name"
	must_be held
	end_command "$command"
	wait $holder
	got=$?
	[ $got -eq 137 ] || fail "$got after SIGKILL of the command"
	state_is enabled || fail "it is not given back"

	begin_to_hold "$name"
	must_be held
	kill -KILL "$holder" "$command"
	must_be enabled

	begin_to_hold "$name"
	kill -TERM $holder
	wait $holder
	got=$?
	[ $got -eq 143 ] || fail "$got after SIGTERM"
	[ -e "/proc/$command" ] && fail "SIGTERM is not passed on"
	state_is enabled || fail "it is not given back"
	finish
}

test_without_command() {
	begin "Without a command it is held until perf gets a signal"
	for signal in TERM HUP
	do
		perf persistent reserve "$name" > "$dir/out" 2>&1 &
		pid=$!
		must_be held
		# perf is ready for signals a moment later.
		wait_for grep -q sigtimedwait "/proc/$pid/wchan" || fail "it does not wait"
		kill -$signal $pid
		wait $pid || fail "status $? after SIG$signal: $(cat "$dir/out")"
		state_is enabled || fail "it is not given back"
	done
	finish
}

test_background() {
	begin "-d returns when it is held and the command has been started"
	rm -f "$dir/pid"
	must_succeed "^[0-9]*$" perf persistent reserve -d "$name" -- sh "$dir/command"
	pid=$(cat "$dir/out")
	pids="$pids $pid"
	state_is held || fail "it is not held"
	wait_for [ -s "$dir/pid" ] || fail "the command is not started"
	pids="$pids $(cat "$dir/pid")"
	end_command "$(cat "$dir/pid")"
	must_be enabled
	wait_for [ ! -e "/proc/$pid" ] || fail "$pid does not end"
	must_fail "failed to run" perf persistent reserve -d "$name" -- "$dir/no-such"
	must_be enabled
	# Output from before is not printed again.
	must_succeed "^$name: id [0-9]* held:" perf persistent reserve -d -v "$name" -- true
	[ "$(grep -c held "$dir/out")" -eq 1 ] || fail "$(cat "$dir/out")"
	must_be enabled
	finish
}

test_unprinted() {
	begin "A background holder whose pid cannot be printed ends"
	must_fail "^cannot print the pid of the holder, which ends: No space left on device$" \
		sh -c "perf persistent reserve -d $name -- sh $dir/command > /dev/full"
	state_is enabled || fail "it is still held"
	must_fail "^cannot print the pid of the holder, which ends: Bad file descriptor$" \
		sh -c "perf persistent reserve -d $name >&-"
	state_is enabled || fail "it is still held without standard output"
	{
		sleep 0.3
		perf persistent reserve -d "$name" 2> "$dir/out"
		echo $? > "$dir/status"
	} | true
	[ "$(cat "$dir/status")" = 1 ] || fail "status $(cat "$dir/status"), not 1"
	and_says "^cannot print the pid of the holder, which ends: Broken pipe$"
	state_is enabled || fail "it is still held without a reader"
	# The holder replaces its standard error, which must not be the session.
	pid=$(perf persistent reserve -d "$name" 2>&-)
	pids="$pids $pid"
	state_is held || fail "it is not held without standard error"
	kill "$pid"
	must_be enabled
	finish
}

test_several() {
	begin "Counters are released by the last holder"
	begin_to_hold "$name"
	first=$command
	begin_to_hold "$name"
	end_command "$first"
	sleep 0.2
	state_is held || fail "the first one gave it back"
	end_command "$command"
	must_be enabled

	must perf stat --persistent="$name-2" -a -e context-switches
	begin_to_hold "$name" "$name-2"
	must_be held
	must_be held "$name-2"
	end_command "$command"
	must_be enabled
	must_be enabled "$name-2"
	stop "$name-2"
	finish
}

test_members() {
	begin "Side-band goes on, and with --pmu all events of other PMUs"
	must perf record --persistent="$name-2" -a -m 16 -e cpu-clock/freq=9/ \
		-e perf_persistent:persistent_mark
	cat > "$dir/look" << EOF
perf persistent list -v "$name-2" > "$dir/list"
EOF
	must_succeed "^$name-2: id [0-9]* held: cpu-clock perf_persistent:persistent_mark$" \
		perf persistent reserve -v "$name-2" -- sh "$dir/look"
	grep -A 1 "member .*dummy" "$dir/list" | grep -q ", enabled" || fail "$(cat "$dir/list")"
	grep -A 1 "member .*cpu-clock" "$dir/list" | grep -q ", held" || fail "$(cat "$dir/list")"
	must_succeed "^$name-2: id [0-9]* held: cpu-clock$" \
		perf persistent reserve -v --pmu software "$name-2" -- sh "$dir/look"
	and_says "held"
	grep -A 1 "member .*cpu-clock" "$dir/list" | grep -q ", held" || fail "$(cat "$dir/list")"
	grep -A 1 "member .*mark" "$dir/list" | grep -q ", enabled" || fail "$(cat "$dir/list")"
	stop "$name-2"
	finish
}

test_records() {
	begin "The gap is a record in the sessions that have the events for it"
	if ! perf check feature -q libtraceevent
	then
		skip "this perf has no tracepoints"
		return
	fi
	must perf record --persistent="$name-2" -a -m 16 -e perf_persistent:persistent_hold \
		-e perf_persistent:persistent_release
	id=$(($(sed 's/id=//' "$pmu/events/$name")))
	must perf persistent reserve "$name" -- true
	must perf persistent dump "$name-2" -o "$dir/data"
	must_succeed "persistent_hold: .*id=$id " perf script -i "$dir/data"
	and_says "persistent_release: .*id=$id "
	stop "$name-2"
	finish
}

test_pmu() {
	begin "Without names, all sessions with events of the PMU are held"
	must perf stat --persistent="$name-2" -a -e context-switches
	must_succeed "^$name: id [0-9]* held: " perf persistent reserve -v --pmu software true
	and_says "^$name-2: id [0-9]* held: context-switches$"
	# Neither session has hardware events, so nothing is held, and the command runs.
	must_succeed "^no session has events of the CPU's PMU, so nothing is held$" \
		perf persistent reserve -v -- true
	must_succeed "^no session has events of breakpoint, so nothing is held$" \
		perf persistent reserve --pmu breakpoint -v -- true
	must_fail "^no PMU 'no-such'" perf persistent reserve --pmu no-such -- touch "$dir/started"
	[ -e "$dir/started" ] && fail "the command was started"
	stop "$name-2"
	finish
}

# Print how many of these events did not have a counter all of the time
count_shared() {
	perf stat -a -x, -e "$events" -o "$dir/stat" sleep 1
	grep cycles "$dir/stat" | grep -vc ',100.00,'
}

test_counters() {
	begin "The command has as many counters as there are, beside two sessions that use all"
	free_counters || return
	events=$(repeat "$free" cycles)
	must perf stat --persistent="$name-2" -a -e "$events"
	must perf stat --persistent="$name-3" -a -e "$events"
	[ "$(count_shared)" -gt 0 ] || fail "they leave something: $(cat "$dir/stat")"
	must reserve -- perf stat -a -x, -e "$events" -o "$dir/stat" sleep 1
	[ "$(grep -c ',100.00,' "$dir/stat")" -eq "$(echo "$events" | tr ',' '\n' | wc -l)" ] ||
		fail "not all had a counter all the time: $(cat "$dir/stat")"
	must_be enabled "$name-2"
	must_be enabled "$name-3"
	[ "$(count_shared)" -gt 0 ] || fail "they do not go on: $(cat "$dir/stat")"
	stop "$name-2" "$name-3"
	finish
}

# Without names, sessions of other users are held as well.
alone() {
	[ "$(ls "$pmu/ids")" = "$(perf persistent list -x, "$name" | cut -d, -f2)" ]
}

test_users() {
	begin "Only users with right x can reserve; the error explains how to get it"
	if ! { [ "$(id -u)" -eq 0 ] && as_nobody true 2> /dev/null; }
	then
		skip "needs root and su"
		return
	fi
	echo 2 > $paranoid
	way="needs CAP_PERFMON, .* x, which 'perf persistent set $name --mode 0001' gives$"
	must_fail "^cannot hold session '$name': owned by root; $way" \
		as_nobody perf persistent reserve "$name" -- echo "it was started"
	grep -q "it was started" "$dir/out" && fail "the command was started"
	if alone
	then
		must_fail "$way" \
			as_nobody perf persistent reserve --pmu software -- echo "it was started"
		grep -q "it was started" "$dir/out" && fail "the command was started"
	fi
	state_is enabled || fail "it is held all the same"

	must perf persistent set "$name" --mode 0001
	as_nobody perf persistent reserve "$name" -- \
		sh -c "'until [ -e $released ]; do sleep 0.1; done'" &
	pid=$!
	must_be held
	touch "$released"
	wait $pid || fail "status $?"
	state_is enabled || fail "it is not given back"
	alone && must_succeed "started" \
		as_nobody perf persistent reserve --pmu software -- echo "it was started"
	must_fail "the right r, which" as_nobody perf persistent read "$name"
	must_fail "or the right w, which 'perf persistent set $name --mode 0003' gives$" \
		as_nobody perf persistent disable "$name"

	# If one session cannot be held, none is.
	must perf stat --persistent="$name-2" -a -e context-switches
	must_fail "^cannot hold session '$name-2': owned by root" \
		as_nobody perf persistent reserve "$name" "$name-2" -- true
	grep -q "'$name'" "$dir/out" && fail "$(cat "$dir/out")"
	must_be enabled
	stop "$name-2"
	must perf persistent set "$name" --mode 0
	echo "$was_paranoid" > $paranoid
	finish
}

need_feature

must perf stat --persistent="$name" -a -e context-switches -e cpu-clock
test_command
test_status
test_times
test_killed
test_without_command
test_background
test_unprinted
test_several
test_members
test_records
test_pmu
test_counters
test_users

cleanup
exit $err
