#!/usr/bin/env python3
"""What reading a capture takes, of trackiops, of nfstrace and of tshark, and what runs of many requests take. See README.md beside it."""

import argparse
import bz2
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

NFS = 2049
BREAKDOWN = "/usr/lib/nfstrace/libbreakdown.so"
# Offsets of the transport header behind Ethernet, for IPv4 without options and IPv6.
TRANSPORT = {0x0800: 14 + 20, 0x86DD: 14 + 40}
FIELDS = ["frame.time_epoch", "ip.src", "ip.dst", "rpc.xid", "rpc.msgtyp", "nfs.procedure_v3", "nfs.opcode", "nfs.status"]


def packets(capture):
    """Headers' byte order, the file's header, and (seconds, rest of time, record) of each packet of a pcap file."""
    order = "<" if capture[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at, found = 24, []
    while at + 16 <= len(capture):
        seconds, fraction, stored, _ = struct.unpack_from(order + "IIII", capture, at)
        found.append((seconds, fraction, capture[at + 8 : at + 16 + stored]))
        at += 16 + stored
    return order, capture[:24], found


def moved(record, copy):
    """A packet with another port of its client."""
    kind = struct.unpack_from(">H", record, 8 + 12)[0]
    at = TRANSPORT.get(kind)
    if at is None or len(record) < 8 + at + 4:
        return record
    ports = list(struct.unpack_from(">HH", record, 8 + at))
    place = 1 if ports[0] == NFS else 0
    ports[place] = (ports[place] + 7 * copy) % 65536
    changed = bytearray(record)
    struct.pack_into(">HH", changed, 8 + at, *ports)
    return bytes(changed)


def repeat(source, target, size):
    """Writes a capture several times, each as new connections at a later time. Returns bytes and copies."""
    raw = source.read_bytes()
    capture = bz2.decompress(raw) if source.suffix == ".bz2" else raw
    order, header, found = packets(capture)
    length = found[-1][0] - found[0][0] + 1
    written, copies = len(header), 0
    with target.open("wb") as out:
        out.write(header)
        while written < size:
            for seconds, fraction, record in found:
                out.write(struct.pack(order + "II", seconds + copies * length, fraction) + moved(record, copies))
                written += 8 + len(record)
            copies += 1
    return written, copies


# Waits for a command and prints its costs. In a separate process: a child's largest memory is at least its parent's.
WAIT = """
import json, os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
taken = time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
print(json.dumps([os.waitstatus_to_exitcode(status), taken]), file=sys.stderr)
"""


def measured(command, rounds, before=lambda: None, cwd=None):
    """Wall time, time of processors, s, and the largest memory, MiB: medians, and what the last run wrote."""
    runs = []
    for _ in range(rounds):
        before()
        waiting = [sys.executable, "-ISc", WAIT, *command]
        done = subprocess.run(waiting, capture_output=True, cwd=cwd, check=True)
        status, taken = json.loads(done.stderr)
        if status != 0:
            raise SystemExit(f"error: {command[0]} failed: {' '.join(map(str, command))}")
        runs.append(taken)
    walls, cpus, memories = zip(*runs)
    return statistics.median(walls), statistics.median(cpus), max(memories), done.stdout


def write_requests(path, count):
    """Requests of 512 files at a time, half of them read in order and half at random, of four clients."""
    duckdb.sql(f"""
        COPY (SELECT 1795305600000000000 + i * 20000 AS end_time_ns, 'h' || (i % 4) AS host, 's:/e' AS mount,
            (i % 512 + (i // 1000000) * 512)::BIGINT AS file_key, CASE WHEN i % 5 = 0 THEN 'WRITE' ELSE 'READ' END AS op,
            (CASE WHEN i % 512 < 256 THEN i // 512 ELSE hash(i) % 1000000 END * 65536)::BIGINT AS offset_bytes,
            65536::BIGINT AS done_bytes, (200000 + hash(i * 7) % 5000000)::BIGINT AS latency_ns
        FROM range({count}) t(i)) TO '{path}' (FORMAT parquet, COMPRESSION zstd)""")


def sequentiality(program, work, counts):
    print("\n## Sequentiality of many requests\n")
    print("| requests | time, s | CPU, s | requests per second of CPU | memory, MiB |\n|---:|---:|---:|---:|---:|")
    for count in counts:
        path = work / "requests.parquet"
        write_requests(path, count)
        wall, cpu, memory, _ = measured([program, "analyze", "sequentiality", path], 1)
        print(f"| {count:,} | {wall:.1f} | {cpu:.1f} | {count / cpu:,.0f} | {memory:.0f} |", flush=True)
        path.unlink()


def row(name, figures):
    wall, cpu, memory, _ = figures
    return f"| {name} | {wall:.2f} | {cpu:.2f} | {memory:.0f} |"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--capture", type=Path, required=True)
    arguments.add_argument("--bytes", type=int, required=True)
    arguments.add_argument("--rounds", type=int, required=True)
    arguments.add_argument("--requests", type=int, nargs="+", required=True)
    options = arguments.parse_args()
    program = os.environ["TRACKIOPS_BIN"]
    work = Path(tempfile.mkdtemp(prefix="trackiops-captures."))
    try:
        big, store = work / "big.pcap", work / "store"
        size, copies = repeat(options.capture, big, options.bytes)
        again = lambda: shutil.rmtree(store, ignore_errors=True)
        importing = measured([program, "import", "pcap", big, "--store", store], options.rounds, again)
        requests = importing[3].decode().splitlines()[0]
        # It writes files to its working directory.
        counting = ["nfstrace", "--mode=stat", "-I", big, "-a", BREAKDOWN]
        counted = measured(counting, options.rounds, cwd=work)
        operations = sum(map(int, re.findall(rb"Total operations: (\d+)", counted[3])))
        listing = ["tshark", "-n", "-r", big, "-Y", "nfs", "-T", "fields"]
        listing += [word for field in FIELDS for word in ("-e", field)]
        listed = measured(listing, 1)
        messages = listed[3].count(b"\n")
        version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True).stdout.strip()
        tshark = subprocess.run(["tshark", "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split("\n")[0]
        print(f"{os.cpu_count()} cores; {version}; {tshark.rstrip('.')}.")
        print("\n## A capture\n")
        print(f"The capture: {size / 2**30:.2f} GiB, {options.capture.name} {copies} times, each with other ports of its clients.")
        print(f"trackiops: {requests}. nfstrace: {operations} operations. tshark: {messages} packets with messages of NFS.\n")
        print("| | time, s | CPU, s | memory, MiB |\n|---|---:|---:|---:|")
        print(row("`trackiops import pcap`: requests into a store", importing))
        print(row("`nfstrace --mode=stat`: counts of operations", counted))
        print(row("`tshark -Y nfs -T fields`: a line for each packet", listed))
        for name, other in (("nfstrace", counted), ("tshark", listed)):
            print(f"\nThe import takes {importing[0] / other[0]:.3f} of the time of {name}, and {importing[1] / other[1]:.3f} of the CPU.")
        big.unlink()
        sequentiality(program, work, options.requests)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
