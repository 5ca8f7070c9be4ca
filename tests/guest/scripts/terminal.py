"""Runs a command with a terminal as its standard error.

    terminal.py LINES COMMAND...

LINES gets what it writes there, a line at a time, each after the time at which it was written (seconds since the
epoch) and a tab. Ends with the command's status.
"""

import os
import sys
import time


def main(output, command):
    master, slave = os.openpty()
    child = os.fork()
    if child == 0:
        os.dup2(slave, 2)
        os.closerange(3, 100)
        os.execvp(command[0], command)
    os.close(slave)
    with open(output, "w", encoding="utf-8", buffering=1) as lines, \
            open(master, encoding="utf-8", errors="replace") as terminal:
        try:
            for line in terminal:
                lines.write(f"{time.time():.3f}\t{line.rstrip()}\n")
        except OSError:
            pass  # The last one to hold the other end is gone.
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


sys.exit(main(sys.argv[1], sys.argv[2:]))
