"""A process whose address space is locked for as long as a server does not answer.

    mapped.py FILE READY GO

READY appears once FILE, on NFS and writable by all, is mapped. When GO does, another user dirties its page, a thread
stores into the mapping, which takes writing that page to the server first, and a second thread unmaps another page of
it: whoever reads /proc/PID/maps now waits for the server, too.
"""

import ctypes
import mmap
import os
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)  # Unlike an extension's calls these leave other threads running.
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
PAGE = mmap.PAGESIZE


def main(path, ready, go):
    with open(path, "wb") as file:
        file.write(bytes(PAGE))
    os.chmod(path, 0o666)
    dirty, told = os.pipe()
    if os.fork() == 0:
        os.setuid(1000)
        fd = os.open(path, os.O_RDWR)
        wait_for(go)
        os.pwrite(fd, b"x" * PAGE, 0)
        os.write(told, b"x")
        sys.exit()  # Once the page is written.
    fd = os.open(path, os.O_RDWR)
    address = libc.mmap(None, 2 * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    ctypes.string_at(address, 1)
    open(ready, "w", encoding="ascii").close()
    os.read(dirty, 1)
    threading.Thread(target=libc.memset, args=(address, 1, 1)).start()
    time.sleep(0.5)
    libc.munmap(address + PAGE, PAGE)


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.05)


main(*sys.argv[1:])
