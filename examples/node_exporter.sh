#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Give what all sessions have counted to the textfile collector of Prometheus' node_exporter.
# Run it by cron or a timer: node_exporter.sh FOLDER, the one of --collector.textfile.directory.
set -e

folder=${1:?which folder does node_exporter read?}
new=$folder/perf_persistent.prom.$$
trap 'rm -f "$new"' EXIT

# The collector must not see half of it, and reads no other names.
perf persistent read --openmetrics >"$new"
mv "$new" "$folder/perf_persistent.prom"
