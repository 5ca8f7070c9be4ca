"""Prints how many bytes of each file are in the page cache, and its path."""

import ctypes
import mmap
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]

for path in sys.argv[1:]:
    if not os.path.isfile(path):
        continue
    file = os.open(path, os.O_RDONLY)
    size = os.fstat(file).st_size
    pages = -(-size // mmap.PAGESIZE)
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
    resident = ctypes.create_string_buffer(pages)
    if libc.mincore(address, size, resident) != 0:
        sys.exit(f"mincore: {os.strerror(ctypes.get_errno())}")
    print(sum(byte & 1 for byte in resident.raw[:pages]) * mmap.PAGESIZE, path)
    os.close(file)
