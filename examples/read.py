#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print what a session counts on each CPU, with nothing but sysfs and perf_event_open(2).

read.py NAME reads the first event of the session NAME, which counts CPUs, as
"perf stat --persistent=NAME -a -e EVENT" starts it. No file but this one is needed.
"""
import ctypes
import os
import platform
import struct
import sys

REGISTRY = "/sys/bus/event_source/devices/persistent"
SYSCALL = {"x86_64": 298, "aarch64": 241}
FD_CLOEXEC = 8
TOTAL_TIME_ENABLED, TOTAL_TIME_RUNNING = 1, 2


def sysfs(path):
    with open(f"{REGISTRY}/{path}", encoding="ascii") as file:
        return file.read().strip()


def find(name):
    """The id of a session: events/NAME holds "id=0x1"."""
    try:
        return int(sysfs(f"events/{name}").partition("=")[2], 16)
    except FileNotFoundError:
        sys.exit(f"no session named '{name}'")


def cpus(session):
    for part in sysfs(f"ids/{session}/cpus").split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def perf_event_open(kind, config, cpu):
    """Open a view of a running session: type and config find it, read_format is the view's own."""
    attr = bytearray(64)
    struct.pack_into("=IIQ", attr, 0, kind, len(attr), config)
    struct.pack_into("=Q", attr, 32, TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING)
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.c_char_p(bytes(attr))
    number, flags = ctypes.c_long(SYSCALL[platform.machine()]), ctypes.c_ulong(FD_CLOEXEC)
    fd = libc.syscall(number, buffer, -1, cpu, -1, flags)
    if fd < 0:
        error = ctypes.get_errno()
        sys.exit(f"CPU {cpu} cannot be read: {os.strerror(error)}")
    return fd


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} NAME")
    session = find(sys.argv[1])
    kind = int(sysfs("type"))
    for cpu in cpus(session):
        fd = perf_event_open(kind, session, cpu)
        count, enabled, running = struct.unpack("=QQQ", os.read(fd, 24))
        os.close(fd)
        print(f"CPU {cpu}: {count}, {100 * running // enabled if enabled else 0} % of the time")


main()
