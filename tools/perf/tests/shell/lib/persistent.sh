#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Helpers for the tests of persistent events

err=0
name="perf-$$-test"
dir=$(mktemp -d /tmp/__perf_test.persistent.XXXXXX)
pmu=/sys/bus/event_source/devices/persistent
prog="$dir/prog"

cp /bin/true "$prog"

# A test that has more to restore overrides this.
take_back() {
	:
}

cleanup() {
	trap - EXIT TERM INT
	take_back
	for event in "$pmu"/events/*"$name"*
	do
		[ -e "$event" ] && perf persistent stop "${event##*/}" > /dev/null 2>&1
	done
	rm -rf "$dir"
}

# shellcheck disable=SC2317
trap_cleanup() {
	cleanup
	exit 1
}
trap trap_cleanup EXIT TERM INT

# need WHAT COMMAND...: skip the tests if the command fails
need() {
	what=$1
	shift
	"$@" > /dev/null 2>&1 && return
	echo "$what [Skipped]"
	cleanup
	[ $err -ne 0 ] && exit 1
	exit 2
}

need_feature() {
	need "this kernel has no persistent events" [ -e "$pmu/type" ]
}

need_tracepoints() {
	need "this perf has no tracepoints" perf check feature -q libtraceevent
}

# begin TEXT: start a test; TEXT describes it to the reader of the output
begin() {
	test=$1
	failed=
}

fail() {
	echo "$test: $1 [Failed]"
	failed=yes
	err=1
}

finish() {
	[ "$failed" ] || echo "$test [Success]"
}

skip() {
	echo "$test: $1 [Skipped]"
}

# must COMMAND...: expect it to succeed
must() {
	"$@" > "$dir/out" 2>&1 || fail "'$*' fails: $(cat "$dir/out")"
}

# must_succeed TEXT COMMAND...: expect status 0 and TEXT in the output
must_succeed() {
	text=$1
	shift
	if ! "$@" > "$dir/out" 2>&1
	then
		fail "'$*' fails: $(cat "$dir/out")"
	elif ! grep -q -e "$text" "$dir/out"
	then
		fail "'$*' does not say '$text' but '$(cat "$dir/out")'"
	fi
}

# must_fail TEXT COMMAND...: expect a failure and TEXT in the output
must_fail() {
	text=$1
	shift
	if "$@" > "$dir/out" 2>&1
	then
		fail "'$*' succeeds"
	elif ! grep -q -e "$text" "$dir/out"
	then
		fail "'$*' does not say '$text' but '$(cat "$dir/out")'"
	fi
}

# and_says TEXT: expect TEXT in the last output as well
and_says() {
	grep -q -e "$1" "$dir/out" || fail "it does not say '$1' but '$(cat "$dir/out")'"
}

# Reduce strings to S, values to V, until valid JSON is a single V.
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

# wait_for COMMAND...: repeat it until it succeeds, for half a minute at most
wait_for() {
	tries=300
	until "$@"
	do
		tries=$((tries - 1))
		[ $tries -eq 0 ] && return 1
		sleep 0.1
	done
}

# free_counters: set $free to those of CPU 0; skip the test if there are none
free_counters() {
	perf persistent list --counters > "$dir/out" 2>&1 || {
		skip "$(cat "$dir/out")"
		return 1
	}
	# shellcheck disable=SC2034
	free=$(awk '$1 == 0 { print $3 }' "$dir/out")
}

# repeat NUMBER EVENT: print a list for -e
repeat() {
	printf '%s' "$2"
	i=1
	while [ $i -lt "$1" ]
	do
		printf ',%s' "$2"
		i=$((i + 1))
	done
}

# as_nobody COMMAND...: run it as an unprivileged user
as_nobody() {
	su -s /bin/sh nobody -c "$*"
}

# The kernel counts one exec for each program.
run_programs() {
	i=0
	while [ $i -lt "$1" ]
	do
		"$prog" > /dev/null 2>&1
		i=$((i + 1))
	done
}

# stop [NAME]...: stop sessions
stop() {
	[ $# -gt 0 ] || set -- "$name"
	must perf persistent stop "$@"
}
