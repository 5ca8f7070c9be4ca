"""What recording levels adds to reads and writes of 4 KiB on ext4, in a guest that counts instructions: `levels.py`.

1 ns of the guest's time is 1 instruction (`cargo vm run --icount`). Leaves a table in Markdown in $OUT.
"""

import mmap
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import time

ROUNDS = 3
REQUESTS = 1500
SIZE = 4096
MOUNT = pathlib.Path("/mnt/levels")
READY = pathlib.Path("/tmp/ready")
OTHER = MOUNT / "other"
# Levels to record, and their flags.
RECORDED = {
    "`block`": ["--levels", "block"],
    "`block`, of another file": ["--levels", "block", "--file", str(OTHER)],
    "`block,cache`": ["--levels", "block,cache"],
    "`app`": ["--levels", "app"],
    "`app,block,cache`": ["--levels", "app,block,cache"],
    "`app`, of another file": ["--levels", "app", "--file", str(OTHER)],
    "`app --requests`": ["--levels", "app", "--requests"],
    "`app --requests`, of another file": ["--levels", "app", "--requests", "--file", str(OTHER)],
}
IOTRACER = "IOTracer's design"
SAID = pathlib.Path("/tmp/said")
STORE = "/tmp/store"


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def prepare():
    run("modprobe", "ext4")
    run("modprobe", "null_blk", "nr_devices=0")
    # A device that stores data in memory, and completes by an interrupt.
    device = pathlib.Path("/sys/kernel/config/nullb/levels")
    if not device.parent.exists():
        run("mount", "-t", "configfs", "none", "/sys/kernel/config")
    device.mkdir()
    for name, value in {"memory_backed": 1, "size": 512, "irqmode": 1, "power": 1}.items():
        (device / name).write_text(str(value))
    # Named after the directory since Linux 5.19.
    node = "/dev/levels" if os.path.exists("/dev/levels") else "/dev/nullb0"
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", node)
    MOUNT.mkdir()
    run("mount", "-o", "noatime", node, str(MOUNT))
    (MOUNT / "data").write_bytes(random.randbytes(REQUESTS * SIZE))
    OTHER.touch()
    os.sync()


def timed(call, arguments):
    """The median of what a call takes."""
    times = []
    for argument in arguments:
        began = time.perf_counter_ns()
        call(*argument)
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times)


def in_order():
    return [n * SIZE for n in range(REQUESTS)]


def opened(name, flags):
    return os.open(MOUNT / name, os.O_CREAT | flags, 0o600)


def append():
    buffer = bytes(SIZE)
    file = opened("new", os.O_WRONLY | os.O_TRUNC)
    took = timed(lambda at: os.pwrite(file, buffer, at), [(at,) for at in in_order()])
    os.close(file)
    return took


def overwrite():
    """Of pages that are cached and clean."""
    buffer = bytes(SIZE)
    file = opened("data", os.O_RDWR)
    os.fsync(file)
    for at in in_order():
        os.pread(file, SIZE, at)
    took = timed(lambda at: os.pwrite(file, buffer, at), [(at,) for at in in_order()])
    os.fsync(file)
    os.close(file)
    return took


def read_cached():
    file = opened("data", os.O_RDONLY)
    for at in in_order():
        os.pread(file, SIZE, at)
    took = timed(lambda at: os.pread(file, SIZE, at), [(at,) for at in in_order()])
    os.close(file)
    return took


def read_uncached():
    """One page and one request each."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    file = opened("data", os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    order = in_order()
    random.Random(1).shuffle(order)
    took = timed(lambda at: os.pread(file, SIZE, at), [(at,) for at in order])
    os.close(file)
    return took


def direct(call):
    buffer = mmap.mmap(-1, SIZE)
    file = opened("data", os.O_RDWR | os.O_DIRECT)
    took = timed(lambda at: call(file, [buffer], at), [(at,) for at in in_order()])
    os.close(file)
    return took


def another():
    """A call that is for no file."""
    return timed(os.getppid, [()] * REQUESTS)


MEASURED = {
    "buffered write, new page": append,
    "buffered write, cached page": overwrite,
    "buffered read, cached": read_cached,
    "buffered read, not cached": read_uncached,
    "direct write": lambda: direct(os.pwritev),
    "direct read": lambda: direct(os.preadv),
    "`getppid`, for no file": another,
}


def measure():
    rounds = [{name: of() for name, of in MEASURED.items()} for _ in range(ROUNDS + 1)]
    # Omit the first round, in which caches of the kernel are cold.
    return {name: statistics.median(of[name] for of in rounds[1:]) for name in MEASURED}


def recorded(flags):
    READY.unlink(missing_ok=True)
    shutil.rmtree(STORE, ignore_errors=True)
    command = ["trackiops", "record", "--store", STORE, *flags, "--no-live"]
    return beside([*command, "--ready-file", str(READY)], READY.exists)


def beside(command, is_ready):
    """What is measured while a tracer runs."""
    with SAID.open("w") as said:
        tracer = subprocess.Popen(command, stdout=said, stderr=said)
    while not is_ready():
        if tracer.poll() is not None:
            raise SystemExit(f"{command} does not run: {SAID.read_text()}")
        time.sleep(0.1)
    # It looks around first.
    time.sleep(1)
    # It continues to run: each window's sums must be read before the window after the next one.
    found = measure()
    tracer.send_signal(signal.SIGINT)
    tracer.wait()
    return found


def iotracer():
    found = beside(["bpftrace", "-B", "line", "/work/iotracer.bt"], lambda: "attached" in SAID.read_text())
    text = SAID.read_text()
    functions = ["vfs_read", "vfs_write", "ext4_file_read_iter", "ext4_file_write_iter", "submit_bio", "bio_endio"]
    missing = [function for function in functions if f" {function} " not in text]
    if missing:
        raise SystemExit(f"no event of {missing}: {text[-2000:]}")
    return found


def main():
    prepare()
    base = measure()
    found = {name: recorded(flags) for name, flags in RECORDED.items()}
    found[IOTRACER] = iotracer()
    lines = [
        f"## Linux {os.uname().release}",
        "",
        "| 4 KiB on ext4 | no recorder | " + " | ".join(f"added by {tracer}" for tracer in found) + " |",
        "|---|---:|" + "---:|" * len(found),
    ]
    for name, took in base.items():
        added = [f"{of[name] - took:+,.0f} ({of[name] / took - 1:+.1%})" for of in found.values()]
        lines.append(f"| {name} | {took:,.0f} | " + " | ".join(added) + " |")
    table = "\n".join(lines) + "\n"
    print(table)
    (pathlib.Path(os.environ["OUT"]) / "table.md").write_text(table)


main()
