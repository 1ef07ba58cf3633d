#!/bin/bash
# perf data convert of names that are not UTF-8
# SPDX-License-Identifier: GPL-2.0

# The kernel truncates the name of a task to 15 bytes, also within a character.

dir=$(mktemp -d /tmp/perf_data_convert_utf8.XXXXXX) || exit 1
trap 'rm -rf "$dir"' EXIT

if ! perf check feature -q libtraceevent ||
   ! perf record -q -e cpu-clock -o "$dir/data" perf test -w noploop 0.1 2> "$dir/err"
then
	echo "perf data convert of names [Skipped: $(cat "$dir/err")]"
	exit 2
fi

name=$'fourteen_bytes\xc3\xbc'
cp "$(command -v perf)" "$dir/$name" &&
perf record -q -e cpu-clock -o "$dir/data" "$dir/$name" test -w noploop 0.1 &&
perf data convert --to-json "$dir/json" -i "$dir/data" 2> "$dir/err"
status=$?
if [ $status -ne 0 ] || ! grep -qF '"comm": "fourteen_bytes\ufffd"' "$dir/json"
then
	echo "perf data convert of names [Failed: status $status, $(cat "$dir/err")]"
	grep -m 1 '"comm": "four' "$dir/json"
	exit 1
fi
echo "perf data convert of names [Success]"
