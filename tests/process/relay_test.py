"""What keyhop reads it writes, to the byte, over every kind of descriptor."""

import fcntl
import hashlib
import json
import os
import random
import signal
import socket
import termios
import tty

from client import Client, encode
from harness import expect, expect_equal, main, test

UNUSUAL = (
    b'{"n":1.50e1,"big":123456789012345678901234567890,"tiny":-0.0,"huge":1E400,"lone":"\\ud800",'
    b'"esc":"\\u0041\\/",'
    b'"b":1,"a":null,"b":2,"":{"\xe4\xb8\xad":"\xf0\x9f\xa6\x80"}}'
)


def dialogue(client, version):
    """A conversation in which no id has to change."""
    session = client.open(version)
    client.answer(client.prompt(session, "hello", key="key-1"))
    client.send(
        b'{"method":"_test/echo" , "params":'
        + UNUSUAL
        + b', "id":"\\u0065cho","jsonrpc":"2.0","extra":[1 , 2]}'
    )
    client.answer("echo")
    client.send(b'{"jsonrpc":"2.0","method":"_vendor/note","params":[ ],"x":{}}')
    asking = client.prompt(session, "[permission] [ext _vendor/ask] please")
    permission = client.receive_until(lambda message: message.get("method") == "session/request_permission")
    client.respond(permission["id"], {"outcome": {"outcome": "selected", "optionId": "yes"}})
    question = client.receive_until(lambda message: message.get("method") == "_vendor/ask")
    client.send(
        {"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32601, "message": "no", "x": 1.0}}
    )
    if version == 1:
        client.answer(asking)
    client.call(
        "session/set_config_option", {"sessionId": session, "configId": "model", "type": "id", "value": "m2"}
    )
    client.notify("session/cancel", {"sessionId": session})
    client.call("session/list", {})
    client.call("session/close", {"sessionId": session})


def expect_same_wires(room, client):
    history = room.history()
    expect_equal(history.received(), client.sent, "what the agent read against what the client wrote")
    expect_equal(client.received, history.sent(), "what the client read against what the agent wrote")


@test(cases={"v1": 1, "v2": 2})
def dialogue_is_byte_equal(room, version):
    keyhop = room.start()
    dialogue(keyhop.client, version)
    expect_equal(keyhop.close(), 0, "exit status")
    expect_same_wires(room, keyhop.client)


@test()
def framing_of_the_client_is_normalized_to_line_feeds_only(room):
    keyhop = room.start()
    client = keyhop.client
    client.open()
    line = encode({"jsonrpc": "2.0", "id": 5, "method": "_test/echo", "params": ["x"]})
    client.write(b"\xef\xbb\xbf" + line + b"\r\n\n\r\n" + line.replace(b'"id":5', b'"id":6'))
    client.close_writing()
    client.answer(5)
    client.answer(6)  # its line had no end
    client.read_to_end()
    expect_equal(keyhop.wait(), 0, "exit status")
    expect_equal(
        room.history().received(b"_test/echo"),
        [line, line.replace(b'"id":5', b'"id":6')],
        "the agent's lines",
    )


@test(seconds=120)
def generated_messages_cross_both_ways(room):
    """Each goes to the agent and comes back in its answer, byte for byte."""
    source = random.Random(20261130)
    keyhop = room.start()
    client = keyhop.client
    client.open()
    count = 20000 if room.long else 2000
    wanted = []
    for number in range(count):
        params = generated(source, 3)
        wanted.append(b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (1000 + number, params))
        client.send(b'{"jsonrpc":"2.0","id":%d,"method":"_test/echo","params":%s}' % (1000 + number, params))
    client.answer(1000 + count - 1)
    expect_equal(client.received[-count:], wanted, "the answers")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_same_wires(room, client)


def generated(source, depth):
    """A JSON object in an unusual spelling."""
    blank = lambda: source.choice([b"", b"", b" ", b"\t ", b"  "])
    members = []
    for _ in range(source.randrange(5)):
        members.append(
            blank()
            + generated_text(source)
            + blank()
            + b":"
            + blank()
            + generated_value(source, depth)
            + blank()
        )
    return b"{" + b",".join(members) + b"}"


def generated_value(source, depth):
    kind = source.randrange(8)
    if kind == 0 and depth > 0:
        return generated(source, depth - 1)
    if kind == 1 and depth > 0:
        return b"[" + b",".join(generated_value(source, depth - 1) for _ in range(source.randrange(4))) + b"]"
    if kind == 2:
        return source.choice([b"true", b"false", b"null"])
    if kind < 5:
        digits = "".join(source.choice("0123456789") for _ in range(source.choice([1, 3, 40])))
        form = source.choice(["-%s", "%s", "0.%s", "1e%s", "2.%sE-7"])
        number = form % digits
        return (number if form[0] not in "-%" else form % (digits.lstrip("0") or "0")).encode()
    return generated_text(source)


def generated_text(source):
    pieces = [
        "a",
        "\\n",
        "\\u0000",
        "\\ud83d",
        "\\uDC00",
        "\\\\",
        '\\"',
        "\\/",
        "é",
        "中",
        "🦀",
        "}",
        "[",
        " ",
        "id",
    ]
    return ('"' + "".join(source.choice(pieces) for _ in range(source.choice([0, 1, 5, 200]))) + '"').encode()


# ---- Kinds of descriptors ----


def script(room, key=None):
    """A whole conversation in advance; the session's id is known."""
    lines = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "session/prompt",
            "params": {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]},
        },
        {"jsonrpc": "2.0", "id": 3, "method": "_test/echo", "params": {"x": 1.0}},
    ]
    path = room.path("script")
    with open(path, "wb") as file:
        file.write(b"".join(encode(line) + b"\n" for line in lines))
    return path, [encode(line) for line in lines]


@test()
def stdin_and_stdout_are_files(room):
    path, lines = script(room)
    with open(path, "rb") as source, open(room.path("answers"), "wb") as target:
        keyhop = room.start("--fixed-session", "s1", stdin=source.fileno(), stdout=target.fileno())
        expect_equal(keyhop.wait(), 0, "exit status")
    expect_equal(room.history().received(), lines, "what the agent read")
    with open(room.path("answers"), "rb") as file:
        answers = file.read().split(b"\n")
    expect_equal(answers.pop(), b"", "the end of the file")
    expect_equal(answers, room.history().sent(), "the file against the agent's wire")
    ids = {json.loads(line).get("id") for line in answers if b'"method"' not in line}
    expect_equal(ids, {0, 1, 2, 3}, "answered ids")


@test()
def stdin_is_the_null_device(room):
    with open(os.devnull, "rb") as source:
        keyhop = room.start(stdin=source.fileno())
        expect_equal(keyhop.client.read_to_end(), [], "answers")
        expect_equal(keyhop.wait(), 0, "exit status")


@test()
def stdout_is_the_null_device(room):
    path, lines = script(room)
    with open(path, "rb") as source, open(os.devnull, "wb") as target:
        keyhop = room.start("--fixed-session", "s1", stdin=source.fileno(), stdout=target.fileno())
        expect_equal(keyhop.wait(), 0, "exit status")
    expect_equal(room.history().received(), lines, "what the agent read")
    expect_equal(len(room.history().insertions()), 1, "insertions")


def terminal():
    """A terminal in raw mode: our end, and keyhop's."""
    ours, theirs = os.openpty()
    tty.setraw(theirs, termios.TCSANOW)
    return ours, theirs


@test()
def stdin_is_a_terminal(room):
    ours, theirs = terminal()
    keyhop = room.start(stdin=theirs)
    os.close(theirs)
    keyhop.client = Client(ours, keyhop.client.output)
    dialogue(keyhop.client, 2)
    expect_equal(keyhop.close(), 0, "exit status after the terminal was hung up")
    expect_same_wires(room, keyhop.client)


@test()
def stdout_is_a_terminal(room):
    ours, theirs = terminal()
    keyhop = room.start(stdout=theirs)
    os.close(theirs)
    keyhop.client = Client(keyhop.client.input, ours)
    dialogue(keyhop.client, 2)
    expect_equal(keyhop.close(), 0, "exit status")
    expect_same_wires(room, keyhop.client)


@test()
def stdin_and_stdout_are_one_socket(room):
    ours, theirs = socket.socketpair()
    keyhop = room.start(stdin=theirs.fileno(), stdout=theirs.fileno())
    theirs.close()
    keyhop.client = Client(os.dup(ours.fileno()), os.dup(ours.fileno()))
    dialogue(keyhop.client, 2)
    ours.shutdown(socket.SHUT_WR)
    expect_equal(keyhop.close(), 0, "exit status")
    expect_same_wires(room, keyhop.client)


@test(cases={"stdin": ((0,),), "stdout": ((1,),), "stderr": ((2,),), "all": ((0, 1, 2),)})
def a_standard_descriptor_is_closed(room, closed):
    path, lines = script(room)
    with open(path, "rb") as source:
        keyhop = room.start("--fixed-session", "s1", stdin=source.fileno(), closed=closed)
        answers = keyhop.client.read_to_end()
        expect_equal(keyhop.wait(), 0, "exit status")
    expect_equal(room.history().received(), [] if 0 in closed else lines, "what the agent read")
    wanted = [] if 1 in closed else room.history().sent()
    expect_equal(answers, wanted, "what the client read")


def pipes():
    """Our descriptors and keyhop's: (reading, writing, stderr) and (stdin, stdout, stderr)."""
    our_in, their_out = os.pipe()
    their_in, our_out = os.pipe()
    our_err, their_err = os.pipe()
    return (our_in, our_out, our_err), (their_in, their_out, their_err)


def one_socket():
    ours, theirs = (end.detach() for end in socket.socketpair())
    return (ours, os.dup(ours), os.dup(ours)), (theirs, theirs, theirs)


def terminal_and_pipes():
    ours, theirs = pipes()
    our_terminal, their_terminal = terminal()
    return (ours[0], our_terminal, os.dup(our_terminal)), (their_terminal, theirs[1], their_terminal)


MODE_CASES = {
    f"{name}, {mode}": (make, mode == "blocking")
    for name, make in {"pipes": pipes, "one socket": one_socket, "terminal": terminal_and_pipes}.items()
    for mode in ("blocking", "non-blocking")
}


@test(cases=MODE_CASES)
def the_mode_of_inherited_descriptors_stays(room, make, blocking):
    ours, theirs = make()

    def flags():
        return [fcntl.fcntl(descriptor, fcntl.F_GETFL) for descriptor in theirs]

    for descriptor in theirs:
        os.set_blocking(descriptor, blocking)
    before = flags()
    quiet = ("--log-level", "off")  # stderr is the client's own line here
    keyhop = room.start(options=quiet, stdin=theirs[0], stdout=theirs[1], stderr=theirs[2])
    keyhop.client = Client(ours[1], ours[0])
    dialogue(keyhop.client, 2)
    expect_equal(flags(), before, "flags of stdin, stdout and stderr while keyhop runs")
    keyhop.signal(signal.SIGTERM)
    expect_equal(keyhop.wait(), 128 + signal.SIGTERM, "exit status")
    expect_equal(flags(), before, "flags of stdin, stdout and stderr after keyhop ended")


@test(seconds=120)
def large_messages_of_all_sizes(room):
    """Up to the default limit of 64 MiB, the line included."""
    keyhop = room.start(command=room.agent_command(wire=None))
    client = keyhop.client
    client.open()
    limit = 64 << 20
    begin = b'{"jsonrpc":"2.0","id":7,"method":"_test/echo","params":"'
    answer_begin = b'{"jsonrpc":"2.0","id":7,"result":"'
    for size in (0, 1, 4095, 65536, 1 << 20, (1 << 24) + 1, limit - len(begin) - 2):
        text = hashlib.shake_128(b"%d" % size).hexdigest(1 << 10).encode() * (size // 2048 + 1)
        client.sent.clear()
        client.received.clear()
        client.send(begin + text[:size] + b'"}')
        client.answer(7)
        expect(
            client.received[-1] == answer_begin + text[:size] + b'"}',
            f"an echo of {size} bytes came back changed",
        )
    expect_equal(keyhop.close(), 0, "exit status")


if __name__ == "__main__":
    main(__doc__)
