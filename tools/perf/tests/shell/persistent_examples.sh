#!/bin/sh
# perf persistent: examples of the documentation (exclusive)
# SPDX-License-Identifier: GPL-2.0

# Documentation/userspace-api/perf_persistent_*.rst shows these scripts to those who come from
# elsewhere. The name of the session and the folder are changed here, and nothing else.

# shellcheck source=lib/persistent.sh disable=SC2154
. "$(dirname "$0")"/lib/persistent.sh

# Run an example; each command must succeed.
run() {
	sed -e "s/web/$name/g" -e "s,/tmp/,$dir/,g" "$dir/$1" > "$dir/$1.sh"
	sh -e "$dir/$1.sh" > "$dir/out" 2>&1 || fail "it fails: $(cat "$dir/out")"
	[ -e "$pmu/events/$name" ] && fail "it leaves the session"
}

# and_does_not_say TEXT: expect that TEXT is not in the last output
and_does_not_say() {
	grep -q -e "$1" "$dir/out" && fail "it says '$1': $(cat "$dir/out")"
}

cat > "$dir/posix_trace" << 'POSIX_TRACE'
# posix_trace_create(), suspended, discarding what does not fit, with starts and stops as records
perf record --persistent=web,discard -a -D -1 \
	-e sched:sched_process_exec -e perf_persistent:persistent_mark \
	-e perf_persistent:persistent_enable -e perf_persistent:persistent_disable

# posix_trace_start(), posix_trace_event(), posix_trace_stop()
perf persistent enable web
perf persistent mark web "an event of my own"
env true
perf persistent disable web

# posix_trace_flush(), posix_trace_get_status(), posix_trace_shutdown()
perf persistent flush -o /tmp/web.log --max-size 1M --until-full web
perf persistent status -i /tmp/web.log web
perf persistent stop web

# posix_trace_open(), posix_trace_getnext_event()
perf script -i /tmp/web.log
POSIX_TRACE

test_posix_trace() {
	begin "The example for those who come from POSIX trace does what it says"
	run posix_trace
	and_says "persistent_mark: .*an event of my own"
	and_says "sched_process_exec: "
	and_says "persistent_enable: "
	and_says "persistent_disable: "
	and_says "^  state:  *disabled$"
	and_says "^  log full:  *no$"
	finish
}

cat > "$dir/hwpmc" << 'HWPMC'
# pmcstat -d -p page-faults -t PID: count what runs already, and its children to come
sleep 1000 & first=$!
sleep 1000 & second=$!
perf stat --persistent=web -e page-faults -p $first

# pmc_attach(): all of it, with the children that it has
perf persistent add --pid $second --descendants web

# A process that has ended keeps its final count
kill $first
wait $first || perf persistent list -v web
perf persistent read -A web

# pmc_detach(); pmc_release()
perf persistent drop --pid $second web
perf persistent stop web
kill $second
HWPMC

test_hwpmc() {
	begin "The example for those who come from hwpmc does what it says"
	run hwpmc
	and_says "pid [0-9]*, exited, "
	and_says "measures 1 more thread"
	[ "$(grep -c "page-faults" "$dir/out")" -ge 2 ] || fail "$(cat "$dir/out")"
	finish
}

cat > "$dir/utrace" << 'UTRACE'
# utrace_set_events(): programs that start and end, of which 'env' is not to be reported
perf record --persistent=web -a -e perf_persistent:persistent_mark \
	-e sched:sched_process_exec -e sched:sched_process_exit
perf persistent set web --event sched:sched_process_exec --filter '!(filename ~ "*env")'
env true

# Some events less, while it goes on: when this returns, none of them is reported any more
perf persistent disable --event sched:sched_process_exit web
perf persistent mark web "no exits from here on"

# All of them less: what is in the buffers now is all
perf persistent disable web
perf persistent dump -o /tmp/web.data web
perf persistent stop web
perf script -i /tmp/web.data
UTRACE

test_utrace() {
	begin "The example for those who come from utrace does what it says"
	run utrace
	and_says "sched_process_exec: "
	and_says "sched_process_exit: "
	and_does_not_say "filename=[^ ]*env "
	sed '1,/persistent_mark:/d' "$dir/out" > "$dir/later"
	grep -q "sched_process_exec: " "$dir/later" || fail "no exec is after the mark"
	grep -q "sched_process_exit: " "$dir/later" && fail "an exit is after the mark"
	finish
}

cat > "$dir/pcp" << 'PCP'
# What the agent reads with "[dynamic] persistent.web"; the last two are records of who borrows it
perf record --persistent=web -a -e page-faults \
	-e perf_persistent:persistent_hold -e perf_persistent:persistent_release

# perfalloc COMMAND: the counters are free when it starts, and its exit status comes back
perf persistent reserve web -- sh -c 'perf persistent list web; exit 3' || echo "exit status $?"

# perfalloc -d, until it is killed
holder=$(perf persistent reserve -d web)
perf persistent list web
kill "$holder"

# Nothing was counted meanwhile, and the records tell when that was
perf persistent read web
perf persistent dump -o /tmp/web.data web
perf persistent stop web
perf script -i /tmp/web.data
PCP

test_pcp() {
	begin "The example for those who come from PCP does what it says"
	run pcp
	[ "$(grep -c "^$name .* held " "$dir/out")" -eq 2 ] ||
		fail "it is not held twice: $(cat "$dir/out")"
	and_says "^exit status 3$"
	and_says "persistent_hold: "
	and_says "persistent_release: "
	finish
}

need_feature
need_tracepoints

test_posix_trace
test_hwpmc
test_utrace
test_pcp

cleanup
exit $err
