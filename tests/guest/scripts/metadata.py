"""What programs do with files beside reading and writing: `metadata.py DIRECTORY FILES`."""

import contextlib
import fcntl
import mmap
import os
import shutil
import sys

files = int(sys.argv[2])
root = os.path.join(sys.argv[1], "metadata")


def direct(path):
    """A read that no cache answers."""
    buffer = mmap.mmap(-1, 4096)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    os.preadv(fd, [buffer], 0)
    os.close(fd)


os.mkdir(root)
for n in range(files):
    path = os.path.join(root, f"file{n}")
    with open(path, "wb") as file:
        # Data of several requests is written unstable and then committed.
        file.write(os.urandom(n * 1000 + 1 if n % 5 else 3 << 20))
        file.flush()
        os.fsync(file.fileno())
        fcntl.lockf(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_UN)
        os.fchmod(file.fileno(), 0o600 + n % 8)
    direct(path)
    os.truncate(path, n * 100)
    os.utime(path, (n, n))
    os.link(path, path + ".link")
    os.symlink(path, path + ".symlink")
    os.readlink(path + ".symlink")
    os.rename(path + ".link", path + ".renamed")
    os.mkdir(path + ".d")
    os.mkfifo(os.path.join(path + ".d", "pipe"))
    for missing in ("a", "b"):
        with contextlib.suppress(FileNotFoundError):
            os.stat(os.path.join(root, missing * (n + 1)))
    with contextlib.suppress(OSError):
        os.rmdir(path + ".d")
    os.listdir(root)
    os.statvfs(root)
    shutil.copyfile(path, path + ".copy")
os.sync()
with open("/proc/sys/vm/drop_caches", "w") as file:
    file.write("3")
for directory, _, names in os.walk(root):
    for name in names:
        os.stat(os.path.join(directory, name), follow_symlinks=False)
    os.listdir(directory)
shutil.rmtree(root)
