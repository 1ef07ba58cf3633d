#!/bin/sh
# perf persistent flush (exclusive)
# SPDX-License-Identifier: GPL-2.0

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

exec_event=sched:sched_process_exec
log="$dir/log"
max=/proc/sys/kernel/perf_event_persistent_max
was_max=$(cat $max 2> /dev/null)
busy=

take_back() {
	[ -n "$busy" ] && kill -KILL "$busy" 2> /dev/null
	[ ! -w $max ] || echo "$was_max" > $max
}

start() {
	must perf record --persistent="$name,discard" -a -e $exec_event -m "$1"
}

flush() {
	must perf persistent flush -o "$log" "$name"
}

# Expect so many execs of the program in the log, none twice.
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
	begin "What was flushed is in the log, once, with names, and the next flush goes on"
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
	finish
}

test_room() {
	begin "A flushed buffer has room again: nothing is lost"
	stop
	start 16
	rm -f "$log" "$log.pos"
	for i in 1 2 3
	do
		run_programs 30
		flush
		grep -q "dropped" "$dir/out" && fail "$(cat "$dir/out")"
	done
	expect_execs 90
	finish
}

has_lost() {
	perf persistent status "$name" | grep -q "overrun: *yes"
}

test_lost() {
	begin "Dropped records are counted, once, and the first records stay"
	stop
	rm -f "$log" "$log.pos"
	# A page is full after 0.1 s.
	must perf record --persistent="$name,discard" -a -e cpu-clock -c 1000000 -m 1
	wait_for has_lost || fail "nothing is lost"
	must perf persistent disable "$name"
	flush
	grep -q "dropped, buffer full: [1-9][0-9]* samples" "$dir/out" || fail "no loss is told"
	flush
	grep -q "dropped" "$dir/out" && fail "it is told again"
	perf script -i "$log" -D 2> /dev/null | grep -q "LOST_SAMPLES:.* lost samples :[1-9]" ||
		fail "the log does not say it"
	rm -f "$log" "$log.pos"
	finish
}

test_left() {
	begin "The file that a killed flush left beside the log is used by the next"
	: > "$log.pos.new"
	chmod 0 "$log.pos.new"
	flush
	[ "$(cd "$dir" && echo log*)" = "log log.pos" ] || fail "there is $(ls "$dir")"
	rm -f "$log" "$log.pos"
	finish
}

test_killed() {
	begin "However often a flush is killed, nothing is lost and nothing is there twice"
	stop
	start 256
	for i in 1 2 3 4 5 6 7 8 9
	do
		run_programs 3
		# Kill it earlier or later, to meet each step
		perf persistent flush -q -o "$log" "$name" > /dev/null 2>&1 &
		pid=$!
		sleep "0.$i"
		kill -KILL $pid 2> /dev/null
		wait $pid 2> /dev/null
	done
	flush
	expect_execs 27
	finish
}

test_torn_log() {
	begin "An incomplete end of the log from a killed flush is cut off"
	printf 'half a record' >> "$log"
	run_programs 2
	flush
	expect_execs 29
	finish
}

# Fork again and again, until the file go exists.
start_waiting() {
	cp "$(command -v sh)" "$dir/waiting"
	"$dir/waiting" -c "until [ -e $dir/go ]; do sleep 0.1; : > $dir/forked; done" &
	waiting=$!
}

# Wait for two forks, so that the last one began after this call.
wait_for_fork() {
	for time in first second
	do
		rm -f "$dir/forked"
		wait_for [ -e "$dir/forked" ] || fail "no $time fork"
	done
}

test_new_log() {
	begin "A log that is started later has names and mappings, also of ended tasks"
	must perf record --persistent="$name,discard" -a -e sched:sched_process_fork -m 256
	start_waiting
	wait_for_fork
	must perf persistent flush -o "$dir/first" "$name"
	wait_for_fork
	# Move the files as logrotate does, and by hand together with the others
	mv "$dir/first" "$dir/first.old"
	must perf persistent flush -o "$dir/first" "$name"
	wait_for_fork
	touch "$dir/go"
	wait $waiting
	must perf persistent flush -o "$dir/second" "$name"
	for file in "$dir/first" "$dir/second"
	do
		perf script --show-mmap-events -i "$file" 2> "$dir/err" | grep -q "$dir/waiting" ||
			fail "$file has no mappings: $(cat "$dir/err")"
		perf script -F comm,pid -i "$file" 2> "$dir/err" > "$dir/comms"
		grep -q "^ *waiting  *$waiting *$" "$dir/comms" || fail "$file has no names"
		grep -q "^ *:$waiting " "$dir/comms" && fail "$file lacks names"
	done
	for file in "$dir/first.old" "$dir/first" "$dir/second"
	do
		perf script -F pid,time -i "$file" 2> /dev/null
	done | sort | uniq -d > "$dir/twice"
	[ -s "$dir/twice" ] && fail "records are in two logs: $(cat "$dir/twice")"
	stop
	finish
}

test_pipe() {
	begin "Records sent to a pipe make room, and those that could not be written do not"
	start 64
	run_programs 4
	if [ -c /dev/full ]
	then
		perf persistent flush -o - "$name" > /dev/full 2> "$dir/out" &&
			fail "a full disk is no error"
	fi
	perf persistent flush -o - "$name" 2> "$dir/out" > "$dir/pipe"
	perf script -i - < "$dir/pipe" 2> "$dir/err" |
		grep "$exec_event: *filename=$prog " > "$dir/execs"
	[ "$(wc -l < "$dir/execs")" -eq 4 ] || fail "the pipe has '$(cat "$dir/execs" "$dir/err")'"
	grep -q "MB to standard output" "$dir/out" || fail "it says '$(cat "$dir/out")'"
	perf persistent flush -o - "$name" 2> "$dir/out" | perf script -i - 2> "$dir/err" |
		grep "filename=$prog " && fail "the second flush has them again"
	[ -e ./- ] && fail "there is a file -"
	must_fail "^-o - cannot be used with --max-size" \
		perf persistent flush -o - --max-size 1M "$name"
	finish
}

# Expect so many execs in all rotated logs together, none twice.
expect_rotated_execs() {
	rm -f "$dir/all"
	for file in "$dir"/rotated "$dir"/rotated.[0-9]*
	do
		[ -e "$file" ] || continue
		perf script -i "$file" 2> "$dir/err" >> "$dir/all"
		grep -qiE "unknown|invalid|corrupt|found .* (bad|unordered)" "$dir/err" &&
			fail "$file is unreadable: $(cat "$dir/err")"
	done
	grep "$exec_event: *filename=$prog " "$dir/all" > "$dir/execs"
	count=$(wc -l < "$dir/execs")
	[ "$count" -eq "$1" ] || fail "$count of $1 execs are in all logs: $(ls "$dir")"
	[ -z "$(sort "$dir/execs" | uniq -d)" ] || fail "some are there twice"
	grep -v "^ *prog " "$dir/execs" && fail "programs have no names"
}

test_rotation() {
	begin "A log is rotated by size and age, and each is complete by itself"
	for _ in 1 2 3
	do
		run_programs 2
		must perf persistent flush -o "$dir/rotated" --max-size 1K "$name"
	done
	grep -q "renamed $dir/rotated to $dir/rotated.1" "$dir/out" || fail "'$(cat "$dir/out")'"
	[ -e "$dir/rotated.2" ] || fail "there are only $(ls "$dir")"
	expect_rotated_execs 6
	run_programs 2
	must perf persistent flush -o "$dir/rotated" --max-size 1G --max-age 1d "$name"
	[ -e "$dir/rotated.3" ] && fail "rotated too soon"
	sed 's/^b 0 .*/b 0 1000/' "$dir/rotated.pos" > "$dir/pos"
	cat "$dir/pos" > "$dir/rotated.pos"
	run_programs 2
	must perf persistent flush -o "$dir/rotated" --max-age 1d "$name"
	[ -e "$dir/rotated.3" ] || fail "not rotated by age: $(cat "$dir/pos")"
	expect_rotated_execs 10
	# A gap in the numbers is filled, and files beyond it are not moved.
	rm -f "$dir/rotated.2"
	cp "$dir/rotated.3" "$dir/oldest"
	must perf persistent flush -o "$dir/rotated" --max-size 1K --keep 9 "$name"
	cmp -s "$dir/rotated.3" "$dir/oldest" || fail "rotated.3 was moved"
	[ -e "$dir/rotated.4" ] && fail "there is one more"
	must perf persistent flush -o "$dir/rotated" --max-size 1K --keep 2 "$name"
	[ -e "$dir/rotated.2" ] || fail "there are only $(ls "$dir")"
	[ -e "$dir/rotated.3" ] && fail "more than 2 are kept"
	must_fail "^--keep needs --max-size or --max-age" \
		perf persistent flush -o "$dir/rotated" --keep 2 "$name"
	rm -f "$dir/rotated"*
	finish
}

test_rotation_idle() {
	begin "Flushing a session without new samples pushes out no log that has any"
	must perf record --persistent="$name",discard -a -e $exec_event
	run_programs 3
	must perf persistent flush -o "$dir/idle" --max-size 4K --keep 2 "$name"
	must perf persistent disable "$name"
	for _ in 1 2 3 4
	do
		must perf persistent flush -o "$dir/idle" --max-size 4K --keep 2 "$name"
	done
	for file in "$dir/idle"*
	do
		case $file in *.pos) ;; *) perf script -i "$file" 2> /dev/null;; esac
	done | grep -c "filename=$prog " > "$dir/count"
	[ "$(cat "$dir/count")" -eq 3 ] || fail "$(cat "$dir/count") of 3 execs are left"
	stop
	rm -f "$dir/idle"*
	finish
}

test_rotation_killed() {
	begin "However often a flush that rotates is killed, nothing is lost or there twice"
	for i in 1 2 3 4 5 6 7 8 9
	do
		run_programs 3
		perf persistent flush -q -o "$dir/rotated" --max-size 1K "$name" > /dev/null 2>&1 &
		pid=$!
		sleep "0.$i"
		kill -KILL $pid 2> /dev/null
		wait $pid 2> /dev/null
	done
	# Killed after it renamed the log, and before anything else
	must perf persistent flush -o "$dir/rotated" --max-size 1K "$name"
	mv "$dir/rotated" "$dir/rotated.99"
	run_programs 3
	must perf persistent flush -o "$dir/rotated" --max-size 1K "$name"
	# ... or after it created the new one, too
	mv "$dir/rotated" "$dir/rotated.98"
	: > "$dir/rotated"
	run_programs 3
	must perf persistent flush -o "$dir/rotated" --max-size 1K "$name"
	expect_rotated_execs 33
	stop
	finish
}

test_refused() {
	begin "What cannot be flushed, or appended to, is refused by name"
	must_fail "no-such" perf persistent flush -o "$dir/x" no-such
	must_fail "^missing log: use -o" perf persistent flush "$name"
	must_fail "^missing log: use -o" perf persistent flush -o "" "$name"
	for bad in 0 -1 4294967295 4294967297
	do
		must_fail "^--keep $bad: use 1 or more" \
			perf persistent flush -o "$dir/x" --max-size 1M --keep $bad "$name"
		perf persistent flush -o "$dir/x" --keep $bad "$name" 2> /dev/null
		[ $? -eq 129 ] || fail "--keep $bad: another exit status"
	done
	echo text > "$dir/text"
	must_fail "$dir/text.pos is missing" perf persistent flush -o "$dir/text" "$name"
	[ "$(cat "$dir/text")" = text ] || fail "it was changed"
	must_fail "not a regular file" perf persistent flush -o /dev/null "$name"
	# Nobody can read or write these.
	mkfifo "$dir/fifo" "$dir/beside.pos"
	must_fail "$dir/fifo: not a regular file" \
		timeout 10 perf persistent flush -o "$dir/fifo" "$name"
	must_fail "$dir/beside.pos: not a regular file" \
		timeout 10 perf persistent flush -o "$dir/beside" "$name"
	must_fail "$dir/none/x" perf persistent flush -o "$dir/none/x" "$name"
	cp "$log" "$dir/short"
	sed 's/^size .*/size 99999999/' "$log.pos" > "$dir/short.pos"
	must_fail "does not match" perf persistent flush -o "$dir/short" "$name"
	sed 's/^\(p [0-9]*\) .*/\1 99999999/' "$log.pos" > "$dir/short.pos"
	must_fail "$dir/short.pos is ahead" perf persistent flush -o "$dir/short" "$name"
	cp "$log.pos" "$dir/short.pos"
	if [ "$(id -u)" -eq 0 ]
	then
		chown nobody "$dir/short.pos"
		must_fail "$dir/short.pos is owned by" \
			perf persistent flush -o "$dir/short" "$name"
	fi
	# A limit on the size of files has the effect of a full disk.
	run_programs 20
	limit="trap '' XFSZ; ulimit -f $(($(wc -c < "$log") / 512)); exec perf"
	must_fail "$log" sh -c "$limit persistent flush -o $log $name"
	expect_execs 29
	flush
	expect_execs 49
	stop
	start 64
	must_fail "$log belongs to another session, or to a previous boot" \
		perf persistent flush -o "$log" "$name"
	expect_execs 49
	stop
	must perf record --persistent="$name" -a -e $exec_event
	must_fail "overwrites the oldest records" perf persistent flush -o "$dir/x" "$name"
	[ "$(wc -l < "$dir/out")" -eq 1 ] || fail "there is more: $(cat "$dir/out")"
	[ -e "$dir/x" ] && fail "a file was left"
	stop
	finish
}

# Side-band of one CPU alone can mislead, e.g. about a fork without the exec that followed.
test_log_of_another() {
	begin "The log of a session that goes on is not taken over, even if it was moved"
	rm -f "$log" "$log.pos"
	start 64
	flush
	mv "$log" "$log.moved"
	# As when no space was left for more than the rotation
	sed -i 's/^size .*/size 0/' "$log.pos"
	must perf record --persistent="$name-2,discard" -a -e $exec_event -m 16
	must_fail "$log belongs to another session" perf persistent flush -o "$log" "$name-2"
	stop
	must perf persistent flush -o "$log" "$name-2"
	stop "$name-2"
	rm -f "$log" "$log.moved" "$log.pos"
	finish
}

test_new_log_of_some_cpus() {
	begin "A new log has side-band only from when it is complete on all CPUs"
	if ! taskset 2 true 2> /dev/null
	then
		echo "there is no taskset or no second CPU, skipped"
		finish
		return
	fi
	must perf record --persistent="$name,discard,sideband=16K" -a -e $exec_event -m 256
	cp "$(command -v "$prog")" "$dir/early"
	taskset 2 "$dir/early" > /dev/null 2>&1
	i=0
	while [ $i -lt 100 ]
	do
		taskset 1 "$prog" > /dev/null 2>&1
		i=$((i + 1))
	done
	must perf persistent flush -o "$dir/early-1" "$name"
	must perf persistent flush -o "$dir/early-2" "$name"
	perf script --show-task-events -i "$dir/early-1" 2> /dev/null > "$dir/events"
	grep -q "COMM exec: early" "$dir/events" ||
		fail "the first log lacks the early program"
	perf script --show-task-events -i "$dir/early-2" 2> /dev/null > "$dir/events"
	grep -q "COMM exec: early" "$dir/events" && fail "the second log has it as well"
	grep -q "COMM exec: ${prog##*/}" "$dir/events" || fail "the second log has no names"
	stop
	finish
}

test_gap() {
	begin "A log that misses side-band, which was cleared, is begun anew"
	must perf record --persistent="$name-gap",discard,sideband=8K -a -e cpu-clock/freq=99/
	must perf persistent flush -o "$dir/gap" "$name-gap"
	run_programs 100
	must perf persistent clear "$name-gap"
	must perf persistent flush -o "$dir/gap" "$name-gap"
	grep -q "renamed $dir/gap to $dir/gap.1" "$dir/out" || fail "'$(cat "$dir/out")'"
	run_programs 5
	must perf persistent flush -o "$dir/gap" "$name-gap"
	grep -q "renamed" "$dir/out" && fail "it begins anew each time: '$(cat "$dir/out")'"
	stop "$name-gap"
	finish
}

# shellcheck disable=SC2317
has_threads() {
	[ "$(stat -c %h "/proc/$busy/task")" -gt "$1" ]
}

test_many_instances() {
	begin "More instances than a log can have are refused at once, and can be dumped to a file"
	threads=$((8200 / $(grep -c ^processor /proc/cpuinfo) + 1))
	if ! { echo 40000 > $max; } 2> /dev/null
	then
		skip "not root"
		return
	fi
	# They do nothing until all are there.
	perf bench futex hash -t $((threads * 3 / 2)) > /dev/null 2>&1 &
	busy=$!
	wait_for has_threads $threads || fail "there are no threads"
	kill -STOP $busy
	must perf record --persistent="$name-many",discard -p $busy -m 1 -e cpu-clock -c 1000000000
	limit="^cpu-clock has [0-9]* instances, and a log or a pipe can have 8[0-9]*: use "
	must_fail "$limit" perf persistent flush -o "$dir/many" "$name-many"
	[ -e "$dir/many" ] && fail "a log was begun"
	must_fail "$limit" sh -c "perf persistent dump -o - $name-many > /dev/null"
	must perf persistent dump -o "$dir/many" "$name-many"
	must_succeed "^cpu-clock$" perf evlist -i "$dir/many"
	stop "$name-many"
	kill -KILL $busy
	wait $busy 2> /dev/null
	busy=
	echo "$was_max" > $max
	finish
}

need_feature
need_tracepoints

test_flush
test_room
test_lost
test_left
test_killed
test_torn_log
test_refused
test_new_log
test_pipe
test_rotation
test_rotation_killed
test_rotation_idle
test_log_of_another
test_new_log_of_some_cpus
test_gap
test_many_instances

cleanup
exit $err
