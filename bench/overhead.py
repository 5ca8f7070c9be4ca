"""What tracing costs, in a guest that counts instructions: `overhead.py [--rounds N] [--idle SECONDS] CONTENDER...`.

1 ns of the guest's time is 1 instruction (`cargo vm run --icount`). Prints every single figure, and leaves
a table in Markdown in $OUT. bench/README.md says how the figures are made.
"""

import argparse
import contextlib
import ctypes
import glob
import itertools
import json
import mmap
import os
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

FILE = "/mnt/nfs/data"
FILE_BYTES = 64 << 20
FIO = [
    "fio", "--name=read", f"--filename={FILE}", f"--size={FILE_BYTES}", "--rw=randread", "--bs=4k", "--direct=1",
    "--ioengine=psync", "--norandommap", "--output-format=json", "--write_lat_log=read", "--log_avg_msec=20",
]  # fmt: skip
WARM_UP = ["--number_ios=1000"]
# While the consumer does not run: so few I/Os that no ring is filled to a quarter, where programs begin to wake it.
WITHOUT_CONSUMER = ["--number_ios=2400"]
PAUSES = 4
# Whole seconds, because consumers work once a second.
WITH_CONSUMER = ["--time_based", "--runtime=2"]
CGROUP = "/sys/fs/cgroup/tracer"
BPF_STATS = "/proc/sys/kernel/bpf_stats_enabled"
START_LIMIT_S = 120
FIRST_COME = (os.SCHED_FIFO, os.sched_param(1))
STORE = "/tmp/store"
READY = "/tmp/ready"
# bpf(2) and its commands (include/uapi/linux/bpf.h).
BPF_CALL = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
BPF_PROG_LOAD, BPF_RAW_TRACEPOINT_OPEN = 5, 17
BPF_PROG_TYPE_RAW_TRACEPOINT = 17
# r0 = 0; exit
EMPTY = bytes([0xB7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0])


class Tracer:
    """A process that traces, in a cgroup of its own, which knows all the time that its threads take."""

    def __init__(self, argv, is_ready, count_requests, may_miss=0):
        self.argv, self.is_ready, self.count_requests = argv, is_ready, count_requests
        # The share of requests that it may miss.
        self.may_miss = may_miss

    def start(self):
        os.makedirs(CGROUP, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.remove(READY)
        self.output = tempfile.TemporaryFile("a+")
        self.process = subprocess.Popen(
            self.argv,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: write(f"{CGROUP}/cgroup.procs", str(os.getpid())),
        )
        for _ in range(START_LIMIT_S * 10):
            if self.is_ready(self):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"{self.argv[0]} does not get ready:\n{self.said()}")

    def said(self):
        self.output.seek(0)
        return self.output.read()

    def stop(self):
        """Ends it and returns how many requests it says it has seen."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait()
        said = self.said()
        if status != 0:
            raise RuntimeError(f"{self.argv[0]} ended with status {status}:\n{said}")
        return self.count_requests(said)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @contextlib.contextmanager
    def consumer_stopped(self):
        self.process.send_signal(signal.SIGSTOP)
        yield
        self.process.send_signal(signal.SIGCONT)

    def cpu_ns(self):
        """Instructions executed by its threads so far."""
        return 1000 * int(re.search(r"usage_usec (\d+)", read(f"{CGROUP}/cpu.stat"))[1])

    def bpf(self):
        """Instructions executed by its BPF programs while statistics were enabled, and how often they ran."""
        return bpf_of(self.process.pid)


def trackiops(engine, *flags):
    def seen(said):
        found = re.search(r"(\d+) requests seen", said)
        if not found:
            raise RuntimeError(f"trackiops does not say what it has seen:\n{said}")
        return int(found[1])

    argv = ["trackiops", "record", "--store", STORE, "--engine", engine, "--ready-file", READY, *flags]
    return Tracer(argv, lambda _: os.path.exists(READY), seen)


class Watched(Tracer):
    """trackiops with programs that listen to it, which are not in its cgroup."""

    LISTENERS = 8
    LISTEN = """
import select, socket
listeners = [socket.socket(socket.AF_UNIX) for _ in range(%d)]
for listener in listeners:
    listener.connect("/run/trackiops/live.sock")
while True:
    for listener in select.select(listeners, [], [])[0]:
        if not listener.recv(1 << 16):
            raise SystemExit
"""

    def start(self):
        super().start()
        self.listeners = subprocess.Popen([sys.executable, "-c", self.LISTEN % self.LISTENERS])
        time.sleep(2)

    def stop(self):
        seen = super().stop()
        self.listeners.wait()
        return seen


def watched():
    tracer = trackiops("direct")
    return Watched(tracer.argv, tracer.is_ready, tracer.count_requests)


def paper():
    return Tracer(
        ["/work/trackiops-bench-paper"],
        lambda tracer: "attached" in tracer.said(),
        lambda said: int(re.search(r"(\d+) requests seen", said)[1]),
        may_miss=0.01,
    )


def bpftrace():
    return Tracer(
        ["bpftrace", "-B", "line", "/work/paper.bt"],
        lambda tracer: re.search(r"^\[", tracer.said(), re.M),
        lambda said: sum(map(int, re.findall(r"^@(?:read|write)_requests\[\d+\]: (\d+)", said, re.M))),
        may_miss=0.01,
    )


CONTENDERS = {
    "none": ("no tracer", lambda: None),
    "direct": ("trackiops, direct engine", lambda: trackiops("direct")),
    "calls": ("trackiops, direct engine, --app-view", lambda: trackiops("direct", "--app-view")),
    "requests": ("trackiops, direct engine, --no-ops", lambda: trackiops("direct", "--no-ops")),
    "whole": (
        "trackiops, direct engine, --no-ops --no-latency-parts",
        lambda: trackiops("direct", "--no-ops", "--no-latency-parts"),
    ),
    "records": ("trackiops, direct engine, --requests", lambda: trackiops("direct", "--requests")),
    "watched": ("trackiops, direct engine, 8 listeners", watched),
    "tracepoint": ("trackiops, tracepoint engine", lambda: trackiops("tracepoint")),
    "paper": ("the paper's design", paper),
    "bpftrace": ("the paper's logic in bpftrace", bpftrace),
}


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def bpf_of(process):
    """Instructions executed by the BPF programs of a process while statistics were enabled, and how often they ran."""
    programs = {}
    for path in glob.glob(f"/proc/{process}/fdinfo/*"):
        with contextlib.suppress(FileNotFoundError):
            info = dict(re.findall(r"^(\w+):\s*(\d+)$", read(path), re.M))
            if "run_time_ns" in info:
                programs[info["prog_id"]] = (int(info["run_time_ns"]), int(info["run_cnt"]))
    if not programs:
        raise RuntimeError(f"process {process} holds no BPF program")
    return sum(time for time, _ in programs.values()), sum(runs for _, runs in programs.values())


def bpf_call(command, *numbers):
    """bpf(2) with attributes that begin with these numbers of 8 bytes. Returns a descriptor."""
    attributes = struct.pack(f"{len(numbers)}Q", *numbers)
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(BPF_CALL, command, attributes, len(attributes))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return descriptor


def empty_run():
    """What statistics count for a run of a program that does nothing."""
    instructions, license = ctypes.create_string_buffer(EMPTY, len(EMPTY)), ctypes.create_string_buffer(b"GPL")
    name = ctypes.create_string_buffer(b"rpc_stats_latency")
    kind = BPF_PROG_TYPE_RAW_TRACEPOINT | len(EMPTY) // 8 << 32
    program = bpf_call(BPF_PROG_LOAD, kind, ctypes.addressof(instructions), ctypes.addressof(license))
    link = bpf_call(BPF_RAW_TRACEPOINT_OPEN, ctypes.addressof(name), program)
    fio(*WARM_UP)
    write(BPF_STATS, "1")
    fio(*WARM_UP)
    write(BPF_STATS, "0")
    instructions, runs = bpf_of("self")
    os.close(link)
    os.close(program)
    return instructions / runs


def kernel_threads():
    """Those that a request passes through: the client's workers, and the server's threads."""
    for path in glob.glob("/proc/[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if re.match("nfsd$|kworker/u", read(path)):
                yield int(path.split("/")[2])


@contextlib.contextmanager
def first_come():
    """Whoever becomes ready first runs first, and until it waits: each request takes the same course."""
    threads = list(kernel_threads())
    write("/proc/sys/kernel/sched_rt_runtime_us", "-1")
    for pid in threads:
        os.sched_setscheduler(pid, *FIRST_COME)
    yield lambda: os.sched_setscheduler(0, *FIRST_COME)
    for pid in threads:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def fio(*length, prepare=None):
    """Reads for some length. Returns the number of requests, and the mean latency of each 20 ms in ns."""
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [*FIO, *length], cwd=directory, check=True, stdout=subprocess.PIPE, text=True, preexec_fn=prepare
        )
        windows = [int(line.split(",")[1]) for line in read(f"{directory}/read_lat.1.log").splitlines()]
    return json.loads(done.stdout)["jobs"][0]["read"]["total_ios"], windows


def whole_requests(tracer):
    """Returns the number of requests, and what one takes."""
    requests, windows = 0, []
    for _ in range(PAUSES):
        # By then, all events have been read.
        time.sleep(1)
        with tracer.consumer_stopped() if tracer else contextlib.nullcontext(), first_come() as prepare:
            done, means = fio(*WITHOUT_CONSUMER, prepare=prepare)
        requests += done
        windows += means
    return requests, statistics.median(windows)


def measure(tracer, empty):
    """One round of a contender: what it takes per request. `empty` is the result of `empty_run`."""
    if tracer is None:
        fio(*WARM_UP)
        return {"request": whole_requests(None)[1]}
    try:
        tracer.start()
        warm_up, _ = fio(*WARM_UP)
        alone, request = whole_requests(tracer)
        # Work that piled up must not count for the next figures.
        time.sleep(2)
        write(BPF_STATS, "1")
        time_before, runs_before = tracer.bpf()
        cpu_before = tracer.cpu_ns()
        requests, _ = fio(*WITH_CONSUMER)
        consumer = tracer.cpu_ns() - cpu_before
        bpf_time, runs = tracer.bpf()
        write(BPF_STATS, "0")
        seen = tracer.stop()
    finally:
        tracer.kill()
    issued = warm_up + alone + requests
    if not 1 - tracer.may_miss <= seen / issued <= 1:
        raise RuntimeError(f"{tracer.argv[0]} has seen {seen} requests of {issued}")
    return {
        "request": request,
        "bpf": (bpf_time - time_before) / requests,
        "own": (bpf_time - time_before - empty * (runs - runs_before)) / requests,
        "runs": (runs - runs_before) / requests,
        "consumer": consumer / requests,
    }


def idle(tracer, seconds):
    """Instructions per second that a tracer takes when nothing happens."""
    try:
        tracer.start()
        time.sleep(5)
        before = tracer.cpu_ns()
        time.sleep(seconds)
        return (tracer.cpu_ns() - before) / seconds
    finally:
        tracer.kill()


def metadata(tracer, operations=1000):
    """Instructions that BPF takes per operation that is neither READ nor WRITE: SETATTR."""
    try:
        tracer.start()
        fio(*WARM_UP)
        write(BPF_STATS, "1")
        before, _ = tracer.bpf()
        for number in range(operations):
            os.chmod(FILE, 0o600 | number & 1)
        after, _ = tracer.bpf()
        write(BPF_STATS, "0")
        return (after - before) / operations
    finally:
        tracer.kill()


CALLS = [("read", 64), ("read", 4096), ("read", 65536), ("write", 64), ("write", 65536)]


def cached_calls():
    """Instructions of each of CALLS on a file that is cached, the loop of this program included."""
    fd = os.open(f"{FILE}.cached", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(fd, bytes(65536), 0)
    taken = []
    for kind, size in CALLS:
        buffers = [bytearray(size)]
        call = os.preadv if kind == "read" else os.pwritev
        batches = []
        for _ in range(40):
            began = time.perf_counter_ns()
            for _ in range(100):
                call(fd, buffers, 0)
            batches.append((time.perf_counter_ns() - began) / 100)
        taken.append(statistics.median(batches))
    os.close(fd)
    return taken


def beside(tracer, measured):
    """What is measured while a tracer is there, whose process does not run."""
    try:
        tracer.start()
        fio(*WARM_UP)
        with tracer.consumer_stopped():
            return measured()
    finally:
        tracer.kill()


def events():
    """Instructions of each kind of event, by its name: the median of batches, the loop of this program included."""
    buffer = mmap.mmap(-1, 65536)
    memory = memoryview(buffer)
    direct = os.open(f"{FILE}.direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    os.pwritev(direct, [buffer], 0)
    cached = os.open(f"{FILE}.cached", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(cached, bytes(65536), 0)
    local = os.open("/tmp/local", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(local, bytes(65536), 0)
    modes = itertools.cycle([0o600, 0o640])
    kinds = {
        "READ on the wire, 4,096 B": lambda: os.preadv(direct, [memory[:4096]], 0),
        "WRITE on the wire, 4,096 B": lambda: os.pwritev(direct, [memory[:4096]], 0),
        "SETATTR on the wire": lambda: os.fchmod(direct, next(modes)),
        "open and close of a file of NFS": lambda: os.close(os.open(f"{FILE}.cached", os.O_RDONLY)),
        "read of 64 B that the cache answers": lambda: os.preadv(cached, [memory[:64]], 0),
        "read of 4,096 B that the cache answers": lambda: os.preadv(cached, [memory[:4096]], 0),
        "write of 64 B into the cache": lambda: os.pwritev(cached, [memory[:64]], 0),
        "read of 4,096 B of a local file": lambda: os.preadv(local, [memory[:4096]], 0),
        "system call for no file (getppid)": os.getppid,
    }
    taken = {}
    with first_come() as prepare:
        prepare()
        for name, event in kinds.items():
            batches = []
            for _ in range(40):
                began = time.perf_counter_ns()
                for _ in range(50):
                    event()
                batches.append((time.perf_counter_ns() - began) / 50)
            taken[name] = statistics.median(batches)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    for file in direct, cached, local:
        os.close(file)
    return taken


def table_of_events():
    """What a recorder adds to each kind of event by default."""
    events()
    without = events()
    recorded = beside(trackiops("auto"), events)
    lines = ["| event | no tracer | added by default |", "|---|---:|---:|"]
    for name, base in without.items():
        more = recorded[name] - base
        lines.append(f"| {name} | {count(base)} | {more:+,.0f} ({100 * more / base:+.1f} %) |")
    return "\n".join(lines) + "\n"


def table_of_calls():
    """What calls take that the cache answers."""
    none = cached_calls()
    all_flags = [], ["--app-view"], ["--app-latency"]
    added = [beside(trackiops("direct", *flags), cached_calls) for flags in all_flags]
    lines = [
        "| call that the cache answers | no tracer | added by default | by counting them | by timing them, too |",
        "|---|---|---|---|---|",
    ]
    for (kind, size), base, *others in zip(CALLS, none, *added):
        cells = [count(base), *(f"{other - base:+,.0f}" for other in others)]
        lines.append(f"| {kind} of {count(size)} B | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def start(tracer):
    """Instructions from exec to the last probe attached."""
    try:
        before = tracer.cpu_ns() if os.path.exists(CGROUP) else 0
        tracer.start()
        return tracer.cpu_ns() - before
    finally:
        tracer.kill()


def spread(values, form):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{form(middle)} ({form(low)} .. {form(high)})"


def count(value):
    return f"{value:,.0f}"


def percent(value):
    return f"{100 * value:+.2f} %"


def summary(figures):
    return ", ".join(f"{name} {value:.2f}" for name, value in figures.items())


def table(rounds):
    """A line for each contender: medians of the rounds, lowest and highest."""
    columns = [
        "", "BPF", "of the paper's", "programs run", "BPF without statistics", "of the paper's",
        "request, consumer stopped", "added by probes", "consumer", "added in all",
    ]  # fmt: skip
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    paper = {key: [figures[key] for figures in rounds.get("paper", [])] for key in ["bpf", "own"]}
    bases = [figures["request"] for figures in rounds.get("none", [])]
    for name, of_contender in rounds.items():
        def figure(key):
            return [figures[key] for figures in of_contender]

        def of_paper(key):
            return f"{100 * statistics.median(figure(key)) / statistics.median(paper[key]):.1f} %" if paper[key] else "-"

        cells = ["-"] * 9
        cells[5] = spread(figure("request"), count)
        if name != "none":
            cells[0], cells[1] = spread(figure("bpf"), count), of_paper("bpf")
            cells[2] = f"{statistics.median(figure('runs')):.2f}"
            cells[3], cells[4] = spread(figure("own"), count), of_paper("own")
            cells[7] = spread(figure("consumer"), count)
            if bases:
                pairs = list(zip(figure("request"), figure("consumer"), bases))
                cells[6] = spread([request / base - 1 for request, _, base in pairs], percent)
                cells[8] = spread([(request + consumer) / base - 1 for request, consumer, base in pairs], percent)
        lines.append("| " + " | ".join([CONTENDERS[name][0], *cells]) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--idle", type=int, default=60)
    parser.add_argument("contenders", nargs="*", choices=[*CONTENDERS, []], default=[])
    arguments = parser.parse_args()

    with open("/exp/data", "wb") as file:
        file.write(os.urandom(FILE_BYTES))
    version = re.search(rf" {os.path.dirname(FILE)} nfs4? \S*,vers=([\d.]+)", read("/proc/mounts"))[1]
    text = f"## NFS {version}, Linux {os.uname().release} {os.uname().version}\n\n"
    if arguments.contenders:
        text += table_of_contenders(arguments) + "\n"
    text += table_of_events()
    write(os.environ["OUT"] + "/table.md", text)


def table_of_contenders(arguments):
    empty = empty_run()
    rounds = {name: [] for name in arguments.contenders}
    # Alternate between contenders, so that drift affects all of them. The first round warms up.
    for number in range(arguments.rounds):
        for name in arguments.contenders:
            figures = measure(CONTENDERS[name][1](), empty)
            print(f"round {number}, {name}: {summary(figures)}", file=sys.stderr, flush=True)
            if number > 0:
                rounds[name].append(figures)
    text = table(rounds)
    text += f"\nA run of an empty BPF program, by the statistics: {count(empty)} instructions.\n"
    if arguments.idle and "direct" in arguments.contenders:
        rate = idle(trackiops("direct"), arguments.idle)
        text += f"\nRecorder with nothing to record, direct engine: {count(rate)} instructions per second.\n"
        rate = metadata(trackiops("direct"))
        text += f"\nBPF per operation on metadata (SETATTR), direct engine: {count(rate)} instructions.\n"
        text += "\n" + table_of_calls()
        rate = start(trackiops("direct"))
        text += f"\nStart, from exec to the last probe attached, direct engine: {count(rate)} instructions.\n"
        rate = start(trackiops("direct", "--app-view"))
        text += f"\nThe same with --app-view: {count(rate)} instructions.\n"
    return text


main()
