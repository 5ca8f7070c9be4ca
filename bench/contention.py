"""What CPUs were doing in a profile, and where they waited for locks: one row of a Markdown table.

Usage: contention.py KERNEL CPUS CONTENDER SAMPLES LOAD...

SAMPLES is what `perf script --fields event,ip,sym` prints of a profile of `cpu-clock`, with breakpoints on the slow paths of
spinlocks; LOADs are the results of fio.
"""

import json
import re
import sys

NAMES = {
    "none": "none",
    "direct": "trackiops, direct engine",
    "tracepoint": "trackiops, tracepoint engine",
    "control": "one that does wait",
}
# Programs, the function that runs them, and userspace operations on their maps.
BPF = re.compile(r"^(bpf_prog_[0-9a-f]{16}|bpf_trace_run|__sys_bpf)")
SLOW_PATH = re.compile(r"_lock_slowpath$|^resilient_tas_spin_lock$")


def samples(lines):
    """The event of each sample, and its functions from the innermost on."""
    event, functions = None, []
    for line in lines:
        words = line.split()
        if not words:
            if event:
                yield event, functions
            event, functions = None, []
        elif not event:
            event = words[-1]
        else:
            functions.append(words[1])
    if event:
        yield event, functions


def own(functions):
    """Without what was interrupted or preempted, which has nothing to do with what is done in its place."""
    for number, function in enumerate(functions):
        if function.startswith(("asm_", "preempt_schedule", "rcu_preempt_deferred_qs")):
            return functions[:number]
    return functions


def share(part, whole):
    return f"{100 * part / whole:.2f} %" if whole else "-"


def main(kernel, cpus, contender, profile, *loads):
    busy = in_bpf = waiting = waiting_in_bpf = waits = waits_in_bpf = 0
    with open(profile, encoding="utf-8") as lines:
        for event, functions in samples(lines):
            functions = own(functions)
            if "do_idle" in functions:
                continue
            bpf = any(BPF.match(function) for function in functions)
            if event.startswith("cpu-clock"):
                slow = any(SLOW_PATH.search(function) for function in functions)
                busy += 1
                in_bpf += bpf
                waiting += slow
                waiting_in_bpf += slow and bpf
            else:
                waits += 1
                waits_in_bpf += bpf
                if bpf and contender != "control":
                    print(f"{contender} waits:", " < ".join(functions), file=sys.stderr)
    requests = 0
    for load in loads:
        with open(load, encoding="utf-8") as result:
            jobs = json.load(result)["jobs"]
        requests += sum(job[way]["total_ios"] for job in jobs for way in ("read", "write"))
    row = [
        kernel, cpus, NAMES[contender], f"{requests:,}", f"{busy:,}", share(in_bpf, busy), share(waiting, busy),
        f"{waiting_in_bpf:,}", f"{waits:,}", f"{waits_in_bpf:,}",
    ]
    print("| " + " | ".join(row) + " |")


main(*sys.argv[1:])
