"""Steady direct and buffered I/O on several mounts, until told to stop.

    steady.py READY STOP RESULTS DIRECTORY...

Per directory one thread alternates 4 KiB direct writes and reads, another one writes 64 KiB buffered and syncs
each time. READY appears once all are well under way; when STOP does they end. RESULTS gets one JSON object per
file: the calls, the longest one in seconds and when it began, and how many came after it.
"""

import json
import mmap
import os
import sys
import threading
import time

UNDER_WAY = 20  # calls
PAUSE = 0.01  # s between two


class File:
    def __init__(self, directory, name, stop):
        self.path, self.stop = f"{directory}/{name}", stop
        self.reads = self.writes = self.after = 0
        self.longest = self.began = 0.0

    def calls(self):
        return self.reads + self.writes

    def result(self):
        return {"path": self.path, "fileid": os.stat(self.path).st_ino, "reads": self.reads, "writes": self.writes,
                "longest": self.longest, "began": self.began, "after": self.after}

    def run(self):
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | self.FLAGS)
        while not os.path.exists(self.stop):
            began = time.monotonic()
            self.call(fd)
            seconds = time.monotonic() - began
            if seconds > self.longest:
                self.longest, self.after = seconds, 0
                self.began = time.time() - seconds
            else:
                self.after += 1
            time.sleep(PAUSE)
        os.close(fd)


class Direct(File):
    FLAGS = os.O_DIRECT
    data = mmap.mmap(-1, 4096)

    def call(self, fd):
        if self.reads == self.writes:
            self.writes += os.pwritev(fd, [self.data], 0) == 4096
        else:
            self.reads += os.preadv(fd, [self.data], 0) == 4096


class Buffered(File):
    FLAGS = 0
    data = bytes(65536)

    def call(self, fd):
        self.writes += os.pwrite(fd, self.data, self.writes % 16 * 65536) == 65536
        os.fsync(fd)


def main(ready, stop, output, directories):
    files = [kind(directory, name, stop) for directory in directories
             for kind, name in ((Direct, "direct"), (Buffered, "buffered"))]
    threads = [threading.Thread(target=file.run) for file in files]
    for thread in threads:
        thread.start()
    while min(file.calls() for file in files) < UNDER_WAY:
        time.sleep(0.1)
    open(ready, "w", encoding="ascii").close()
    for thread in threads:
        thread.join()
    with open(output, "w", encoding="utf-8") as results:
        for file in files:
            results.write(json.dumps(file.result()) + "\n")


main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
