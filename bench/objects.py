#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Compare object code and struct perf_event with the base's: bench/objects.py BUILD ARCH

Prints a line for each kernel (base, ours, off: ours without the feature): its name and the
bytes of code in the files that the series touches. Then the bytes by which the struct
grows and how many of its members move. Then a line for each function of the hot paths that
differs from the base's: the kernel, the function, and its instructions there and here.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ARCHIVE, TOUCHED = "kernel/events/built-in.a", "kernel/trace/trace_events_filter.o"
HOT_FILES = ["core", "ring_buffer", "callchain"]

# Functions that run when events are scheduled, count and sample
HOT = re.compile(r"""
    __perf_event_task_sched_(in|out) | perf_event_context_sched_(in|out) | perf_pmu_sched_task
    | (__pmu_ctx|event|group|ctx|merge|pmu_groups|ctx_groups|cpu_ctx)_sched_(in|out) | visit_groups_merge
    | _*perf_event_overflow | perf_event_(account_interrupt|update_time|update_userpage|set_state|task_tick)
    | perf_event_output(_forward|_backward)? | perf_event_groups_(first|next) | perf_adjust_freq_\w+
    | perf_swevent_(event|overflow|hrtimer|set_period|start|stop|add|del|get_recursion_context)
    | _*perf_sw_event | do_perf_sw_event | perf_tp_event(_match)? | __perf_tp_event_target_task
    | perf_trace_run_bpf_submit | _*perf_event_header__init_id | perf_prepare_(sample|header)
    | perf_output_\w+ | perf_pending_(irq|task) | perf_event_wakeup | get_perf_callchain | perf_callchain
    | (cpu|task)_clock_event_(read|start|stop|add|del|update)""", re.X)


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def code_size(folder):
    """The size of all executable sections, without the tests"""
    size = 0
    for name in [*run("ar", "t", ARCHIVE, cwd=folder).split(), TOUCHED]:
        if not name.endswith("test.o"):
            size += sum(int(line.split()[1]) for line in run("size", "-A", folder / name).splitlines()
                        if re.match(r"\.(\w+\.)?text", line))
    return size


def functions(objdump, path):
    """Name: instructions, without addresses and offsets of struct members"""
    found = {}
    for line in run(objdump, "-d", "--no-show-raw-insn", path).splitlines():
        if start := re.match(r"[0-9a-f]+ <(\w+).*>:$", line):
            body = found.setdefault(start[1], [])
        elif "\t" in line:
            text = re.sub(r"\s*(#|//).*", "", line.split("\t", 1)[1])
            text = re.sub(r"\b[0-9a-f]+ <.*", "", text)
            text = re.sub(r"-?0x[0-9a-f]+(?=\()|#-?(0x)?[0-9a-f]+", "N", text)
            if not re.match(r"(data16 |cs )*nop", text):
                body.append(text)
    return found


def layout(folder):
    """The size of struct perf_event and its members' offsets, from the debug info of a file of ours"""
    command = re.match(r"\S+ := (.*) -o ", (folder / "kernel/events/.core.o.cmd").read_text())[1]
    command = re.sub(r"-Wp,-MMD,\S+", "", command)
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        run("sh", "-c", f"{command} -g -o {file.name} -x c -", cwd=folder,
            input="#include <linux/perf_event.h>\nstruct perf_event event;\n")
        info = run("readelf", "--debug-dump=info", file.name)
    info = re.search(r"\n <1><\w+>: [^\n]*DW_TAG_structure_type\)\n[^\n]*DW_AT_name *:[^\n]* perf_event\n"
                     r"(.*?)\n <1>", info, re.S)[1]
    size = int(re.search(r"DW_AT_byte_size *: (\d+)", info)[1])
    members = re.findall(r"DW_AT_name *:.* (\w+)\n(?:(?! <)[^\n]*\n)*?.*DW_AT_data_member_location: (\d+)", info)
    return size, {name: int(offset) for name, offset in members}


def main():
    build, arch = pathlib.Path(sys.argv[1]), sys.argv[2]
    objdump = {"arm64": "aarch64-linux-gnu-objdump"}.get(arch, "objdump")
    folders = {"base": build / "base" / arch / "plain", "ours": build / arch / "plain",
               "off": build / arch / "off"}

    for name, folder in folders.items():
        print(name, code_size(folder))
    (base_size, base_members), (size, members) = layout(folders["base"]), layout(folders["ours"])
    print("event-grown", size - base_size)
    print("event-moved", sum(members.get(name) != offset for name, offset in base_members.items()))
    for file in HOT_FILES:
        code = {name: functions(objdump, folder / f"kernel/events/{file}.o")
                for name, folder in folders.items()}
        for name in ("ours", "off"):
            for function in sorted(filter(HOT.fullmatch, code["base"].keys() | code[name].keys())):
                bodies = [code[kernel].get(function, []) for kernel in ("base", name)]
                if bodies[0] != bodies[1]:
                    print(name, function, *map(len, bodies))


main()
