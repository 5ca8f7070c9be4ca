"""One kind of I/O per file below a directory, each by the calls of an application; prints what these returned.

Lines `NAME reads bytes errors writes bytes errors`: calls that returned, the bytes they returned, and those that failed.
"""

import ctypes
import mmap
import os
import socket
import sys
import time

from returned import counts, open_file, read, write

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.pread.restype = LIBC.pwrite.restype = ctypes.c_ssize_t
BAD = ctypes.c_void_p(8)


def fill(name, size):
    fd = open_file(name, os.O_RDWR | os.O_TRUNC)
    while size > 0:
        size -= write(name, os.write(fd, b"x" * min(size, 65536)))
    os.close(fd)


def drop():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as caches:
        caches.write("3")


def plain():
    fill("plain", 1_000_003)
    drop()
    fd = open_file("plain", os.O_RDWR)
    while read("plain", len(os.read(fd, 70_000))) > 0:
        pass
    read("plain", len(os.pread(fd, 4096, 999_000)))
    read("plain", len(os.pread(fd, 4096, 5_000_000)))
    write("plain", os.pwrite(fd, b"y" * 333, 17))
    os.close(fd)


def cached():
    fill("cached", 100_000)
    fd = open_file("cached", os.O_RDONLY)
    for at in range(1000):
        read("cached", len(os.pread(fd, 64, at * 64)))
    os.close(fd)


def timed():
    """Calls that take longest: of a large file that is not cached. Prints how long, by the application's clock."""
    fill("timed", 16_000_000)
    drop()
    fd = open_file("timed", os.O_RDONLY)
    took = []
    for at in range(4):
        began = time.perf_counter_ns()
        read("timed", len(os.pread(fd, 4_000_000, at * 4_000_000)))
        took.append(time.perf_counter_ns() - began)
    os.close(fd)
    with open(sys.argv[2], "w") as told:
        print(sum(took), max(took), file=told)


def vectored():
    fd = open_file("vectored", os.O_RDWR | os.O_TRUNC)
    pieces = [b"a" * 1000, b"b" * 3000, b"c" * 77]
    for _ in range(20):
        write("vectored", os.writev(fd, pieces))
    write("vectored", os.pwritev(fd, pieces, 9999))
    write("vectored", os.pwritev(fd, pieces, 0, os.RWF_APPEND))
    rooms = [bytearray(1000), bytearray(3000), bytearray(77)]
    os.lseek(fd, 0, os.SEEK_SET)
    while read("vectored", os.readv(fd, rooms)) > 0:
        pass
    read("vectored", os.preadv(fd, rooms, 50))
    os.close(fd)


def append_and_sync():
    for name, flag in ("append", os.O_APPEND), ("synced", os.O_SYNC):
        fd = open_file(name, os.O_WRONLY | os.O_TRUNC | flag)
        for _ in range(50):
            write(name, os.write(fd, b"z" * 111))
        os.close(fd)


def failed():
    fill("failed", 10_000)
    fd = open_file("failed", os.O_RDWR)
    read("failed", LIBC.pread(fd, BAD, 100, 0))
    write("failed", LIBC.pwrite(fd, BAD, 100, 0))
    # A buffer that is only partly mapped.
    room = mmap.mmap(-1, 8192)
    address = ctypes.addressof(ctypes.c_char.from_buffer(room))
    LIBC.munmap(ctypes.c_void_p(address + 4096), ctypes.c_size_t(4096))
    part = ctypes.c_void_p(address + 1000)
    read("failed", LIBC.pread(fd, part, 8000, 0))
    write("failed", LIBC.pwrite(fd, part, 8000, 0))
    os.close(fd)
    sys.stdout.flush()


def direct():
    buffer = mmap.mmap(-1, 65536)
    fd = open_file("direct", os.O_RDWR | os.O_TRUNC | os.O_DIRECT)
    for at in range(32):
        write("direct", os.pwritev(fd, [memoryview(buffer)[:16384]], at * 16384))
    for at in range(8):
        read("direct", os.preadv(fd, [buffer], at * 65536))
    # Beyond the end: the kernel counts the requested bytes.
    read("direct", os.preadv(fd, [buffer], 8 * 65536))
    os.close(fd)


def piped():
    fill("spliced", 300_000)
    source = open_file("spliced", os.O_RDONLY)
    target = open_file("spliced-to", os.O_WRONLY | os.O_TRUNC)
    out, into = os.pipe()
    while True:
        moved = os.splice(source, into, 50_000)
        if moved == 0:
            break
        while moved > 0:
            moved -= os.splice(out, target, moved)
    os.close(source)
    os.close(target)
    fill("sent", 200_000)
    source = open_file("sent", os.O_RDONLY)
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        while theirs.recv(65536):
            pass
        os._exit(0)
    theirs.close()
    while os.sendfile(ours.fileno(), source, None, 40_000) > 0:
        pass
    ours.close()
    os.wait()
    target = open_file("sent-to", os.O_WRONLY | os.O_TRUNC)
    os.lseek(source, 0, os.SEEK_SET)
    while os.sendfile(target, source, None, 60_000) > 0:
        pass
    os.close(source)
    os.close(target)
    fill("copied", 250_000)
    source = open_file("copied", os.O_RDONLY)
    target = open_file("copied-to", os.O_WRONLY | os.O_TRUNC)
    while os.copy_file_range(source, target, 100_000) > 0:
        pass
    os.close(source)
    os.close(target)


def mapped():
    fill("mapped", 400_000)
    drop()
    fd = open_file("mapped", os.O_RDWR)
    with mmap.mmap(fd, 400_000) as view:
        for at in range(0, 400_000, 4096):
            view[at]
        for at in range(0, 100_000, 4096):
            view[at] = 1
        view.flush()
    os.close(fd)


def inherited():
    fd = open_file("inherited", os.O_RDWR | os.O_TRUNC)
    if os.fork() == 0:
        for _ in range(7):
            os.write(fd, b"i" * 700)
        os._exit(0)
    os.wait()
    for _ in range(7):
        write("inherited", 700)
    os.close(fd)


for kind in plain, cached, timed, vectored, append_and_sync, failed, direct, piped, mapped, inherited:
    kind()
os.sync()
for name, numbers in sorted(counts.items()):
    print(name, *numbers)
