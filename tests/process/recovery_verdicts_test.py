"""What decides about a lost request beside the retry table: rules, later changes, replays that were shown in
part, repeats of initialize, time limits of silence."""

import json

from client import is_idle
from harness import expect, expect_equal, expect_own_error, main, test, wait_for
from restart import SET_MODEL, fault_struck, finish, kill_agent, once, synchronize

PLACE = {"cwd": "/w", "mcpServers": []}

# ---- Rules ----


@test(
    cases={
        "an extension made idempotent": ("_test/act", "idempotent", 2),
        "a listing made not-retried": ("session/list", "not-retried", 1),
    }
)
def a_rule_decides(room, method, retry_class, effects):
    fault = once(f"answer:{method}@1=kill KILL")
    keyhop = room.start(*fault, options=("--rule", f"{method}={retry_class}"))
    client = keyhop.client
    client.open()
    answer = client.call(method, {})
    expect_equal("result" in answer, retry_class == "idempotent", "success")
    if "error" in answer:
        expect_own_error(answer, -32603, "unknown")
    finish(keyhop)
    expect_equal(len(room.history().acts(method)), effects, "effects")


# ---- A later change of the same thing was answered ----


def config(value, option="model"):
    return "session/set_config_option", {"configId": option, "type": "id", "value": value}


MODEL = config("m2")
# Version, the lost change, the later one that was answered, whether the lost one is sent again.
CHANGES = {
    "a model": (2, MODEL, config("m3"), False),
    "a mode": (1, ("session/set_mode", {"modeId": "plan"}), ("session/set_mode", {"modeId": "code"}), False),
    "a title": (2, ("session/set_title", {"title": "a"}), ("session/set_title", {"title": "b"}), False),
    "archive, then unarchive": (2, ("session/archive", {}), ("session/unarchive", {}), False),
    "unarchive, then archive": (2, ("session/unarchive", {}), ("session/archive", {}), False),
    "a provider": (2, ("providers/set", {"id": "p", "n": 1}), ("providers/set", {"id": "p", "n": 2}), False),
    "set, then disable": (2, ("providers/set", {"id": "p"}), ("providers/disable", {"id": "p"}), False),
    "login, then logout": (2, ("auth/login", {"methodId": "door"}), ("auth/logout", {}), False),
    "logout, then login": (2, ("auth/logout", {}), ("auth/login", {"methodId": "door"}), False),
    "v1 login, then logout": (1, ("authenticate", {"methodId": "door"}), ("logout", {}), False),
    "another option": (2, MODEL, config("high", "effort"), True),
    "a title, then a model": (2, ("session/set_title", {"title": "a"}), MODEL, True),
}


@test(cases=CHANGES)
def a_later_change_is_not_undone(room, version, lost, later, again):
    silent, loud = lost[0], later[0]
    command = room.changing_command(["--leave-open", f"{silent}@1"], [])
    keyhop = room.start(command=command)
    client = keyhop.client
    session = client.open(version)
    mark = {"sessionId": session, "_meta": {"mark": "lost"}}
    number = client.request(silent, {**lost[1], **mark})
    expect("result" in client.call(loud, {**later[1], "sessionId": session}), "the later change")
    kill_agent(room)
    answer = client.answer(number)
    if again:
        expect("result" in answer, f"the answer: {answer}")
    else:
        error = expect_own_error(answer, -32603, "unknown")
        expect_equal(error["data"]["reason"], "newer_change", "the reason")
    finish(keyhop)
    expect_equal(len(room.history().received(b'"mark":"lost"')), 2 if again else 1, "at the agents")


@test()
def a_later_change_of_another_session_decides_nothing(room):
    command = room.changing_command(["--leave-open", "session/set_title@1"], [])
    keyhop = room.start(command=command)
    client = keyhop.client
    first = client.open()
    second = client.new_session()
    number = client.request("session/set_title", {"sessionId": first, "title": "a"})
    client.call("session/set_title", {"sessionId": second, "title": "b"})
    kill_agent(room)
    expect("result" in client.answer(number), "the title was not set again")
    finish(keyhop)


@test()
def the_last_of_several_lost_changes_wins(room):
    """None of them was answered: all are sent again, in their order."""
    command = room.changing_command(["--leave-open", "session/set_config_option"], [])
    keyhop = room.start(command=command)
    client = keyhop.client
    session = client.open()
    numbers = [
        client.request("session/set_config_option", {"sessionId": session, **SET_MODEL, "value": value})
        for value in ("m3", "m1", "m2")
    ]
    client.call("_test/state")
    kill_agent(room)
    for number in numbers:
        expect("result" in client.answer(number), "a change was not made again")
    options = client.call("session/options", {"sessionId": session})["result"]["configOptions"]
    expect_equal(options[0]["currentValue"], "m2", "the model")
    finish(keyhop)


# ---- Replays ----

FROM_START = {"replayFrom": {"type": "start"}}
REPLAYS = {
    "load, all of it shown": (1, "session/load", {}, "answer:session/load@1"),
    "load, some of it shown": (1, "session/load", {}, "written@{}"),
    "resume, all of it shown": (2, "session/resume", FROM_START, "answer:session/resume@1"),
    "resume, some of it shown": (2, "session/resume", FROM_START, "written@{}"),
}


@test(cases=REPLAYS)
def a_replay_that_the_client_saw_part_of_is_not_repeated(room, version, method, more, fault):
    """Its chunks would append to what the client has."""
    frames = 0
    if "{}" in fault:  # dies one frame after the replay has begun; counted in a run without fault
        trial = room.start(command=room.agent_command(history="trial", wire="trial-wire"))
        replay(trial.client, version, method, more)
        finish(trial)
        sent = room.history("trial", "trial-wire").sent()
        begun = [place for place, line in enumerate(sent) if b"user_message" in line][-1]
        frames = begun + 1
    keyhop = room.start(*once(f"{fault.format(frames)}=kill KILL"))
    client = keyhop.client
    answer, shown = replay(client, version, method, more)
    error = expect_own_error(answer, -32603, "unknown")
    expect_equal(error["data"]["reason"], "replay_interrupted", "the reason")
    session = json.loads(client.sent[-1])["params"]["sessionId"]
    expect("result" in client.call("session/resume", {"sessionId": session, **PLACE}), "a later resume")
    finish(keyhop)
    users = [line for line in client.received[shown:] if b'"user_message' in line]
    expect_equal(len(users), 1, "user messages shown")
    expect_equal(len(room.history().epochs()), 2, "starts of the agent")


def replay(client, version, method, more):
    """One turn, close, and the replay that the client asks for: its answer, and where it began."""
    session = client.open(version)
    number = client.prompt(session, "[say hello] hi")
    if version == 1:
        client.answer(number)
    else:
        client.receive_until(is_idle)
    client.call("session/close", {"sessionId": session})
    shown = len(client.received)
    return client.call(method, {"sessionId": session, **PLACE, **more}), shown


@test(cases={"load": (1, "session/load", {}), "resume": (2, "session/resume", FROM_START)})
def a_replay_of_which_nothing_was_shown_is_asked_for_again(room, version, method, more):
    keyhop = room.start(*once(f"acted:{method}@1=kill KILL"))
    answer, shown = replay(keyhop.client, version, method, more)
    expect("result" in answer, "the replay was not asked for again")
    finish(keyhop)
    users = [line for line in keyhop.client.received[shown:] if b'"user_message' in line]
    expect_equal(len(users), 1, "user messages shown")


# ---- initialize once more ----


@test(
    cases={
        f"v{version} {point}": (version, point)
        for version in (1, 2)
        for point in ("read", "acted", "answer")
    }
)
def a_repeated_initialize_is_the_new_agents_first(room, version, point):
    keyhop = room.start(*once(f"{point}:initialize@2=kill KILL"))
    client = keyhop.client
    if version == 1:
        session = client.open(version=1)
    else:
        client.initialize(2)
    expect_equal(client.initialize(version)["protocolVersion"], version, "the answer of the new agent")
    if version == 2:
        session = client.new_session()
    expect("result" in client.answer(client.prompt(session, "on")), "the prompt")
    finish(keyhop)
    expect_equal(len(room.history().received(b'"initialize"')), 3, "initialize at the agents")
    expect_equal(len(room.history().insertions()), 1, "insertions")


@test(cases={"v1": 1, "v2": 2})
def a_repeated_initialize_that_was_being_cancelled(room, version):
    keyhop = room.start(*once("answer:initialize@2=stall"))
    client = keyhop.client
    client.initialize(version)
    number = client.request("initialize", {"protocolVersion": version, "mark": "repeated"})
    wait_for(lambda: fault_struck(room))
    client.notify("$/cancel_request", {"requestId": number})
    synchronize(client)
    kill_agent(room)
    expect_own_error(client.answer(number), -32800, "unknown")
    expect("result" in client.call("session/new", PLACE), "the new agent does not serve")
    finish(keyhop)
    expect_equal(len(room.history().received(b"repeated")), 1, "repeats at the agents")


# ---- Silence ----

SILENCE = ("--silence-timeout", "0.3")


@test()
def a_prompt_given_up_before_the_death_has_its_answer(room):
    keyhop = room.start("--ignore-cancel", options=SILENCE)
    client = keyhop.client
    session = client.open()
    expect_own_error(client.answer(client.prompt(session, "[hang]")), -32603, "unknown")
    client.call("_test/state")  # the cancel that it causes has arrived too
    kill_agent(room)
    expect("result" in client.answer(client.prompt(session, "on")), "the next prompt")
    finish(keyhop)
    expect_equal(len(room.history().effects("cancel", "session/cancel")), 1, "cancels at the agents")


@test()
def silence_is_measured_anew_after_a_restart(room):
    keyhop = room.start(options=SILENCE)
    client = keyhop.client
    session = client.open()
    client.answer(client.prompt(session, "one"))
    kill_agent(room)
    error = expect_own_error(client.answer(client.prompt(session, "[hang]")), -32603, "unknown")
    expect_equal(error["data"]["reason"], "silence_timeout", "the reason")
    client.receive_until(is_idle)
    expect("result" in client.answer(client.prompt(session, "three")), "the prompt after it")
    finish(keyhop)
    cancels = room.history().effects("cancel", "session/cancel")
    expect_equal([row["epoch"] for row in cancels], [2], "the agents that got a cancel")


@test()
def a_held_prompt_is_not_given_up_for_silence(room):
    """Nobody can speak while the agent starts."""
    command = room.changing_command([], ["--slow-start", "1000"])
    keyhop = room.start(command=command, options=SILENCE)
    client = keyhop.client
    session = client.open()
    kill_agent(room)
    expect("result" in client.answer(client.prompt(session, "held")), "the held prompt")
    finish(keyhop)
    expect_equal(len(room.history().insertions()), 1, "insertions")
    expect_equal(room.history().effects("cancel", "session/cancel"), [], "cancels at the agents")


if __name__ == "__main__":
    main(__doc__)
