"""Requests of equal RPC task ids, in flight at the same time on two mounts.

    aligned.py SLOW_FILE FAST_FILE ROUNDS RESULT

Two threads, one per file, start a 4 KiB direct read or write together, ROUNDS times. From Linux 5.16 on every
RPC client counts its own tasks, so the two stay in step once the one that lags behind has been given some
more. The kernel's own trace tells the ids: RESULT gets, as JSON, for how many of the slow mount's tasks one of
the same id began on the fast mount before they ended; and per file the calls and the time spent in them.
"""

import json
import mmap
import os
import re
import sys
import threading
import time

TRACING = "/sys/kernel/tracing/instances/aligned"
EVENTS = "rpc_task_begin", "rpc_task_end"
BLOCK = 4096
BLOCKS = 64
EVENT = re.compile(r"(rpc_task_begin|rpc_task_end): task:(\w+)@(\w+) ")


def put(path, text):
    with open(f"{TRACING}/{path}", "w", encoding="ascii") as file:
        file.write(text)


def events():
    """What was traced since the last call: (event, client, task), in order."""
    with open(f"{TRACING}/trace", encoding="ascii") as file:
        found = EVENT.findall(file.read())
    put("trace", "")
    return [(event, number(client), number(task)) for event, task, client in found]


def number(text):
    """5.10 prints ids in decimal, later kernels eight hexadecimal digits."""
    return int(text, 16 if len(text) == 8 else 10)


class Side:
    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.data = mmap.mmap(-1, BLOCK)
        self.fileid = os.fstat(self.fd).st_ino
        self.reads = self.writes = 0
        self.seconds = []

    def request(self, count):
        began = time.monotonic()
        offset = count % BLOCKS * BLOCK
        if count % 2:
            self.reads += 1
            os.preadv(self.fd, [self.data], offset)
        else:
            self.writes += 1
            os.pwritev(self.fd, [self.data], offset)
        self.seconds.append(time.monotonic() - began)

    def client_and_task(self):
        """Both are told by a request of its own. Nobody else uses this mount."""
        put("set_event_pid", str(threading.get_native_id()))
        events()
        self.request(1)
        begins = [(client, task) for event, client, task in events() if event == "rpc_task_begin"]
        put("set_event_pid", "")
        return begins[-1]

    def result(self):
        return {"fileid": self.fileid, "reads": self.reads, "writes": self.writes, "seconds": self.seconds}


def align(slow, fast):
    """Gives the mount whose ids lag behind as many requests as it lacks; returns the two clients."""
    (slow_client, slow_task), (fast_client, fast_task) = slow.client_and_task(), fast.client_and_task()
    lagging, lag = (slow, fast_task - slow_task) if fast_task > slow_task else (fast, slow_task - fast_task)
    for _ in range(lag if lag < 2000 else 0):
        lagging.request(1)
    return slow_client, fast_client


def run(slow, fast, rounds):
    barrier = threading.Barrier(2)

    def work(side):
        for count in range(rounds):
            barrier.wait()
            side.request(count)

    threads = [threading.Thread(target=work, args=(side,)) for side in (slow, fast)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def spans(found, client):
    """Where in the trace the tasks of a client began and ended: (task, began, ended)."""
    began, done = {}, []
    for index, (event, of, task) in enumerate(found):
        if of == client and event == "rpc_task_begin":
            began[task] = index
        elif of == client and task in began:
            done.append((task, began.pop(task), index))
    return done


def aligned(slow, fast):
    """How many of the slow tasks were in flight together with a fast one of the same id."""
    ids = {}
    for task, began, ended in fast:
        ids.setdefault(task, []).append((began, ended))
    return sum(any(b < ended and began < e for b, e in ids.get(task, [])) for task, began, ended in slow)


def main(slow_path, fast_path, rounds, output):
    os.makedirs(TRACING, exist_ok=True)
    put("buffer_size_kb", "4096")
    for event in EVENTS:
        put(f"events/sunrpc/{event}/enable", "1")
    slow, fast = Side(slow_path), Side(fast_path)
    slow_client, fast_client = align(slow, fast)
    for event in EVENTS:
        put(f"events/sunrpc/{event}/filter", f"client_id == {slow_client} || client_id == {fast_client}")
    events()
    run(slow, fast, int(rounds))
    found = events()
    slow_spans, fast_spans = spans(found, slow_client), spans(found, fast_client)
    os.rmdir(TRACING)
    result = {"of": len(slow_spans), "aligned": aligned(slow_spans, fast_spans),
              "slow": slow.result(), "fast": fast.result()}
    with open(output, "w", encoding="utf-8") as file:
        json.dump(result, file)


main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4])
