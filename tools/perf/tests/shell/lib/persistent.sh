#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# What the tests of persistent events share

err=0
name="perf-$$-test"
dir=$(mktemp -d /tmp/__perf_test.persistent.XXXXXX)
pmu=/sys/bus/event_source/devices/persistent
prog="$dir/prog"

cp /bin/true "$prog"

# What else a test takes back in the end, it says itself.
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

# need WHAT COMMAND...: the tests end here if it fails
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

# begin TEXT: what the test shows a person who repeats it by hand
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

# must COMMAND...: it succeeds
must() {
	"$@" > "$dir/out" 2>&1 || fail "'$*' fails: $(cat "$dir/out")"
}

# must_succeed TEXT COMMAND...: status 0 and an output with TEXT
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

# must_fail TEXT COMMAND...: a status that is not 0 and a message with TEXT
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

# wait_for COMMAND...: until it succeeds, or for half a minute
wait_for() {
	tries=300
	until "$@"
	do
		tries=$((tries - 1))
		[ $tries -eq 0 ] && return 1
		sleep 0.1
	done
}

# free_counters: of CPU 0, into $free; without any the test is skipped
free_counters() {
	perf persistent list --counters > "$dir/out" 2>&1 || {
		skip "$(cat "$dir/out")"
		return 1
	}
	# shellcheck disable=SC2034
	free=$(awk '$1 == 0 { print $3 }' "$dir/out")
}

# repeat NUMBER EVENT: as -e takes it
repeat() {
	printf '%s' "$2"
	i=1
	while [ $i -lt "$1" ]
	do
		printf ',%s' "$2"
		i=$((i + 1))
	done
}

# as_nobody COMMAND...: an ordinary user, without any capability
as_nobody() {
	su -s /bin/sh nobody -c "$*"
}

# Whatever it is, the kernel counts one exec for each time.
run_programs() {
	i=0
	while [ $i -lt "$1" ]
	do
		"$prog" > /dev/null 2>&1
		i=$((i + 1))
	done
}

# stop [NAME]...
stop() {
	[ $# -gt 0 ] || set -- "$name"
	must perf persistent stop "$@"
}
