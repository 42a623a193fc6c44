#!/usr/bin/env python3
"""Runs a component and records its stdio: what it is sent in DIR/hop.in, what it writes in DIR/hop.out.

chain_tap.py --trace DIR -- COMMAND [ARG…]
"""

import os
import subprocess
import sys
import threading


def pump(source, sink, path):
    record = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        while block := os.read(source, 65536):
            os.write(record, block)
            while block:
                block = block[os.write(sink, block) :]
    except BrokenPipeError:
        pass
    os.close(sink)


def main():
    directory = sys.argv[sys.argv.index("--trace") + 1]
    command = sys.argv[sys.argv.index("--") + 1 :]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    ways = (
        (sys.stdin.fileno(), os.dup(child.stdin.fileno()), f"{directory}/hop.in"),
        (child.stdout.fileno(), sys.stdout.fileno(), f"{directory}/hop.out"),
    )
    child.stdin.close()
    threads = [threading.Thread(target=pump, args=way, daemon=True) for way in ways]
    for thread in threads:
        thread.start()
    threads[1].join()  # all that it wrote is passed on; the other one may wait for input for ever
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
