"""One kind of I/O on NFS: `matrix_io.py KIND DIRECTORY`. Checks what it reads, and prints what it did as JSON.

"files" holds by name the bytes that the program wrote and then read back after the client had
forgotten them; whether they cross the wire is for the checks on the host to find out.
"""

import json
import mmap
import os
import sys

CHUNK = 64 * 1024
PAGE = mmap.PAGESIZE
SIZE = 2 * 1024 * 1024 + 777  # The last page is a partial one.


def chunks(data):
    return (data[at : at + CHUNK] for at in range(0, len(data), CHUNK))


def write(path, data, offset=0):
    with open(path, "r+b" if os.path.exists(path) else "wb", buffering=0) as file:
        file.seek(offset)
        for chunk in chunks(data):
            assert file.write(chunk) == len(chunk)
    forget(path)


def forget(path):
    """Makes the client ask the server again."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def read(path):
    with open(path, "rb", buffering=0) as file:
        return b"".join(iter(lambda: file.read(CHUNK), b""))


def expect(path, found, data):
    if found != data:
        sys.exit(f"{path}: {len(found)} bytes that are not the {len(data)} written")


def buffered(directory):
    data = os.urandom(SIZE)
    path = directory + "/data"
    write(path, data)
    expect(path, read(path), data)
    # A hole, then data, then a hole.
    sparse = directory + "/sparse"
    open(sparse, "wb").close()
    os.truncate(sparse, SIZE)
    block = data[:CHUNK]
    write(sparse, block, offset=4 * CHUNK)
    hole = bytes(4 * CHUNK)
    expect(sparse, read(sparse), hole + block + bytes(SIZE - 5 * CHUNK))
    return {"files": {"data": [SIZE, SIZE], "sparse": [CHUNK, SIZE]}}


def mapped(directory):
    data = os.urandom(SIZE)
    path = directory + "/data"
    write(path, data)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), SIZE) as memory:
        expect(path, memory[:], data)
        stored = range(0, SIZE, 8 * PAGE)
        for at in stored:
            memory[at] ^= 0xFF
        memory.flush()
    pages = sum(min(PAGE, SIZE - at) for at in stored)
    return {"files": {"data": [SIZE, SIZE]}, "stored_bytes": pages}


def copy(directory):
    data = os.urandom(SIZE)
    source, target = directory + "/source", directory + "/copy"
    write(source, data)
    done = 0
    with open(source, "rb") as from_file, open(target, "w+b") as to_file:
        while done < SIZE:
            copied = os.copy_file_range(from_file.fileno(), to_file.fileno(), SIZE - done)
            if copied == 0:
                sys.exit(f"{target}: copy_file_range stopped after {done} bytes")
            done += copied
    forget(target)
    expect(target, read(target), data)
    return {"files": {"source": [SIZE, SIZE], "copy": [SIZE, SIZE]}}


def splice(directory):
    data = os.urandom(SIZE)
    path = directory + "/data"
    out_of_pipe, into_pipe = os.pipe()
    with open(path, "wb") as file:
        for chunk in chunks(data):
            left = os.write(into_pipe, chunk)
            while left > 0:
                left -= os.splice(out_of_pipe, file.fileno(), left)
    forget(path)
    found = []
    with open(path, "rb") as file:
        while moved := os.splice(file.fileno(), into_pipe, CHUNK):
            while moved > 0:
                found.append(os.read(out_of_pipe, moved))
                moved -= len(found[-1])
    expect(path, b"".join(found), data)
    return {"files": {"data": [SIZE, SIZE]}}


KINDS = {"buffered": buffered, "mmap": mapped, "copy": copy, "splice": splice}
print(json.dumps(KINDS[sys.argv[1]](sys.argv[2])))
