#!/bin/sh
# perf persistent as a trace stream (exclusive)
# SPDX-License-Identifier: GPL-2.0

# What posix_trace_create(3p) and its neighbours have: streams that overwrite or discard
# when they are full, with logs that are rotated or stop when they are full, and the status of
# both.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

exec_event=sched:sched_process_exec
log="$dir/log"
small="$dir/small"
pid=

take_back() {
	[ -n "$pid" ] && kill -KILL "$pid" 2> /dev/null
	[ -d "$small" ] && umount "$small" 2> /dev/null
}

# status [OPTION]...: of the session
status() {
	must perf persistent status "$@" "$name"
}

# says KEY VALUE: the last status did
says() {
	grep -q "^  $1: *$2\$" "$dir/out" || fail "'$1' is not '$2' but '$(cat "$dir/out")'"
}

# fill: a page is full after a tenth of the time
fill() {
	must perf record --persistent="$name,discard" -a -e cpu-clock -c 1000000 -m 1
	wait_for is_overrun || fail "nothing is lost: $(cat "$dir/out")"
	must perf persistent disable "$name"
}

is_overrun() {
	perf persistent status "$name" > "$dir/out" 2>&1
	grep -q "^  full: *yes, 2 of 2 buffers" "$dir/out" && grep -q "overrun: *yes" "$dir/out"
}

# expect_execs NUMBER FILE...: all files together have so many, none twice, with names
expect_execs() {
	number=$1
	shift
	for file
	do
		perf script -i "$file" 2> "$dir/err"
		grep -qiE "unknown|invalid|corrupt|found .* (bad|unordered)" "$dir/err" &&
			fail "$file is unreadable: $(cat "$dir/err")"
	done | grep "$exec_event: *filename=$prog " > "$dir/execs"
	[ "$(wc -l < "$dir/execs")" -eq "$number" ] ||
		fail "$(wc -l < "$dir/execs") of $number execs are in $*"
	[ -z "$(sort "$dir/execs" | uniq -d)" ] || fail "some are there twice"
}

test_loop() {
	begin "A stream is created suspended, started and stopped, and with overwrite is never full"
	must perf record --persistent="$name" -a -e cpu-clock -c 1000000 -m 1 -D -1
	status
	grep -q "^$name, id [0-9]*:$" "$dir/out" || fail "it says '$(cat "$dir/out")'"
	says state disabled
	says full "no, it overwrites the oldest records"
	says overrun no
	must perf persistent enable "$name"
	status
	says state enabled
	wait_for is_overwritten || fail "it says '$(cat "$dir/out")'"
	status
	says full "no, it overwrites the oldest records"
	says overrun no
	must perf persistent disable "$name"
	status
	says state disabled
	stop
	must_fail "no session named '$name'" perf persistent status "$name"
	finish
}

is_overwritten() {
	perf persistent dump "$name" -o "$dir/data" > "$dir/out" 2>&1
	grep -q "older records were overwritten" "$dir/out"
}

test_until_full() {
	begin "A discard stream is full until it is read, and overrun since it was asked last"
	fill
	status --state "$dir/state"
	says full "yes, 2 of 2 buffers"
	says overrun "yes, [1-9][0-9]* samples lost"
	status --state "$dir/state"
	says full "yes, 2 of 2 buffers"
	says overrun no
	status
	says overrun "yes, [1-9][0-9]* samples lost"
	must perf persistent flush -o "$log" "$name"
	status --state "$dir/state" -i "$log"
	says full no
	says overrun no
	says log "$log, [0-9.]* MB"
	says flush "not in progress"
	says "flush error" none
	says "log full" no
	says "log overrun" "yes, [1-9][0-9]* samples missing"
	# It is lost to the session, and not to the log, until the next flush tells.
	must perf persistent enable "$name"
	wait_for is_overrun_since || fail "nothing is lost: $(cat "$dir/out")"
	stop
	finish
}

test_full_state() {
	begin "status keeps its previous state if --state cannot be written"
	fill
	status --state "$dir/state"
	says overrun "yes, [1-9][0-9]* samples lost"
	# Others may have set these bits of a file of theirs.
	chmod 6640 "$dir/state"
	cp "$dir/state" "$dir/before"
	ls "$dir" > "$dir/files"
	# A limit on the size of files does what a full disk does.
	limit="trap '' XFSZ; ulimit -f 0; exec perf"
	sh -c "$limit persistent status --state $dir/state $name" 2>&1 | cat > "$dir/out"
	and_says "$dir/state: File too large"
	cmp -s "$dir/state" "$dir/before" || fail "it has '$(cat "$dir/state")'"
	[ "$(ls "$dir")" = "$(cat "$dir/files")" ] || fail "there is $(ls "$dir")"
	status --state "$dir/state"
	says overrun no
	[ "$(stat -c %a "$dir/state")" = 640 ] || fail "its mode is wrong"
	stop
	finish
}

test_unprinted_state() {
	begin "status reports losses again that it could not print"
	for option in "" -j
	do
		rm -f "$dir/state"
		fill
		# shellcheck disable=SC2086
		must_fail "^cannot print the status: No space left on device$" sh -c \
			"perf persistent status $option --state $dir/state $name > /dev/full"
		status --state "$dir/state"
		says overrun "yes, [1-9][0-9]* samples lost"
		stop
	done
	finish
}

test_concurrent_state() {
	begin "Several status can use one state file at once, and one of them reports a loss"
	fill
	# The first cannot print: the pipe is full until there is the second.
	{
		head -c 65536 /dev/zero
		perf persistent status --state "$dir/once" "$name"
	} | {
		wait_for [ -e "$dir/second" ]
		tr -d '\0'
	} > "$dir/out" &
	sleep 1
	perf persistent status --state "$dir/once" "$name" > "$dir/out2" &
	sleep 1
	touch "$dir/second"
	wait
	cat "$dir/out2" >> "$dir/out"
	[ "$(grep -c "overrun: *yes" "$dir/out")" -eq 1 ] || fail "they say '$(cat "$dir/out")'"
	status --state "$dir/state"
	cp "$dir/state" "$dir/before"
	: > "$dir/errors"
	ls "$dir" > "$dir/files"
	for _ in $(seq 8)
	do
		for _ in $(seq 8)
		do
			perf persistent status --state "$dir/state" "$name" 2>> "$dir/errors" &
		done > /dev/null
		wait
	done
	[ -s "$dir/errors" ] && fail "$(sort "$dir/errors" | uniq -c)"
	cmp -s "$dir/state" "$dir/before" || fail "it has '$(cat "$dir/state")'"
	[ "$(ls "$dir")" = "$(cat "$dir/files")" ] || fail "there is $(ls "$dir")"
	stop
	finish
}

is_consumed() {
	! perf persistent flush -o "$log" "$name" > "$dir/out" 2>&1
}

test_flush_error() {
	begin "A flush that fails before it writes is in the status, and so is a log that was cut"
	rm -f "$log" "$log.pos"
	fill
	must perf persistent flush -o "$log" "$name"
	perf record --consume -e "persistent/$name/" -o "$dir/data" -- sleep 100 > "$dir/err" 2>&1 &
	consumer=$!
	wait_for is_consumed || fail "it has no consumer"
	grep -q "another process consumes its buffers" "$dir/out" || fail "$(cat "$dir/out")"
	status -i "$log"
	says "flush error" "Device or resource busy"
	kill -INT $consumer
	wait $consumer
	must perf persistent flush -o "$log" "$name"
	status -i "$log"
	says "flush error" none
	head -c 100 "$log" > "$dir/short"
	cat "$dir/short" > "$log"
	must_fail "^$log.pos does not match $log: move both away$" \
		perf persistent status -i "$log" "$name"
	rm -f "$log" "$log.pos"
	stop
	finish
}

is_overrun_since() {
	perf persistent status --state "$dir/state" "$name" > "$dir/out" 2>&1
	grep -q "^  overrun: *yes, [1-9][0-9]* samples lost$" "$dir/out"
}

test_clear() {
	begin "What is cleared has room again, and what was lost before is not told again"
	fill
	status --state "$dir/state"
	must perf persistent clear "$name"
	status --state "$dir/state"
	says full no
	says overrun no
	stop
	if [ "$(id -u)" -eq 0 ] && as_nobody true 2> /dev/null
	then
		fill
		must perf persistent set --mode 0602 "$name"
		must_succeed "without the right r" as_nobody perf persistent clear "$name"
		status
		says full "yes, 2 of 2 buffers"
		stop
	fi
	finish
}

test_json() {
	begin "As JSON, of several sessions, with the values for programs"
	must perf stat --persistent="$name-counts" -a -e cpu-clock
	fill
	must perf persistent flush -o "$dir/json" "$name"
	perf persistent status -j "$name" "$name-counts" > "$dir/out" 2>&1 || fail "it fails"
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	and_says "\"name\": \"$name\", \"id\": [0-9]*, \"state\": \"disabled\", \"running\": false"
	and_says "\"name\": \"$name-counts\".*\"running\": true, \"full\": false"
	perf persistent status -j -i "$dir/json" "$name" > "$dir/out" 2>&1 || fail "it fails"
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	and_says '"full": false, "full-buffers": 0, "buffers": 2, "overrun": true'
	and_says '"flushing": false, "log-full": false, "log-overrun": true, "log-lost": [1-9]'
	must_succeed "full: *no, it has no buffers" perf persistent status "$name-counts"
	stop "$name" "$name-counts"
	finish
}

test_many_events() {
	begin "What a log tells of the events of many tasks is read at once"
	must perf record --persistent="$name,discard" -a -e cpu-clock -c 1000000 -m 1
	must perf persistent flush -o "$dir/many" "$name"
	awk 'BEGIN { for (i = 0; i < 100000; i++) print "l", 1000000 + i, 1 }' >> "$dir/many.pos"
	must_succeed "flush error: *none" \
		timeout 20 perf persistent status -i "$dir/many" "$name"
	stop
	finish
}

test_log_until_full() {
	begin "A log until full takes the oldest, and what does not fit stays where it is"
	must perf record --persistent="$name,discard" -a -e $exec_event -m 64
	run_programs 5
	rm -f "$log" "$log.pos"
	must perf persistent flush -o "$log" "$name"
	size=$(($(wc -c < "$log") + 4096))
	run_programs 100
	must_succeed "^\[ $log is full: the remaining records stay in the buffers \]$" \
		perf persistent flush -o "$log" --max-size ${size}B --until-full "$name"
	and_says "appended .* ([1-9][0-9]* samples)"
	[ "$(wc -c < "$log")" -le $size ] || fail "it has $(wc -c < "$log") of $size bytes"
	status -i "$log"
	says "log full" yes
	says "log overrun" no
	says overrun no
	cp "$log" "$dir/before"
	must_succeed "is full" \
		perf persistent flush -o "$log" --max-size ${size}B --until-full "$name"
	cmp -s "$log" "$dir/before" || fail "more was appended"
	status -i "$log"
	says "log full" yes
	# Nothing was lost: a log that goes on has the rest.
	must perf persistent flush -o "$log" "$name"
	status -i "$log"
	says "log full" no
	expect_execs 105 "$log"
	must_fail "^--max-size is too small: the log takes [1-9][0-9]* bytes without any record$" \
		perf persistent flush -o "$dir/tiny" --max-size 1K --until-full "$name"
	must_fail "needs --max-size" perf persistent flush -o "$log" --until-full "$name"
	must_fail "^--until-full cannot be used with --max-age or --keep$" \
		perf persistent flush -o "$log" --until-full --max-size 1M --keep 2 "$name"
	must_fail "^-o - cannot be used with --max-size, .* or --until-full$" \
		perf persistent flush -o - --until-full "$name"
	finish
}

test_size() {
	begin "What a log begins with counts, and so do the formats of tracepoints"
	must perf persistent flush -o "$dir/begun" "$name"
	size=$(($(wc -c < "$dir/begun") + 4096))
	run_programs 100
	must_succeed "is full" \
		perf persistent flush -o "$dir/tiny" --max-size ${size}B --until-full "$name"
	is=$(wc -c < "$dir/tiny")
	[ "$is" -le $size ] || fail "the log has $is of $size bytes"
	and_says "appended $(awk "BEGIN { printf \"%.3f\", $is / 1048576 }") MB"
	perf persistent dump -o - --max-size ${size}B "$name" > "$dir/pipe" 2> "$dir/out"
	is=$(wc -c < "$dir/pipe")
	[ "$is" -le $size ] || fail "the dump has $is of $size bytes"
	must perf persistent flush -o "$dir/tiny" "$name"
	expect_execs 100 "$dir/tiny"
	finish
}

test_stop() {
	begin "What was not flushed yet is kept when the stream is stopped"
	run_programs 7
	must perf persistent stop --dump "$dir/rest" "$name"
	expect_execs 112 "$log" "$dir/rest"
	finish
}

# Stop it in the middle: it has the log, and still has to write to it.
start_flush() {
	rm -f "$log" "$log.pos"
	perf persistent flush -q -o "$log" "$name" > /dev/null 2>&1 &
	pid=$!
	looks=100000
	until [ -s "$log.pos" ] || [ "$looks" -eq 0 ]
	do
		looks=$((looks - 1))
	done
	kill -STOP "$pid"
	perf persistent status -i "$log" "$name" > "$dir/out" 2>&1
	grep -q "^  flush: *in progress$" "$dir/out" && return
	# It was faster.
	end_flush
	return 1
}

end_flush() {
	kill -CONT "$pid"
	wait "$pid"
	status=$?
	pid=
	return $status
}

test_flushing() {
	begin "A flush in progress shows, and asking does not get in its way"
	must perf record --persistent="$name,discard" -a -e $exec_event -m 64
	must perf record --persistent="$name-2,discard" -a -e $exec_event -m 64
	run_programs 5
	if start_flush || start_flush || start_flush || start_flush || start_flush
	then
		must_fail "another process is appending to $log" \
			perf persistent flush -o "$log" "$name-2"
		end_flush || fail "the flush fails"
		status -i "$log"
		says flush "not in progress"
	else
		fail "it never is in progress: $(cat "$dir/out")"
	fi
	stop "$name-2"
	finish
}

test_full_disk() {
	begin "A disk that is full is an error that the status keeps, and nothing is lost"
	mkdir "$small"
	if ! mount -t tmpfs -o size=512K none "$small" 2> /dev/null
	then
		skip "no tmpfs can be mounted"
		return
	fi
	must perf persistent flush -o "$small/log" "$name"
	before=$(wc -c < "$small/log")
	# All is full but for two pages.
	dd if=/dev/zero of="$small/spare" bs=4096 count=2 2> /dev/null
	dd if=/dev/zero of="$small/ballast" bs=4096 2> /dev/null
	rm -f "$small/spare"
	run_programs 200
	must_fail "No space left on device" perf persistent flush -o "$small/log" "$name"
	[ "$(wc -c < "$small/log")" -eq "$before" ] || fail "a part was left"
	perf persistent dump -o - "$name" > "$small/dumped" 2> "$dir/out" &&
		fail "a dump fits"
	and_says "^cannot write standard output: No space left on device$"
	rm -f "$small/dumped"
	status -i "$small/log"
	says "flush error" "No space left on device"
	perf persistent status -j -i "$small/log" "$name" > "$dir/out" 2>&1
	json_is_valid "$dir/out" || fail "no JSON: $(cat "$dir/out")"
	and_says '"flush-error": "No space left on device"'
	rm -f "$small/ballast"
	must perf persistent flush -o "$small/log" "$name"
	status -i "$small/log"
	says "flush error" none
	expect_execs 205 "$log" "$small/log"
	finish
}

test_refused() {
	begin "Invalid status requests name the argument"
	must_fail "needs CAP_PERFMON" as_nobody perf persistent status "$name"
	chmod 711 "$dir"
	mkdir -m 777 "$dir/open"
	must_fail "needs CAP_PERFMON" \
		as_nobody perf persistent status --state "$dir/open/state" "$name"
	[ ! -e "$dir/open/state" ] || fail "a refused user has written a state"
	must_fail "$dir/none: No such file" perf persistent status -i "$dir/none" "$name"
	echo text > "$dir/text"
	must_fail "$dir/text: not a file of perf persistent status" \
		perf persistent status --state "$dir/text" "$name"
	[ "$(cat "$dir/text")" = text ] || fail "it was changed"
	cp "$dir/text" "$dir/text.pos"
	must_fail "$dir/text.pos does not match $dir/text" \
		perf persistent status -i "$dir/text" "$name"
	must_fail "$dir/none/x: No such file" perf persistent status --state "$dir/none/x" "$name"
	# Nobody reads or writes these.
	mkfifo "$dir/fifo" "$dir/beside.pos"
	must_fail "$dir/fifo: not a regular file" \
		timeout 10 perf persistent status -i "$dir/fifo" "$name"
	must_fail "$dir/beside.pos: not a regular file" \
		timeout 10 perf persistent status -i "$dir/beside" "$name"
	must_fail "$dir/fifo: not a regular file" \
		timeout 10 perf persistent status --state "$dir/fifo" "$name"
	must_fail "can only be used with one session" \
		perf persistent status -i "$log" "$name" "$name"
	stop
	must perf record --persistent="$name,discard" -a -e $exec_event -m 64
	must_fail "^$log belongs to another session$" perf persistent status -i "$log" "$name"
	stop
	finish
}

need_feature

test_loop
test_until_full
test_full_state
test_unprinted_state
test_concurrent_state
test_flush_error
test_clear
test_json
test_many_events

need_tracepoints

test_log_until_full
test_size
test_stop
test_flushing
test_full_disk
test_refused

cleanup
exit $err
