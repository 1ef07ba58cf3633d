#!/bin/sh
# perf persistent control (exclusive)
# SPDX-License-Identifier: GPL-2.0

# Control of running sessions, and the permissions for it.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

paranoid=/proc/sys/kernel/perf_event_paranoid
was_paranoid=$(cat $paranoid)
nobody=$(id -u nobody)
mine="u$nobody-$name"
# A file that a user writes
agent=/tmp/__perf_test.agent.$$
# The end of the error for users who may not read, and who may not control
way="needs CAP_PERFMON, or the right r, which 'perf persistent set $name --mode 0004' gives$"
may="$(echo "$way" | sed "s/ r,/ w,/; s/0004/0002/")"

take_back() {
	[ "$(id -u)" -eq 0 ] && echo "$was_paranoid" > $paranoid
	rm -f "$agent" "$agent.old"
}

can_be_nobody() {
	[ "$(id -u)" -eq 0 ] && as_nobody true 2> /dev/null && return
	skip "needs root and su"
	return 1
}

start() {
	must perf record --persistent="$1" -a -e cpu-clock/freq=9/ -e context-switches -m 16
}

# count EVENT: the sum of its counts
count() {
	perf persistent read -x, "$name" | grep ",$1," | cut -d, -f1
}

# list_one: the whole entry of the session
list_one() {
	perf persistent list -v | sed -n "/^$name /,/^[a-z]/p" | sed '1!{/^[a-z]/d}'
}

test_disable() {
	begin "A disabled session counts nothing until it is enabled, and says so"
	must_succeed "^$name: id [0-9]* disabled$" perf persistent disable "$name"
	must_succeed "^$name: id [0-9]* disabled$" perf persistent disable "$name"
	list_one > "$dir/list"
	grep -q "instance .* enabled" "$dir/list" && fail "not all is disabled: $(cat "$dir/list")"
	grep -q "instance .* disabled" "$dir/list" || fail "the list does not say so"
	first=$(count context-switches)
	sleep 0.2
	second=$(count context-switches)
	[ "$second" -eq "$first" ] || fail "'$second' after '$first'"
	must_succeed "^$name: id [0-9]* enabled$" perf persistent enable "$name"
	must_succeed "^$name: id [0-9]* enabled$" perf persistent enable "$name"
	list_one > "$dir/list"
	grep -q "disabled" "$dir/list" && fail "not all is enabled: $(cat "$dir/list")"
	sleep 0.2
	[ "$(count context-switches)" -gt "$second" ] || fail "it does not go on"
	finish
}

test_offline() {
	begin "Events of an offline CPU are read, disabled and enabled with the rest"
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
	must_succeed " disabled$" perf persistent disable "$name"
	echo 1 > "$cpu"
	must_succeed "CPU $nr, disabled.*CPU was offline once" perf persistent list -v
	must_succeed " enabled$" perf persistent enable "$name"
	list_one > "$dir/list"
	grep -q "CPU $nr, enabled" "$dir/list" || fail "it does not go on: $(cat "$dir/list")"
	finish
}

# The value in this column of the session's CSV line
column() {
	perf persistent list -x ';' | grep "^$name;" | cut -d ';' -f "$1"
}

test_all() {
	begin "--all and --mine act on all sessions, with a line for each"
	# Do not stop other sessions, which the user may want to keep.
	if [ "$(ls "$pmu/events")" != "$name" ]
	then
		skip "there are other sessions"
		return
	fi
	start "$name-2"
	for which in --all --mine
	do
		must_succeed "^$name: id [0-9]* disabled$" perf persistent disable $which
		and_says "^$name-2: id [0-9]* disabled$"
		must_succeed "^$name: id [0-9]* enabled$" perf persistent enable $which
		and_says "^$name-2: id [0-9]* enabled$"
	done
	stop "$name-2"
	finish
}

test_set() {
	begin "Name, time to live, mode, owner and group of a session can be changed"
	must_succeed "^$name: id [0-9]* changed$" perf persistent set "$name" --ttl 2h
	left=$(column 7)
	if [ "$left" -le 3600000000000 ] || [ "$left" -gt 7200000000000 ]
	then
		fail "$left ns to live"
	fi
	must_succeed "changed" perf persistent set --ttl none "$name"
	[ "$(column 7)" = 0 ] || fail "it ends in $(column 7) ns"
	must_succeed "changed" perf persistent set "$name" --mode 0640 --owner nobody \
		--group "$(id -g nobody)"
	[ "$(column 3)" = nobody ] || fail "it belongs to $(column 3)"
	list_one > "$dir/list"
	grep -q "mode rw-r-----, group $(id -gn nobody)" "$dir/list" || fail "$(cat "$dir/list")"
	id=$(column 2)
	must_succeed "^$name-new: id $id changed$" perf persistent set "$name" \
		--name "$name-new" --mode 0 --owner 0 --group 0
	must_fail "no session named '$name'" perf persistent set "$name" --ttl none
	must_succeed "^$name: id $id changed$" perf persistent set "$id" --name "$name"
	[ "$(column 3)" = root ] || fail "it belongs to $(column 3)"
	finish
}

test_set_errors() {
	begin "Invalid settings are named, and nothing is set"
	for bad in 0 -1 1x 1hh "" 99999999999999999999
	do
		must_fail "^--ttl $bad: invalid ttl: use e.g. 90s, 15m, 2h$" \
			perf persistent set "$name" --mode 0777 --ttl "$bad"
	done
	for bad in 1000 8 0x1ff rw -1
	do
		must_fail "^--mode $bad: invalid mode" \
			perf persistent set "$name" --ttl 1h --mode "$bad"
	done
	must_fail "^--owner no-such: unknown user" \
		perf persistent set "$name" --ttl 1h --owner no-such
	must_fail "^--owner 4294967295: unknown user" perf persistent set "$name" --owner 4294967295
	must_fail "^--group no-such: unknown group" \
		perf persistent set "$name" --ttl 1h --group no-such
	for bad in No-Such period p12
	do
		must_fail "^--name $bad: " perf persistent set "$name" --ttl 1h --name $bad
	done
	must_fail "^--name ttl: 'ttl' is an option of --persistent=, choose another name$" \
		perf persistent set "$name" --name ttl
	start "$name-2"
	must_fail "cannot change session '$name': the name '$name-2' is taken" \
		perf persistent set "$name" --mode 0777 --ttl 1h --name "$name-2"
	stop "$name-2"
	[ "$(column 7)" = 0 ] || fail "it ends in $(column 7) ns"
	list_one | grep -q "mode ---------, group root" || fail "$(list_one)"
	must_fail "Usage: perf persistent set" perf persistent set --ttl 1h
	must_fail "nothing to set" perf persistent set "$name"
	must_fail "no session named 'no-such'" perf persistent set no-such --ttl 1h
	finish
}

# As the manual describes it for an agent without capabilities
test_delegate() {
	begin "The group of a session can read and dump it, and no more"
	can_be_nobody || return
	echo 2 > $paranoid
	must_fail "^cannot read session '$name': owned by root; $way" \
		as_nobody perf persistent read "$name"
	must_fail "$way" as_nobody perf persistent dump "$name" -o "$agent"
	must perf persistent set "$name" --mode 0640 --group "$(id -g nobody)"
	must_succeed "context-switches" as_nobody perf persistent read "$name"
	must_succeed "^$name .*root" as_nobody perf persistent list -v
	and_says "member 0: cpu-clock/freq=9/"
	must_succeed "of $name, id" as_nobody perf persistent dump "$name" -o "$agent"
	perf script -f -i "$agent" > "$dir/script" 2> "$dir/err" || fail "$(cat "$dir/err")"
	grep -q cpu-clock "$dir/script" || fail "there are no samples"
	for command in enable disable stop
	do
		must_fail "cannot $command session '$name': owned by root; needs CAP_PERFMON" \
			as_nobody perf persistent $command "$name"
	done
	must_fail "needs CAP_PERFMON" as_nobody perf persistent set "$name" --mode 0666
	must perf persistent set "$name" --mode 0 --group 0
	must_fail "$way" as_nobody perf persistent read "$name"
	echo "$was_paranoid" > $paranoid
	finish
}

# The mode bit x permits to open the session, but none of its instances.
test_borrower() {
	begin "A user who may only borrow the counters is told that reading needs the right r"
	can_be_nobody || return
	must perf persistent set "$name" --mode 0001
	needs="^cannot read session '$name': owned by root; $(echo "$way" | sed s/0004/0005/)"
	for command in "record -o $agent" stat
	do
		# shellcheck disable=SC2086
		must_fail "$needs" as_nobody perf $command -e "persistent/$name/" -- true
		[ "$(wc -l < "$dir/out")" -eq 1 ] || fail "there is more: $(cat "$dir/out")"
	done
	must_fail "$needs" as_nobody perf persistent read "$name"
	must perf persistent set "$name" --mode 0
	finish
}

test_controller() {
	begin "A user who may control a session, but not read it, can do that and no more"
	can_be_nobody || return
	echo 2 > $paranoid
	start "$name-2"
	must perf persistent set "$name-2" --mode 0002
	for command in disable enable clear "set --ttl 1h" "disable --event 0" \
		       "enable --event context-switches"
	do
		# shellcheck disable=SC2086
		must_succeed "^$name-2: id [0-9]* " as_nobody perf persistent $command "$name-2"
	done
	for command in "set --freq 7" read
	do
		# shellcheck disable=SC2086
		must_fail "the right r, which 'perf persistent set $name-2 --mode 0006' gives$" \
			as_nobody perf persistent $command "$name-2"
	done
	must_succeed "^$name-2: id [0-9]* stopped$" as_nobody perf persistent stop "$name-2"
	echo "$was_paranoid" > $paranoid
	finish
}

test_events_change() {
	begin "A user who may not read a session controls it while its events come and go"
	can_be_nobody || return
	start "$name-2"
	must perf persistent set "$name-2" --mode 0002
	types=$pmu/ids/$(perf persistent list -x ';' "$name-2" | cut -d ';' -f 2)/types
	cat "$types" > "$dir/types"
	mkfifo "$dir/fifo"
	if ! mount --bind "$dir/fifo" "$types" 2> /dev/null
	then
		skip "cannot mount over $types"
		stop "$name-2"
		return
	fi
	echo 2 > $paranoid
	# An event is missing the first time that perf reads the list.
	(head -n 1 "$dir/types"; sleep 0.5) > "$dir/fifo" &&
		cat "$dir/types" > "$dir/fifo" &
	must_succeed "^$name-2: id [0-9]* disabled$" as_nobody perf persistent disable "$name-2"
	umount "$types"
	kill $! 2> /dev/null
	echo "$was_paranoid" > $paranoid
	stop "$name-2"
	finish
}

test_mark() {
	begin "A mark is a record in the buffers of sessions that record marks"
	if ! perf check feature -q libtraceevent
	then
		skip "this perf has no tracepoints"
		return
	fi
	must perf record --persistent="$name-marks" -a -m 16 -e perf_persistent:persistent_mark
	must_succeed "^$name-marks: id [0-9]* marked$" \
		perf persistent mark "$name-marks" "release 1.2 is out"
	must_succeed "^$name: id [0-9]* marked$" perf persistent mark "$name" "and so is 1.3"
	must perf persistent dump "$name-marks" -o "$dir/data"
	must_succeed "persistent_mark: .*release 1.2 is out" perf script -i "$dir/data"
	and_says "persistent_mark: .*and so is 1.3"
	invalid="^cannot mark session '$name': use 1 to 255 bytes of text without tabs, newlines"
	must_fail "$invalid" perf persistent mark "$name" ""
	long=$(printf "%0256d" 0)
	must_fail "$invalid" perf persistent mark "$name" "$long"
	must perf persistent mark "$name" "${long#0}"
	must_fail "$invalid" perf persistent mark "$name" "$(printf 'two\nlines')"
	must_fail "Usage: perf persistent mark" perf persistent mark "$name"
	must_fail "Error: name one session, and quote a text with spaces" \
		perf persistent mark "$name" two texts
	stop "$name-marks"
	finish
}

# The CSV of 'perf persistent read -x', as described in the manual
csv_is_valid() {
	awk -F ';' '
	NF != 10 { exit 1 }
	$1 !~ /^([0-9]+(\.[0-9]+)?|<not counted>)$/ || $2 !~ /^[a-zA-Z]*$/ || $3 == "" { exit 1 }
	$4 !~ /^[0-9]+$/ || $5 !~ /^[0-9]+\.[0-9][0-9]$/ || $6 == "" || $7 !~ /^[0-9]+$/ { exit 1 }
	$8 !~ /^[0-9]*$/ || $9 !~ /^[0-9]*$/ || $10 !~ /^(\/.*)?$/ { exit 1 }' "$1"
}

# HELP and TYPE come before the samples of a metric, which are adjacent and unique; EOF is last
openmetrics_is_valid() {
	awk '
	function bad(why) { print why ": " $0; failed = 1; exit 1 }
	eof { bad("something after EOF") }
	$0 == "# EOF" { eof = 1; next }
	/^# (HELP|TYPE|UNIT) [a-z_]+ ./ {
		if ($3 != metric && ($2 != "HELP" || $3 in seen)) bad("not together")
		metric = $3
		seen[metric] = 1
		if ($2 == "TYPE" && $4 != "counter") bad("no counter")
		if ($2 == "UNIT" && metric !~ ("_" $4 "$")) bad("unit")
		next
	}
	{
		labels = $0
		if (index($0, metric "_total{") != 1) bad("not a sample of " metric)
		sub(/^[a-z_]*/, "", labels)
		if ($0 in samples) bad("twice")
		value = labels
		if (!sub(/^\{[a-z_]+="([^"\\]|\\[\\"n])*"(,[a-z_]+="([^"\\]|\\[\\"n])*")*\} /, "",
			 value))
			bad("labels")
		if (value !~ /^[0-9]+(\.[0-9]+)?$/) bad("value")
		sub(/ [^ ]*$/, "", labels)
		if ((metric labels) in samples) bad("twice")
		samples[metric labels] = 1
	}
	END { if (!failed && !eof) { print "no EOF"; exit 1 } }' "$1" > "$dir/why"
}

test_read_all() {
	begin "Without names, all sessions are read that the caller may read"
	start "$name-2"
	must_succeed "^$name, id " perf persistent read
	and_says "^$name-2, id "
	must_succeed "\"name\": \"$name-2\"" perf persistent read -j
	if can_be_nobody
	then
		echo -1 > $paranoid
		# Other sessions may be readable by everybody.
		case $(ls "$pmu/events") in
		"$name
$name-2")
			must_fail "^cannot read session '$name': owned by root" \
				as_nobody perf persistent read ;;
		esac
		must_succeed "^u$nobody-$name-3: id" \
			as_nobody perf stat --persistent="$name-3" -e context-switches:u true
		must_succeed "^u$nobody-$name-3, id " as_nobody perf persistent read
		and_says "^cannot read session '$name': owned by root; $way"
		must_succeed "stopped" as_nobody perf persistent stop --mine
		echo "$was_paranoid" > $paranoid
	fi
	stop "$name-2"
	finish
}

test_own_name() {
	begin "Users find their own sessions by the names that they gave them"
	can_be_nobody || return
	echo -1 > $paranoid
	must_succeed "^u$nobody-$name-own: id" \
		as_nobody perf record --persistent="$name-own" -a -e context-switches:u -m 1
	must_succeed "^u$nobody-$name-own, id " as_nobody perf persistent read "$name-own"
	must_succeed "of u$nobody-$name-own" \
		as_nobody perf persistent dump "$name-own" -o "$agent"
	must_fail "no session named '$name-own'" perf persistent read "$name-own"
	must_succeed "^u$nobody-$name-new: id [0-9]* changed$" \
		as_nobody perf persistent set "$name-own" --name "$name-new" --ttl 5m --mode 0644
	must_fail "invalid ttl\|at most [0-9]*s" \
		as_nobody perf persistent set "$name-new" --ttl 1000d
	must_fail "--ttl none: needs CAP_PERFMON" \
		as_nobody perf persistent set "$name-new" --ttl none
	must_fail "a new owner needs CAP_PERFMON" \
		as_nobody perf persistent set "$name-new" --owner root
	must_fail "needs CAP_PERFMON; without it the owner can choose" \
		as_nobody perf persistent set "$name-new" --group 0
	# It comes before a session of root with the same name, but not for root.
	must perf persistent set "$name" --name "$name-new"
	must_succeed "^u$nobody-$name-new, id " as_nobody perf persistent read "$name-new"
	must_succeed "^$name-new, id " perf persistent read "$name-new"
	must perf persistent set "$name-new" --name "$name"
	must_succeed "^u$nobody-$name-new: id [0-9]* stopped$" \
		as_nobody perf persistent stop "$name-new"
	echo "$was_paranoid" > $paranoid
	finish
}

test_formats() {
	begin "CSV, JSON and OpenMetrics have the fields that the manual says"
	must perf stat --persistent="$name-2" -e cpu-clock -e context-switches \
		-e cpu-clock -D -1
	for options in "" -A
	do
		# shellcheck disable=SC2086
		must perf persistent read $options -x ';' "$name" "$name-2"
		csv_is_valid "$dir/out" || fail "no CSV: $(cat "$dir/out")"
		# shellcheck disable=SC2086
		perf persistent read $options --openmetrics "$name" "$name-2" > "$dir/out" 2>&1 ||
			fail "$(cat "$dir/out")"
		openmetrics_is_valid "$dir/out" || fail "$(cat "$dir/why"): $(cat "$dir/out")"
	done
	labels="{session=\"$name\",event="
	number=",member=\"1\",instance_nr=\"[0-9]*\",cpu=\"0\"} [0-9]*$"
	and_says "^perf_persistent_events_total$labels\"context-switches\"$number"
	number=",.*} [0-9]*\.[0-9]*$"
	and_says "^perf_persistent_clock_seconds_total$labels\"cpu-clock/freq=9/\"$number"
	and_says "^perf_persistent_enabled_seconds_total{session=\"$name-2\",.*} 0.000000000$"
	grep -q "^perf_persistent_clock.*$name-2" "$dir/out" && fail "it has what was not counted"
	must_succeed "^<not counted>;msec;cpu-clock;0;0.00;$name-2;[0-9]*;;;$" \
		perf persistent read -x ';' "$name-2"
	must_succeed "^[0-9]*;;context-switches;[0-9]*;100.00;$name;[0-9]*;0;;$" \
		perf persistent read -A -x ';' "$name"
	event='"unit": "", "event": "context-switches", "event-enabled":'
	counted='[0-9]*, "event-runtime": [0-9]*, "pcnt-running": 100.000000, "lost": 0}'
	must_succeed "{\"counter-value\": [0-9]*, $event $counted" perf persistent read -j "$name"
	counted='{"cpu": 0, "instance": [0-9]*, "state": "enabled", "counter-value": [0-9]*,'
	must_succeed "$counted $event" perf persistent read -A -j "$name"
	counted='0, "event-runtime": 0, "pcnt-running": 0.000000, "lost": 0}'
	must_succeed "{$event $counted" perf persistent read -j "$name-2"
	must_fail "cannot use --openmetrics with" perf persistent read --openmetrics -j "$name"
	stop "$name-2"
	printf '# HELP a b\n# TYPE a counter\na_total{b="c"} 1\na_total{b="c"} 2\n# EOF\n' \
		> "$dir/text"
	openmetrics_is_valid "$dir/text" && fail "a sample that is there twice is not found"
	printf '# HELP a b\n# TYPE a counter\na_total{b="c\\d"} 1\n# EOF\n' > "$dir/text"
	openmetrics_is_valid "$dir/text" && fail "a bad label is not found"
	printf '# HELP a b\n# TYPE a counter\na_total{b="c"} 1\n' > "$dir/text"
	openmetrics_is_valid "$dir/text" && fail "a missing end is not found"
	finish
}

test_reader_consumes() {
	begin "Who may read a session, but not control it, learns what consuming it needs"
	can_be_nobody || return
	must perf record --persistent="$name-2",discard,mode=0644 -a -e cpu-clock -F 9 -m 4
	must_fail "cannot be consumed: owned by root; needs CAP_PERFMON, or the right w" \
		as_nobody perf persistent flush -o "$agent" "$name-2"
	stop "$name-2"
	finish
}

test_openmetrics_of_tasks() {
	begin "OpenMetrics has no time enabled for a task on one of several CPUs"
	must perf record --persistent="$name-2" -e cpu-clock -p $$
	must perf persistent read -A --openmetrics "$name-2"
	and_says "^perf_persistent_running_seconds_total{.*,cpu=\"0\",pid=\"$$\"} "
	grep -q "^perf_persistent_enabled_seconds_total" "$dir/out" &&
		fail "it has: $(cat "$dir/out")"
	must perf persistent read --openmetrics "$name-2"
	and_says "^perf_persistent_enabled_seconds_total{"
	stop "$name-2"
	finish
}

# status_is WANTED COMMAND...: expect that exit status
status_is() {
	wanted=$1
	shift
	"$@" > "$dir/out" 2>&1
	status=$?
	[ $status -eq "$wanted" ] || fail "'$*' has status $status: $(cat "$dir/out")"
}

test_no_tracefs() {
	begin "A user who cannot read tracepoint formats leaves no unreadable files"
	can_be_nobody || return
	need_tracepoints
	rm -f "$agent"
	must perf record --persistent="$name-own,discard,mode=0606" -a -m 16 \
		-e sched:sched_process_exec
	run_programs 3
	for command in "persistent dump -o $agent $name-own" \
		"persistent stop --dump $agent $name-own" "persistent flush -o $agent $name-own" \
		"record --consume -e persistent/$name-own/ -o $agent true"
	do
		must_fail "^cannot write sched:sched_process_exec to a perf.data: cannot read " \
			as_nobody "perf $command"
		and_says "/events/header_page: Permission denied$"
		and_says "^To allow this for one of your groups: mount -o remount,mode=750,gid="
	done
	[ -e "$agent" ] && fail "a file was left"
	for command in "dump -o - $name-own" "stop --dump - $name-own"
	do
		must_fail "^cannot write sched:sched_process_exec to a perf.data: cannot read " \
			as_nobody "perf persistent $command"
		grep -q PERFILE "$dir/out" && fail "$command: something was written"
	done
	must perf persistent dump -o "$dir/data" "$name-own"
	grep -q "already flushed or consumed" "$dir/out" && fail "$(cat "$dir/out")"
	must perf persistent set --mode 0602 "$name-own"
	must_fail "^cannot look up event 'sched:sched_process_exec' of session '$name-own' " \
		as_nobody "perf persistent disable --event sched:sched_process_exec $name-own"
	and_says "by name without the right r: use its number$"
	must as_nobody "perf persistent disable --event 0 $name-own"
	stop "$name-own"
	must perf stat --persistent="$name-own,mode=0602" -a -e context-switches:u
	must_fail "by name without the right r: use its number$" \
		as_nobody "perf persistent disable --event context-switches:u $name-own"
	stop "$name-own"
	finish
}

test_status() {
	begin "The exit status is 0, 1, 129 for wrong usage, or that of a command"
	for command in "read" "list" "set $name --ttl none"
	do
		# shellcheck disable=SC2086
		status_is 0 perf persistent $command
	done
	for command in "read no-such" "dump no-such" "stop no-such" "mark no-such text" "lst" \
		       "read -j -x, $name"
	do
		# shellcheck disable=SC2086
		status_is 1 perf persistent $command
	done
	must perf stat --persistent="$name-2" -e context-switches
	status_is 1 perf persistent dump "$name-2"
	status_is 1 perf record -e "persistent/$name-2/" -o "$dir/data" true
	status_is 1 perf stat -e "persistent/$name-2/" --control fd:1 true
	for perf in "perf top --stdio" "perf trace"
	do
		# shellcheck disable=SC2086
		status_is 1 $perf -e "persistent/$name-2/"
		# shellcheck disable=SC2086
		status_is 1 $perf -e "persistent/$name/" -m 16
	done
	for perf in "perf record" "perf stat"
	do
		for wrong in "=$name-2 -e cpu-clock" "=$name-3 -e cpu-clock -o $dir/x" \
			     "=$name-3,foo -e cpu-clock" "=period -e cpu-clock" \
			     "=$name-3 -e cpu-clock -p 999999999" "=$name-3 -e cpu-clock -C 4095" \
			     "=$name-3 -e cpu-clock $dir/no-such"
		do
			# shellcheck disable=SC2086
			status_is 1 $perf --persistent$wrong
		done
		# shellcheck disable=SC2086
		status_is 7 $perf --persistent="$name-3" -e cpu-clock -- sh -c "exit 7"
		stop "$name-3"
	done
	stop "$name-2"
	status_is 1 perf stat record --persistent="$name-3" -e cpu-clock -o "$dir/x"
	status_is 1 perf stat --persistent="$name-3" -e cpu-clock report
	status_is 129 perf persistent
	status_is 129 perf persistent stop
	status_is 129 perf persistent set "$name" --ttl 0
	finish
}

test_users() {
	begin "Users see all sessions, control their own as root does, and no others"
	can_be_nobody || return
	echo -1 > $paranoid
	must_succeed "^$name .* root .* cpu-clock context-switches" as_nobody perf persistent list
	must_succeed "owned by root; needs CAP_PERFMON" \
		as_nobody perf persistent list -v
	and_says "^    mode ---------, group root$"
	for command in enable disable stop
	do
		must_fail "^cannot $command session '$name': owned by root; $may" \
			as_nobody perf persistent $command "$name"
	done
	must_fail "owned by root; $way" as_nobody perf persistent read "$name"
	must_fail "owned by root; $way" as_nobody perf persistent dump "$name"
	must_fail "a new mode needs CAP_PERFMON, or ownership" \
		as_nobody perf persistent set --mode 644 "$name"
	must_fail "owned by root; $may" as_nobody perf persistent mark "$name" text
	must_succeed "^no session of yours to stop$" as_nobody perf persistent stop --mine
	must_succeed "^$mine: id" \
		as_nobody perf record --persistent="$name" -a -e context-switches:u -m 1
	must_succeed "^$mine .* nobody .*m[0-9]*s " as_nobody perf persistent list
	must_succeed "member 0: context-switches:u" as_nobody perf persistent list -v
	and_says "^    mode rw-------, group "
	must_succeed "\"owner\": \"nobody\", \"uid\": $nobody, .*\"mode\": \"0600\"" \
		as_nobody perf persistent list -j
	must_succeed "context-switches:u" as_nobody perf persistent read "$mine"
	must_succeed "^$mine: id [0-9]* disabled" as_nobody perf persistent disable --mine
	must_succeed "^$mine: id [0-9]* enabled" as_nobody perf persistent enable --mine
	must_succeed "of $mine" as_nobody perf persistent dump -o "$agent" "$mine"
	echo 2 > $paranoid
	must_fail "you may no longer open its events (kernel.perf_event_paranoid), or one" \
		as_nobody perf persistent read "$mine"
	echo -1 > $paranoid
	must_fail "cannot stop session" as_nobody perf persistent stop --all
	and_says "^$mine: id [0-9]* stopped"
	echo "$was_paranoid" > $paranoid
	must_succeed "^$name " perf persistent list
	grep -q "^$mine " "$dir/out" && fail "$mine is still there"
	finish
}

need_feature

start "$name"
test_disable
test_offline
test_all
test_set
test_set_errors
test_delegate
test_borrower
test_controller
test_events_change
test_mark
test_read_all
test_own_name
test_formats
test_reader_consumes
test_openmetrics_of_tasks
test_no_tracefs
test_status
test_users

cleanup
exit $err
