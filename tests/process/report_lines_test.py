"""Faults that users of ACP, MCP and LSP bridges reported, each as one test of what is right instead.

Here: lines, bytes, processes and what must not be shown. Those about requests are in reports_test.py.
"""

import base64
import json
import os
import signal
import sys

import processes
from client import encode, is_idle
from harness import expect, expect_equal, expect_own_error, main, test
from restart import NEVER

HERE = os.path.dirname(os.path.abspath(__file__))


# ---- What is no message ----


def _emit_bytes(client, data):
    client.call("_test/emit", {"base64": base64.b64encode(data).decode()})


@test()
def log_text_on_stdout(room):
    keyhop = room.start()
    client = keyhop.client
    client.initialize(1)
    noise = [
        b"Loaded cached credentials.",
        b"",
        b"\xa4\x40\xa5\xce",
        b'{"level":"info","msg":"ready"}',
        b"17",
        b"\x1b[2K",
    ]
    for line in noise:
        _emit_bytes(client, line + b"\n")
    session = client.new_session()
    for kind in (
        "log",
        "json",
        "control",
        "prefix",
        "two",
        "unknown_id",
        "second",
        "batch",
        "blank",
        "crlf",
        "bom",
        "nul",
    ):
        text = f"[garbage {kind}] {kind}"
        expect_equal(client.answer(client.prompt(session, text))["result"], {"stopReason": "end_turn"}, kind)
    expect_equal(keyhop.close(), 0, "exit status")
    for line in client.received:
        message = json.loads(line)
        expect(message.get("jsonrpc") == "2.0", f"no JSON-RPC on the client's side: {line!r}")
        expect(message.get("id") != "nobody-asked", "an answer that nobody asked for was passed on")
        expect("error" not in message, f"an error: {line!r}")
    ids = [message["id"] for message in map(json.loads, client.received) if "method" not in message]
    expect_equal(len(ids), len(set(ids)), "answers against different ids")
    expect_equal(room.history().received(b'"error"'), [], "errors to the agent")
    words = keyhop.stderr()
    for line in (noise[0], noise[2], noise[3]):
        expect(line in words, f"{line!r} is not on stderr")


@test()
def broken_answer_still_ends_its_request(room):
    keyhop = room.start(options=("--max-frame", "1MiB"))
    client = keyhop.client
    session = client.open()
    for text in ("[garbage broken]", "[garbage oversize_answer 2000000]"):
        expect_own_error(client.answer(client.prompt(session, text)), -32603, "unknown")
    expect(
        "messageId" in client.answer(client.prompt(session, "[updates 1 2000000] too long"))["result"],
        "the answer",
    )
    client.receive_until(is_idle)
    expect_equal(keyhop.close(), 0, "exit status")
    expect(max(map(len, client.received)) < 1 << 20, "a message over the limit was passed on")


@test()
def a_message_that_cannot_be_told_ends_the_agent(room):
    keyhop = room.start(options=(*NEVER, "--max-frame", "1MiB"))
    client = keyhop.client
    session = client.open(version=1)
    client.prompt(session, "[garbage oversize 2000000] [hold]", request_id=7)
    expect_own_error(client.answer(7), -32603, "unknown")
    client.read_to_end()
    # Its stdin ends and TERM comes at one moment: it may act on either.
    status = keyhop.wait()
    expect(status in (0, 128 + signal.SIGTERM), f"exit status: {status}")


def _unusual_text(size):
    """Characters of three and four bytes."""
    return ("中🦀" * (size // 7 + 1)).encode()[: size - size % 7]


@test(cases={"1 byte a write": 1, "64 KiB a write": 65536})
def character_cut_at_a_chunk_edge(room, piece):
    keyhop = room.start()
    client = keyhop.client
    client.open()
    text = _unusual_text(70000)
    client.send(b'{"jsonrpc":"2.0","id":7,"method":"_test/echo","params":"' + text + b'"}', piece=piece)
    client.answer(7)
    expect_equal(client.received[-1], b'{"jsonrpc":"2.0","id":7,"result":"' + text + b'"}', "the echo")
    client.send(b'{"jsonrpc":"2.0","id":8,"method":"_test/echo","params":"\xff"}')
    expect_equal(client.answer(None)["error"]["code"], -32700, "the answer to a line that is not UTF-8")
    client.call("_test/state")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(
        room.history().received(b'"id":7'),
        [line for line in client.sent if b'"id":7' in line],
        "the agent's line",
    )
    expect_equal(room.history().received(b'"id":8'), [], "the broken line at the agent")


@test(cases={"1 byte a write": 1, "64 KiB a write": 65536})
def character_of_the_agents_cut_at_a_chunk_edge(room, piece):
    line = (
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","text":"%s"}}'
        % _unusual_text(70000)
    )
    with open(room.path("line"), "wb") as file:
        file.write(
            line + b'\n{"jsonrpc":"2.0","method":"x","params":"\xff"}\n{"jsonrpc":"2.0","method":"y"}\n'
        )
    agent = [sys.executable, os.path.join(HERE, "blunt_agent.py"), "pieces", str(piece), room.path("line")]
    keyhop = room.start(command=agent)
    expect_equal(keyhop.client.receive(), line, "the update")
    expect_equal(
        keyhop.client.receive(), b'{"jsonrpc":"2.0","method":"y"}', "the line after one that is not UTF-8"
    )
    expect_equal(keyhop.close(), 0, "exit status")


@test()
def batch_arrays(room):
    keyhop = room.start()
    client = keyhop.client
    client.initialize(1)
    before = list(client.sent)
    batch = [
        {"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}},
    ]
    for line in (encode(batch), b"[]"):
        client.send(line)
        answer = client.receive_message()
        expect_equal(answer["id"], None, "the id")
        expect("atch" in expect_own_error(answer, -32600)["message"], "the text does not say what was wrong")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(room.history().received(), before, "what reached the agent")


@test(seconds=120)
def line_limit_of_64_kib(room):
    keyhop = room.start(command=room.agent_command(wire=None))
    client = keyhop.client
    session = client.open(version=1)
    for size in (65535, 65536, 65537, (16 << 20) + 1):
        begin = b'{"jsonrpc":"2.0","id":7,"method":"_test/echo","params":{"type":"image","mimeType":"image/png","data":"'
        data = base64.b64encode(os.urandom(size - len(begin)))[: size - len(begin) - 3]
        client.send(begin + data + b'"}}')
        expect_equal(len(client.sent[-1]), size, "the line's length")
        client.answer(7)
        wanted = client.sent[-1].replace(b'"method":"_test/echo","params"', b'"result"', 1)
        expect(client.received[-1] == wanted, f"the echo of {size} bytes is another one")
    image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(os.urandom(9 << 20)).decode()}
    params = {"sessionId": session, "prompt": [{"type": "text", "text": "look"}, image]}
    expect_equal(
        client.answer(client.request("session/prompt", params))["result"],
        {"stopReason": "end_turn"},
        "12 MiB prompt",
    )
    expect_equal(keyhop.close(), 0, "exit status")
    expect(room.history().insertions()[0]["prompt"] == params["prompt"], "the prompt was inserted changed")


@test(cases={"read": True, "unread": False})
def stderr_not_read(room, read):
    """10 MiB without a line feed before initialize is answered; keyhop's own stderr is read or is not."""
    unread, theirs = os.pipe()
    keyhop = room.start("--stderr-noise", str(10 << 20), stderr="file" if read else theirs)
    client = keyhop.client
    session = client.open(version=1)
    expect_equal(
        client.answer(client.prompt(session, "[stderr 3000000] hello"))["result"],
        {"stopReason": "end_turn"},
        "the answer",
    )
    expect_equal(keyhop.close(), 0, "exit status")
    if read:
        expect_equal(keyhop.stderr().count(b"n" * 4096), (10 << 20) // 4096, "blocks that were passed on")
    expect(not any(b"nnnn" in line for line in client.received), "stderr on stdout")
    os.close(unread)
    os.close(theirs)


# ---- What must not be lost, and what must not be shown ----


@test()
def error_detail_dropped(room):
    keyhop = room.start("--leave-open", "session/list")
    client = keyhop.client
    session = client.open(version=1)
    client.request("session/list", {}, 7)
    client.call("_test/state")
    error = '{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"Invalid params","data":{"path":["cwd"]},"x":1}}'
    update = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"usage_update_v9","n":1.0}}}'
    question = '{"jsonrpc":"2.0","id":6,"method":"_vendor/ask","params":{"a":null}}'
    for line in (error, update, question):
        client.emit(line)
        expect(line.encode() in client.received, f"{line} did not arrive unchanged")
    client.send(
        b'{"jsonrpc":"2.0","id":6,"error":{"code":-32601,"message":"Method not found","data":{"y":1.50}}}'
    )
    params = {"sessionId": session, "prompt": [{"type": "text", "text": "x", "unknown": 1}], "future": None}
    params["_meta"] = {"traceparent": "00-1", "vendor/x": 1}
    client.answer(client.request("session/prompt", params))
    unknown = client.call("_vendor/unknown", {})
    expect_equal(
        (unknown["error"]["code"], unknown["error"].get("data")), (-32601, None), "the agent's own -32601"
    )
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(room.history().received(), client.sent, "what the agent read")


# Ignores what it can, behind a launcher that does not wait for it.
_ORPHAN = "sh -c 'echo $$ > \"$0\"; trap : TERM HUP; cat >/dev/null; sleep 600 & wait; sleep 600' {pid}; :"


@test(seconds=60, cases={"the client closes": "eof", "TERM to keyhop": "term", "KILL to keyhop": "kill"})
def orphans_behind_npx_and_uvx(room, how):
    os.mkfifo(room.path("pid"))
    keyhop = room.start(
        command=["sh", "-c", _ORPHAN.format(pid=room.path("pid"))], options=("--kill-grace", "0.3")
    )
    with open(room.path("pid"), encoding="utf-8") as file:
        orphan = int(file.read())
    keyhop.client.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
    if how == "eof":
        keyhop.client.close_writing()
        wanted = 0
    else:
        keyhop.signal(signal.SIGTERM if how == "term" else signal.SIGKILL)
        wanted = 128 + (signal.SIGTERM if how == "term" else signal.SIGKILL)
    if how != "kill":
        expect_own_error(keyhop.client.answer(0), -32603)
    keyhop.client.read_to_end()
    status = keyhop.wait()
    expect(status == wanted or how == "eof", f"exit status: {status}, not {wanted}")
    room.expect_nothing_left(adopted=None if how == "kill" else 0)
    expect_equal(processes.state_of(orphan), "", "the state of the real agent")


SECRET = "SECRET"


@test()
def secrets(room):
    """Planted everywhere, found nowhere: not on stderr, in the log file or in an error."""
    keyhop = room.start(
        options=("--log-level", "debug", "--log-file", room.path("log"), "--silence-timeout", "60"),
        environment={"AGENT_TOKEN": "SECRET0"},
    )
    client = keyhop.client
    client.initialize()
    servers = [
        {
            "name": "m",
            "command": "x",
            "args": ["--token=SECRET1"],
            "env": [{"name": "API_KEY", "value": "SECRET2"}],
        },
        {
            "type": "http",
            "name": "h",
            "url": "https://h/?k=SECRET3",
            "headers": [{"name": "Authorization", "value": "Bearer SECRET4"}],
        },
    ]
    session = client.call("session/new", {"cwd": "/w", "mcpServers": servers})["result"]["sessionId"]
    client.answer(client.prompt(session, "SECRET5", "SECRET-key-1"))
    client.answer(client.prompt(session, "SECRET5", "SECRET-key-1"))
    client.answer(client.prompt(session, "SECRET6", "SECRET-key-1"))
    client.answer(client.prompt(session, "SECRET7", "SECRET-key-2" * 30))
    client.prompt(session, "[hang] SECRET8", "SECRET-key-3", 7)
    for line in (
        b"{SECRET9",
        b'{"jsonrpc":"2.0","id":{"SECRET":1},"method":"x"}',
        b'["SECRET"]',
        b'{"jsonrpc":"2.0","id":"nobody","result":"SECRET"}',
    ):
        client.send(line)
    client.emit('{"jsonrpc":"2.0","id":"nobody","result":{"echo":"SECRET"}}')
    client.emit('{"jsonrpc":"2.0","id":7,"result":{"text":"SECRET')
    expect_own_error(client.answers(7)[0], -32603, "unknown")
    keyhop.signal(signal.SIGUSR1)
    client.prompt(session, "[hold] [error 32001] SECRET", "SECRET-key-4", 8)
    keyhop.signal(signal.SIGTERM)
    client.read_to_end()
    expect_equal(keyhop.wait(), 128 + signal.SIGTERM, "exit status")
    expect(SECRET not in keyhop.stderr().decode("utf-8", "replace"), "a secret on stderr")
    with open(room.path("log"), encoding="utf-8") as file:
        expect(SECRET not in file.read(), "a secret in the log file")
    expect_equal(os.stat(room.path("log")).st_mode & 0o077, 0, "the log file's mode for others")
    own = [line for line in client.received if b'"source":"keyhop"' in line]
    expect(own, "no error of keyhop's")
    for line in own:
        expect(SECRET.encode() not in line, f"a secret in {line!r}")


@test()
def a_key_in_a_dead_agents_last_words_is_masked(room):
    keyhop = room.start(options=NEVER)
    client = keyhop.client
    session = client.open()
    client.prompt(
        session,
        "[hang] [early stderr panic: key planted-key-1 lost] [early die now exit 9]",
        "planted-key-1",
        7,
    )
    client.call("_test/state")
    client.request("_test/order", {"text": "[release]", "sessionId": session})
    error = expect_own_error(client.answer(7), -32603, "unknown")
    expect_equal(error["data"]["agent"]["exitCode"], 9, "the exit code")
    expect("panic" in error["data"]["agent"]["stderrTail"], "no last words")
    expect("planted-key-1" not in json.dumps(error), "the key is quoted")
    client.read_to_end()
    expect_equal(keyhop.wait(), 9, "exit status")


if __name__ == "__main__":
    main(__doc__)
