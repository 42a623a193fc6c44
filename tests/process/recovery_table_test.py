"""The retry table: a request is lost at each point, and the agent's own history says how often it acted."""

from harness import expect, expect_equal, expect_own_error, main, test, wait_for
from restart import RESTARTING, SET_MODEL, fault_struck, finish, kill_agent, once, start

# Of version 1 or 2, idempotent, with the params beside sessionId; None: no session is named.
IDEMPOTENT = [
    (2, "session/list", None),
    (2, "session/resume", {"cwd": "/w", "mcpServers": []}),
    (2, "session/close", {}),
    (2, "session/delete", {}),
    (2, "session/set_config_option", SET_MODEL),
    (2, "session/archive", {}),
    (2, "session/unarchive", {}),
    (2, "session/set_title", {"title": "t"}),
    (2, "session/status", {}),
    (2, "session/options", {}),
    (2, "auth/login", None),
    (2, "auth/logout", None),
    (2, "auth/status", None),
    (2, "providers/list", None),
    (2, "providers/set", None),
    (2, "providers/disable", None),
    (1, "session/list", None),
    (1, "session/load", {"cwd": "/w", "mcpServers": []}),
    (1, "session/resume", {"cwd": "/w", "mcpServers": []}),
    (1, "session/close", {}),
    (1, "session/set_mode", {"modeId": "plan"}),
    (1, "session/set_config_option", SET_MODEL),
    (1, "authenticate", None),
    (1, "logout", None),
]
DUPLICATING = [
    (2, "session/new", None),
    (2, "session/fork", {}),
    (1, "session/new", None),
    (1, "session/fork", {}),
]
NOT_RETRIED = [
    (2, "_test/act", None),
    (2, "mcp/message", None),
    (2, "session/prompt", {"prompt": [{"type": "text", "text": "t"}]}),
    (1, "_test/act", None),
    (1, "session/prompt", {"prompt": [{"type": "text", "text": "t"}]}),
]


def rows(table):
    """Each row at each point, with how often the agent has acted by then."""
    points = {"read": 0, "acted": 1, "answer": 1}
    return {
        f"{method} v{version} {point}": (version, method, params, point, acted)
        for version, method, params in table
        for point, acted in points.items()
    }


def lose_one(room, version, method, params, point, options=RESTARTING):
    """One request, lost at that point; its answer and the effects that this method had because of it."""
    activates = method in ("session/resume", "session/load")
    passage = 2 if method == "session/new" else 1  # the first one is the test's own
    keyhop = start(room, *once(f"{point}:{method}@{passage}=kill KILL"), options=options)
    client = keyhop.client
    session = client.open(version)
    if activates:
        client.call("session/close", {"sessionId": session})
    named = {"cwd": "/w", "mcpServers": []} if params is None else {"sessionId": session, **params}
    before = len(room.history().acts(method))
    answer = client.answer(client.request(method, named))
    client.call("session/list", {})
    finish(keyhop)
    expect_equal(len(room.history().epochs()), 2, "starts of the agent")
    acts = room.history().acts(method)[before:]
    # The restore itself may set what the client had before: an effect, but not the lost request's.
    wanted = named.get("value", named.get("modeId"))
    return answer, sum(wanted in (None, act.get("value"), act.get("modeId")) for act in acts)


@test(cases=rows(IDEMPOTENT))
def a_lost_idempotent_request(room, version, method, params, point, acted):
    answer, effects = lose_one(room, version, method, params, point)
    expect("result" in answer, f"the answer: {answer}")
    # The listing that ends the test counts too.
    effects -= method == "session/list"
    expect_equal(effects, acted + 1, "effects")


@test(cases=rows(DUPLICATING))
def a_lost_duplicating_request(room, version, method, params, point, acted):
    answer, effects = lose_one(room, version, method, params, point)
    expect("sessionId" in answer["result"], f"the answer: {answer}")
    expect_equal(effects, acted + 1, "effects")


@test(cases=rows(NOT_RETRIED))
def a_lost_request_that_is_not_retried(room, version, method, params, point, acted):
    answer, effects = lose_one(room, version, method, params, point)
    expect_own_error(answer, -32603, "unknown")
    if method == "session/prompt" and point == "acted":
        acted = effects  # it is read, not inserted yet, or already
        expect(effects <= 1, "effects")
    expect_equal(effects, acted, "effects")


@test(
    cases={
        "an extension made idempotent": ("_test/act", "idempotent", 2),
        "a listing made not-retried": ("session/list", "not-retried", 1),
    }
)
def a_rule_decides(room, method, retry_class, effects):
    options = (*RESTARTING, "--rule", f"{method}={retry_class}")
    answer, counted = lose_one(room, 2, method, None, "answer", options)
    expect_equal("result" in answer, retry_class == "idempotent", "success")
    expect_equal(counted - (method == "session/list"), effects, "effects")


@test(cases={"idempotent": "session/list", "not retried": "_test/act"})
def a_lost_request_that_was_being_cancelled(room, method):
    keyhop = start(room, "--leave-open", f"{method}@1", "--ignore-cancel")
    client = keyhop.client
    client.open()
    number = client.request(method, {})
    client.notify("$/cancel_request", {"requestId": number})
    client.call("_test/state")
    kill_agent(room)
    expect_own_error(client.answer(number), -32800, "unknown")
    finish(keyhop)
    expect_equal(len(room.history().acts(method)), 1, "effects")


@test()
def a_held_request_that_is_cancelled_was_never_sent(room):
    keyhop = start(room, *once("read:initialize@1/2=stall"))
    client = keyhop.client
    session = client.open()
    kill_agent(room)
    number = client.prompt(session, "held")
    client.notify("$/cancel_request", {"requestId": number})
    expect_own_error(client.answer(number), -32800, "not_sent")
    wait_for(lambda: fault_struck(room))
    kill_agent(room)
    client.call("session/list", {})
    finish(keyhop)
    expect_equal(room.history().received(b"session/prompt"), [], "prompts at the agent")


@test()
def a_later_change_is_not_overwritten(room):
    command = room.changing_command(["--leave-open", "session/set_config_option@1"], [])
    keyhop = start(room, command=command)
    client = keyhop.client
    session = client.open()
    lost = client.request("session/set_config_option", {"sessionId": session, **SET_MODEL})
    client.call("session/set_config_option", {"sessionId": session, **SET_MODEL, "value": "m3"})
    kill_agent(room)
    error = expect_own_error(client.answer(lost), -32603, "unknown")
    expect_equal(error["data"]["reason"], "newer_change", "the reason")
    options = client.call("session/options", {"sessionId": session})["result"]["configOptions"]
    expect_equal(options[0]["currentValue"], "m3", "the model")
    finish(keyhop)


@test()
def a_replay_that_the_client_saw_part_of_is_not_repeated(room):
    keyhop = start(room, *once("answer:session/load@1=kill KILL"))
    client = keyhop.client
    session = client.open(version=1)
    client.answer(client.prompt(session, "[say hello] hi"))
    client.call("session/close", {"sessionId": session})
    shown = len(client.received)
    params = {"sessionId": session, "cwd": "/w", "mcpServers": []}
    error = expect_own_error(client.call("session/load", params), -32603, "unknown")
    expect_equal(error["data"]["reason"], "replay_interrupted", "the reason")
    finish(keyhop)
    chunks = [line for line in client.received[shown:] if b"user_message_chunk" in line]
    expect_equal(len(chunks), 1, "user messages shown")


@test()
def a_repeated_initialize_is_the_new_agents_first(room):
    keyhop = start(room, *once("read:initialize@2=kill KILL"))
    client = keyhop.client
    session = client.open(version=1)
    expect_equal(client.initialize(1)["protocolVersion"], 1, "the answer of the new agent")
    client.answer(client.prompt(session, "on"))
    finish(keyhop)
    expect_equal(len(room.history().received(b'"initialize"')), 3, "initialize at the agents")
    expect_equal(len(room.history().insertions()), 1, "insertions")

if __name__ == "__main__":
    main(__doc__)
