"""Writes the single requests of the store in this directory as an OTF2 archive, and holds it against them: `otf2_archive.py TRACKIOPS`."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

beside = Path(__file__).resolve().parent
modules = beside.parent.parent / "contrib/python"
subprocess.run(
    [sys.argv[1], "export", "--store", "store", "--requests", "--output", "requests.parquet"],
    check=True,
)
first = pq.read_table("requests.parquet", columns=["end_time_ns"])[0][0].as_py()
subprocess.run(
    [sys.argv[1], "mark", "--store", "store", "--at", f"@{first // 10**9}", "a job begins"],
    check=True,
)
marks = subprocess.run(
    [sys.argv[1], "marks", "--store", "store", "--json"], check=True, capture_output=True
)
Path("marks.jsonl").write_bytes(marks.stdout)
convert = [sys.executable, "-m", "trackiops.to_otf2", "requests.parquet"]
env = {**os.environ, "PYTHONPATH": str(modules)}
subprocess.run([*convert, "trace", "--marks", "marks.jsonl"], check=True, env=env)
subprocess.run(
    [sys.executable, beside / "check_otf2.py", "trace/traces.otf2", "requests.parquet"],
    check=True,
)
again = subprocess.run([*convert, "trace"], env=env, capture_output=True, text=True)
assert again.returncode == 2 and "trace exists" in again.stderr, again
