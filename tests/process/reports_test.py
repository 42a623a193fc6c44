"""Faults that users of ACP, MCP and LSP bridges reported, each as one test of what is right instead.

Those that need no restarted agent, no chain, no network and no trace; here those about requests, ids, keys
and cancels. Those about bytes and processes are in report_lines_test.py.
"""

import json

from client import encode, is_idle, is_update
from harness import expect, expect_equal, expect_own_error, main, test
from restart import NEVER

# ---- Requests that nobody answers ----


@test()
def pending_request_never_settled(room):
    """The agent leaves with 143 in the middle of a turn."""
    keyhop = room.start(options=NEVER)
    client = keyhop.client
    session = client.open(version=1)
    client.prompt(session, "[say Let me ] [die now exit 143]", request_id=7)
    answer = client.answer(7)
    error = expect_own_error(answer, -32603, "unknown")
    expect_equal(error["data"]["agent"]["exitCode"], 143, "the exit code")
    expect_equal(error["data"]["progress"], True, "progress")
    expect(is_update(json.loads(client.received[-2]), "agent_message_chunk"), "the update did not come first")
    client.read_to_end()
    expect_equal(keyhop.wait(), 143, "exit status")
    expect_equal(len(client.answers(7)), 1, "answers to 7")
    expect_equal(len(room.history().received(b"session/prompt")), 1, "prompts at the agent")


@test()
def crash_before_the_first_answer(room):
    keyhop = room.start(command=["sh", "-c", 'echo "Cannot find module x" >&2; exit 1'])
    answer = keyhop.client.answer(keyhop.client.request("initialize", {"protocolVersion": 1}, 0))
    error = expect_own_error(answer, -32603)
    expect_equal(error["data"]["agent"]["exitCode"], 1, "the exit code")
    expect("Cannot find module x" in error["data"]["agent"]["stderrTail"], "the cause is not in stderrTail")
    expect_equal(keyhop.client.read_to_end(), [], "what follows")
    expect_equal(keyhop.wait(), 1, "exit status")


@test()
def live_but_never_answers(room):
    keyhop = room.start()
    client = keyhop.client
    session = client.open(version=1)
    client.prompt(session, "[updates 3 200] [hold]", request_id=7)
    for _ in range(3):
        client.receive_until(is_update)
    client.notify("session/cancel", {"sessionId": session})
    expect_equal(client.answer(7)["result"], {"stopReason": "cancelled"}, "the one real answer")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(len(client.answers(7)), 1, "answers to 7")


@test(cases={"prompt without key": None, "prompt with key": "k-1"})
def no_retry_contract(room, key):
    keyhop = room.start(options=NEVER)
    client = keyhop.client
    session = client.open()
    client.prompt(session, "[die before_insert] once", key, 7)
    expect_own_error(client.answer(7), -32603, "unknown")
    client.read_to_end()
    expect_equal(keyhop.wait(), 128 + 9, "exit status")
    expect_equal(len(room.history().received(b"session/prompt")), 1, "prompts at the agent")


@test()
def late_answer_settles_the_wrong_prompt(room):
    keyhop = room.start("--ignore-cancel", options=("--silence-timeout", "1"))
    client = keyhop.client
    session = client.open()
    client.prompt(session, "[hang] first", request_id=7)
    expect_own_error(client.answer(7), -32603, "unknown")
    client.prompt(session, "second", request_id=8)
    client.call("_test/state")
    client.order("[release]", session)
    answer = client.answer(8)
    expect_equal(keyhop.close(), 0, "exit status")
    history = room.history()
    expect_equal(len(history.effects("cancel", "session/cancel")), 1, "cancels at the agent")
    expect_equal(len(history.sent(b'"id":7')), 1, "the late answer of the agent")
    expect_equal(len(client.answers(7)), 1, "answers to 7")
    expect_equal(
        [row["messageId"] for row in history.insertions()][1],
        answer["result"]["messageId"],
        "the answer to 8",
    )


@test()
def silence_timeout_is_armed_again_by_updates(room):
    keyhop = room.start(options=("--silence-timeout", "2"))
    client = keyhop.client
    session = client.open(version=1)
    text = "".join(f"[wait 500] [say {number}] " for number in range(6))
    expect_equal(
        client.answer(client.prompt(session, text))["result"], {"stopReason": "end_turn"}, "the answer"
    )
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(room.history().effects("cancel"), [], "cancels at the agent")


# ---- Keys ----


@test(cases={"success": "", "error": "[error 32099] "})
def proxy_multiplies_prompts(room, order):
    keyhop = room.start()
    client = keyhop.client
    session = client.open(version=1)
    text = f"{order}[hold] [updates 2 200] add a test" if not order else f"[hang] {order}add a test"
    client.prompt(session, text, "k-1", 7)
    client.prompt(session, text, "k-1", 8)
    client.call("_test/state")
    client.order("[release]", session)
    first = client.answer(7)
    second = json.loads(client.receive())
    expect_equal(second["id"], 8, "what stands next to the answer to 7")
    first.pop("id"), second.pop("id")
    expect_equal(second, first, "the answers")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(len(room.history().received(b"session/prompt")), 1, "prompts at the agent")
    updates = [line for line in client.received if b"session/update" in line]
    expect_equal(updates, room.history().sent(b"session/update"), "updates, each once")


@test()
def key_reused_for_other_work(room):
    keyhop = room.start()
    client = keyhop.client
    session = client.open()
    other = client.new_session()
    client.prompt(session, "[hang] A", "k-1", 7)
    client.prompt(session, "B", "k-1", 8)
    client.prompt(other, "[hang] A", "k-1", 9)
    expect_own_error(client.answer(8), -32602)
    client.order("[release]", other)
    expect("messageId" in client.answer(9)["result"], "9 is not independent")
    client.order("[release]", session)
    expect("messageId" in client.answer(7)["result"], "7 did not go on")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal([row["sessionId"] for row in room.history().insertions()], [other, session], "insertions")


# ---- Ids ----


@test()
def id_type_changed_on_the_way(room):
    keyhop = room.start("--leave-open", "session/list")
    client = keyhop.client
    client.initialize(1)
    ids = ["0", 0, "", -1, "-1", None, "\u00e9", 12345678901234567890123, 1.5]
    for number in ids:
        client.send({"jsonrpc": "2.0", "id": number, "method": "session/list", "params": {}})
    client.call("_test/state")
    for number in ids:
        client.emit(encode({"jsonrpc": "2.0", "id": number, "result": {"for": json.dumps(number)}}).decode())
    client.call("_test/state")
    for number in ids:
        answers = [answer for answer in client.answers(number) if "for" in answer.get("result", {})]
        expect_equal(
            [answer["result"] for answer in answers], [{"for": json.dumps(number)}], f"answers to {number!r}"
        )
    expect_equal(keyhop.close(), 0, "exit status")
    received = [line for line in client.sent if b"session/list" in line]
    expect_equal(room.history().received(b"session/list"), received, "what the agent read")


@test()
def bad_id_type_kills_the_process(room):
    keyhop = room.start()
    client = keyhop.client
    client.initialize(1)
    before = len(client.sent)
    bad = [
        (b'{"jsonrpc":"2.0","id":{"bad":"id"},"method":"session/list","params":{}}', None, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"session/list"}', None, -32600),
        (b"42", None, -32600),
        (b'{"jsonrpc":"2.0","id":3,"method":7}', 3, -32600),
        (b"{not json", None, -32700),
        (b'{"jsonrpc":"2.0","id":4,"id":5,"method":"session/list"}', None, -32600),
        (b'{"jsonrpc":"1.0","id":4,"method":"session/list"}', 4, -32600),
        (b'{"jsonrpc":"2.0","id":4,"method":"session/list","params":{"n":01}}', None, -32700),
        (
            b'{"jsonrpc":"2.0","id":4,"method":"session/list","params":' + b"[" * 1100 + b"]" * 1100 + b"}",
            4,
            -32600,
        ),
        (b"\x00\x01", None, -32700),
    ]
    for line, wanted_id, code in bad:
        client.send(line)
        answer = client.receive_message()
        expect_equal(
            (answer["id"], answer["error"]["code"]), (wanted_id, code), f"the answer to {line[:80]!r}"
        )
    expect("result" in client.call("session/list", {}), "the next good line does not work")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(room.history().received(), client.sent[:before] + client.sent[-1:], "what reached the agent")


@test()
def old_approval_lands_on_a_new_request(room):
    """One epoch: both sides use one id at one time, and an answered card takes no second answer."""
    keyhop = room.start()
    client = keyhop.client
    session = client.open()
    client.prompt(session, "[permission]")
    card = client.receive_until(lambda message: message.get("method") == "session/request_permission")
    client.request("_test/echo", {"mine": 1}, card["id"])
    expect_equal(client.answer(card["id"])["result"], {"mine": 1}, "our own request of the same id")
    client.respond(card["id"], {"outcome": {"outcome": "selected", "optionId": "no"}})
    client.respond(card["id"], {"outcome": {"outcome": "selected", "optionId": "yes"}})
    client.receive_until(is_idle)
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(
        len(room.history().effects("answered", "session/request_permission")), 1, "answers at the agent"
    )
    expect_equal(room.history().effects("stray_answer"), [], "stray answers at the agent")
    expect_equal(room.history().effects("tool"), [], "tools that ran")


# ---- Cancels ----


@test()
def cancels_merged_or_stuck(room):
    keyhop = room.start("--leave-open", "session/list")
    client = keyhop.client
    one = client.open()
    two = client.new_session()
    client.prompt(one, "[hold] one", request_id=1)
    client.prompt(two, "[hold] two", request_id=2)
    client.answer(1), client.answer(2)
    client.prompt(one, "held", "k-7", 7)
    client.prompt(one, "held", "k-7", 8)
    for number in range(1000, 1200):
        client.request("session/list", {}, number)
    cancels = [
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1100}},
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 8}},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": one}},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": two}},
    ]
    client.send(*cancels)
    for number in (1100, 7, 8):
        expect_equal(client.answer(number)["error"]["code"], -32800, f"the answer to {number}")
    client.call("_test/state")
    wanted = [encode(cancel) for cancel in cancels]
    wanted[1] = encode({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 7}})
    expect_equal(room.history().received(b"cancel"), wanted, "cancels at the agent")
    client.close_writing()
    for number in (1000, 1199):
        expect_own_error(client.answer(number), -32603, "unknown")
    client.read_to_end()
    expect_equal(keyhop.wait(), 0, "exit status")


@test()
def permission_left_open_after_cancel(room):
    keyhop = room.start()
    client = keyhop.client
    session = client.open(version=1)
    client.prompt(session, "[permission]", request_id=7)
    card = client.receive_until(lambda message: message.get("method") == "session/request_permission")
    client.notify("session/cancel", {"sessionId": session})
    client.respond(card["id"], {"outcome": {"outcome": "cancelled"}})
    expect_equal(client.answer(7)["result"], {"stopReason": "cancelled"}, "the answer")
    client.call("_test/state")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(room.history().received()[3:5], client.sent[3:5], "the cancel and the answer, in order")


@test()
def permission_of_an_agent_that_died(room):
    """The card is withdrawn once and no permission is invented; a late answer is swallowed."""
    keyhop = room.start(options=NEVER)
    client = keyhop.client
    session = client.open()
    client.prompt(session, "[permission]", request_id=7)
    card = client.receive_until(lambda message: message.get("method") == "session/request_permission")
    client.request("_test/order", {"text": "[exit 3]"})
    withdrawn = client.receive_until(lambda message: message.get("method") == "$/cancel_request")
    expect_equal(withdrawn["params"], {"requestId": card["id"]}, "the withdrawal")
    try:
        client.respond(card["id"], {"outcome": {"outcome": "selected", "optionId": "yes"}})
    except BrokenPipeError:
        pass  # keyhop has ended
    rest = client.read_to_end()
    expect(not any(b"cancel_request" in line for line in rest), "withdrawn twice")
    expect_equal(keyhop.wait(), 3, "exit status")
    expect_equal(room.history().effects("tool"), [], "tools that ran")


if __name__ == "__main__":
    main(__doc__)
