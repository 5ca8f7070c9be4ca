"""Two cgroups use the same files: each writes and reads its own number of bytes, and prints it.

Lines `CGROUP written read`.
"""

import os
import sys

base = sys.argv[1]
shared = os.path.join(base, "shared.bin")
handed = os.path.join(base, "handed.bin")


def enter(cgroup):
    with open(f"/sys/fs/cgroup/{cgroup}/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))


def in_cgroup(cgroup, do):
    child = os.fork()
    if child == 0:
        enter(cgroup)
        do()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, (cgroup, status)


def use(fd, writes, reads):
    for at in range(writes):
        os.pwrite(fd, b"w" * 1000, at * 1000)
    for at in range(reads):
        os.pread(fd, 500, at * 500)


def one():
    use(os.open(shared, os.O_RDWR | os.O_CREAT, 0o644), 40, 20)
    # Opened here, used by the other tenant.
    fd = os.open(handed, os.O_RDWR | os.O_CREAT, 0o644)
    use(fd, 10, 0)
    in_cgroup("two", lambda: use(fd, 30, 15))


in_cgroup("one", one)
in_cgroup("two", lambda: use(os.open(shared, os.O_RDWR), 7, 60))
print("one", 50 * 1000, 20 * 500)
print("two", 37 * 1000, 75 * 500)
