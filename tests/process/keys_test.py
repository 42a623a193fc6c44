"""One key, one insertion, one answer: counted in the agent's own history, never in what was sent."""

import json

from client import prompt_params
from harness import expect, expect_equal, main, test, wait_for
from restart import NEVER

MANY = 1000


def answers_after_release(client, session, ids):
    """Releases the held prompt and reads the answers to all ids, which must stand side by side."""
    client.order("[release]", session)
    return adjacent_answers(client, ids)


def adjacent_answers(client, ids):
    client.answer(ids[0])
    first = client.received[-1]
    lines = [first] + [client.receive() for _ in ids[1:]]
    for number, line in zip(ids, lines):
        wanted = first.replace(b'"id":%d,' % ids[0], b'"id":%d,' % number, 1)
        expect_equal(line, wanted, "an answer beside the first")
    return json.loads(first)


def send_many(client, session, text, key="key-1"):
    """The same keyed prompt many times; read by the agent, none answered."""
    ids = list(range(1000, 1000 + MANY))
    frames = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "session/prompt",
            "params": prompt_params(session, text, key),
        }
        for number in ids
    ]
    client.send(*frames)
    client.call("_test/state")
    return ids


@test(
    cases={
        "guard": (("--keys=guard",), ()),
        "forward, ignored": (("--keys=forward",), ()),
        "forward, honoured": (("--keys=forward",), ("--keys=honour",)),
    }
)
def a_thousand_requests_are_one_insertion(room, options, agent_options):
    keyhop = room.start(*agent_options, options=options)
    client = keyhop.client
    session = client.open()
    ids = send_many(client, session, "[hang] once")
    answer = answers_after_release(client, session, ids)
    expect("messageId" in answer["result"], "no success")
    expect_equal(keyhop.close(), 0, "exit status")
    history = room.history()
    expect_equal(len(history.received(b"session/prompt")), 1, "prompts that reached the agent")
    expect_equal(
        [row["messageId"] for row in history.insertions()], [answer["result"]["messageId"]], "insertions"
    )
    expect_no_second_answer(client)


def expect_no_second_answer(client):
    ids = [message["id"] for message in map(json.loads, client.received) if "method" not in message]
    expect_equal(len(ids), len({json.dumps(number) for number in ids}), "answers against different ids")


@test()
def an_error_goes_to_all_and_frees_the_key(room):
    keyhop = room.start()
    client = keyhop.client
    session = client.open()
    text = "[hang] [error 32050] once"
    ids = send_many(client, session, text)
    answer = answers_after_release(client, session, ids)
    expect_equal(answer["error"], {"code": -32050, "message": "refused as ordered"}, "the agent's error")
    again = client.answer(client.prompt(session, text, "key-1"))
    expect("messageId" in again["result"], "the retry after the error was not inserted")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(len(room.history().received(b"session/prompt")), 2, "prompts that reached the agent")
    expect_equal(len(room.history().insertions()), 1, "insertions")


@test(cases={"the first": 0, "one in the middle": MANY // 2, "the last": MANY - 1})
def a_cancel_of_any_one_cancels_all(room, position):
    keyhop = room.start()
    client = keyhop.client
    session = client.open()
    ids = send_many(client, session, "[hang] once")
    # A cancel that comes while the ledger takes its time is answered by keyhop.
    wait_for(lambda: room.history().received(b"session/prompt"))
    client.notify("$/cancel_request", {"requestId": ids[position]})
    client.notify("$/cancel_request", {"requestId": ids[-1 - position]})
    answer = adjacent_answers(client, ids)
    expect_equal(answer["error"]["code"], -32800, "the answer's code")
    expect_equal(keyhop.close(), 0, "exit status")
    cancels = room.history().effects("cancel", "$/cancel_request")
    expect_equal([row["requestId"] for row in cancels], [str(ids[0])], "cancels at the agent")
    expect_equal(room.history().insertions(), [], "insertions")
    expect_no_second_answer(client)


@test()
def a_retry_after_the_answer_is_remembered(room):
    keyhop = room.start()
    client = keyhop.client
    session = client.open()
    first = client.answer(client.prompt(session, "hello", "key-1"))
    for _ in range(20):
        again = client.answer(client.prompt(session, "hello", "key-1"))
        expect_equal(again["result"], {"messageId": first["result"]["messageId"]}, "the remembered answer")
    changed = client.answer(client.prompt(session, "other", "key-1"))
    expect_equal(changed["error"]["code"], -32602, "another prompt under the key")
    other = client.new_session()
    elsewhere = client.answer(client.prompt(other, "hello", "key-1"))
    expect("messageId" in elsewhere["result"], "the key of another session is not unrelated")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal([row["sessionId"] for row in room.history().insertions()], [session, other], "insertions")


@test()
def the_same_prompt_in_another_spelling_is_the_same(room):
    keyhop = room.start()
    client = keyhop.client
    session = client.open()
    begin = b'{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":'
    name = json.dumps(session).encode()
    spellings = [
        b'{"sessionId":%s,"prompt":[{"type":"text","text":"[hang] A/B","n":10}],"idempotencyKey":"key-1"}'
        % name,
        b'{ "idempotencyKey":"key\\u002d1", "prompt" : [ {"n":1.0e1,"text":"[hang] \\u0041\\/B","type":"text"} ],"sessionId":%s }'
        % name,
        b'{"_meta":{"traceparent":"00-1"},"sessionId":%s,"prompt":[{"type":"text","text":"[hang] A/B","n":10.0}],"idempotencyKey":"key-1"}'
        % name,
    ]
    for number, params in enumerate(spellings):
        client.send(begin % (1000 + number) + params + b"}")
    client.call("_test/state")
    answers_after_release(client, session, [1000, 1001, 1002])
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(len(room.history().received(b"session/prompt")), 1, "prompts that reached the agent")


MALFORMED = ["", 7, True, [], {}, "x" * 256, "é" * 256, 1.5, ["key"]]
SOUND = ["x", "x" * 255, "🦀" * 255, " ", "\u0000"]


@test(cases={"guard": ("--keys=guard",), "forward": ("--keys=forward",)})
def malformed_keys_are_refused(room, mode):
    keyhop = room.start("--keys=honour", options=(mode,))
    client = keyhop.client
    session = client.open()
    for key in MALFORMED:
        answer = client.answer(client.prompt(session, "malformed", key))
        expect_equal(answer["error"]["code"], -32602, f"the answer to the key {key!r}")
        ours = answer["error"].get("data", {}).get("source") == "keyhop"
        expect_equal(ours, mode == "--keys=guard", f"keyhop answered for the key {key!r}")
    for key in SOUND:
        answer = client.answer(client.prompt(session, "sound", key))
        expect(
            "messageId" in answer.get("result", {}),
            f"the key {key[:3]!r}… of {len(key)} characters: {answer}",
        )
    frame = prompt_params(session, "null is none")
    frame["idempotencyKey"] = None
    for _ in range(2):
        expect("messageId" in client.answer(client.request("session/prompt", frame))["result"], "a null key")
    expect_equal(keyhop.close(), 0, "exit status")
    passed_on = 0 if mode == "--keys=guard" else len(MALFORMED)
    expect_equal(
        len(room.history().received(b'"malformed"')), passed_on, "malformed keys that reached the agent"
    )
    expect_equal(len(room.history().insertions()), len(SOUND) + 2, "insertions")


@test(cases={"honoured": ("honour", 1), "ignored": ("ignore", 2)})
def forward_leaves_the_retry_after_the_answer_to_the_agent(room, keys, insertions):
    keyhop = room.start("--keys", keys, options=("--keys=forward",))
    client = keyhop.client
    session = client.open()
    first = client.answer(client.prompt(session, "hello", "key-1"))
    again = client.answer(client.prompt(session, "hello", "key-1"))
    expect_equal(first["result"] == again["result"], insertions == 1, "the same messageId")
    expect_equal(keyhop.close(), 0, "exit status")
    received = room.history().received(b"session/prompt")
    expect_equal(
        received, [line for line in client.sent if b"session/prompt" in line], "prompts at the agent"
    )
    expect_equal(len(room.history().insertions()), insertions, "insertions")


@test()
def v1_joins_while_pending_and_nothing_else(room):
    keyhop = room.start()
    client = keyhop.client
    session = client.open(version=1)
    first = client.prompt(session, "[hold] work", "key-1", 1000)
    client.prompt(session, "[hold] work", "key-1", 1001)
    client.call("_test/state")
    answers_after_release(client, session, [first, 1001])
    again = client.prompt(session, "[hold] work", "key-1", 1002)
    client.order("[release]", session)
    expect_equal(client.answer(again)["result"], {"stopReason": "end_turn"}, "the answer of the second turn")
    malformed = client.answer(client.prompt(session, "v1 knows no keys", 7))
    expect_equal(malformed["result"], {"stopReason": "end_turn"}, "an unknown member of any type")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(len(room.history().insertions()), 3, "insertions")


@test()
def the_turn_that_session_cancel_ends_answers_both(room):
    keyhop = room.start()
    client = keyhop.client
    session = client.open(version=1)
    client.prompt(session, "[hold] work", "key-1", 1000)
    client.prompt(session, "[hold] work", "key-1", 1001)
    client.notify("session/cancel", {"sessionId": session})
    answer = adjacent_answers(client, [1000, 1001])
    expect_equal(answer["result"], {"stopReason": "cancelled"}, "the answer")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(len(room.history().effects("cancel", "session/cancel")), 1, "cancels at the agent")


@test()
def a_lost_keyed_prompt_is_unknown_and_sent_no_second_time(room):
    keyhop = room.start(options=NEVER)
    client = keyhop.client
    session = client.open()
    ids = send_many(client, session, "[hang] [die after_insert] once")
    client.request("_test/order", {"text": "[release]", "sessionId": session}, 9)
    client.answer(9)
    answer = adjacent_answers(client, ids)
    error = answer["error"]
    expect_equal((error["code"], error["data"]["outcome"]), (-32603, "unknown"), "the error")
    expect_equal(error["data"]["agent"]["signal"], 9, "how the agent ended")
    client.read_to_end()
    expect_equal(keyhop.wait(), 128 + 9, "exit status")
    expect_equal(len(room.history().insertions()), 1, "insertions")


if __name__ == "__main__":
    main(__doc__)
