"""The reported faults of cases where an agent is restarted, each as one test of what is right instead.

Those that need no restarted agent are in reports_test.py and report_lines_test.py.
"""

import json
import os
import signal

import processes
from client import is_update
from harness import expect, expect_equal, expect_own_error, main, test, wait_for
from restart import fault_struck, finish, kill_agent, prompt_at_death

SERVERS = [{"name": "m", "command": "x", "args": ["-v"], "env": []}]
PLACE = {"cwd": "/w", "mcpServers": SERVERS}


def open_session(client, version=1):
    client.initialize(version)
    return client.call("session/new", PLACE)["result"]["sessionId"]


def at_second_agent(history):
    """What the second agent read, as messages."""
    lines = history.received()
    second = [place for place, line in enumerate(lines) if b'"method":"initialize"' in line][1]
    return [json.loads(line) for line in lines[second:]]


def methods(messages):
    return [message.get("method") for message in messages]


# ---- The connection and its sessions ----


@test()
def dead_connection_reused(room):
    keyhop = room.start()
    client = keyhop.client
    session = open_session(client)
    agent = room.history().epochs()[0]
    os.kill(agent, signal.SIGTERM)
    processes.wait_gone(agent)
    opened = client.answer(client.request("session/new", PLACE, 2))["result"]["sessionId"]
    expect(opened != session, "no new session")
    finish(keyhop)
    got = at_second_agent(room.history())
    expect_equal(methods(got)[0], "initialize", "what came first")
    expect_equal(sorted(methods(got)[1:]), ["session/new", "session/resume"], "what came then")
    (resume,) = [message for message in got if message["method"] == "session/resume"]
    expect_equal(resume["params"]["sessionId"], session, "the restored session")


@test()
def unknown_session_after_restart(room):
    keyhop = room.start()
    client = keyhop.client
    session = open_session(client)
    for text in ("one", "two"):
        client.answer(client.prompt(session, text))
    kill_agent(room)
    client.request("session/set_mode", {"sessionId": session, "modeId": "plan"}, 9)
    expect_equal(client.answer(9)["result"], {}, "the agent's own answer")
    finish(keyhop)
    got = at_second_agent(room.history())
    expect_equal(methods(got), ["initialize", "session/resume", "session/set_mode"], "what agent #2 read")
    expect_equal(got[1]["params"], {"sessionId": session, **PLACE}, "the restore")


@test()
def pending_request_never_settled(room):
    """The agent leaves with 143 in the middle of a turn: one error, no second try; the connection lives."""
    keyhop = room.start()
    client = keyhop.client
    session = open_session(client)
    client.prompt(session, "[say Let me ] [die now exit 143]", request_id=7)
    error = expect_own_error(client.answer(7), -32603, "unknown")
    expect_equal(error["data"]["agent"]["exitCode"], 143, "the exit code")
    expect_equal(error["data"]["progress"], True, "progress")
    said = [place for place, line in enumerate(client.received) if b"Let me " in line and b"agent_" in line]
    expect(len(said) == 1 and said[0] < len(client.received) - 1, "the update did not come first")
    expect("result" in client.answer(client.prompt(session, "on")), "the next prompt failed")
    finish(keyhop)
    expect_equal(len(room.history().received(b'"id":7')), 1, "sends of 7")


@test(cases={"resume": (), "an agent without sessions": (("--no-resume", "--no-load"),)})
def crash_before_the_first_answer_of_a_successor(room, options=()):
    """The second agent cannot even start: the cause is in every error, at once, whatever was asked."""
    script = 'if mkdir "$0" 2>/dev/null; then exec "$@"; fi; echo "Cannot find module x" >&2; exit 1'
    command = ["sh", "-c", script, room.path("started"), *room.agent_command(*options)]
    keyhop = room.start(command=command, options=("--restart-limit", "2/60"))
    client = keyhop.client
    session = open_session(client)
    kill_agent(room)
    for number in (client.request("session/list", {}), client.prompt(session, "on")):
        error = expect_own_error(client.answer(number), -32603, "not_sent")
        expect_equal(error["data"]["agent"]["exitCode"], 1, "the exit code")
        expect("Cannot find module x" in error["data"]["agent"]["stderrTail"], "the cause is not told")
    expect_equal(keyhop.close(), 75, "exit status")
    expect_equal(client.unsettled(), {}, "requests without exactly one answer")


WAYS = {
    "a: resume": ((), "session/resume"),
    "b: only load": (("--no-resume",), "session/load"),
    "c: neither": (("--no-resume", "--no-load"), None),
}


@test(cases=WAYS)
def silent_blank_session(room, options, way):
    keyhop = room.start(*options)
    client = keyhop.client
    session = open_session(client)
    kill_agent(room)
    client.prompt(session, "on", request_id=9)
    answer = client.answer(9)
    if way:
        expect_equal(answer.get("result"), {"stopReason": "end_turn"}, "the answer")
    else:
        expect_equal(answer["error"]["code"], -32002, "the agent's own error")
        expect(answer["error"].get("data", {}).get("source") != "keyhop", "keyhop made the error")
    finish(keyhop)
    wanted = ["initialize", way, "session/prompt"] if way else ["initialize", "session/prompt"]
    expect_equal(methods(at_second_agent(room.history())), wanted, "what agent #2 read")
    expect_equal(len(room.history().received(b"session/new")), 1, "session/new at the agents")


@test(cases={"resume": ((), "session/resume"), "load": (("--no-resume",), "session/load")})
def a_failed_restore_is_the_answer_and_final(room, options, way):
    """-32002 as it is, for all that needs the session, and no second try of the restore."""
    keyhop = room.start(*options, "--refuse", f"{way}=-32002/2")
    client = keyhop.client
    session = open_session(client)
    held = client.answer(prompt_at_death(keyhop, room, session, "held"))["error"]
    expect_equal(
        held, {"code": -32002, "message": "refused as ordered", "data": {"sessionId": session}}, "the error"
    )
    for _ in range(3):
        later = client.answer(client.prompt(session, "later"))["error"]
        expect_equal(later["code"], -32002, "the agent's own error")
    expect("result" in client.call("session/list", {}), "the listing failed too")
    finish(keyhop)
    got = at_second_agent(room.history())
    expect_equal(methods(got).count(way), 1, "tries of the restore")
    expect_equal(methods(got).count("session/new"), 0, "session/new at agent #2")
    expect_equal(room.history().insertions(), [], "insertions")


@test(cases={"v1": (1, "authenticate"), "v2": (2, "auth/login")})
def a_restore_that_needs_a_login(room, version, login):
    """-32000 goes to the client; once it has logged in the session is there again."""
    keyhop = room.start("--login")
    client = keyhop.client
    client.initialize(version)
    client.call(login, {"methodId": "door"})
    session = client.call("session/new", PLACE)["result"]["sessionId"]
    held = client.answer(prompt_at_death(keyhop, room, session, "held"))
    expect_equal(held["error"]["code"], -32000, "the agent's own error")
    expect("result" in client.call(login, {"methodId": "door"}), "the login failed")
    expect("result" in client.answer(client.prompt(session, "on")), "the session was not restored")
    finish(keyhop)
    expect_equal(len(room.history().insertions()), 1, "insertions")


def kinds(lines, session):
    messages = [message for message in map(json.loads, lines) if is_update(message)]
    return [
        message["params"]["update"]["sessionUpdate"]
        for message in messages
        if message["params"]["sessionId"] == session
    ]


@test()
def history_shown_twice(room):
    keyhop = room.start("--no-resume")
    client = keyhop.client
    session = open_session(client)
    client.answer(client.prompt(session, "[say hello] hi"))
    client.call("_test/state")
    kill_agent(room)
    before = len(client.received)
    client.receive_until(lambda message: is_update(message, "available_commands_update"))
    client.answer(client.prompt(session, "[say new]"))
    client.call("_test/state")
    shown = kinds(client.received[before:], session)
    expect_equal(shown[0], "available_commands_update", "what the restore shows")
    expect("agent_message_chunk" in shown[1:], "what comes later is hidden")
    expect(not any(b"hello" in line for line in client.received[before:]), "the history was shown again")
    before = len(client.received)
    client.call("session/load", {"sessionId": session, **PLACE})
    own = [line for line in client.received[before:] if b"hello" in line]
    expect(own, "a replay that the client asked for was filtered")
    finish(keyhop)


@test()
def another_session_is_shown_while_history_is_hidden(room):
    """The load of s1 stays open: its replay is hidden, its state and all of s2 are not."""
    command = room.changing_command(["--no-resume"], ["--no-resume", "--leave-open", "session/load@1"])
    keyhop = room.start(command=command)
    client = keyhop.client
    first = open_session(client)
    second = client.call("session/new", PLACE)["result"]["sessionId"]
    for session in (first, second):
        client.answer(client.prompt(session, "[say hello] hi"))
    client.call("_test/state")
    kill_agent(room)
    before = len(client.received)
    client.answer(client.prompt(second, "[say new]"))
    shown = client.received[before:]
    expect("available_commands_update" in kinds(shown, first), "the state of s1 was held back")
    expect("agent_message_chunk" in kinds(shown, second), "the work of s2 was held back")
    expect(not any(b"hello" in line for line in shown), "history was shown again")
    expect_equal(keyhop.close(), 0, "exit status")


# ---- Modes and options ----


def set_all(client, session):
    """The client chose bypass, the agent then plan; the client chose the model m2."""
    client.call("session/set_mode", {"sessionId": session, "modeId": "bypass"})
    client.answer(client.prompt(session, "[mode plan]"))
    client.call("session/set_config_option", {"sessionId": session, "configId": "model", "value": "m2"})


@test()
def mode_and_model_lost(room):
    keyhop = room.start("--forget-settings")
    client = keyhop.client
    session = open_session(client)
    set_all(client, session)
    kill_agent(room)
    client.answer(client.prompt(session, "on"))
    finish(keyhop)
    got = at_second_agent(room.history())
    expect_equal(methods(got)[:2], ["initialize", "session/resume"], "what came first")
    expect_equal(methods(got)[-1], "session/prompt", "what came last")
    sets = [(message["method"], message["params"]) for message in got[2:-1]]
    values = sorted(params.get("modeId", params.get("value")) for _, params in sets)
    expect_equal(values, ["m2", "plan"], "what was set again")


@test(cases={"the mode": "session/set_mode", "the model": "session/set_config_option"})
def a_value_that_cannot_be_set_again(room, method):
    keyhop = room.start("--forget-settings", "--refuse", f"{method}=-32603/2")
    client = keyhop.client
    session = open_session(client)
    set_all(client, session)
    kill_agent(room)
    client.answer(client.prompt(session, "on"))
    finish(keyhop)
    got = at_second_agent(room.history())
    expect_equal(methods(got).count(method), 2, f"tries of {method}")
    modes = {message["params"]["modeId"] for message in got if message["method"] == "session/set_mode"}
    expect(modes <= {"plan"}, f"modes that were set: {modes}")
    expect_equal(len(room.history().insertions()), 2, "insertions")


# ---- Loops ----


@test()
def endless_repair_loop(room):
    """Every later start exits 1 after a while: a few starts, then each request gets its error at once."""
    script = (
        'echo start >> "$0"; if [ $(wc -l < "$0") -eq 1 ]; then exec "$@"; fi; '
        'echo "backend is gone" >&2; sleep 0.2; exit 1'
    )
    command = ["sh", "-c", script, room.path("starts"), *room.agent_command()]
    keyhop = room.start(command=command, options=("--restart-limit", "3/60"))
    client = keyhop.client
    session = open_session(client)
    prompt = client.prompt(session, "[hang]")
    client.call("_test/state")
    kill_agent(room)
    numbers = [client.request("session/list", {}), client.prompt(session, "held")]
    answers = {}
    while len(answers) < 3:
        message = client.receive_message()
        if message.get("id") in (prompt, *numbers):
            answers[message["id"]] = message
    errors = [expect_own_error(answer, -32603) for answer in answers.values()]
    errors += [expect_own_error(client.call("session/list", {}), -32603) for _ in range(10)]
    for error in errors:
        agent = error["data"]["agent"]
        expect_equal(agent.get("exitCode"), 1, "the last exit code")
        expect("backend is gone" in agent["stderrTail"], "the cause is not told")
    client.close_writing()
    client.read_to_end()
    keyhop.wait()
    expect_equal(client.unsettled(), {}, "requests without exactly one answer")
    with open(room.path("starts"), encoding="ascii") as file:
        expect_equal(file.read().count("start"), 4, "starts")


@test()
def a_successor_of_another_protocol_version(room):
    """It cannot take over: one clear error for each request, no loop of starts."""
    keyhop = room.start(command=room.changing_command([], ["--protocol", "1"]))
    client = keyhop.client
    session = open_session(client, 2)
    kill_agent(room)
    for _ in range(5):
        expect_own_error(client.answer(client.prompt(session, "on")), -32603, "not_sent")
    expect_equal(keyhop.client.unsettled(), {}, "requests without exactly one answer")
    client.close_writing()
    client.read_to_end()
    keyhop.wait()
    expect_equal(len(room.history().epochs()), 2, "starts of the agent")
    expect_equal(room.history().received(b"session/prompt"), [], "prompts at the agents")


@test(
    cases={
        "1: prompt without key": ("session/prompt", None),
        "2: prompt with key": ("session/prompt", "k-1"),
        "3: listing": ("session/list", None),
    }
)
def no_retry_contract(room, method, key):
    keyhop = room.start("--fault", f"read:{method}@1=kill KILL", "--fault-once")
    client = keyhop.client
    session = client.open()
    if method == "session/list":
        answer = client.call(method, {})
        expect_equal(len(answer["result"]["sessions"]), 1, "sessions in the normal answer")
    else:
        answer = client.answer(client.prompt(session, "once", key))
        inserted = "result" in answer
        expect(inserted <= (key is not None), "the prompt without key was sent again")
        if not inserted:
            expect_own_error(answer, -32603, "unknown")
    finish(keyhop)
    expect(len(room.history().insertions()) <= (key is not None), "insertions")
    sent = [line for line in client.sent if method.encode() in line]
    expect(set(room.history().received(method.encode())) == set(sent), "the bytes differ")


@test()
def proxy_multiplies_prompts(room):
    """One key, asked for again and again around a death: one prompt at the agents, one answer for each."""
    keyhop = room.start("--fault", "inserted@1=stall", "--fault-once")
    client = keyhop.client
    session = client.open()
    numbers = [client.prompt(session, "add a test", "k-1") for _ in range(3)]
    wait_for(lambda: fault_struck(room))
    kill_agent(room)
    numbers += [client.prompt(session, "add a test", "k-1") for _ in range(3)]
    answers = {}
    while len(answers) < len(numbers):
        message = client.receive_message()
        if message.get("id") in numbers:
            answers[message["id"]] = message
    for answer in answers.values():
        if "error" in answer:
            expect_own_error(answer, -32603, "unknown")
    finish(keyhop)
    expect_equal(len(room.history().received(b'"session/prompt"')), 1, "prompts at the agents")
    expect_equal(len(room.history().insertions()), 1, "insertions")


@test()
def orphans_behind_npx_and_uvx(room):
    """After every restart: the launcher is killed, and nothing of what was behind it lives."""
    command = ["sh", "-c", 'sh -c \'"$@"; :\' sh "$@"; :', "sh", *room.agent_command("--ignore-eof")]
    keyhop = room.start(command=command)
    client = keyhop.client
    session = client.open()
    for number in (2, 3, 4):
        client.turn(session, f"[grandchild plain] [grandchild orphan] [grandchild group] {number}")
        agent = room.history().epochs()[-1]
        old = [agent] + [pid for pids in room.history().spawned().values() for pid in pids]
        expect(processes.is_test_agent(old[-1]), "nothing lives that could be left")
        os.kill(processes.parent_of(processes.parent_of(agent)), signal.SIGKILL)
        while client.call("_test/state").get("result", {}).get("epoch") != number:
            pass
        left = [processes.describe(pid) for pid in old if processes.state_of(pid) not in ("", "Z")]
        expect_equal(left, [], "processes of the agent before")
    finish(keyhop)


# ---- What the dead agent asked ----


def ask_permission(client, session):
    prompt = client.prompt(session, "[permission]")
    asked = client.receive_until(lambda message: message.get("method") == "session/request_permission")
    return prompt, asked["id"]


ALLOW = {"outcome": {"outcome": "selected", "optionId": "yes"}}
REJECT = {"outcome": {"outcome": "selected", "optionId": "no"}}
IDS = {"v1": (1, ()), "v2": (2, ()), "v1, ids are strings": (1, ("--string-ids",))}


@test(cases=IDS)
def old_approval_lands_on_a_new_request(room, version, options):
    keyhop = room.start(*options)
    client = keyhop.client
    session = client.open(version)
    _, stale = ask_permission(client, session)
    kill_agent(room)
    cancel = client.receive_until(lambda message: message.get("method") == "$/cancel_request")
    expect_equal(cancel["params"], {"requestId": stale}, "the cancelled request")
    prompt, asked = ask_permission(client, session)
    expect(asked != stale, "one id for two requests")
    client.respond(stale, ALLOW)
    client.call("_test/state")
    expect_equal(room.history().effects("tool"), [], "tools that ran")
    client.respond(asked, REJECT)
    if version == 1:
        expect_equal(client.answer(prompt)["result"], {"stopReason": "end_turn"}, "the answer")
    client.call("_test/state")
    finish(keyhop)
    history = room.history()
    expect_equal([row["result"] for row in history.effects("answered")], [REJECT], "answers at the agent")
    expect_equal(history.effects("stray_answer"), [], "stray answers at the agent")
    expect_equal(history.effects("tool"), [], "tools that ran")


@test(cases=IDS)
def permission_left_open_by_a_dead_agent(room, version, options):
    keyhop = room.start(*options)
    client = keyhop.client
    session = client.open(version)
    _, asked = ask_permission(client, session)
    kill_agent(room)
    client.call("session/list", {})
    client.respond(asked, ALLOW)
    client.call("session/list", {})
    finish(keyhop)
    cancels = [json.loads(line)["params"] for line in client.received if b"$/cancel_request" in line]
    expect_equal(cancels, [{"requestId": asked}], "cancels at the client")
    history = room.history()
    expect_equal(history.effects("answered") + history.effects("stray_answer"), [], "answers at the agents")
    expect_equal(history.effects("tool"), [], "tools that ran")


if __name__ == "__main__":
    main(__doc__)
