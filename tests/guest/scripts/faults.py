"""I/O through the proxy of nfsproxy.py, one fault per file, and a plain request after each.

    faults.py SOCKET RESULTS VERSION...

The mount of version V is /mnt/V, its server side /exp/proxied-V, its proxy's port 3000 + V without the dot. The
versions run side by side, each in one thread. Every case uses two files of its own: on the first a request
meets the fault, and a plain one follows; then comes a plain one on the second. RESULTS gets one JSON object per
case: what each call returned and how long it took.
"""

import errno
import json
import mmap
import os
import socket
import sys
import threading
import time

KIB = 1024
BLOCK = 64 * KIB  # rsize and wsize of the mounts
FILE_BLOCKS = 4
# Errors with the same number in NFSv3 and NFSv4.
EIO, EACCES, ENOSPC, EDQUOT, ESTALE, DELAY = 5, 13, 28, 69, 70, 10008


def status(number):
    return {"kind": "status", "status": number}


SHORT = {"kind": "short", "bytes": 16 * KIB}
BROKEN = {"kind": "drop", "break": True, "delay": 2}
SILENT = {"kind": "drop", "break": False}

# name, direction, fault, blocks per call, direct I/O, versions
CASES = [
    ("read_short", "read", SHORT, 1, True, None),
    ("read_delay", "read", status(DELAY), 1, True, None),
    ("read_dropped", "read", BROKEN, 1, True, None),
    ("read_timeout", "read", SILENT, 1, True, ["3"]),
    ("read_eio", "read", status(EIO), 1, True, None),
    ("read_eacces", "read", status(EACCES), 1, True, None),
    ("read_estale", "read", status(ESTALE), 1, True, None),
    ("write_short", "write", SHORT, 1, True, None),
    # Several requests are written unstable; after a short write, all of it is sent again.
    ("write_short_unstable", "write", SHORT, 2, True, None),
    ("write_delay", "write", status(DELAY), 1, True, None),
    ("write_dropped", "write", BROKEN, 1, True, None),
    ("write_timeout", "write", SILENT, 1, True, ["3"]),
    ("write_eio", "write", status(EIO), 1, True, None),
    ("write_enospc", "write", status(ENOSPC), 1, True, None),
    ("write_edquot", "write", status(EDQUOT), 1, True, None),
    ("write_estale", "write", status(ESTALE), 1, True, None),
    ("buffered_read_short", "read", SHORT, 1, False, None),
    ("buffered_write_short", "write", SHORT, 1, False, None),
    ("buffered_write_eio", "write", status(EIO), 1, False, None),
]


def pattern(block):
    """Contents by which a block is known."""
    return bytes([65 + block]) * BLOCK


def buffer(blocks):
    """Page-aligned, as direct I/O wants it."""
    return mmap.mmap(-1, blocks * BLOCK)


class Case:
    def __init__(self, version, control, row):
        self.version, self.control = version, control
        self.name, self.direction, self.fault, self.blocks, self.direct, _ = row
        self.calls = []

    def path(self, other="", mount="mnt/{}"):
        return f"/{mount.format(self.version)}/{self.name}{other}"

    def prepare(self):
        """On the server's side, so that no request of the client's is needed."""
        for other in "", ".other":
            with open(self.path(other, "exp/proxied-{}"), "wb") as file:
                if self.direction == "read":
                    file.write(b"".join(map(pattern, range(FILE_BLOCKS))))
        self.fileids = [os.stat(self.path(other, "exp/proxied-{}")).st_ino for other in ("", ".other")]

    def run(self):
        fault = {"case": f"{self.version}/{self.name}", "port": port(self.version),
                 "direction": self.direction, "offset": 0}
        self.control.sendall(json.dumps(fault | self.fault).encode() + b"\n")
        assert self.control.recv(16) == b"ok\n"
        fd = self.open("")
        self.call("fault", fd, 0, self.blocks)
        self.call("same", fd, self.blocks, 1)
        self.close(fd)
        fd = self.open(".other")
        self.call("other", fd, 0, 1)
        self.close(fd)

    def open(self, other):
        flags = os.O_RDONLY if self.direction == "read" else os.O_WRONLY
        return os.open(self.path(other), flags | (os.O_DIRECT if self.direct else 0))

    def close(self, fd):
        try:
            os.close(fd)
        except OSError as error:
            # close reports the error again, even after a call has reported it.
            self.calls.append({"what": "close", "errno": errno.errorcode[error.errno]})

    def call(self, what, fd, block, blocks):
        data = buffer(blocks)
        expected = b"".join(pattern(block + i) for i in range(blocks))
        if self.direction == "write":
            data[:] = expected
        began, result = time.monotonic(), {"what": what}
        try:
            if self.direction == "read":
                result["bytes"] = os.preadv(fd, [data], block * BLOCK)
            else:
                result["bytes"] = os.pwritev(fd, [data], block * BLOCK)
                if not self.direct:
                    os.fsync(fd)
            result["intact"] = self.intact(what, data, block, expected)
        except OSError as error:
            result = {"what": what, "errno": errno.errorcode[error.errno]}
        result["seconds"] = time.monotonic() - began
        self.calls.append(result)

    def intact(self, what, data, block, expected):
        if self.direction == "read":
            return data[:] == expected
        with open(self.path(".other" if what == "other" else "", "exp/proxied-{}"), "rb") as file:
            file.seek(block * BLOCK)
            return file.read(len(expected)) == expected

    def result(self):
        return {"version": self.version, "case": self.name, "fileid": self.fileids[0],
                "other_fileid": self.fileids[1], "calls": self.calls}


def port(version):
    return 3000 + int(version.replace(".", ""))


def run_version(path, version, results):
    control = socket.socket(socket.AF_UNIX)
    control.connect(path)
    cases = [Case(version, control, row) for row in CASES if row[-1] is None or version in row[-1]]
    for case in cases:
        case.prepare()
    for case in cases:
        case.run()
        results.append(case.result())


def main(path, output, versions):
    results = []
    threads = [threading.Thread(target=run_version, args=(path, version, results)) for version in versions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(output, "w", encoding="utf-8") as file:
        for result in results:
            file.write(json.dumps(result) + "\n")


main(sys.argv[1], sys.argv[2], sys.argv[3:])
