"""Calls of every kind for files below a directory. Prints what they returned, and what the kernel counted of the process.

Lines `PATH reads bytes errors writes bytes errors opens syncs errors`: calls that returned, the bytes they returned, and those that failed; those
that opened the file, those that waited until it was on its disk, and those of them that failed; and `proc rchar wchar`: what `/proc/self/io` says of
the calls that it counts, and `counted rchar wchar`: what those returned.
"""

import ctypes
import mmap
import os
import threading

from returned import base, counts, open_file, operations, read, synced, write


def plain():
    fd = open_file("plain", os.O_RDWR)
    for at in range(300):
        write("plain", os.pwrite(fd, b"p" * 4096, at * 4096))
    os.lseek(fd, 0, os.SEEK_SET)
    while read("plain", len(os.read(fd, 70_000))) > 0:
        pass
    read("plain", len(os.pread(fd, 100, 10_000_000)))
    os.close(fd)


def vectored():
    fd = open_file("vectored", os.O_RDWR)
    pieces = [b"a" * 1000, b"b" * 3000, b"c" * 77]
    for _ in range(20):
        write("vectored", os.writev(fd, pieces))
    write("vectored", os.pwritev(fd, pieces, 9999))
    write("vectored", os.pwritev(fd, pieces, 0, os.RWF_SYNC))
    rooms = [bytearray(1000), bytearray(3000), bytearray(77)]
    os.lseek(fd, 0, os.SEEK_SET)
    while read("vectored", os.readv(fd, rooms)) > 0:
        pass
    read("vectored", os.preadv(fd, rooms, 50))
    os.close(fd)


def appended():
    fd = open_file("appended", os.O_WRONLY | os.O_APPEND)
    for _ in range(50):
        write("appended", os.write(fd, b"z" * 111))
    try:
        os.read(fd, 10)
    except OSError:
        read("appended", -1)
    os.close(fd)


def direct():
    buffer = mmap.mmap(-1, 65536)
    try:
        fd = open_file("direct", os.O_RDWR | os.O_DIRECT)
    except OSError:
        return  # tmpfs before Linux 6.6
    for at in range(32):
        write("direct", os.pwritev(fd, [memoryview(buffer)[:16384]], at * 16384))
    for at in range(9):
        read("direct", os.preadv(fd, [buffer], at * 65536))
    os.close(fd)


def moved():
    source, target = open_file("from", os.O_RDWR), open_file("to", os.O_RDWR)
    write("from", os.write(source, b"m" * 200_000))
    sent = os.sendfile(target, source, 0, 150_000)
    read("from", sent), write("to", sent)
    os.lseek(source, 0, os.SEEK_SET)
    copied = os.copy_file_range(source, target, 50_000)
    read("from", copied), write("to", copied)
    os.close(source), os.close(target)


def threads():
    def one(name):
        fd = open_file(name, os.O_RDWR)
        for at in range(200):
            write(name, os.pwrite(fd, b"t" * 512, at * 512))
            read(name, len(os.pread(fd, 512, at * 512)))
        os.close(fd)

    all_of_them = [threading.Thread(target=one, args=(f"thread{n}",)) for n in range(8)]
    for thread in all_of_them:
        thread.start()
    for thread in all_of_them:
        thread.join()


def spliced():
    """Which `/proc/self/io` does not count."""
    source, target = open_file("plain", os.O_RDONLY), open_file("spliced", os.O_WRONLY)
    out, into = os.pipe()
    for _ in range(4):
        taken = read("plain", os.splice(source, into, 50_000))
        while taken > 0:
            taken -= write("spliced", os.splice(out, target, taken))
    for fd in source, target, out, into:
        os.close(fd)


def inherited():
    fd = open_file("inherited", os.O_RDWR)
    if os.fork() == 0:
        for _ in range(7):
            os.write(fd, b"i" * 700)
        os._exit(0)
    os.wait()
    for _ in range(7):
        write("inherited", 700)
    os.close(fd)


def on_disk():
    fd = open_file("synced", os.O_RDWR)
    for at in range(20):
        write("synced", os.pwrite(fd, b"s" * 512, at * 512))
        os.fsync(fd), synced("synced")
    for _ in range(5):
        os.fdatasync(fd), synced("synced")
    # Invalid flags are an error.
    flush = ctypes.CDLL(None).sync_file_range
    for flags in 2, 1 << 20:
        synced("synced", flush(fd, ctypes.c_int64(0), ctypes.c_int64(0), flags))
    os.close(fd)
    for _ in range(11):
        os.close(open_file("synced", os.O_RDONLY))


def process():
    with open("/proc/self/io") as own:
        lines = dict(line.split(": ") for line in own)
    return int(lines["rchar"]), int(lines["wchar"])


# Reading `/proc/self/io` is a call as well.
process()
first = process()
second = process()
reading = second[0] - first[0]
for kind in plain, vectored, appended, direct, moved, threads, on_disk:
    kind()
last = process()
print("proc", last[0] - second[0] - reading, last[1] - second[1])
print("counted", *(sum(own[at] for own in counts.values()) for at in (1, 4)))
spliced()
inherited()
for name, numbers in sorted(counts.items()):
    print(os.path.join(base, name), *numbers, *operations[name])
