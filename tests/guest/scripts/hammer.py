"""Updates a BPF hash map until it is killed. Linux skips classic and kprobe programs on a CPU whose task is in such an update (bpf_prog_active)."""

import ctypes
import os
import platform
import struct

SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
MAP_CREATE, MAP_UPDATE_ELEM = 0, 2
HASH = 1

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    result = libc.syscall(SYS_BPF, command, attributes, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


# Large values, so that an update takes long.
VALUE = 16 << 10
fd = bpf(MAP_CREATE, ctypes.create_string_buffer(struct.pack("=IIIII", HASH, 4, VALUE, 64, 0), 20))
key = ctypes.create_string_buffer(4)
value = ctypes.create_string_buffer(VALUE)
update = ctypes.create_string_buffer(
    struct.pack("=IxxxxQQQ", fd, ctypes.addressof(key), ctypes.addressof(value), 0), 32
)
while True:
    bpf(MAP_UPDATE_ELEM, update)
