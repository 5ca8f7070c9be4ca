"""Prints what the kernel skipped the recorder's programs for, and what they recovered, as JSON.

With `blind`, nothing is recovered from now on."""

import ctypes
import json
import os
import platform
import struct
import sys

SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
MAP_LOOKUP_ELEM, MAP_UPDATE_ELEM = 1, 2
PROG_GET_NEXT_ID, MAP_GET_NEXT_ID, PROG_GET_FD_BY_ID, MAP_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 11, 12, 13, 14, 15
# Offsets in struct bpf_prog_info (linux/bpf.h).
NAME, RECURSION_MISSES, INFO_BYTES = 64, 208, 224
RECOVERY = ["since_ns", "requests_left", "operations_left", "requests", "operations"]

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    """The system call (linux/bpf.h, union bpf_attr); what the kernel wrote comes back in `attributes`."""
    result = libc.syscall(SYS_BPF, command, attributes, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def ids(command):
    last = 0
    while True:
        attributes = ctypes.create_string_buffer(struct.pack("=III", last, 0, 0), 12)
        try:
            bpf(command, attributes)
        except FileNotFoundError:
            return
        (last,) = struct.unpack_from("=I", attributes, 4)
        yield last


def info(of, number, length):
    """What the kernel says of a program or a map, and its descriptor."""
    fd = bpf(of, ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 12))
    told = ctypes.create_string_buffer(length)
    bpf(OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(struct.pack("=IIQ", fd, length, ctypes.addressof(told)), 16))
    return fd, told


def text(told, offset):
    return told.raw[offset : offset + 16].rstrip(b"\0").decode()


def main():
    skipped, recovered = {}, {}
    for number in ids(PROG_GET_NEXT_ID):
        fd, told = info(PROG_GET_FD_BY_ID, number, INFO_BYTES)
        name = text(told, NAME)
        if name.startswith(("alone_", "marked_", "released")):
            (misses,) = struct.unpack_from("=Q", told, RECURSION_MISSES)
            skipped[name] = misses
        os.close(fd)
    for number in ids(MAP_GET_NEXT_ID):
        fd, told = info(MAP_GET_FD_BY_ID, number, 80)
        if text(told, 24) == "RECOVERY":
            key, value = ctypes.create_string_buffer(4), ctypes.create_string_buffer(8 * len(RECOVERY))
            lookup = struct.pack("=IIQQQ", fd, 0, ctypes.addressof(key), ctypes.addressof(value), 0)
            bpf(MAP_LOOKUP_ELEM, ctypes.create_string_buffer(lookup, 32))
            if sys.argv[1:] == ["blind"]:
                # Starts before this time are not recovered.
                struct.pack_into("=Q", value, 0, 2**64 - 1)
                bpf(MAP_UPDATE_ELEM, ctypes.create_string_buffer(lookup, 32))
            recovered = dict(zip(RECOVERY, struct.unpack("=5Q", value)))
        os.close(fd)
    json.dump({"skipped": skipped, "recovered": recovered}, sys.stdout)
    print()


main()
