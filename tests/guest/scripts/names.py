"""Files and what they are called, with a list of it: `names.py CASE... > LIST`.

Each line of the list is a JSON object about a file: its case, its fileid, and for each of the names that it had one after the
other the READ and WRITE requests that it got: between which times (UTC, ms) each was made."""

import ctypes
import json
import mmap
import os
import subprocess
import sys
import time

ROOT = b"/mnt/nfs/names"
BLOCK = 4096
# Longer than the recorder waits before it checks an open file for a rename again, s.
LOOKED_AGAIN = 6
BUFFER = mmap.mmap(-1, BLOCK)


def text(path):
    """As the recorder writes paths."""
    escaped = path.replace(b"\\", b"\\\\").decode(errors="surrogateescape")
    return "".join(
        f"\\x{ord(c) - 0xDC00:02x}" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in escaped
    )


class File:
    """A file, as it is written to request by request."""

    def __init__(self, case, path, at=None, fd=None):
        flags = os.O_RDWR | os.O_CREAT | os.O_DIRECT
        self.fd = os.open(path if at is None else os.path.basename(path), flags, dir_fd=at) if fd is None else fd
        self.said = {"case": case, "fileid": os.fstat(self.fd).st_ino, "names": []}
        self.call(path)

    def call(self, path):
        """From now on it has this name, or none."""
        self.said["names"].append({"path": path and text(path), "reads": [], "writes": []})

    def write(self, times=1, pause=0.0):
        for _ in range(times):
            self.note("writes", os.pwritev)
            time.sleep(pause)

    def read(self):
        self.note("reads", os.preadv)

    def note(self, what, request):
        before = time.time()
        request(self.fd, [BUFFER], 0)
        self.said["names"][-1][what].append([int(before * 1000), int(time.time() * 1000)])

    def open_as(self, path):
        os.close(self.fd)
        self.fd = os.open(path, os.O_RDWR | os.O_DIRECT)

    def close(self):
        os.close(self.fd)
        print(json.dumps(self.said), flush=True)


def nested(count):
    for number in range(int(count)):
        directory = b"%s/nested/%d/%d/%d" % (ROOT, number % 7, number % 11, number % 13)
        os.makedirs(directory, exist_ok=True)
        file = File("nested", b"%s/file-%d" % (directory, number))
        file.write()
        file.close()


def deep():
    """32 directories below the case's, and all their names as long as can be."""
    path = ROOT + b"/deep"
    os.makedirs(path)
    at = os.open(path, os.O_RDONLY)
    for level in range(32):
        name = b"%02d" % level + b"d" * 253
        path += b"/" + name
        os.mkdir(name, dir_fd=at)
        at = os.open(name, os.O_RDONLY, dir_fd=at)
    file = File("deep", path + b"/" + b"f" * 255, at=at)
    file.write(3)
    file.close()


def odd():
    os.makedirs(ROOT + b"/odd")
    for name in [b"a\nb", b" blank ", b"back\\slash", b"inv\xff\xfealid\\x", b"\xc3\xa9\xf0\x9f\x90\xa7", b"\x1b[31mred"]:
        file = File("odd", ROOT + b"/odd/" + name)
        file.write(2)
        file.close()


def renamed_file():
    old, new = ROOT + b"/rf/before", ROOT + b"/rf/after"
    os.makedirs(ROOT + b"/rf")
    file = File("renamed_file", old)
    file.write(25, 0.1)
    os.rename(old, new)
    file.call(new)
    file.write(25, 0.1)
    # Another file takes the old name at once.
    other = File("renamed_file", old)
    other.write(5, 0.1)
    other.close()
    file.close()


def renamed_directory():
    old, new = ROOT + b"/rd", ROOT + b"/elsewhere/rd2"
    os.makedirs(old + b"/x/y")
    os.makedirs(ROOT + b"/elsewhere")
    os.makedirs(ROOT + b"/rd-beside")
    files = [File("renamed_directory", b"%s/x/y/%d" % (old, n)) for n in range(3)]
    beside = File("renamed_directory", ROOT + b"/rd-beside/f")
    for _ in range(20):
        for file in [*files, beside]:
            file.write()
        time.sleep(0.1)
    os.rename(old, new)
    for n, file in enumerate(files):
        file.call(b"%s/x/y/%d" % (new, n))
    for _ in range(20):
        for file in [*files, beside]:
            file.write()
        time.sleep(0.1)
    for file in [*files, beside]:
        file.close()


def renamed_there():
    """By somebody else: on the server."""
    os.makedirs(ROOT + b"/there")
    file = File("renamed_there", ROOT + b"/there/a")
    file.write(3)
    os.rename(ROOT.replace(b"/mnt/nfs", b"/exp") + b"/there/a", ROOT.replace(b"/mnt/nfs", b"/exp") + b"/there/b")
    time.sleep(LOOKED_AGAIN)
    os.listdir(ROOT + b"/there")
    file.open_as(ROOT + b"/there/b")
    file.call(ROOT + b"/there/b")
    file.write(3, 1.1)
    file.close()


def moved():
    """In the middle of a second in which it is used under either name, and back again. What is asked within a second
    is answered in it."""
    os.makedirs(ROOT + b"/moved/from")
    os.makedirs(ROOT + b"/moved/to/deep")
    names = [ROOT + b"/moved/from/f", ROOT + b"/moved/to/deep/f"]
    file, beside = File("moved", names[0]), File("moved", ROOT + b"/moved/from/beside")
    for new in [*reversed(names), None]:
        for second in range(3):
            time.sleep(1.1 - time.time() % 1)
            while time.time() % 1 < (0.4 if second == 2 else 0.8):
                file.write()
                file.read()
                beside.write()
        if new:
            os.rename(os.fsencode(file.said["names"][-1]["path"]), new)
            file.call(new)
            file.write(5)
            file.read()
    file.close()
    beside.close()


def unlinked():
    path = ROOT + b"/unlinked"
    file = File("unlinked", path)
    file.write()
    os.unlink(path)
    file.write(LOOKED_AGAIN, 1.0)
    file.close()


def linked():
    first, second = ROOT + b"/link-1", ROOT + b"/link-2"
    file = File("linked", first)
    file.write(3)
    os.link(first, second)
    time.sleep(2)
    file.open_as(second)
    file.call(second)
    file.write(3)
    file.close()


def by_handle():
    """A file of which this host has seen no name, but for finding out its handle."""
    path = ROOT + b"/by-handle"
    with open(path.replace(b"/mnt/nfs", b"/exp"), "wb") as there:
        there.write(bytes(BLOCK))

    class Handle(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("handle", ctypes.c_char * 128)]

    libc = ctypes.CDLL(None, use_errno=True)
    handle, mount = Handle(bytes=128), ctypes.c_int()
    if libc.name_to_handle_at(-100, path, ctypes.byref(handle), ctypes.byref(mount), 0) != 0:
        print(f"no handle: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return
    # Makes the kernel forget the name.
    subprocess.run("sync; echo 3 > /proc/sys/vm/drop_caches", shell=True, check=True)
    directory = os.open("/mnt/nfs", os.O_RDONLY)
    fd = libc.open_by_handle_at(directory, ctypes.byref(handle), os.O_RDWR | os.O_DIRECT)
    if fd < 0:
        print(f"not opened by handle: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return
    file = File("by_handle", None, fd=fd)
    file.write(3)
    file.close()


def reused():
    """Until an inode number comes again: `/mnt/two` is on a file system that does so."""
    seen = {}
    for number in range(40):
        path = b"/mnt/two/reused-%d" % number
        file = File("reused", path)
        file.write()
        file.close()
        fileid = file.said["fileid"]
        os.unlink(path)
        seen[fileid] = seen.get(fileid, 0) + 1
        if seen[fileid] > 2:
            break
    assert max(seen.values()) > 1, seen


def short_lived():
    """One after the other within a few windows, mostly with the inode number of the one before."""
    for number in range(60):
        path = b"/mnt/two/short-%02d" % number
        file = File("short_lived", path)
        file.write(1 + number % 7)
        file.close()
        os.unlink(path)


def held():
    """Files that stay open, so that anybody can find them."""
    os.makedirs(ROOT + b"/held")
    files = [File("held", b"%s/held/%d" % (ROOT, n)) for n in range(5)]
    for _ in range(30):
        for file in files:
            file.write()
        time.sleep(0.1)
    for file in files:
        file.close()


for case in sys.argv[1:]:
    name, *arguments = case.split("=")
    globals()[name](*arguments)
