#!/bin/bash
# perf report without addr2line
# SPDX-License-Identifier: GPL-2.0

# Without inlined functions, perf report shows the others and does not fail.

dir=$(mktemp -d /tmp/perf_addr2line_missing.XXXXXX) || exit 1
trap 'rm -rf "$dir"' EXIT

export PERF_CONFIG=$dir/config
echo "[addr2line]
	style = addr2line" > "$dir/config"

if ! perf record -q -g -e cpu-clock -o "$dir/data" perf test -w noploop 1 2> "$dir/err"
then
	echo "perf report without addr2line [Skipped: $(cat "$dir/err")]"
	exit 2
fi

perf report --addr2line "$dir/none" --stdio -i "$dir/data" > "$dir/out" 2> "$dir/err"
status=$?
if [ $status -ne 0 ] || ! grep -q noploop "$dir/out"
then
	echo "perf report without addr2line [Failed: status $status, $(cat "$dir/err")]"
	exit 1
fi
echo "perf report without addr2line [Success]"
