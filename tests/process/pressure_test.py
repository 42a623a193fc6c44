"""Peers that do not read: memory stays bounded, nothing is lost, nothing deadlocks.

Two pauses are the subject here: for that long a peer reads nothing. Everything else waits for events.
"""

import hashlib
import os
import select
import signal
import sys
import threading
import time

import blunt_agent
import processes
from client import prompt_params
from harness import expect, expect_equal, main, test

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
MEMORY_MAX_KIB = 64 * 1024
# What may be under way to a peer that does not read: two pipes, keyhop's queue up to its high mark, one read.
UNDER_WAY_MAX = 2 * MIB + 4 * 65536


def flood_bytes(room):
    return (1024 if room.long else 256) * MIB


def pause_seconds(room):
    return 5 if room.long else 2


def expect_little_memory(keyhop):
    peak = processes.status_number(keyhop.pid, "VmHWM")
    expect(peak < MEMORY_MAX_KIB, f"keyhop used {peak} KiB")
    print(f"  peak memory of keyhop {peak} KiB", flush=True)


def blunt(room, *arguments):
    return room.start(command=[sys.executable, os.path.join(HERE, "blunt_agent.py"), *map(str, arguments)])


class Stream:
    """A flood as it is read: its bytes are hashed, its lines counted, its numbers must follow each other."""

    def __init__(self, template):
        self.template = template  # one line, %012d for its number
        self.number = 0
        self.rest = b""
        self.others = []

    def feed(self, data):
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            if line == self.template % self.number:
                self.number += 1
            else:
                self.others.append(line)


def read_flood(client, stream, is_last):
    """Reads until a line that is not of the flood fulfils is_last."""
    os.set_blocking(client.output, True)
    while not any(map(is_last, stream.others)):
        data = os.read(client.output, MIB)
        expect(data, "keyhop's stdout ended in the flood")
        stream.feed(data)
    os.set_blocking(client.output, False)


@test(seconds=300)
def a_client_that_reads_nothing(room):
    keyhop = room.start(command=room.agent_command(wire=None))
    client = keyhop.client
    session = client.open(version=1)
    size = flood_bytes(room)
    client.reads = False
    client.prompt(session, f"[flood {size} 300]", request_id=7)
    time.sleep(pause_seconds(room))
    expect(not client.at_end, "keyhop ended")
    expect_little_memory(keyhop)
    first = client.receive()
    begin, _, end = first.partition(b"000000000000")
    stream = Stream(begin.replace(b"%", b"%%") + b"%012d" + end)
    stream.feed(first + b"\n" + client.take_unread())
    read_flood(client, stream, lambda line: b'"id":7,' in line)
    expect_equal(stream.number, -(-size // (len(first) + 1)), "lines of the flood")
    answers = [line for line in stream.others if b'"id"' in line]
    expect_equal(len(answers), 1, "answers")
    expect_equal(stream.rest, b"", "what stands behind the answer")
    expect_little_memory(keyhop)
    expect_equal(keyhop.close(), 0, "exit status")


def write_while_taken(client, pieces):
    """Writes until nothing is taken for a second; the number of bytes that were taken."""
    poller = select.poll()
    poller.register(client.input, select.POLLOUT)
    taken = 0
    for piece in pieces:
        view = memoryview(piece)
        while view:
            if not poller.poll(1000):
                return taken, bytes(view)
            count = os.write(client.input, view)
            taken += count
            view = view[count:]
    return taken, b""


def client_flood(size):
    line = b'{"jsonrpc":"2.0","method":"_vendor/note","params":{"n":"%012d","pad":"' + b"y" * 4000 + b'"}}\n'
    for number in range(size // len(line % 0)):
        yield line % number


ASK = b'{"jsonrpc":"2.0","id":"asked","method":"_vendor/ask"}\n'


@test(seconds=300)
def an_agent_that_reads_nothing(room):
    keyhop = blunt(room, "sink")
    client = keyhop.client
    client.write(ASK)
    client.answer("asked")  # the agent runs
    agent = [pid for pid in processes.descendants(keyhop.pid) if processes.name_of(pid).startswith("python")]
    os.kill(agent[0], signal.SIGSTOP)
    size = flood_bytes(room)
    digest, count = hashlib.sha256(), 0

    def pieces():
        nonlocal count
        for piece in client_flood(size):
            digest.update(piece)
            count += len(piece)
            yield piece

    source = pieces()
    taken, rest = write_while_taken(client, source)
    expect(taken < UNDER_WAY_MAX, f"keyhop took {taken} bytes for an agent that reads nothing")
    time.sleep(pause_seconds(room))
    expect_little_memory(keyhop)
    os.kill(agent[0], signal.SIGCONT)
    client.write(rest)
    for piece in source:
        client.write(piece)
    client.write(ASK)
    result = client.answer("asked")["result"]
    expect_equal(result, {"bytes": count, "sha256": digest.hexdigest()}, "what the agent read")
    expect_little_memory(keyhop)
    expect_equal(keyhop.close(), 0, "exit status")


BOTH = 32 * MIB


def start_both_full(room, mode):
    """Both peers write, neither reads, until nothing moves any more. What is left to write comes back."""
    keyhop = blunt(room, mode, BOTH)
    client = keyhop.client
    client.reads = False
    client.write(b'{"jsonrpc":"2.0","method":"_vendor/begin"}\n')
    taken, rest = write_while_taken(client, source := client_flood(BOTH))
    return keyhop, taken, rest, source


@test(seconds=120)
def both_directions_are_full_and_then_the_client_reads(room):
    """The agent reads when all that it has to say is taken: only the client's reading can free both."""
    keyhop, taken, rest, source = start_both_full(room, "talker")
    client = keyhop.client
    expect(0 < taken < UNDER_WAY_MAX, f"keyhop took {taken} bytes for an agent that reads nothing")
    stream = Stream(blunt_agent.LINE.rstrip())
    lines = BOTH // len(blunt_agent.LINE % 0)
    os.set_blocking(client.output, True)
    while stream.number < lines:
        stream.feed(os.read(client.output, MIB))
    os.set_blocking(client.output, False)
    client.reads = True
    client.write(rest + b"".join(source) + ASK)
    result = client.answer("asked")["result"]
    expect_equal(
        result["sha256"], hashlib.sha256(b"".join(client_flood(BOTH))).hexdigest(), "what the agent read"
    )
    expect_equal(stream.others, [], "lines that are not of the flood")
    expect_little_memory(keyhop)
    expect_equal(keyhop.close(), 0, "exit status")


@test(seconds=120)
def one_direction_is_full_and_the_other_moves(room):
    """The client reads nothing of the agent's flood; everything of its own goes through."""
    keyhop, taken, rest, _ = start_both_full(room, "both")
    client = keyhop.client
    expect_equal((taken, rest), (len(b"".join(client_flood(BOTH))), b""), "bytes that went through")
    client.write(ASK)
    expect_little_memory(keyhop)
    client.reads = True
    result = client.answer("asked")["result"]
    expect_equal(
        result["sha256"], hashlib.sha256(b"".join(client_flood(BOTH))).hexdigest(), "what the agent read"
    )
    lines = BOTH // len(blunt_agent.LINE % 0)
    while len(client.received) <= lines:  # the flood and the answer, which may stand in the middle of it
        client.receive()
    flood = [line + b"\n" for line in client.received if b"_vendor/flood" in line]
    expect(flood == [blunt_agent.LINE % number for number in range(lines)], "the flood came changed")
    expect_equal(keyhop.close(), 0, "exit status")


@test(seconds=120, cases={"of one request": "$/cancel_request", "of the session": "session/cancel"})
def a_cancel_crosses_while_the_other_direction_is_blocked(room, method):
    """The agent's record of what it reads is a pipe here, so that its reading is an event for the test."""
    os.mkfifo(room.path("wire"))
    keyhop = room.start()
    client = keyhop.client
    wire = open(room.path("wire"), "rb")
    session = client.open(version=1)
    client.reads = False
    client.send(
        {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "session/prompt",
            "params": prompt_params(session, f"[flood {64 * MIB} 4000]"),
        }
    )
    # The flood fills both pipes and keyhop's queue; then the agent's frames stop coming.
    poller = select.poll()
    poller.register(wire, select.POLLIN)
    data = b""
    os.set_blocking(wire.fileno(), False)
    while poller.poll(1000):
        data += wire.read(MIB) or b""
    expect(len(data) < 16 * MIB, "the flood is not blocked")
    client.notify(method, {"requestId": 7} if method.startswith("$") else {"sessionId": session})
    data = b""
    while b'<{"jsonrpc":"2.0","method":"%s"' % method.encode() not in data:
        expect(poller.poll(20000), "the cancel did not reach the agent")
        data += wire.read(MIB) or b""
    os.set_blocking(wire.fileno(), True)
    # The record goes on while the client reads, and has to be taken meanwhile.
    rest = threading.Thread(target=wire.read)
    rest.start()
    client.reads = True
    answer = client.answer(7)
    withdrawn = answer.get("error", {}).get("code") == -32800
    expect(withdrawn or answer.get("result") == {"stopReason": "cancelled"}, f"the answer: {answer}")
    expect_equal(keyhop.close(), 0, "exit status")
    rest.join()
    wire.close()


@test(seconds=120)
def errors_of_keyhops_own_are_bounded_too(room):
    """A client that sends bad lines and reads no answer is read no further."""
    keyhop = room.start()
    client = keyhop.client
    client.open()
    client.reads = False
    bad = (b"x" * 60 + b"\n") * 1000
    taken, rest = write_while_taken(client, (bad for _ in range(4 * flood_bytes(room) // MIB)))
    expect(rest, "the client was read without an end")
    expect_little_memory_and_limits(keyhop)
    client.close_writing()
    count = 0
    os.set_blocking(client.output, True)
    while data := os.read(client.output, MIB):
        count += data.count(b"\n")
    lines = taken // 61
    # The line that was cut in the middle is none.
    expect_equal(count, lines, "answers, one a bad line")
    expect_equal(keyhop.wait(), 0, "exit status")


def expect_little_memory_and_limits(keyhop):
    """The queue for a client that does not read its own answers is --max-frame and 8 MiB at most."""
    peak = processes.status_number(keyhop.pid, "VmHWM")
    expect(peak < MEMORY_MAX_KIB + 2 * (64 + 8) * 1024, f"keyhop used {peak} KiB")


if __name__ == "__main__":
    main(__doc__)
