"""The agent dies and the client goes on: killed at every point, counted in the agent's own history."""

import json
import os
import signal

import processes
from client import is_idle, is_update, prompt_params
from harness import expect, expect_equal, expect_own_error, main, test, wait_for
from restart import finish, kill_agent, once

VERSIONS = {"v1": 1, "v2": 2}
SESSION_PARAMS = {
    "cwd": "/w",
    "mcpServers": [{"name": "m", "command": "x", "args": [], "env": []}],
    "additionalDirectories": ["/a"],
    "_meta": {"k": 1},
}


# ---- Killed, by what was going on ----


@test(cases=VERSIONS)
def killed_while_idle(room, version):
    keyhop = room.start()
    client = keyhop.client
    client.initialize(version)
    session = client.call("session/new", SESSION_PARAMS)["result"]["sessionId"]
    client.answer(client.prompt(session, "one"))
    kill_agent(room)
    client.answer(client.prompt(session, "two"))
    finish(keyhop)
    history = room.history()
    expect_equal(len(history.epochs()), 2, "starts of the agent")
    expect_equal(len(history.insertions()), 2, "insertions")
    hello = history.received(b'"initialize"')
    expect_equal(
        [json.loads(line)["params"] for line in hello], [json.loads(client.sent[0])["params"]] * 2, "hello"
    )
    (resume,) = history.received(b"session/resume")
    expect_equal(json.loads(resume)["params"], {"sessionId": session, **SESSION_PARAMS}, "the restore")
    received = history.received()
    expect(received.index(hello[1], 1) < received.index(resume), "restored before initialize")
    expect_equal(json.loads(received[-1])["params"]["prompt"][0]["text"], "two", "what came last")


@test()
def killed_in_the_middle_of_a_v1_turn(room):
    keyhop = room.start()
    client = keyhop.client
    session = client.open(version=1)
    number = client.prompt(session, "[say a] [hold]")
    client.receive_until(lambda message: is_update(message, "agent_message_chunk"))
    kill_agent(room)
    error = expect_own_error(client.answer(number), -32603, "unknown")
    expect_equal((error["data"]["progress"], error["data"]["agent"]["signal"]), (True, 9), "what is told")
    expect_equal(client.answer(client.prompt(session, "b"))["result"], {"stopReason": "end_turn"}, "the next")
    finish(keyhop)
    expect_equal(len(room.history().received(b"session/prompt")), 2, "prompts at the agent")
    expect_equal(len(room.history().insertions()), 2, "insertions")


@test()
def killed_in_the_middle_of_a_v2_turn(room):
    """The prompt was answered: only the work is lost, and the restored session says that it is idle."""
    keyhop = room.start()
    client = keyhop.client
    session = client.open()
    first = client.answer(client.prompt(session, "[say a] [hold]"))["result"]["messageId"]
    client.receive_until(lambda message: is_update(message, "agent_message_chunk"))
    kill_agent(room)
    client.receive_until(is_idle)
    second = client.answer(client.prompt(session, "b"))["result"]["messageId"]
    client.receive_until(is_idle)
    finish(keyhop)
    expect_equal([row["messageId"] for row in room.history().insertions()], [first, second], "insertions")


SESSIONS = 50
# Four for each session: what it is, how often an agent that never read it may act in the end, the error.
MIXED = [
    ("session/prompt", 0, "unknown"),
    ("session/set_config_option", 1, None),
    ("_test/act", 0, "unknown"),
    ("session/fork", 1, None),
]


def mixed_params(method, session):
    if method == "session/prompt":
        return prompt_params(session, "mixed")
    if method == "session/set_config_option":
        return {"sessionId": session, "configId": "model", "type": "id", "value": "m2"}
    return {"sessionId": session, "cwd": "/w", "mcpServers": []}


@test(cases={"that the agent never read": False, "that it acted on": True})
def killed_with_200_open_requests(room, acted):
    silent = [word for method, _, _ in MIXED[1:] for word in ("--leave-open", method)]
    command = room.changing_command(silent if acted else [], [])
    keyhop = room.start(command=command)
    client = keyhop.client
    client.initialize()
    sessions = [client.new_session() for _ in range(SESSIONS)]
    agent = room.history().epochs()[0]
    if not acted:
        os.kill(agent, signal.SIGSTOP)
    numbers = {}
    for session in sessions:
        for method, _, _ in MIXED:
            params = mixed_params(method, session)
            if acted and method == "session/prompt":
                params["prompt"][0]["text"] = "[hang] mixed"
            numbers[client.request(method, params)] = method
    if acted:
        client.call("_test/state")
    else:
        # All is in the pipe once keyhop has nothing more to read: a frame that it answers itself comes last.
        client.send({"jsonrpc": "2.0", "id": 1, "method": 7})
        client.answer(1)
    kill_agent(room)
    answers = {}
    while len(answers) < len(numbers):
        message = client.receive_message()
        if "method" not in message:
            answers[message["id"]] = message
    times = {method: times for method, times, _ in MIXED}
    outcomes = {method: outcome for method, _, outcome in MIXED}
    for number, method in numbers.items():
        if outcomes[method]:
            expect_own_error(answers[number], -32603, outcomes[method])
        else:
            expect("result" in answers[number], f"{method}: {answers[number]}")
    expect_equal(keyhop.close(), 0, "exit status")
    history = room.history()
    for method, count in times.items():
        wanted = (count + (acted and method != "session/prompt")) * SESSIONS
        acts = [row for row in history.acts(method) if row.get("value", "m2") == "m2"]
        expect_equal(len(acts), wanted, f"effects of {method}")
    again = [json.loads(line) for line in history.received(b'"method":"session/')]
    last_of = {message["id"]: place for place, message in enumerate(again) if message["id"] in numbers}
    resent = [number for number, method in numbers.items() if not outcomes[method]]
    for session in range(SESSIONS):
        places = [last_of[number] for number in resent[2 * session : 2 * session + 2]]
        expect_equal(places, sorted(places), "the order of a session's requests at the new agent")


@test()
def updates_of_other_sessions_are_not_held_back(room):
    """One session's restore hangs; the other works, and the hanging one is given up on."""
    command = room.changing_command([], ["--leave-open", "session/resume@1"])
    keyhop = room.start(command=command, options=("--restore-timeout", "1"))
    client = keyhop.client
    client.initialize()
    hanging, working = client.new_session(), client.new_session()
    kill_agent(room)
    waiting = client.prompt(hanging, "waits")
    answer = client.answer(client.prompt(working, "[say x] works"))
    expect("messageId" in answer["result"], "the other session does not work")
    client.receive_until(lambda message: is_update(message, "agent_message_chunk"))
    expect_equal(client.answers(waiting), [], "answers while the restore hangs")
    error = client.answer(waiting)["error"]
    expect_equal((error["code"], error["data"]["reason"]), (-32603, "restore_timeout"), "the error")
    finish(keyhop)
    expect_equal(len(room.history().insertions()), 1, "insertions")


# ---- Killed while it starts or restores ----


@test(
    cases={
        "at its very start": "start@1",
        "before initialize is read": "read:initialize@1",
        "when initialize was acted on": "acted:initialize@1",
        "before initialize is answered": "answer:initialize@1",
        "in the middle of that answer": "output@20",
        "when initialize was answered": "answered:initialize@1",
        "before resume is read": "read:session/resume@1",
        "before the second resume is read": "read:session/resume@2",
        "when resume was acted on": "acted:session/resume@1",
        "before resume is answered": "answer:session/resume@1",
        "when all was restored": "answered:session/resume@2",
    }
)
def the_second_agent_is_killed(room, point):
    """What waited for the restore waits for the next one, and happens once."""
    keyhop = room.start(*once(f"{point}/2=kill KILL"))
    client = keyhop.client
    client.initialize()
    first, second = client.new_session(), client.new_session()
    kill_agent(room)
    prompts = [client.prompt(session, "waits") for session in (first, second)]
    listing = client.request("session/list", {})
    for number in prompts:
        answer = client.answer(number) if not client.answers(number) else client.answers(number)[0]
        # A session that was restored already has its prompt sent: then nobody knows.
        if "error" in answer and point.endswith("session/resume@2"):
            expect_own_error(answer, -32603, "unknown")
        else:
            expect("messageId" in answer.get("result", {}), f"a held prompt: {answer}")
    if not client.answers(listing):
        client.answer(listing)
    finish(keyhop)
    expect_equal(len(room.history().epochs()), 3, "starts of the agent")
    sessions = sorted(row["sessionId"] for row in room.history().insertions())
    expect(sessions == sorted(set(sessions)), f"insertions {sessions}")


# ---- Killed with a prompt or a permission request open ----


@test()
def killed_with_a_prompt_held_by_the_agent(room):
    keyhop = room.start()
    client = keyhop.client
    session = client.open()
    client.answer(client.prompt(session, "[hold] one"))
    second = client.prompt(session, "two")
    state = client.call("_test/state")["result"]["sessions"][0]
    expect_equal(state["held"], 1, "prompts that the agent holds")
    kill_agent(room)
    expect_own_error(client.answer(second), -32603, "unknown")
    finish(keyhop)
    expect_equal(len(room.history().received(b"session/prompt")), 2, "prompts at the agent")
    expect_equal(len(room.history().insertions()), 1, "insertions")


POINTS = {
    "read": "read:session/prompt@1",
    "acted on": "acted:session/prompt@1",
    "before the insertion": "insert@1",
    "inserted": "inserted@1",
    "before the answer": "answer:session/prompt@1",
}


@test(cases=POINTS)
def keyed_prompts_forwarded_are_inserted_once(room, point):
    options = ("--keys=forward",)
    keyhop = room.start("--keys=honour", *once(f"{point}=kill KILL"), options=options)
    client = keyhop.client
    session = client.open()
    client.prompt(session, "once", "k-1", 7)
    client.prompt(session, "once", "k-1", 8)
    first, second = client.answer(7), client.answer(8)
    expect_equal(first["result"], second["result"], "the two answers")
    finish(keyhop)
    history = room.history()
    expect_equal(len(history.epochs()), 2, "starts of the agent")
    inserted = [row["messageId"] for row in history.insertions()]
    expect_equal(inserted, [first["result"]["messageId"]], "insertions")
    sent = [line for line in client.sent if b"session/prompt" in line][:1]
    expect_equal(history.received(b"session/prompt"), sent * 2, "prompts at the agent, byte for byte")


@test(cases=POINTS)
def keyed_prompts_guarded_are_never_inserted_twice(room, point):
    keyhop = room.start(*once(f"{point}=kill KILL"))
    client = keyhop.client
    session = client.open()
    client.prompt(session, "once", "k-1", 7)
    client.prompt(session, "once", "k-1", 8)
    outcomes = [client.answer(7), client.answer(8), client.answer(client.prompt(session, "once", "k-1", 9))]
    for answer in outcomes:
        if "error" in answer:
            expect_own_error(answer, -32603, "unknown")
    finish(keyhop)
    expect_equal(len(room.history().epochs()), 2, "starts of the agent")
    expect(len(room.history().insertions()) <= 1, "a second insertion")


# ---- Other ways to go, and who else goes ----

FAMILY = (
    "[grandchild plain] [grandchild group] [grandchild session] [grandchild orphan] [grandchild stubborn]"
)


@test(
    cases={
        "killed": "[die now]",
        "EOF without exit": "[close_stdout]",
        "exit while a child holds stdout": "[stdout_to_child] [exit 5]",
        "it reads no more": "[close_stdin]",
    }
)
def nothing_of_the_old_agent_lives_beside_the_new_one(room, order):
    keyhop = room.start(options=("--kill-grace", "0.3"))
    client = keyhop.client
    session = client.open()
    client.turn(session, FAMILY)
    client.request("_test/order", {"text": order})
    # That it reads no more shows in a write only, and one that came just before is lost in the pipe.
    wait_for(lambda: client.notify("_test/poke", {}) or len(room.history().epochs()) == 2)
    client.call("session/list", {})
    history = room.history()
    old = [history.epochs()[0]] + [pid for pids in history.spawned().values() for pid in pids]
    left = [processes.describe(pid) for pid in old if processes.state_of(pid) not in ("", "Z")]
    expect_equal(left, [], "processes of the old agent")
    finish(keyhop)


@test()
def a_wrapper_that_dies_alone(room):
    """Only the launcher is gone; the agent behind it is ended before its successor starts."""
    keyhop = room.start(command=["sh", "-c", '"$@"; :', "sh", *room.agent_command()])
    client = keyhop.client
    client.open()
    first = room.history().epochs()[0]
    os.kill(processes.parent_of(first), signal.SIGKILL)
    while client.call("_test/state").get("result", {}).get("epoch") != 2:
        pass
    expect(processes.state_of(first) in ("", "Z"), "the first agent lives beside the second one")
    finish(keyhop)


if __name__ == "__main__":
    main(__doc__)
