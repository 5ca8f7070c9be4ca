"""What calls of an application for files below the directory that is its first argument returned."""

import os
import sys
import threading

base = os.path.realpath(sys.argv[1])
# By name: returned reads, their bytes, failed reads; and the same for writes.
counts = {}
# By name: opens, syncs, and failed syncs.
operations = {}
lock = threading.Lock()


def note(name, at, returned):
    with lock:
        own = counts.setdefault(name, [0] * 6)
        own[at] += 1
        if returned >= 0:
            own[at + 1] += returned
        else:
            own[at + 2] += 1
    return returned


def read(name, returned):
    return note(name, 0, returned)


def write(name, returned):
    return note(name, 3, returned)


def open_file(name, flags):
    fd = os.open(os.path.join(base, name), flags | os.O_CREAT, 0o644)
    operated(name, 0)
    return fd


def synced(name, returned=0):
    operated(name, 1)
    if returned < 0:
        operated(name, 2)


def operated(name, at):
    with lock:
        operations.setdefault(name, [0] * 3)[at] += 1
