#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Make the table and the plot of the figures that bench/run measured: bench/table.py FOLDER

Writes results.md and results.svg beside this file, and prints the table. Fails if a row is not
what it must be and has no reason in REASONS.
"""
import pathlib
import re
import sys

from plot import plot

HERE = pathlib.Path(__file__).parent
TOP = HERE.parent
SAME = 1.001

# Functions of the hot paths that a fix of the base changes, and those that inline them
FIXED = {"do_perf_sw_event", "___perf_sw_event", "__perf_sw_event", "__perf_tp_event_target_task", "event_sched_out",
         "merge_sched_in", "perf_prepare_sample"}

INSTANCE = "detach + attach an instance / perf_event_open + close"
QUERY = "read 22 members on 64 tasks, by one descriptor / by 1,408 that are open"
ID = "make and end a session, with sysfs / perf_event_open + close"
OPEN = "perf_event_open + close / of the base"
REOPEN = "reopen + close / eventfd + close"
HOT = "more instructions in functions of the hot paths, with the feature, but for a fix"
SNAPSHOT = "snapshot of a full buffer, dump / perf record on SIGUSR2"
CODE = "code added to the base"
NEW_LINES = "lines of the kernel's new files"
OLD_LINES = "lines added to its other files, without the fixes"

# Row: why it cannot be what it must be
REASONS = {
    OPEN: "QUERY returns the attr as it was opened, so it is compared with the attr that the driver "
          "changed: about 120, one call of memcmp().",
    REOPEN: "To check that the attr asks for nothing that a view cannot give takes about 330, and to "
            "check the rights about as much. The rest is to allocate the view's struct, and to look up "
            "the session and the instance.",
    INSTANCE: "A fifth is to check the rights that opening an event takes, a seventh to allocate an "
              "instance and a member before a lock is taken, and an eighth the two ioctl() calls as such. "
              "The rest are the locks of the session, of the context and of the registry, none of which is "
              "held around anything that may wait.",
    ID: "A session has 12 entries in sysfs, because a file there has one value. To make and "
        "remove one takes sysfs about 2,500, two thirds of the total.",
    QUERY: "QUERY saves descriptors and calls, not instructions: for each instance it also returns the "
           "target, the times, the state, the buffer and the losses, and checks the rights to it, which "
           "takes about 1,000; read() of a count takes about 860.",
    HOT: "In event_sched_out(), where an event has disabled itself; others do not execute them.",
    CODE: "About 2,100 are fixes and preparations of the base, which are there without the feature as "
          "well. Of the rest, tracepoints take about 3,600; with -Os the new files are a seventh smaller. "
          "Sessions, views, rights, buffers, hotplug, QUERY, SET and sysfs take 2,000 to 4,000 each.",
    SNAPSHOT: "perf persistent dump is a process of its own: it spends more than a third of the time on "
              "/proc/kallsyms, which perf record has read before the signal.",
    NEW_LINES: "A fifth are comments and a sixth are empty. Views have their own file operations, to "
               "count, poll and hold for themselves (550); QUERY returns all that `list` shows (490); "
               "DETACH and ATTACH undo everything after an error (460); sessions, members and instances "
               "(560), rights (500), reopening (230), buffers that are charged to a user (290), SET with "
               "filters, holds and clearing (730) and sysfs with uevents (340) have little in core.c to "
               "share. Two headers are 580.",
    OLD_LINES: "The ABI alone is 240, half of them comments. 360 in core.c are hooks, and checks and "
               "accounting that are moved into functions to share them with the registry. 190 in "
               "internal.h are declarations, inline hooks, and empty ones for a kernel without the "
               "feature. 80 read and copy filters of tracepoints.",
}


HOW = """
Each figure is the median of batches, which include timer interrupts and RCU callbacks; but the cost
of opening, compared with the base, is the mean of the calls without any of these, since the median
depends more on the number of events that fit a slab. The event is cycles; samples are written to an
overwrite buffer of 64 pages; a switch is between two threads with that many events each. A snapshot is of
16 MiB full of tracepoint samples: the CPU time of `perf persistent dump` from its start to its
end, and of the base's `perf record -a --overwrite --switch-output=signal` from the signal to the file, each with
its default for build ids: the former writes those of running programs, the latter none. The perf
record that nobody reads has the defaults, `-a -e syscalls:sys_enter_read`, at a thousand reads a second.
The program that 20 views count takes 100,000,000 instructions; a process that reads them shares its CPU.
Root joins, as the member that is found last, of 128 at most. The longest wait is that of 50
runs of cat, on the same CPU as another user, who has a process that reads, or one that forks over
and over, with as many persistent ones among its 20,000 events as allowed, or who makes as many
sessions as allowed, over and over. Lines include comments and empty ones.
"""


def read(path):
    return {name: float(figure) for name, figure in map(str.split, path.read_text().splitlines())}


def read_objects(path):
    objects, functions = {}, {"ours": [], "off": []}
    for kernel, *rest in map(str.split, path.read_text().splitlines()):
        if len(rest) == 1:
            objects[kernel] = int(rest[0])
        else:
            functions[kernel].append((rest[0], int(rest[1]), int(rest[2])))
    return objects, functions


def plus_and_minus(diff):
    """The lines that a diff adds and those that it removes, without comments"""
    return ("\n".join(re.findall(rf"^\{sign}(?!\{sign}\{sign} )(?!\s*/?\*)(.*)", diff, re.M)) for sign in "+-")


def series_size():
    """The size of what the series adds to the kernel, from its patches and new files"""
    added, hooks, hidden, shown = 0, 0, set(), set()
    files = re.findall(r"^  \+ (\S+)$", (TOP / "patches/series").read_text(), re.M)
    for path in sorted((TOP / "patches").glob("[0-9]*.patch")):
        text = path.read_text()
        if re.search(r"^Subject: .*: Fix ", text, re.M):
            continue
        for diff in re.split("^diff --git a/", text, flags=re.M)[1:]:
            name = diff.split()[0]
            plus, minus = plus_and_minus(diff)
            if name not in files and not name.startswith(("tools/", "Documentation/")):
                added += len(re.findall(r"^\+(?!\+\+ )", diff, re.M))
            if name == "kernel/events/core.c":
                hooks += sum(sign * len(re.findall(r"\bperf_persistent_\w+", lines))
                             for sign, lines in ((1, plus), (-1, minus)))
                before = re.sub(r"^\+.*\n", "", diff, flags=re.M)
                hidden |= set(re.findall(r"^-static (?!inline)[^;(]*?(\w+)(?:\(| = {)", before, re.M))
            if name == "kernel/events/internal.h":
                shown |= set(re.findall(r"^(?!static)(?=\S).*?(\w+)[(;]", plus, re.M))
    new = sum(len((TOP / name).read_text().splitlines()) for name in files
              if re.match(r"(kernel|include)/.*\.[ch]$", name) and not name.endswith("test.c"))
    return new, added, hooks, sorted(hidden & shown)


def number(figure):
    return f"{figure:,.0f}"


class Table:
    def __init__(self):
        self.lines, self.notes, self.failed = [], [], False

    def heading(self, *words):
        self.lines += ["", "| " + " | ".join(words) + " |", "|---|" + "--:|" * (len(words) - 2) + "---|"]

    def verdict(self, what, reached):
        if reached:
            return "yes"
        if what in REASONS:
            self.notes.append(REASONS[what])
            return f"no [{len(self.notes)}]"
        self.failed = True
        return "**no**"

    def ratio(self, what, figure, beside, most):
        ratio = figure / beside
        self.lines.append(f"| {what} | {number(figure)} | {number(beside)} | {ratio:.4f} | ≤ {most} | "
                          f"{self.verdict(what, round(ratio, 4) <= most)} |")

    def most(self, what, figure, most, unit=""):
        self.lines.append(f"| {what} | {number(figure)}{unit} | ≤ {number(most)}{unit} | "
                          f"{self.verdict(what, figure <= most)} |")


def deviation(first, second):
    """The largest deviation between two runs, and the name of the figure"""
    return max((abs(second[kernel][name] / figure - 1) if figure else 0.0, f"{kernel}: {name}")
               for kernel in first for name, figure in first[kernel].items())


def hot_paths(table, base, ours):
    table.heading("instructions", "here", "beside", "ratio", "must be", "met")
    hot = (("sample", "a tracepoint sample written"), ("wakeup", "one that wakes readers, but nobody waits"),
           ("overflow", "a hardware overflow handled"),
           ("switch1", "a context switch with 1 event"), ("switch8", "a context switch with 8 events"))
    for name, what in hot:
        if f"{name}-ordinary" not in base:
            continue
        table.ratio(f"{what} / of the base", ours[f"{name}-ordinary"], base[f"{name}-ordinary"], SAME)
        table.ratio(f"{what}, persistent / not", ours[f"{name}-persistent"], ours[f"{name}-ordinary"], SAME)
    if "counted-views" in ours:
        beside = "20 views read each ms / 1 event of the base read so"
        table.ratio(f"counted by {beside}", ours["counted-views"], base["counted-ordinary"], 1.0)
        table.ratio(f"run of that program, {beside}", ours["run-views"], base["run-ordinary"], SAME)


def registry(table, base, ours):
    table.ratio(OPEN, ours["open-most"], base["open-most"], 1.005)
    table.ratio(REOPEN, ours["reopen-1"], ours["eventfd"], 1.15)
    table.ratio("reopen + close / perf_event_open + close", ours["reopen-1"], ours["open"], 0.6)
    table.ratio(INSTANCE, ours["instance-1"], ours["open"], 0.3)
    table.ratio(ID, ours["id-1"], ours["open"], 2)
    for name, what in (("reopen", "reopen + close"), ("instance", "detach + attach an instance"),
                       ("id", "make and end a session, with sysfs")):
        table.ratio(f"{what}, with 4,096 sessions / with 1", ours[f"{name}-4096"], ours[f"{name}-1"], 1.05)
    table.ratio("join a session of 50,000 instances / of 10", ours["join-50000"], ours["join-10"], 1.5)
    table.ratio(SNAPSHOT,
                ours["persistent-snapshot"], base["today-snapshot"], 0.8)
    table.ratio("flush of a full buffer / perf record that writes the same",
                ours["persistent-flush"], base["today-record"], 1.0)
    table.ratio("perf persistent add of a process of 1,000 threads / perf stat -p of it",
                ours["persistent-threads"], base["today-threads"], 2.0)
    table.ratio("a filter set on 22 members of 64 tasks, by one call / by 1,408 on the descriptors",
                ours["filter-one"], ours["filter-each"], 1.25)
    table.ratio(QUERY, ours["query-one"], ours["query-each"], 0.1)


def lists(table, ours):
    table.heading("time of `perf persistent list`", "is", "must be", "met")
    for sessions, instances, most in ((1000, 2, 400), (300, 64, 500)):
        table.most(f"{sessions:,} sessions of {instances} instances",
                   ours[f"list-{sessions}-of-{instances}"] / 1e6, most, " ms")


def counts(table, ours):
    table.heading("", "is", "must be", "met")
    if "wrong-views" in ours:
        table.most("of 20 views, those that count something else or not all the time", ours["wrong-views"], 0)
    table.most("calls that read 22 members on 64 tasks", ours["query-calls"], 1)
    table.most("wrong counts in the answer", ours["query-wrong"], 0)
    table.most("instructions from asking for the counters of a session of 4 events until they are free",
               ours["reserve-instructions"], 100_000)
    table.most("time for that, beside up to 100 ms until pmdaperfevent looks for perfalloc's lock",
               ours["reserve-elapsed"] / 1000, 100_000, " µs")
    for name, what in (("stall", "reads into a page that never comes"), ("fork", "forks with 20,000 inherited events"),
                       ("fill", "fills his limit again and again")):
        table.most(f"longest wait of root's cat ids/N/name, beyond that at rest, while a user {what}",
                   (ours[f"wait-{name}"] - ours["wait-rest"]) / 1000, 20000, " µs")


def sizes(table, ours, objects, functions, series):
    table.heading("size", "is", "must be", "met")
    table.most("memory of the registry for an instance", ours["instance-bytes"], 512, " B")
    table.most("memory of the registry for a session, with sysfs", ours["id-bytes"], 4096, " B")
    table.most("struct perf_event grows by", objects["event-grown"], 24, " B")
    table.most("members of the base's that are elsewhere in it", objects["event-moved"], 0)
    table.most(CODE, objects["ours"] - objects["base"], 16384, " B")
    fixed = {name: new for name, _, new in functions["off"] if name in FIXED}
    for kernel, where in (("ours", "with"), ("off", "without")):
        more = sum(max(new - fixed.get(name, old), 0) for name, old, new in functions[kernel])
        table.most(f"more instructions in functions of the hot paths, {where} the feature, but for a fix", more, 0)
    new, added, hooks, symbols = series
    table.most(NEW_LINES, new, 3000)
    table.most(OLD_LINES, added, 700)
    table.most("calls of perf_persistent_*() in core.c", hooks, 14)
    table.most("functions and data of core.c that are no longer static", len(symbols), 10)


def make_table(figures, objects, functions, series):
    base, ours = figures["base"], figures["ours"]
    table = Table()

    hot_paths(table, base, ours)
    registry(table, base, ours)
    counts(table, ours)
    lists(table, ours)
    sizes(table, ours, objects, functions, series)

    table.heading("a minute of a session that nobody reads", "here", "perf record", "must be", "met")
    for name, what, unit in (("processes", "processes", 1), ("wakeups", "wake-ups", 1),
                             ("resident", "memory of processes, KiB", 1024)):
        figure = ours[f"persistent-{name}"]
        table.lines.append(f"| {what} | {number(figure / unit)} | {number(base[f'today-{name}'] / unit)} | 0 | "
                           f"{table.verdict(what, not figure)} |")
    return table


def footnotes(table, figures, again, functions, symbols):
    yield from (f"\n[{nr}] {note}" for nr, note in enumerate(table.notes, 1))
    most, what = deviation(figures, again)
    yield f"\nA second run differed by at most {most * 100:.2g} % (in {what})."
    for kernel, where in (("ours", "with"), ("off", "without")):
        changed = ", ".join(f"`{name}` {old} → {new}" for name, old, new in functions[kernel])
        yield (f"\nFunctions of the hot paths that are not the base's {where} the feature, "
               f"and their instructions: {changed or 'none'}.")
    yield f"\nStatic no more: {', '.join(f'`{name}`' for name in symbols)}."


def main():
    folder = pathlib.Path(sys.argv[1])
    figures, again = ({kernel: read(folder / f"{kernel}.{run}") for kernel in ("base", "ours")}
                      for run in (1, 2))
    objects, functions = read_objects(folder / "objects")
    series = series_size()
    table = make_table(figures, objects, functions, series)
    text = "\n".join(table.lines + list(footnotes(table, figures, again, functions, series[-1]))) + "\n"

    (HERE / "results.md").write_text("<!-- SPDX-License-Identifier: GPL-2.0; made by make bench -->\n"
                                     f"# What it costs\n{text}{HOW}\n![The same as a plot](results.svg)\n")
    (HERE / "results.svg").write_text(plot(figures["base"], figures["ours"]))
    print(text)
    sys.exit(table.failed)


main()
