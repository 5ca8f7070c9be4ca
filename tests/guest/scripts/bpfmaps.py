"""Prints the BPF hash maps of all recorders as JSON: by name, the entries as pairs of hexadecimal key and value."""

import ctypes
import json
import os
import platform
import struct
import sys

SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
MAP_LOOKUP_ELEM, MAP_GET_NEXT_KEY, MAP_GET_NEXT_ID, MAP_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 1, 4, 12, 14, 15
LRU_HASH = 9

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    """The system call (linux/bpf.h, union bpf_attr); what the kernel wrote comes back in `attributes`."""
    result = libc.syscall(SYS_BPF, command, attributes, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def address(buffer):
    return ctypes.addressof(buffer) if buffer is not None else 0


def map_ids():
    last = 0
    while True:
        attributes = ctypes.create_string_buffer(struct.pack("=III", last, 0, 0), 12)
        try:
            bpf(MAP_GET_NEXT_ID, attributes)
        except FileNotFoundError:
            return
        (last,) = struct.unpack_from("=I", attributes, 4)
        yield last


def entries(fd, key_bytes, value_bytes):
    key, found = None, []
    while True:
        after = ctypes.create_string_buffer(key_bytes)
        try:
            bpf(MAP_GET_NEXT_KEY, ctypes.create_string_buffer(struct.pack("=IIQQ", fd, 0, address(key), address(after)), 24))
        except FileNotFoundError:
            return found
        value = ctypes.create_string_buffer(value_bytes)
        try:
            bpf(MAP_LOOKUP_ELEM, ctypes.create_string_buffer(struct.pack("=IIQQQ", fd, 0, address(after), address(value), 0), 32))
            found.append((after.raw.hex(), value.raw.hex()))
        except FileNotFoundError:
            pass  # it has just gone
        key = after


def main():
    maps = {}
    for number in map_ids():
        fd = bpf(MAP_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 12))
        info = ctypes.create_string_buffer(80)
        bpf(OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(struct.pack("=IIQ", fd, len(info), address(info)), 16))
        kind, _, key_bytes, value_bytes, _, _, name = struct.unpack_from("=IIIIII16s", info)
        if kind == LRU_HASH:
            maps.setdefault(name.rstrip(b"\0").decode(), []).extend(entries(fd, key_bytes, value_bytes))
        os.close(fd)
    json.dump(maps, sys.stdout)


main()
