#!/usr/bin/env python3
"""Runs the commands of docs/tutorial.md, and replaces their output there.

    tutorial.py native|nfs PAGE [--check]     --check changes nothing

A comment before a block of code says that its commands are run, one `$ ` line after the other. Words of it:

    run             on this machine and on NFS; the page shows the output of this machine
    run-native      on this machine alone
    run-nfs         on NFS alone; the page shows that output
    name=NAME       a name for the words below
    background      goes on until `stop=NAME`; its output so far is shown once it matches until=
    until=REGEX
    stop=NAME       this block has no command: it shows what NAME printed after Ctrl-C
    after=NAME      waits until the background block NAME has printed what until= of this block says
    sleep=SECONDS   waits before the first command
    times=NAME      takes the times in the commands from the verdict that NAME printed
    status=N        the exit status of the last command; default: 0, as that of all others
    expect=REGEX    the output, and what the page shows, must match; repeatable
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

BLOCK = re.compile(r"^<!-- (run\S*|stop=\S+)( [^\n]*?)? -->\n```(\w*)\n(.*?)^```$", re.M | re.S)
TIME = re.compile(r"\d\d:\d\d:\d\d")
VERDICT = re.compile(r"^[\d-]+ ([\d:]{8}) to (?:[\d-]+ )?([\d:]{8}): ", re.M)


class Terminal:
    """A shell that keeps its variables, and the output of its commands in one file."""

    def __init__(self, environment):
        self.output = tempfile.NamedTemporaryFile("w+b")
        self.shell = subprocess.Popen(
            ["bash", "--norc", "-o", "pipefail"],
            stdin=subprocess.PIPE,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            env=environment,
            # Ctrl-C reaches its commands alone.
            start_new_session=True,
        )
        self.shown = 0

    def type(self, text):
        self.shell.stdin.write(text.encode() + b"\n")
        self.shell.stdin.flush()

    def so_far(self):
        with open(self.output.name, "rb") as file:
            file.seek(self.shown)
            return file.read().decode()

    def take(self):
        text = self.so_far()
        self.shown += len(text.encode())
        return text

    def run(self, command):
        """Its output and its exit status."""
        with tempfile.TemporaryDirectory() as scratch:
            done = os.path.join(scratch, "status")
            self.type(f"{{ {command}\n}} </dev/null; echo $? >{done}.new; mv {done}.new {done}")
            await_that(lambda: os.path.exists(done), 180, f"the end of `{command}`")
            return self.take(), int(open(done).read())

    def begin(self, command):
        self.type(f"exec {command} </dev/null")

    def interrupt(self):
        os.killpg(self.shell.pid, signal.SIGINT)
        self.shell.wait(60)

    def end(self):
        if self.shell.poll() is None:
            os.killpg(self.shell.pid, signal.SIGTERM)
            try:
                self.shell.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self.shell.pid, signal.SIGKILL)


def await_that(is_so, seconds, what):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"gave up waiting for {what}")
        time.sleep(0.1)


class Block:
    def __init__(self, match):
        self.match = match
        words = shlex.split((match[1] + (match[2] or "")))
        self.way = words[0]
        self.values, self.expect = {}, []
        for word in words:
            key, _, value = word.partition("=")
            if key == "expect":
                self.expect.append(value)
            else:
                self.values[key] = value
        # A line that ends with a backslash goes on.
        code = match[4].replace("\\\n", "\\\0")
        self.commands = [line[2:].replace("\0", "\n") for line in code.splitlines() if line.startswith("$ ")]
        self.result = []

    def __getitem__(self, key):
        return self.values.get(key)

    def belongs(self, kind):
        return self.way.startswith("stop=") or self.way in ("run", f"run-{kind}")

    def is_shown(self, kind):
        return self.way == f"run-{kind}" or kind == "native"

    def text(self):
        lines = []
        for command, output in self.result:
            if command is not None:
                lines.append(f"$ {command}")
            lines += [line.rstrip() for line in output.splitlines()]
        # The empty rows of a screen.
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


class Tutorial:
    def __init__(self, kind, page):
        self.kind, self.page = kind, page
        self.environment = {**os.environ, "TZ": "UTC", "COLUMNS": "110", "LINES": "12", "LC_ALL": "C.UTF-8", "PAGER": "cat"}
        self.front = Terminal(self.environment)
        self.background, self.named, self.wrong = {}, {}, []

    def run(self):
        blocks = [Block(match) for match in BLOCK.finditer(self.page)]
        blocks = [block for block in blocks if block.belongs(self.kind)]
        try:
            for block in blocks:
                # Of two records, one per way, the other one has nothing to stop.
                if block["stop"] and block["stop"] not in self.background:
                    continue
                self.play(block)
                self.judge(block)
        finally:
            for terminal in [*self.background.values(), self.front]:
                terminal.end()
        return blocks

    def play(self, block):
        if block["after"]:
            terminal = self.background[block["after"]]
            await_that(lambda: re.search(block["until"], terminal.so_far()), 300, f"`{block['until']}` of {block['after']}")
        time.sleep(float(block["sleep"] or 0))
        if block["stop"]:
            terminal = self.background[block["stop"]]
            terminal.interrupt()
            block.result.append((None, terminal.take()))
            say(block.text().rstrip())
            return self.status(block, terminal.shell.returncode, block["stop"])
        commands = block.commands
        if block["times"]:
            verdict = VERDICT.search(self.named[block["times"]].text())
            if not verdict:
                raise LookupError("no verdict: " + self.named[block["times"]].text())
            commands = [self.with_times(command, verdict.groups()) for command in commands]
        for command in commands:
            say(f"$ {command}")
            if "background" in block.values:
                terminal = Terminal(self.environment)
                self.background[block["name"]] = terminal
                terminal.type("cd " + shlex.quote(os.getcwd()))
                terminal.begin(command)
                until = block["until"] or ""
                await_that(lambda: re.search(until, terminal.so_far()) or terminal.shell.poll() is not None, 60, f"`{until}`")
                output = terminal.take()
                status = terminal.shell.poll() or 0
            else:
                output, status = self.front.run(command)
            if output:
                say(output.rstrip())
            block.result.append((command, output))
            self.status(block, status, command)
        if block["name"]:
            self.named[block["name"]] = block

    @staticmethod
    def with_times(command, times):
        left = list(times)
        return TIME.sub(lambda old: left.pop(0) if left else old[0], command)

    def status(self, block, status, command):
        is_last = len(block.result) >= len(block.commands)
        wanted = int(block["status"] or 0) if is_last else 0
        if status != wanted:
            self.wrong.append(f"exit status {status}, not {wanted}: {command}\n{block.text()}")

    def judge(self, block):
        for regex in block.expect:
            if not re.search(regex, block.text(), re.S):
                self.wrong.append(f"no match for {regex}:\n{block.text()}")
            if block.is_shown(self.kind) and not re.search(regex, block.match[4], re.S):
                block.values["stale"] = regex


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    kind, path = sys.argv[1:3]
    check = "--check" in sys.argv[3:]
    with open(path) as file:
        page = file.read()
    tutorial = Tutorial(kind, page)
    try:
        blocks = tutorial.run()
    except (LookupError, TimeoutError) as error:
        say("\n".join(f"tutorial: {wrong}" for wrong in [*tutorial.wrong, error]))
        return 1
    if check:
        tutorial.wrong += [f"the page does not show {b['stale']}: {b.commands}" for b in blocks if b["stale"]]
    if tutorial.wrong:
        say("\n".join(f"tutorial: {wrong}" for wrong in tutorial.wrong))
        return 1
    if not check:
        for block in reversed(blocks):
            if block.is_shown(kind) and block.result:
                page = page[: block.match.start(4)] + block.text() + page[block.match.end(4) :]
        with open(path, "w") as file:
            file.write(page)
    say(f"tutorial: {sum(len(block.result) for block in blocks)} commands, all as the page says")
    return 0


sys.exit(main())
