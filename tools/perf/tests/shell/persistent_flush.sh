#!/bin/sh
# perf persistent flush
# SPDX-License-Identifier: GPL-2.0

# Each test says in its first line what it would show a person who repeats it
# by hand: the commands are those that a user types.

err=0
name="perf-test-$$"
dir=$(mktemp -d /tmp/__perf_test.persistent.XXXXXX)
prog="$dir/prog"
log="$dir/log"
exec_event=sched:sched_process_exec

cleanup() {
	trap - EXIT TERM INT
	perf persistent stop "$name" > /dev/null 2>&1
	rm -rf "$dir"
}

trap_cleanup() {
	cleanup
	exit 1
}
trap trap_cleanup EXIT TERM INT

fail() {
	echo "$test: $1 [Failed]"
	err=1
}

finish() {
	[ $err -eq "$1" ] && echo "$test [Success]"
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

run_programs() {
	i=0
	while [ $i -lt "$1" ]
	do
		"$prog" > /dev/null 2>&1
		i=$((i + 1))
	done
}

start() {
	perf record --persistent="$name,full" -a -e $exec_event -m "$1" > "$dir/out" 2>&1 ||
		fail "cannot be started: $(cat "$dir/out")"
}

stop() {
	perf persistent stop "$name" > "$dir/out" 2>&1 ||
		fail "cannot be stopped: $(cat "$dir/out")"
}

flush() {
	perf persistent flush -o "$log" "$name" > "$dir/out" 2>&1 || fail "$(cat "$dir/out")"
}

# The log has that many execs of the program, none of them twice.
expect_execs() {
	perf script -i "$log" 2> "$dir/err" |
		grep "$exec_event: *filename=$prog " > "$dir/execs"
	grep -qiE "unknown|invalid|corrupt|found .* (bad|unordered)" "$dir/err" &&
		fail "the log is unreadable: $(cat "$dir/err")"
	count=$(wc -l < "$dir/execs")
	[ "$count" -eq "$1" ] || fail "$count of $1 execs are in the log"
	[ -z "$(sort "$dir/execs" | uniq -d)" ] || fail "some are there twice"
}

test_flush() {
	test="What was flushed is in the log, once, with names, and the next flush goes on"
	before=$err
	start 64
	run_programs 10
	flush
	grep -q "appended .*MB to $log" "$dir/out" || fail "what was done is not said"
	expect_execs 10
	run_programs 5
	flush
	flush
	expect_execs 15
	grep -v "^ *prog " "$dir/execs" && fail "programs have no names"
	perf report -i "$log" --stdio > "$dir/out" 2>&1 || fail "perf report fails"
	finish "$before"
}

test_room() {
	test="A flushed buffer has room again: nothing is lost"
	before=$err
	stop
	start 16
	rm -f "$log" "$log.pos"
	for i in 1 2 3
	do
		run_programs 30
		flush
		grep -q "lost" "$dir/out" && fail "$(cat "$dir/out")"
	done
	expect_execs 90
	finish "$before"
}

test_lost() {
	test="What found no room is counted, once, and the first records stay"
	before=$err
	stop
	rm -f "$log" "$log.pos"
	start 1
	run_programs 30
	flush
	grep -q "want of room in the buffer: [1-9]" "$dir/out" || fail "no loss is told"
	flush
	grep -q "want of room" "$dir/out" && fail "it is told again"
	perf script -i "$log" -D 2> /dev/null | grep -q "LOST_SAMPLES:.* lost samples :[1-9]" ||
		fail "the log does not say it"
	rm -f "$log" "$log.pos"
	finish "$before"
}

test_killed() {
	test="However often a flush is killed, nothing is lost and nothing is there twice"
	before=$err
	stop
	start 256
	for i in 1 2 3 4 5 6 7 8 9
	do
		run_programs 3
		# Sooner and later: at each step once
		perf persistent flush -q -o "$log" "$name" > /dev/null 2>&1 &
		pid=$!
		sleep "0.$i"
		kill -KILL $pid 2> /dev/null
		wait $pid 2> /dev/null
	done
	flush
	expect_execs 27
	finish "$before"
}

test_torn_log() {
	test="What a killed flush left at the end of the log is cut off"
	before=$err
	printf 'half a record' >> "$log"
	run_programs 2
	flush
	expect_execs 29
	finish "$before"
}

test_refused() {
	test="What cannot be flushed, or appended to, is refused by name"
	before=$err
	must_fail "no-such" perf persistent flush -o "$dir/x" no-such
	must_fail "which log" perf persistent flush "$name"
	echo text > "$dir/text"
	must_fail "$dir/text.pos is missing" perf persistent flush -o "$dir/text" "$name"
	[ "$(cat "$dir/text")" = text ] || fail "it was changed"
	must_fail "no regular file" perf persistent flush -o /dev/null "$name"
	must_fail "$dir/none/x" perf persistent flush -o "$dir/none/x" "$name"
	cp "$log" "$dir/short"
	sed 's/^size .*/size 99999999/' "$log.pos" > "$dir/short.pos"
	must_fail "does not belong" perf persistent flush -o "$dir/short" "$name"
	sed 's/^\(p [0-9]*\) .*/\1 99999999/' "$log.pos" > "$dir/short.pos"
	must_fail "$dir/short.pos is ahead" perf persistent flush -o "$dir/short" "$name"
	cp "$log.pos" "$dir/short.pos"
	if [ "$(id -u)" -eq 0 ]
	then
		chown nobody "$dir/short.pos"
		must_fail "$dir/short.pos is owned by" \
			perf persistent flush -o "$dir/short" "$name"
	fi
	# A limit on the size of files does what a full disk does.
	run_programs 20
	limit="trap '' XFSZ; ulimit -f $(($(wc -c < "$log") / 512)); exec perf"
	must_fail "$log" sh -c "$limit persistent flush -o $log $name"
	expect_execs 29
	flush
	expect_execs 49
	stop
	start 64
	must_fail "$log is of another recording" perf persistent flush -o "$log" "$name"
	expect_execs 49
	stop
	perf record --persistent="$name" -a -e $exec_event > "$dir/out" 2>&1 ||
		fail "$(cat "$dir/out")"
	must_fail "overwrites the oldest" perf persistent flush -o "$dir/x" "$name"
	[ -e "$dir/x" ] && fail "a file was left"
	stop
	finish "$before"
}

if [ ! -e /sys/bus/event_source/devices/persistent/type ]
then
	echo "this kernel has no persistent events [Skipped]"
	cleanup
	exit 2
fi

cp /bin/true "$prog"

test_flush
test_room
test_lost
test_killed
test_torn_log
test_refused

cleanup
exit $err
