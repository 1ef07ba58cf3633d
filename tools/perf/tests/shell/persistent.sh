#!/bin/sh
# perf persistent events (exclusive)
# SPDX-License-Identifier: GPL-2.0

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

exec_event=sched:sched_process_exec

# Keep the output of perf script for a file, for several searches
script() {
	perf script -F comm,event,trace -i "$1" > "$dir/script" 2> /dev/null ||
		fail "perf script cannot read $1"
}

count_execs() {
	grep -c "$exec_event: *filename=$prog " "$dir/script"
}

count_samples() {
	grep -c "$1" "$dir/script"
}

is_listed() {
	perf persistent list | grep -q "^$1 "
}

# Few samples, so that the execs are not overwritten in a long test.
start() {
	must perf record --persistent="$name" -a -e $exec_event -e cpu-clock/freq=9/ -g -m 512
}

test_without_feature() {
	begin "A kernel without persistent events is named as the reason"
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf record --persistent="$name" -a -e cpu-clock
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf record -e "persistent/$name/" -o "$dir/x" true
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf stat -e "persistent/$name/" true
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf persistent list
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf persistent dump "$name" -o "$dir/x"
	must_fail CONFIG_PERF_EVENTS_PERSISTENT perf persistent stop "$name"
	[ -e "$dir/x" ] && fail "something was recorded"
	finish
}

test_life() {
	begin "Programs that ran while no perf did are in the snapshot, each once"
	start
	grep -q "^$name: id [1-9]" "$dir/out" || fail "name and id are not printed"
	is_listed "$name" || fail "it is not listed"
	run_programs 20
	must perf persistent dump "$name" -o "$dir/data"
	script "$dir/data"
	[ "$(count_execs)" -eq 20 ] || fail "$(count_execs) of 20 execs are there"
	[ "$(count_samples "^ *prog *$exec_event:")" -eq 20 ] ||
		fail "they do not have the program's name"
	[ "$(count_samples cpu-clock)" -gt 0 ] || fail "cpu-clock has no samples"
	perf report -i "$dir/data" --stdio > "$dir/out" 2>&1 || fail "perf report fails"
	grep -q "\[kernel" "$dir/out" || fail "perf report shows no kernel symbols"
	finish
}

test_dump_again() {
	begin "A snapshot takes nothing away, and the session goes on"
	run_programs 5
	must perf persistent dump "$name" -o "$dir/data"
	script "$dir/data"
	[ "$(count_execs)" -eq 25 ] || fail "$(count_execs) of 25 execs are there"
	[ -e "$dir/data.old" ] || fail "the file that was there is gone"
	finish
}

test_follow() {
	begin "Two readers and a snapshot at once: each has all that ran meanwhile"
	for reader in follow1 follow2
	do
		until_done="touch $dir/ready.$reader; until [ -e $dir/done ]; do sleep 0.1; done"
		perf record -q -e "persistent/$name/" -o "$dir/$reader" -- sh -c "$until_done" \
			> "$dir/$reader.out" 2>&1 &
		eval "$reader=$!"
	done
	until [ -e "$dir/ready.follow1" ] && [ -e "$dir/ready.follow2" ]
	do
		sleep 0.1
	done
	run_programs 10
	touch "$dir/done"
	perf persistent dump -q "$name" -o "$dir/data" || fail "no snapshot"
	# shellcheck disable=SC2154
	wait "$follow1" || fail "$(cat "$dir/follow1.out")"
	# shellcheck disable=SC2154
	wait "$follow2" || fail "$(cat "$dir/follow2.out")"
	script "$dir/data"
	[ "$(count_execs)" -eq 35 ] || fail "$(count_execs) of 35 execs are in the snapshot"
	for reader in follow1 follow2
	do
		script "$dir/$reader"
		[ "$(count_execs)" -eq 10 ] || fail "$(count_execs) of 10 execs are in $reader"
	done
	finish
}

test_stat() {
	begin "perf stat prints what was added, and leaves the events counting"
	perf stat -x, -o "$dir/stat" -e "persistent/$name/" -- sh -c "$prog; $prog; $prog" \
		> /dev/null 2>&1
	count=$(grep $exec_event "$dir/stat" | cut -d, -f1)
	# The shell's own exec counts, too, and other execs may.
	if [ "$count" -lt 4 ] || [ "$count" -ge 35 ]
	then
		fail "it counts '$count' execs of 4"
	fi
	run_programs 2
	perf persistent dump -q "$name" -o "$dir/data" || fail "no snapshot"
	script "$dir/data"
	[ "$(count_execs)" -eq 40 ] || fail "$(count_execs) of 40 execs are there"
	finish
}

test_stop() {
	begin "A stopped session is gone"
	stop
	is_listed "$name" && fail "it is still listed"
	must_fail "$name" perf persistent dump "$name" -o "$dir/x"
	must_fail "$name" perf persistent stop "$name"
	[ -e "$dir/x" ] && fail "a file was left"
	finish
}

test_loop() {
	begin "A session overwrites the oldest records, says so, and tears none"
	must perf record --persistent="$name" -a -e cpu-clock -c 5000000 -g -m 1
	for i in 1 2 3 4 5
	do
		sleep 0.2
		must perf persistent dump "$name" -o "$dir/data"
		perf script -i "$dir/data" > /dev/null 2> "$dir/err" ||
			fail "snapshot $i is unreadable"
		# On a slow machine reading a map may time out, which is no tear.
		grep -qiE "unknown|invalid|corrupt|found .* (bad|unordered)|lost" "$dir/err" &&
			fail "snapshot $i: $(cat "$dir/err")"
	done
	grep -q "overwritten: [1-9]" "$dir/out" || fail "nothing is said of what was overwritten"
	stop
	finish
}

test_until_full() {
	begin "With discard the first samples stay, the lost ones are counted"
	must perf record --persistent="$name",discard -a -e cpu-clock -c 1000000 -m 1
	sleep 1
	must perf persistent dump "$name" -o "$dir/data"
	grep -q "dropped, buffer full: [1-9][0-9]* samples" "$dir/out" ||
		fail "nothing is said of lost samples"
	script "$dir/data"
	was=$(count_samples cpu-clock)
	[ "$was" -gt 0 ] || fail "there are no samples"
	perf persistent dump -q "$name" -o "$dir/data" || fail "no second snapshot"
	script "$dir/data"
	[ "$(count_samples cpu-clock)" -eq "$was" ] || fail "they do not stay"
	stop
	finish
}

test_names() {
	begin "A name that is invalid, taken or means something else is refused"
	for bad in Web 1a a.b a/b period cpu event id
	do
		must_fail "$bad" perf record --persistent=$bad -a -e cpu-clock
	done
	start
	must_fail "$name" perf record --persistent="$name" -a -e cpu-clock
	must_fail "$name" perf stat -e "$name" true
	must_fail "no-such" perf record -o "$dir/x" -e persistent/no-such/ true
	must_fail "No such persistent event" perf stat -e persistent/no-such/ true
	must_fail "Several sessions in one event" perf stat -e "persistent/$name,id=1/" true
	grep -q "unknown term" "$dir/out" && fail "there are two errors: $(cat "$dir/out")"
	must_fail "unknown term 'no-term'" perf stat -e "persistent/$name,no-term=1/" true
	grep -q "No such persistent" "$dir/out" && fail "there are two errors: $(cat "$dir/out")"
	must_fail "2000000000" perf record -o "$dir/x" -e persistent/id=2000000000/ true
	must_fail "no-such" perf persistent dump no-such -o "$dir/x"
	must_fail "2000000000" perf persistent dump 2000000000 -o "$dir/x"
	must_fail "0x7fffffff" perf persistent stop 0x7fffffff
	must_fail "a/../b" perf persistent stop a/../b
	[ -e "$dir/x" ] && fail "a file was left"
	finish
}

test_refused() {
	begin "Options that make no sense are refused by name"
	for option in "-o $dir/x" "--switch-output" "--control fd:1" "--max-size 1M"
	do
		# shellcheck disable=SC2086
		must_fail "^${option%% *} " perf record --persistent="$name-2" -e cpu-clock $option
	done
	for option in "-F 99" "-c 1" "-g" "-m 2" "-D 10" "--per-thread"
	do
		# shellcheck disable=SC2086
		must_fail "is not supported" \
			perf record -o "$dir/x" -e "persistent/$name/" $option true
	done
	for option in "-F 99" "-c 1" "-m 2" "-i" "-b"
	do
		# shellcheck disable=SC2086
		must_fail "^${option%% *} is not supported" \
			perf top --stdio -e "persistent/$name/" $option
	done
	for option in "-m 2" "-D 10" "--filter-pids 1" --no-inherit "--call-graph fp"
	do
		# shellcheck disable=SC2086
		must_fail "^${option%% *} is not supported" \
			perf trace -e "persistent/$name/" $option true
	done
	must_fail "^--control is not supported" \
		perf record -e "persistent/$name/" -o "$dir/x" --control fd:1
	must_fail "^--control is not supported" perf stat -e "persistent/$name/" --control fd:1
	must_fail "modifiers" perf record -o "$dir/x" -e "persistent/$name/u" true
	must_fail "filtered" perf record -o "$dir/x" -e "persistent/$name/" --filter 'pid == 1' true
	must_fail "^-i is not supported" perf stat -e "persistent/$name/" -i true
	for option in "-c 5" -i -n -s -P -R -T -W --all-cgroups --all-user --kernel-callchains \
		      --namespaces --no-buffering --phys-data --running-time --sample-cpu \
		      --sample-mem-info --switch-events --user-callchains
	do
		# shellcheck disable=SC2086
		must_fail "^${option%% *} .*with running sessions" \
			perf record -o "$dir/x" -e "persistent/$name/" $option true
	done
	must_fail "none of the CPUs" perf stat -e "persistent/$name/" -C 4095 true
	must_fail "no such CPUs" perf stat -e "persistent/$name/" -C 100000 true
	is_listed "$name-2" && fail "something was started"
	[ -e "$dir/x" ] && fail "a file was left"
	finish
}

test_half_done() {
	begin "A session that cannot be set up as a whole leaves nothing behind"
	must_fail "no_such_field" perf record --persistent="$name-2" -a -e cpu-clock \
		-e $exec_event --filter 'no_such_field == 1'
	is_listed "$name-2" && fail "something was left"
	finish
}

test_output() {
	begin "An output that cannot be written is named, and no part of it is left"
	must_fail "$dir/none/x" perf persistent dump "$name" -o "$dir/none/x"
	must_fail "/dev/null" perf persistent dump "$name" -o /dev/null
	must_fail "/proc/x" perf persistent dump "$name" -o /proc/x
	# A limit on the size of files has the effect of a full disk.
	limit="trap '' XFSZ; ulimit -f 4; exec perf"
	mkdir "$dir/full"
	must_fail "$dir/full/x" sh -c "$limit persistent dump $name -o $dir/full/x"
	[ -z "$(ls "$dir/full")" ] || fail "$(ls "$dir/full") was left"
	must_fail "failed to write perf data" \
		sh -c "$limit record -e persistent/$name/ -o $dir/full/x true"
	must_fail "Failed to collect" \
		perf record -e "persistent/$name/" -o "$dir/full/x" "$dir/no-such-program"
	is_listed "$name" || fail "the session ended"
	stop
	finish
}

[ -e "$pmu/type" ] || test_without_feature
need_feature
need_tracepoints

test_life
test_dump_again
test_follow
test_stat
test_stop
test_loop
test_until_full
test_names
test_refused
test_half_done
test_output

cleanup
exit $err
