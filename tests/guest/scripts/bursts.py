"""I/O in the middle of each second, until told to stop: so that nobody can doubt which second a request belongs to.

    bursts.py KIND FILE STOP RESULTS      KIND: read, write (4 KiB, direct), buffered (64 KiB written, then synced)

RESULTS gets a JSON object per second: its number, the calls and bytes in it, and whether a call ran over its end, as
happens on a busy host.
"""

import json
import mmap
import os
import sys
import time

MIDDLE = (0.3, 0.7)
CALLS = {"read": (4096, os.O_DIRECT), "write": (4096, os.O_DIRECT), "buffered": (65536, 0)}


def main(kind, path, stop, output):
    size, flags = CALLS[kind]
    data = mmap.mmap(-1, size)
    fd = os.open(path, os.O_RDWR | flags)
    with open(output, "w", encoding="ascii") as results:
        while not os.path.exists(stop):
            now = time.time()
            second, begin = int(now), int(now) + MIDDLE[0]
            if now > begin:
                second, begin = second + 1, begin + 1
            time.sleep(begin - now)
            calls = 0
            while time.time() < second + MIDDLE[1]:
                at = calls % 16 * size
                done = os.preadv(fd, [data], at) if kind == "read" else os.pwritev(fd, [data], at)
                assert done == size
                calls += 1
                if kind == "buffered":
                    os.fsync(fd)
            over = time.time() >= second + 1
            results.write(json.dumps({"second": second, "calls": calls, "bytes": calls * size, "over": over}) + "\n")


main(*sys.argv[1:])
