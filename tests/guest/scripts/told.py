"""Metadata of which it is known how often each file is asked for: `told.py DIRECTORY VERSION`.

Prints it: {"ops": {fileid: {operation: count}}, "users": {uid: {operation: count}}, "fileid": the file of the latter,
"directories": {fileid: path}}.
"""

import fcntl
import json
import os
import sys

directory, version = sys.argv[1:]
root = os.path.join(directory, "told")
is_v3 = version == "3"
ops = {}


def fileid(path):
    return str(os.lstat(path).st_ino)


os.mkdir(root)
for n in range(1, 4):
    path = os.path.join(root, f"file{n}")
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    own = ops[fileid(path)] = {"SETATTR": n}
    # Unstable, because it takes several requests.
    os.write(fd, bytes(3 << 20))
    os.fsync(fd)
    own["COMMIT"] = 1
    for k in range(n):
        os.fchmod(fd, 0o600 + (k + 1) % 2)
        if version == "4.2":
            os.posix_fallocate(fd, 4 << 20, 4096 * (k + 1))
            own["ALLOCATE"] = n
        if not is_v3:
            fcntl.lockf(fd, fcntl.LOCK_EX)
            fcntl.lockf(fd, fcntl.LOCK_UN)
            own["LOCK"] = own["LOCKU"] = n
    os.close(fd)
    if not is_v3:
        own["CLOSE"] = 1

# Operations in a directory count for the directory.
for n in range(3):
    os.mkdir(os.path.join(root, f"d{n}"))
for n in range(2):
    os.symlink("nowhere", os.path.join(root, f"s{n}"))
os.rename(os.path.join(root, "s0"), os.path.join(root, "s2"))
for n in range(1, 3):
    os.unlink(os.path.join(root, f"s{n}"))
os.rmdir(os.path.join(root, "d0"))
os.rmdir(os.path.join(root, "d1"))
ops[fileid(root)] = {"SYMLINK": 2, "RENAME": 1} | (
    {"MKDIR": 3, "REMOVE": 2, "RMDIR": 2} if is_v3 else {"CREATE": 3, "REMOVE": 4}
)

# A separate user.
path = os.path.join(root, "owned")
open(path, "w").close()
os.chown(path, 1000, 1000)
os.chmod(root, 0o755)
child = os.fork()
if child == 0:
    os.setgroups([])
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
    for k in range(5):
        os.chmod(path, 0o600 + k % 2)
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0
users = {"1000": {"SETATTR": 5}}
directories = {fileid(path): path for path in (directory, root)}
print(json.dumps({"ops": ops, "users": users, "fileid": fileid(path), "directories": directories}))
