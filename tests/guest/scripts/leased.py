"""A v3 write that the server itself answers with JUKEBOX for as long as a lease is held on the file.

    leased.py SERVER_PATH CLIENT_PATH READY RELEASE RESULT

nfsd does not wait for a lease to be given up (fs/nfsd/vfs.c, nfsd_open_break_lease): it answers JUKEBOX, and
the client tries again every 5 s with the same RPC task. Holds a lease on SERVER_PATH, writes 4 KiB to
CLIENT_PATH, makes the file READY once the write has met the lease, gives the lease up when the file RELEASE
appears, and puts what the write took into RESULT as JSON.
"""

import fcntl
import json
import mmap
import os
import signal
import sys
import threading
import time

# Linux breaks a lease by force after this many seconds.
BREAK_TIME = "/proc/sys/fs/lease-break-time"


def write(path, result):
    data = mmap.mmap(-1, 4096)
    fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
    began = time.monotonic()
    result["bytes"] = os.pwritev(fd, [data], 0)
    result["seconds"] = time.monotonic() - began
    os.close(fd)


def main(server_path, client_path, ready, release, output):
    with open(BREAK_TIME, "w", encoding="ascii") as file:
        file.write("300")
    broken = threading.Event()
    signal.signal(signal.SIGIO, lambda *_: broken.set())
    lease = os.open(server_path, os.O_RDONLY)
    fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    result = {"fileid": os.fstat(lease).st_ino}
    writer = threading.Thread(target=write, args=(client_path, result))
    writer.start()
    while not broken.wait(0.1):
        pass
    open(ready, "w", encoding="ascii").close()
    while not os.path.exists(release):
        time.sleep(0.1)
    fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    writer.join()
    with open(output, "w", encoding="utf-8") as file:
        json.dump(result, file)


main(*sys.argv[1:])
