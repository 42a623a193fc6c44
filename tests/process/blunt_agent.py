"""Agents that do one thing and no protocol, for what the test agent is too well-behaved for.

pieces N FILE   writes a file to stdout, N bytes a write, then waits for the end of stdin
sink            reads everything; a line that begins with "?" is answered with what came before it:
                {"bytes": …, "sha256": …}. SIGSTOP makes it an agent that does not read.
talker N        for the first line it reads it writes N bytes in one blocking go and reads nothing
                meanwhile; then as sink
both N          as talker, but a thread reads on meanwhile
"""

import hashlib
import json
import os
import sys
import threading

LINE = b'{"jsonrpc":"2.0","method":"_vendor/flood","params":{"n":"%012d","pad":"' + b"x" * 4000 + b'"}}\n'


def write_all(data):
    while data:
        data = data[os.write(1, data) :]


def pieces(size, path):
    with open(path, "rb") as file:
        data = file.read()
    for at in range(0, len(data), size):
        write_all(data[at : at + size])
    while os.read(0, 65536):
        pass


def sink(rest=b""):
    digest, count = hashlib.sha256(), 0
    while True:
        end = rest.find(b"\n")
        while end >= 0:
            line, rest = rest[: end + 1], rest[end + 1 :]
            if b'"_vendor/ask"' in line[:100]:
                result = {"bytes": count, "sha256": digest.hexdigest()}
                write_all(json.dumps({"jsonrpc": "2.0", "id": "asked", "result": result}).encode() + b"\n")
            else:
                digest.update(line)
                count += len(line)
            end = rest.find(b"\n")
        piece = os.read(0, 1 << 20)
        if not piece:
            return
        rest += piece


def talk(size):
    for number in range(size // len(LINE % 0)):
        write_all(LINE % number)


def read_line():
    rest = b""
    while b"\n" not in rest:
        rest += os.read(0, 1)
    return rest


def run(mode, *arguments):
    if mode == "pieces":
        pieces(int(arguments[0]), arguments[1])
    elif mode == "sink":
        sink()
    elif mode == "talker":
        read_line()
        talk(int(arguments[0]))
        sink()
    elif mode == "both":
        read_line()
        speech = threading.Thread(target=talk, args=(int(arguments[0]),))
        speech.start()
        sink()
        speech.join()


if __name__ == "__main__":
    run(*sys.argv[1:])
