#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Export the counts of all sessions to the textfile collector of Prometheus' node_exporter.
# Run it from cron or a timer: node_exporter.sh FOLDER, as in --collector.textfile.directory.
set -e

folder=${1:?which folder does node_exporter read?}
new=$folder/perf_persistent.prom.$$
trap 'rm -f "$new"' EXIT

# The collector must not see a partial file; it ignores files without .prom.
perf persistent read --openmetrics >"$new"
mv "$new" "$folder/perf_persistent.prom"
