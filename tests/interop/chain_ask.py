#!/usr/bin/env python3
"""Asks an agent command to initialize and prints whether that works, as its last line.

    chain_ask.py --seconds N -- COMMAND [ARG…]

What it is asked itself it does not know (-32601). Above the last line stands what it got. Always exits 0.
"""

import json
import selectors
import subprocess
import sys
import time


def write(child, frame):
    child.stdin.write(json.dumps(frame).encode() + b"\n")
    child.stdin.flush()


def lines(child, deadline):
    """The child's lines until it closes its stdout or the time is up."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while selector.select(max(0, deadline - time.monotonic())):
            read = child.stdout.read1(65536)
            if not read:
                return
            *whole, rest = (rest + read).split(b"\n")
            yield from whole


def outcome(child, deadline):
    capabilities = {"protocolVersion": 1, "clientCapabilities": {}}
    write(child, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": capabilities})
    for line in lines(child, deadline):
        frame = json.loads(line)
        print(f"got {line.decode(errors='replace')[:300]}")
        if "method" in frame and "id" in frame:
            error = {"code": -32601, "message": "Method not found"}
            write(child, {"jsonrpc": "2.0", "id": frame["id"], "error": error})
        elif frame.get("id") == 1:
            return "it works" if "result" in frame else "it refuses"
    return "no answer"


def main():
    seconds = float(sys.argv[sys.argv.index("--seconds") + 1])
    command = sys.argv[sys.argv.index("--") + 1 :]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            print(outcome(child, time.monotonic() + seconds))
        except BrokenPipeError:
            print("it has gone")
        child.kill()


main()
