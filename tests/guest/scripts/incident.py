"""Storms of small operations, until they are killed: `incident.py metadata|sync DIRECTORY STARTED`. STARTED appears when they begin."""

import os
import random
import sys
import threading

WORKERS = 6


def metadata(directory, worker):
    """Files are made, renamed and removed, as by a build."""
    for number in range(1 << 30):
        path = f"{directory}/out{worker}/{number % 50}.o"
        os.close(os.open(path + ".tmp", os.O_CREAT | os.O_WRONLY, 0o644))
        os.rename(path + ".tmp", path)
        os.unlink(path)


def sync(directory, worker):
    """Pages that do not adjoin take several requests, and a COMMIT at the end."""
    fd = os.open(f"{directory}/log{worker}", os.O_CREAT | os.O_WRONLY, 0o644)
    while True:
        for page in random.sample(range(0, 64, 2), 3):
            os.pwrite(fd, bytes(4096), page * 4096)
        os.fsync(fd)


def main(storm, directory, started):
    for worker in range(WORKERS):
        os.makedirs(f"{directory}/out{worker}", exist_ok=True)
    open(started, "w", encoding="ascii").close()
    for worker in range(WORKERS):
        threading.Thread(target=storm, args=(directory, worker)).start()


main({"metadata": metadata, "sync": sync}[sys.argv[1]], sys.argv[2], sys.argv[3])
