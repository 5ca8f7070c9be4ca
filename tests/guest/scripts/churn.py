"""Makes, renames, links, maps, truncates and removes files until the time is over: `churn.py SECONDS DIRECTORY...`. Prints how many."""

import contextlib
import mmap
import os
import random
import sys
import time

end = time.monotonic() + float(sys.argv[1])
roots = [os.path.join(root, "churn") for root in sys.argv[2:]]
made = 0


def once(root, n):
    path = os.path.join(root, f"{n % 7}", f"file{n % 50}")
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, os.urandom(random.choice((5000, 70_000))), random.choice((0, 4096, 300_000)))
    with mmap.mmap(fd, 4096) as pages:
        pages[random.randrange(4096)] = 1
    if n % 3 == 0:
        os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.pread(fd, 100_000, 0)
    os.ftruncate(fd, random.choice((0, 100, 9000)))
    os.close(fd)
    os.rename(path, path + ".renamed")
    with contextlib.suppress(FileExistsError):
        os.link(path + ".renamed", path + ".link")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(root, f"{(n + 3) % 7}", f"file{(n + 9) % 50}.link"))
    if n % 2:
        os.unlink(path + ".renamed")


for root in roots:
    for n in range(7):
        os.makedirs(os.path.join(root, f"{n}"), exist_ok=True)
while time.monotonic() < end:
    for root in roots:
        # Continue if the file system is full, or the file is being renamed.
        with contextlib.suppress(OSError):
            once(root, made)
    made += 1
print(made)
