#!/usr/bin/mawk -f
# SPDX-License-Identifier: GPL-2.0
#
# Read the output of tests, (K)TAP between "<<< NAME" and ">>> NAME STATUS"; print a line for
# each test, and the whole output of those that failed. Append "passed failed skipped" to the
# file that -v counts= names. -v expect= lists the names that must be there.
# In nested KTAP the innermost results count. Failures that tests/baseline names for this
# label count as skipped.

BEGIN {
	unended = "unknown: ended in the middle"
	while (baseline && (getline < baseline) > 0)
		if ($1 == "*" || $1 == label) {
			test = $2
			sub(/^[^\t]*\t+[^\t]*\t+/, "")
			known[test] = $0
		}
}

function begin(new) {
	name = new
	text = plan = skips = ""
	results = passed = failed = skipped = 0
	split("", below)
	start = systime()
}

function problem(what) {
	failed++
	text = text "# " what "\n"
}

function end(status) {
	if (plan == "0" && text ~ /1\.\.0 # *[Ss][Kk][Ii][Pp]/)
		skipped++
	else if (!passed && !failed && !skipped)
		problem("no test was run (exit status " status ")")
	else if (plan != "" && plan != results)
		problem("planned " plan ", run " results " (exit status " status ")")
	else if (status != 0 && !failed && !skipped)
		problem("exit status " status)
	# Print it in one piece, as others print at the same time
	out = "flock '" counts "' cat"
	printf "  %-12s %-27s %3d passed, %d failed, %d skipped  %4d s\n%s", (base ? base "-" : "") label, name, passed, failed, skipped,
		systime() - start, failed ? text : skips | out
	close(out)
	print passed, failed, skipped >>counts
	done[name] = 1
	name = ""
}

{ sub(/\r$/, "") }
/^<<< / { if (name != "") end(unended); begin($2); next }
/^>>> / { if (name != "") end($3); next }
name == "" { next }
{ text = text "    " $0 "\n" }
/^# note: / { skips = skips "    " substr($0, 9) "\n" }
/^Bail out!/ { problem($0) }
/^1\.\.[0-9]+/ { plan = substr($1, 4) }
/^ *(not )?ok [0-9]+/ {
	match($0, /^ */)
	depth = RLENGTH
	results += depth == 0
	bad = /^ *not /
	parent = below[depth + 4]
	below[depth + 4] = ""
	below[depth] = bad || below[depth] == "bad" ? "bad" : "good"
	if (parent == "bad" || parent == "good" && !bad)
		next
	if (bad && known[$4]) {
		skipped++
		skips = skips "    " $4 " fails without the series as well: " known[$4] "\n"
	} else if (bad)
		failed++
	else if (/# *[Ss][Kk][Ii][Pp]/) {
		skipped++
		skips = skips "    " $0 "\n"
	} else
		passed++
}

END {
	if (name != "")
		end(unended)
	count = split(expect, names, " ")
	for (i = 1; i <= count; i++)
		if (!(names[i] in done)) {
			begin(names[i])
			end("unknown: never run")
		}
}
