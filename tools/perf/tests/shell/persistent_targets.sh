#!/bin/sh
# perf persistent events: tasks, commands, cgroups and groups (exclusive)
# SPDX-License-Identifier: GPL-2.0

# From starting a session to reading it, with exactly known counts.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

cgroup=/sys/fs/cgroup/$name
call=syscalls:sys_enter_getppid
pipe_write=syscalls:sys_enter_write
page=$(getconf PAGE_SIZE 2> /dev/null || echo 4096)

take_back() {
	touch "$dir/go"
	for sub in "$cgroup/one/sub" "$cgroup/one" "$cgroup/two" "$cgroup"
	do
		[ -d "$sub" ] && rmdir "$sub"
	done
}

calls() {
	perf bench syscall basic -l "$1" > /dev/null
}

# is WHAT VALUE WANTED: expect them to be equal
is() {
	[ "$2" = "$3" ] || fail "$1: '$2' and not '$3'"
}

# read_is NAME EVENT WANTED: expect that count in 'perf persistent read'
read_is() {
	perf persistent read -x, "$1" > "$dir/read" 2>&1
	is "read $1: $2" "$(awk -F, -v e="$2" '$3 == e { print $1, $5 }' "$dir/read")" "$3 100.00"
}

# parts_are NAME EVENT WANTED: expect that sum over CPUs and tasks
parts_are() {
	perf persistent read -A -x, "$1" > "$dir/read" 2>&1
	is "read -A $1: $2" \
	   "$(awk -F, -v e="$2" '$3 == e { n += $1 } END { print n + 0 }' "$dir/read")" "$3"
}

# part_is NAME EVENT PID WANTED: expect that count of one process
part_is() {
	perf persistent read -A -x, "$1" > "$dir/read" 2>&1
	is "read -A $1: $2 of process $3" \
	   "$(awk -F, -v e="$2" -v p="$3" '$3 == e && $9 == p { print $1 }' "$dir/read")" "$4"
}

# stat_is FILE EVENT WANTED: expect that sum in the output of perf stat -x,
stat_is() {
	is "stat $2" "$(awk -F, -v e="$2" '$3 == e { n += $1 } END { print n + 0 }' "$1")" "$3"
}

# script_is FILE FIELDS PATTERN WANTED: expect so many lines of perf script
script_is() {
	is "$1: $3" "$(perf script -F "$2" -i "$1" 2> "$dir/err" | grep -c "$3")" "$4"
	grep -qiE "unknown|invalid|corrupt|failed" "$dir/err" && fail "$1: $(cat "$dir/err")"
}

# follow NAME PERF OPTION...: run perf until followed NAME; $NAME is its pid
follow() {
	as=$1
	shift
	rm -f "$dir/$as.ready" "$dir/$as.done"
	"$@" -- sh -c "touch $dir/$as.ready; until [ -e $dir/$as.done ]; do sleep 0.1; done" \
		> "$dir/$as.out" 2>&1 &
	eval "$as=$!"
	wait_for [ -e "$dir/$as.ready" ] || fail "'$*' does not start: $(cat "$dir/$as.out")"
}

# followed NAME...: end the followers
followed() {
	for as in "$@"
	do
		touch "$dir/$as.done"
		eval "wait \$$as" || fail "$(cat "$dir/$as.out")"
	done
}

# The process gets a child and threads while it is recorded
test_process() {
	begin "A process: its children and threads are recorded, and stay when it has ended"
	rm -f "$dir/go"
	cat > "$dir/wait.sh" <<-END
		until [ -e $dir/go ]; do sleep 0.1; done
		perf bench syscall basic -l 300
		exec perf bench sched pipe -T -l 200
	END
	sh "$dir/wait.sh" > /dev/null &
	pid=$!
	must perf record --persistent="$name" -c 1 -e $call -e $pipe_write \
		--filter 'count == 4' -m 64 -p $pid
	must perf stat --persistent="$name-2" -e $call -e $pipe_write --filter 'count == 4' -p $pid
	follow record perf record -q -e "persistent/$name/" -o "$dir/follow"
	follow stat perf stat -x, -o "$dir/stat" -e "persistent/$name/"
	follow threads perf stat --per-thread -o "$dir/threads" -e "persistent/$name-2/"
	touch "$dir/go"
	wait $pid || fail "the process fails"
	followed record stat threads

	for each in "$name" "$name-2"
	do
		read_is "$each" $call 300
		read_is "$each" $pipe_write 400
	done
	parts_are "$name" $pipe_write 400
	stat_is "$dir/stat" $call 300
	stat_is "$dir/stat" $pipe_write 400
	is "stat --per-thread" "$(grep -c "^ *sh-$pid  *[34]00 " "$dir/threads")" 2

	must perf persistent dump "$name" -o "$dir/data"
	for file in "$dir/data" "$dir/follow"
	do
		script_is "$file" comm,event "syscall-basic *$call" 300
		script_is "$file" comm,pid,event "sched-pipe *$pid *$pipe_write" 400
	done
	stop "$name" "$name-2"
	finish
}

# bench_later CALLS: run a process that makes them when it is told to
bench_later() {
	rm -f "$dir/begun"
	sh -c ": > $dir/begun; until [ -e $dir/go ]; do sleep 0.1; done
	       exec perf bench syscall basic -l $1" > /dev/null &
	wait_for [ -e "$dir/begun" ] || fail "the process does not start"
}

test_several() {
	begin "Several processes: what each did is told apart, and what all did is the sum"
	rm -f "$dir/go"
	bench_later 30
	first=$!
	bench_later 7
	second=$!
	must perf stat --persistent="$name" -e $call -p $first,$second
	must perf stat --persistent="$name-2" -i -e $call -p $first,$second
	touch "$dir/go"
	wait $first || fail "the first process fails"
	wait $second || fail "the second process fails"
	for each in "$name" "$name-2"
	do
		part_is "$each" $call $first 30
		part_is "$each" $call $second 7
		read_is "$each" $call 37
		parts_are "$each" $call 37
	done
	stop "$name" "$name-2"
	finish
}

test_chosen() {
	begin "With shared buffers, -p and -t show only the records of the given process"
	rm -f "$dir/go"
	bench_later 30
	first=$!
	bench_later 7
	second=$!
	must perf record --persistent="$name,discard" -c 1 -m 64 -e $call -p $first,$second
	follow process perf record -q -e "persistent/$name/" -p $second -o "$dir/process"
	touch "$dir/go"
	wait $first || fail "the first process fails"
	wait $second || fail "the second process fails"
	followed process
	# The same after it has ended
	must perf record --history -e "persistent/$name/" -t $second -o "$dir/thread" true
	# Buffers without a CPU, ordinary ones as well
	must perf record --affinity=cpu --per-thread -e cpu-clock -o "$dir/x" true
	must perf record --history -e "persistent/$name/" -p $second -o "$dir/ended" true
	must_succeed "for process id '$second'" perf stat -e "persistent/$name/" -p $second true
	must perf record --history -e "persistent/$name/" -p $second \
		-C "$(cat /sys/devices/system/cpu/online)" -o "$dir/cpus" true
	grep -q overrid "$dir/out" && fail "CPUs beside a process: $(cat "$dir/out")"
	for file in "$dir/process" "$dir/thread" "$dir/ended" "$dir/cpus"
	do
		script_is "$file" pid,event "^ *$second *$call" 7
		script_is "$file" pid,event "^ *$first *$call" 0
	done
	must_fail "^--consume takes all records of a buffer: leave out -p" \
		perf record --consume -e "persistent/$name/" -t $second -o "$dir/x" true
	must perf record --history -e "persistent/$name/" -o "$dir/all" true
	script_is "$dir/all" event $call 37
	stop
	finish
}

# The count so far is known while the process is stopped.
test_threads() {
	begin "A process with threads: their events from now on are counted exactly"
	perf stat --persistent="$name" -e $pipe_write --filter 'count == 4' \
		-- sh -c "echo \$\$ $name > $dir/pid; until [ -e $dir/bench ]; do sleep 0.1; done; \
			  exec perf bench sched pipe -T -l 3000" \
		> "$dir/threads.out" 2>&1 &
	waiting=$!
	wait_for [ -s "$dir/pid" ] || fail "$(cat "$dir/threads.out")"
	read -r pid _ < "$dir/pid"
	touch "$dir/bench"
	tries=1000000
	# Do not sleep, or the threads end first.
	until set -- "/proc/$pid/task"/* && [ $# -ge 3 ]
	do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || { fail "there are no threads"; return; }
	done
	kill -STOP "$pid"
	tids=
	for task in "/proc/$pid/task"/*
	do
		[ "${task##*/}" = "$pid" ] || tids=$tids,${task##*/}
	done
	tids=${tids#,}
	sleep 0.1
	was=$(perf persistent read -x, "$name" | cut -d, -f1)
	must perf record --persistent="$name-2" -c 10 -e $pipe_write --filter 'count == 4' \
		-m 64 -p "$pid"
	must perf stat --persistent="$name-3" -e $pipe_write --filter 'count == 4' -p "$pid"
	must perf stat --persistent="$name-4" -e $pipe_write --filter 'count == 4' -t "$tids"
	kill -CONT "$pid"
	wait $waiting
	read_is "$name" $pipe_write 6000
	for each in "$name-2" "$name-3" "$name-4"
	do
		read_is "$each" $pipe_write $((6000 - was))
	done
	must perf persistent dump "$name-2" -o "$dir/data"
	[ "$(perf script -F pid,tid -i "$dir/data" 2> /dev/null | sort -u | grep -c "^ *$pid/")" \
	  -eq 2 ] || fail "there are samples of other than 2 threads of $pid"
	must_fail "none of the CPUs" perf stat -e "persistent/$name-2/" -C 4000 true
	must_fail "no events of process $$" perf stat -e "persistent/$name-2/" -p $$ true
	stop "$name" "$name-2" "$name-3" "$name-4"
	finish
}

test_command() {
	begin "A command: its status, all its samples with names and symbols, and its counts"
	perf record --persistent="$name" -c 1 -e $call -m 64 \
		-- sh -c "perf bench syscall basic -l 500; exit 3" > "$dir/out" 2>&1
	is "status" $? 3
	must perf persistent dump "$name" -o "$dir/data"
	script_is "$dir/data" comm,event "syscall-basic *$call" 500
	script_is "$dir/data" comm,event,ip,sym,dso "^ *syscall-basic.*getppid.*(.*libc" 500
	stop "$name"
	perf stat --persistent="$name" -e $call -- perf bench syscall basic -l 500 > "$dir/out" 2>&1
	read_is "$name" $call 500
	must perf stat -x, -o "$dir/stat" --per-thread -e "persistent/$name/" true
	must perf stat --persistent="$name-2" -a -e page-faults
	must_fail "session '$name-2' measures CPUs" \
		perf stat --per-thread -e "persistent/$name-2/" true
	for option in -A --per-socket --per-core
	do
		must_fail "session '$name' measures tasks on any CPU: leave out -A and --per-" \
			perf stat $option -e "persistent/$name/" true
	done
	must perf stat -A -e "persistent/$name-2/" true
	stop "$name-2"
	must_succeed "counter stats for session '$name':" perf stat -e "persistent/$name/" true
	stop "$name"
	must perf record --persistent="$name" -e cpu-clock:u -- perf test -w noploop 1
	must perf persistent dump "$name" -o "$dir/data"
	stop "$name"
	perf report --stdio -s comm,dso,sym -i "$dir/data" > "$dir/report" 2>&1
	grep -q "perf-noploop *perf *\[\.\] noploop" "$dir/report" ||
		fail "no noploop: $(cat "$dir/report")"
	perf annotate --stdio -i "$dir/data" noploop > "$dir/annotate" 2>&1 ||
		grep -q objdump "$dir/annotate" || fail "perf annotate: $(cat "$dir/annotate")"
	finish
}

# in_cgroup NAME COMMAND...: run it in that cgroup
in_cgroup() {
	sub=$1
	shift
	sh -c "echo \$\$ > $cgroup/$sub/cgroup.procs && exec \"\$@\"" sh "$@" > /dev/null
}

make_cgroups() {
	# The controller joins a version 2 hierarchy only after it left another one.
	mkdir "$dir/v1"
	mount -t cgroup -o perf_event cgroup "$dir/v1" 2> /dev/null && umount "$dir/v1"
	sleep 0.5
	mkdir "$cgroup" "$cgroup/one" "$cgroup/one/sub" "$cgroup/two" 2> /dev/null
	one=${cgroup##*/}/one
	two=${cgroup##*/}/two
	perf stat --persistent="$name" -a -e $call,page-faults --for-each-cgroup "$one,$two" \
		> "$dir/out" 2>&1
}

test_cgroups() {
	begin "Cgroups on the same CPUs: each has its own counts"
	if ! make_cgroups
	then
		skip "no perf_event controller"
		return
	fi
	must perf record --persistent="$name-2" -a -c 1 -m 64 --all-cgroups \
		-e $call -G "$one" -e $call -G "$two"
	follow record perf record -q -e "persistent/$name-2/" -o "$dir/follow"
	follow stat perf stat -x, -o "$dir/stat" -e "persistent/$name/"
	in_cgroup one taskset 1 perf bench syscall basic -l 50
	in_cgroup one/sub perf bench syscall basic -l 7
	in_cgroup two perf bench syscall basic -l 30
	followed record stat

	for each in "$name" "$name-2"
	do
		is "read $each" "$(perf persistent read -x, "$each" |
			awk -F, -v e=$call '$3 == e { print $1, $10 }' | tr '\n' ' ')" \
			"57 /$one 30 /$two "
		is "read -A $each" "$(perf persistent read -A -x, "$each" |
			awk -F, -v e=$call -v one="/$one\$" '$3 == e && $10 ~ one { n += $1 }
			END { print n }')" 57
	done
	perf persistent read "$name" | grep -q "57 .*$call in /$one$" || fail "read names no cgroup"
	perf persistent read -j "$name" | grep -q "\"cgroup\": *\"/$one\"" ||
		fail "read -j names no cgroup"
	for nr in "57,,$call,.*$one" "30,,$call,.*$two"
	do
		grep -q "^$nr" "$dir/stat" || fail "stat has no $nr: $(cat "$dir/stat")"
	done
	must perf persistent dump "$name-2" -o "$dir/data"
	for file in "$dir/data" "$dir/follow"
	do
		script_is "$file" event,cgroup "$call: */$one\$" 50
		script_is "$file" event,cgroup "$call: */$one/sub\$" 7
		script_is "$file" event,cgroup "$call: */$two\$" 30
	done
	test_instance
	stop "$name" "$name-2"
	finish
}

# Instances 2 and 3 are those of the second cgroup on the first two CPUs.
test_instance() {
	id=$(perf persistent list -x, | awk -F, -v n="$name-2" '$1 == n { print $2 }')
	cpus=$(grep -c ^processor /proc/cpuinfo)
	follow record perf record -q -e "persistent/id=$id,instance=$((cpus + 1))/" -o "$dir/follow"
	in_cgroup one taskset 1 perf bench syscall basic -l 5
	in_cgroup two taskset 1 perf bench syscall basic -l 9
	followed record
	script_is "$dir/follow" event $call 9
	must perf stat -x, -o "$dir/stat" -e "persistent/id=$id,instance=$((cpus + 1))/" true
	is "stat of an instance" "$(grep -c ",$call," "$dir/stat")" 1
	must_fail "no such instance" perf stat -e "persistent/id=$id,instance=4000/" true
	for terms in "$name,event=1" "$name,id=1" "id=$id,event=1"
	do
		must_fail "Several sessions in one event" perf stat -e "persistent/$terms/" true
	done
}

test_odd_names() {
	begin "Names with quotes and backslashes are valid JSON"
	odd="$cgroup/a\\x2d\"b"
	if ! mkdir -p "$odd" 2> /dev/null
	then
		skip "no cgroups"
		return
	fi
	perf stat -j -a -e cpu-clock -G "${odd#/sys/fs/cgroup/}" true 2> "$dir/stat"
	{ echo "["; sed '1!s/^/,/' "$dir/stat"; echo "]"; } > "$dir/json"
	grep -q x2d "$dir/json" || fail "it does not show the cgroup: $(cat "$dir/json")"
	json_is_valid "$dir/json" || fail "no JSON: $(cat "$dir/json")"
	rmdir "$odd"
	finish
}

test_groups() {
	begin "Groups stay groups in dumps, counts and followed sessions"
	must perf record --persistent="$name" -a -c 1 -m 64 -e "{$call,$pipe_write}:S"
	must perf stat --persistent="$name-3" -e "{$call,$pipe_write}" -- \
		perf bench syscall basic -l 20
	must perf record --persistent="$name-2" -c 1 -m 64 -e "{$call,$pipe_write}:S" -- \
		perf bench syscall basic -l 20
	must perf record -e "persistent/$name/" -o "$dir/follow" -- perf bench syscall basic -l 20
	must perf persistent dump "$name" -o "$dir/data"
	must perf persistent dump "$name-2" -o "$dir/task"
	for file in "$dir/data" "$dir/follow" "$dir/task"
	do
		perf evlist -g -i "$file" | grep -q "^{$call,$pipe_write}" ||
			fail "$file: the group is $(perf evlist -g -i "$file")"
		must perf report --group --stdio -s comm -i "$file"
		grep -q "of events* '.*$call, $pipe_write" "$dir/out" ||
			fail "$file: report --group says $(cat "$dir/out")"
	done
	for file in "$dir/follow" "$dir/task"
	do
		script_is "$file" comm,event "syscall-basic *$call" 20
	done
	read_is "$name-2" $call 20
	read_is "$name-3" $call 20
	perf stat -x, -o "$dir/stat" -e "persistent/$name/" -- perf bench syscall basic -l 20 \
		> /dev/null 2>&1
	stat_is "$dir/stat" $call 20
	grep -q "^[1-9][0-9]*,,$pipe_write," "$dir/stat" ||
		fail "the sibling counts nothing: $(cat "$dir/stat")"
	stop "$name" "$name-2" "$name-3"
	finish
}

# A shell writes its pid, and executes the program
run_listed() {
	i=0
	while [ $i -lt "$1" ]
	do
		sh -c "echo \$\$ >> $dir/list; exec $prog" > /dev/null 2>&1
		i=$((i + 1))
	done
}

test_interrupted_hand_over() {
	begin "A consumer that is interrupted: the next one has the rest, each record once"
	must perf record --persistent="$name",discard -a -c 1 -e sched:sched_process_exec -m 64
	run_listed 2
	follow first perf record -q -e "persistent/$name/" --consume -o "$dir/first"
	run_listed 3
	# shellcheck disable=SC2154
	(wait_for grep -q "waiting for it to end" "$dir/second.out" 2> /dev/null &&
	 kill -INT "$first") &
	follow second perf record -e "persistent/$name/" --consume -o "$dir/second" &
	run_listed 10
	wait "$first"
	[ $? -gt 128 ] || fail "the first was not interrupted"
	wait_for [ -e "$dir/second.ready" ] || fail "the second does not take over"
	run_listed 3
	touch "$dir/second.done"
	wait
	for file in first second
	do
		perf script -F pid,event,trace -i "$dir/$file" 2> /dev/null |
			awk -v p="filename=$prog" '$3 == p { print $1 }' | sort > "$dir/$file.pids"
		[ -s "$dir/$file.pids" ] || fail "the $file has nothing"
	done
	sort "$dir/list" > "$dir/sorted"
	sort "$dir/first.pids" "$dir/second.pids" | cmp -s - "$dir/sorted" ||
		fail "$(sort "$dir/first.pids" "$dir/second.pids" | diff - "$dir/sorted")"
	stop "$name"
	finish
}

test_clock() {
	begin "The clock that was chosen is in what is read"
	must perf record --persistent="$name" -a -k CLOCK_MONOTONIC -e cpu-clock -F 99
	must perf record -e "persistent/$name/" -o "$dir/follow" sleep 0.2
	must perf persistent dump "$name" -o "$dir/data"
	for file in "$dir/data" "$dir/follow"
	do
		perf report --header-only -i "$file" 2> /dev/null |
			grep -q "clockid: monotonic (1)" || fail "$file has no clockid"
	done
	must perf record --persistent="$name-2" -a -e cpu-clock -F 99
	must_fail "cpu-clock of $name and cpu-clock of $name-2 have different clocks" \
		perf record -e "persistent/$name/" -e "persistent/$name-2/" -o "$dir/x" true
	rm -f "$dir/x"
	stop "$name" "$name-2"
	finish
}

test_horizon() {
	begin "Following --history of overwritten side-band says how far back it reaches"
	must perf record --persistent="$name" -a -c 1 -e $call -m 1
	calls 5
	# Some comm, fork, exit and mmap records each
	i=0
	while [ $i -lt $((page / 50)) ]
	do
		"$prog" > /dev/null 2>&1
		i=$((i + 1))
	done
	must perf record --history -e "persistent/$name/" -o "$dir/data" true
	grep -q "names of tasks that ended before [0-9.]* are lost, [1-9][0-9]* samples are older" \
		"$dir/out" || fail "perf says '$(cat "$dir/out")'"
	stop "$name"
	finish
}

test_counting() {
	begin "A session that only counts has no records, and perf says what to do"
	must perf stat --persistent="$name" -e $call -- perf bench syscall basic -l 3
	must perf record --persistent="$name-2" -a -c 1 -e $call -m 1
	must_fail "'perf persistent read $name'" perf persistent dump "$name" -o "$dir/x"
	must_fail "'perf persistent read $name'" perf record -e "persistent/$name/" -o "$dir/x" true
	must_fail "'perf persistent read $name'" perf record -o "$dir/x" \
		-e "persistent/$name-2/" -e "persistent/$name/" true
	[ -e "$dir/x" ] && fail "a file was left"
	stop "$name" "$name-2"
	finish
}

test_two() {
	begin "Two sessions at once, one of a command and one of CPUs"
	must perf record --persistent="$name" -c 1 -e $call -m 16 -- perf bench syscall basic -l 40
	must perf record --persistent="$name-2" -a -c 1 -e $call -m 16
	must_succeed "counter stats for sessions '$name,$name-2':" \
		perf stat -e "persistent/$name/" -e "persistent/$name-2/" true
	must perf record -e "persistent/$name/" -e "persistent/$name-2/" --history \
		-o "$dir/data" -- perf bench syscall basic -l 10
	script_is "$dir/data" comm,event "syscall-basic *$call" 50
	must perf record -e "persistent/$name-2/" -e "persistent/$name/" -o "$dir/data" \
		-- perf bench syscall basic -l 10
	script_is "$dir/data" comm,event "syscall-basic *$call" 10
	perf stat -x, -o "$dir/stat" -e "persistent/$name/" -e "persistent/$name-2/" \
		-- perf bench syscall basic -l 10 > /dev/null 2>&1
	stat_is "$dir/stat" $call 10
	stop "$name" "$name-2"
	finish
}

need_feature
need "no events of system calls, or no right to them" perf stat -e $call -e $pipe_write true

test_process
test_several
test_chosen
test_threads
test_command
test_cgroups
test_odd_names
test_groups
test_interrupted_hand_over
test_clock
test_horizon
test_counting
test_two

cleanup
exit $err
