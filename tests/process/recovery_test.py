"""The agent dies and the client goes on: killed at every point, counted in the agent's own history."""

import json
import os
import signal

import processes
from client import is_idle, is_update, prompt_params
from harness import expect, expect_equal, expect_own_error, main, test, wait_for
from restart import RESTARTING, expect_settled, fault_struck, finish, kill_agent, once, start

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
    keyhop = start(room)
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
    keyhop = start(room)
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
    keyhop = start(room)
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
    keyhop = start(room, command=command)
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
    keyhop = start(room, command=command, options=(*RESTARTING, "--restore-timeout", "1"))
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
    keyhop = start(room, *once(f"{point}/2=kill KILL"))
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


@test()
def the_first_agent_exits_before_initialize(room):
    """No loop: one clear error, and its own exit status."""
    script = 'echo start >> "$0"; echo "Cannot find module x" >&2; exit 7'
    keyhop = start(room, command=["sh", "-c", script, room.path("starts")])
    client = keyhop.client
    error = expect_own_error(client.answer(client.request("initialize", {"protocolVersion": 1}, 0)), -32603)
    expect_equal(error["data"]["agent"]["exitCode"], 7, "the exit code")
    expect("Cannot find module x" in error["data"]["agent"]["stderrTail"], "the cause is not told")
    client.read_to_end()
    expect_equal(keyhop.wait(), 7, "exit status")
    expect_settled(keyhop)
    with open(room.path("starts"), encoding="ascii") as file:
        expect_equal(file.read(), "start\n", "starts")


@test()
def an_agent_that_dies_six_times(room):
    """Restarted while the budget lasts; then definite errors at once; then service again."""
    keyhop = start(room, options=(*RESTARTING, "--restart-limit", "3/2"))
    client = keyhop.client
    session = client.open()
    for _ in range(3):
        kill_agent(room)
        client.call("session/list", {})
    kill_agent(room)
    spent = 0
    while "error" in (answer := client.call("session/list", {})):
        expect_own_error(answer, -32603)
        spent += 1
    expect(spent > 0, "the budget was never spent")
    for _ in range(2):
        expect("result" in client.answer(client.prompt(session, "on")), "no service after the wait")
        kill_agent(room)
        while "error" in client.call("session/list", {}):
            pass
    finish(keyhop)
    expect_equal(len(room.history().epochs()), 7, "starts of the agent")
    expect_equal(len(room.history().insertions()), 2, "insertions")


# ---- Killed with a prompt or a permission request open ----


@test()
def killed_with_a_prompt_held_by_the_agent(room):
    keyhop = start(room)
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
    options = (*RESTARTING, "--keys=forward")
    keyhop = start(room, "--keys=honour", *once(f"{point}=kill KILL"), options=options)
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
    keyhop = start(room, *once(f"{point}=kill KILL"))
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
    keyhop = start(room, options=(*RESTARTING, "--kill-grace", "0.3"))
    client = keyhop.client
    session = client.open()
    client.turn(session, FAMILY)
    client.request("_test/order", {"text": order})
    while client.call("_test/state").get("result", {}).get("epoch") != 2:
        pass
    history = room.history()
    old = [history.epochs()[0]] + [pid for pids in history.spawned().values() for pid in pids]
    left = [processes.describe(pid) for pid in old if processes.state_of(pid) not in ("", "Z")]
    expect_equal(left, [], "processes of the old agent")
    finish(keyhop)


@test()
def a_wrapper_that_dies_alone(room):
    """Only the launcher is gone; the agent behind it is ended before its successor starts."""
    keyhop = start(room, command=["sh", "-c", '"$@"; :', "sh", *room.agent_command()])
    client = keyhop.client
    client.open()
    first = room.history().epochs()[0]
    with open(f"/proc/{first}/stat", "rb") as file:
        wrapper = int(file.read().rpartition(b") ")[2].split()[1])
    os.kill(wrapper, signal.SIGKILL)
    while client.call("_test/state").get("result", {}).get("epoch") != 2:
        pass
    expect(processes.state_of(first) in ("", "Z"), "the first agent lives beside the second one")
    finish(keyhop)


@test(cases=VERSIONS)
def a_person_restarts_an_agent_that_hangs(room, version):
    keyhop = start(room)
    client = keyhop.client
    session = client.open(version)
    first = room.history().epochs()[0]
    os.kill(first, signal.SIGSTOP)
    prompt = client.prompt(session, "lost in the pipe")
    listing = client.request("session/list", {})
    keyhop.signal(signal.SIGUSR2)
    expect_own_error(client.answer(prompt), -32603)
    expect("result" in client.answer(listing), "the listing was not sent again")
    expect(processes.state_of(first) in ("", "Z"), "the stopped agent lives")
    finish(keyhop)
    expect_equal(len(room.history().epochs()), 2, "starts of the agent")
    expect_equal(room.history().insertions(), [], "insertions")


def start_in_restore(room, point="read:session/resume@1"):
    """A keyhop whose second agent does not get on with the restore; one prompt (7) is lost, one (8) held."""
    options = (*RESTARTING, "--drain", "0.2", "--kill-grace", "0.2")
    keyhop = start(room, *once(f"{point}/2=stall"), options=options)
    client = keyhop.client
    session = client.open()
    client.prompt(session, "[hang]", request_id=7)
    client.call("_test/state")
    kill_agent(room)
    client.prompt(session, "held", request_id=8)
    wait_for(lambda: fault_struck(room))
    return keyhop


@test(cases={"initialize": "read:initialize@1", "resume": "read:session/resume@1"})
def the_client_closes_during_the_restore(room, point):
    keyhop = start_in_restore(room, point)
    expect_equal(keyhop.close(), 0, "exit status")
    expect_settled(keyhop)
    for number, outcome in ((7, "unknown"), (8, "not_sent")):
        expect_own_error(keyhop.client.answers(number)[0], -32603, outcome)


@test(cases={"initialize": "read:initialize@1", "resume": "read:session/resume@1"})
def a_signal_during_the_restore(room, point):
    keyhop = start_in_restore(room, point)
    keyhop.signal(signal.SIGTERM)
    keyhop.client.read_to_end()
    expect_equal(keyhop.wait(), 128 + signal.SIGTERM, "exit status")
    expect_settled(keyhop)


@test()
def keyhop_is_killed_during_the_restore(room):
    keyhop = start_in_restore(room)
    keyhop.kill()
    room.expect_nothing_left(adopted=None)


@test()
def a_person_restarts_during_the_restore(room):
    keyhop = start_in_restore(room)
    keyhop.signal(signal.SIGUSR2)
    expect_own_error(keyhop.client.answer(7), -32603, "unknown")
    expect("messageId" in keyhop.client.answer(8)["result"], "the held prompt")
    finish(keyhop)
    expect_equal(len(room.history().insertions()), 1, "insertions")

if __name__ == "__main__":
    main(__doc__)
