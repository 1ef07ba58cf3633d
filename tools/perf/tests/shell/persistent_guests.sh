#!/bin/sh
# perf persistent events and guests of KVM (exclusive)
# SPDX-License-Identifier: GPL-2.0

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

mark="\[includes guests\]"

# start record|stat [ARG]...: start a session; the output of perf is in $dir/out
start() {
	command=$1
	shift
	must perf "$command" --persistent="$name" "$@"
}

# look: read the session's entry in the list
look() {
	perf persistent list > "$dir/list"
	perf persistent list -v > "$dir/verbose"
	perf persistent list -j > "$dir/json"
	grep "\"name\": \"$name\"" "$dir/json" > "$dir/ours"
}

# must_exclude TEXT: expect no event to count in guests, and list to say so
must_exclude() {
	look
	grep "^$name " "$dir/list" | grep -q "$mark" && fail "$*: list marks it"
	grep -q "includes guests" "$dir/verbose" && fail "$*: list -v marks it"
	grep -q '"includes-guests": false' "$dir/ours" || fail "$*: list -j says $(cat "$dir/ours")"
}

# must_include TEXT: expect list to say that it counts in guests
must_include() {
	look
	grep "^$name " "$dir/list" | grep -q "$mark" || fail "$*: list does not mark it"
	grep -q "^ *member .*includes guests" "$dir/verbose" || fail "$*: list -v does not"
	grep -q '"includes-guests": true' "$dir/ours" || fail "$*: list -j says $(cat "$dir/ours")"
}

# can_count EVENT: true if there is a PMU for it
can_count() {
	perf stat -x, -e "$1" true 2>&1 | grep -q '^[0-9]'
}

test_software() {
	begin "Events that are not of the CPU's PMU are left as they are"
	for event in cpu-clock page-faults:u cpu-clock:H cpu-clock:GH
	do
		start stat -a -e $event
		must_exclude "$event"
		stop
	done
	finish
}

test_default() {
	begin "Events of the CPU's PMU do not count in guests"
	for event in cycles cycles:u '{cycles,cycles}' r11
	do
		start stat -a -e "$event"
		must_exclude "stat $event"
		stop
	done
	for event in cycles cycles:u '{cycles,cycles}:S'
	do
		start record -a -e "$event" -c 1000000
		must_exclude "record $event"
		grep -q " ${event%:S} on CPUs" "$dir/out" ||
			[ "$event" = '{cycles,cycles}:S' ] ||
			fail "its name is not what was typed: $(cat "$dir/out")"
		stop
	done
	start record
	must_exclude "the default event"
	stop
	finish
}

test_asked() {
	begin "Users who ask for guests get them, and list marks it"
	for event in cycles:GH '{cycles:GH,cycles:GH}'
	do
		start stat -a -e "$event"
		must_include "stat $event"
		stop
		start record -a -e "$event" -c 1000000
		must_include "record $event"
		stop
	done
	start stat -a -e cycles:H
	must_exclude cycles:H
	stop
	finish
}

test_others() {
	begin "Users who may not read a session are told nothing about guests"
	start stat -a -e cycles:GH
	as_nobody perf persistent list > "$dir/list" 2>&1
	grep "^$name " "$dir/list" | grep -q "$mark" && fail "list marks it for anybody"
	as_nobody perf persistent list -j > "$dir/json" 2>&1
	grep "\"name\": \"$name\"" "$dir/json" | grep -q includes-guests &&
		fail "list -j tells anybody"
	stop
	finish
}

need_feature
need "only root may use all CPUs" [ "$(id -u)" -eq 0 ]

test_software
if can_count cycles
then
	test_default
	test_asked
	test_others
else
	begin "Events of the CPU's PMU"
	skip "there is no PMU that counts cycles"
fi

cleanup
exit $err
