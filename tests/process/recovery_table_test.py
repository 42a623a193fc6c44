"""The retry table: each request that a client can send is lost at each point, and the agent's own history
says how often it acted; a row without a case here fails."""

import json
import os
import subprocess

from harness import expect, expect_equal, expect_own_error, main, test, wait_for
from restart import SET_MODEL, fault_struck, finish, kill_agent, once, synchronize

NOWHERE = None  # in place of params beside sessionId: no session is named
PLACE = {"cwd": "/w", "mcpServers": []}
BOTH = (1, 2)
PROMPT = {"prompt": [{"type": "text", "text": "t"}]}

# Class, versions, method, params. What agents refuse where it is late (cancels, closes) ours always does.
REQUESTS = [
    ("idempotent", BOTH, "session/list", NOWHERE),
    ("idempotent", (1,), "session/load", PLACE),
    ("idempotent", BOTH, "session/resume", PLACE),
    ("idempotent", BOTH, "session/close", {}),
    ("idempotent", BOTH, "session/delete", {}),
    ("idempotent", (1,), "session/set_mode", {"modeId": "plan"}),
    ("idempotent", (1,), "session/set_model", {"modelId": "m2"}),
    ("idempotent", BOTH, "session/set_config_option", SET_MODEL),
    ("idempotent", BOTH, "session/set_title", {"title": "t"}),
    ("idempotent", BOTH, "session/archive", {}),
    ("idempotent", BOTH, "session/unarchive", {}),
    ("idempotent", BOTH, "session/status", {}),
    ("idempotent", (2,), "session/options", {}),
    ("idempotent", (2,), "terminal/cancel", {"terminalId": "x"}),
    ("idempotent", (2,), "tool_call/cancel", {"toolCallId": "t1"}),
    ("idempotent", (1,), "authenticate", NOWHERE),
    ("idempotent", (1,), "logout", NOWHERE),
    ("idempotent", (2,), "auth/login", NOWHERE),
    ("idempotent", (2,), "auth/logout", NOWHERE),
    ("idempotent", BOTH, "auth/status", NOWHERE),
    ("idempotent", BOTH, "providers/list", NOWHERE),
    ("idempotent", BOTH, "providers/set", NOWHERE),
    ("idempotent", BOTH, "providers/disable", NOWHERE),
    ("idempotent", BOTH, "nes/suggest", NOWHERE),
    ("idempotent", BOTH, "nes/close", NOWHERE),
    ("duplicating", BOTH, "nes/start", NOWHERE),
    ("duplicating", BOTH, "session/new", NOWHERE),
    ("duplicating", BOTH, "session/fork", PLACE),
    ("not_retried", (1,), "session/prompt", PROMPT),
    ("keyed", (2,), "session/prompt", PROMPT),  # with a key: in recovery_test.py
    ("mcp_defined", (2,), "mcp/message", NOWHERE),
    ("not_retried", BOTH, "_test/act", NOWHERE),
]
NOTIFICATIONS = [
    *((BOTH, f"document/did{what}", {}) for what in ("Change", "Close", "Focus", "Open", "Save")),
    (BOTH, "nes/accept", NOWHERE),
    (BOTH, "nes/reject", NOWHERE),
    (BOTH, "mcp/message", NOWHERE),
    (BOTH, "session/cancel", {}),
    (BOTH, "_test/notice", NOWHERE),
]
# Of these the tests in recovery_verdicts_test.py tell more than the table does.
ELSEWHERE = {("initialize", 1), ("initialize", 2), ("$/cancel_request", 1), ("$/cancel_request", 2)}


@test()
def every_row_has_its_cases(room):
    listing = subprocess.run([room.keyhop, "rules", "--json"], capture_output=True, check=True).stdout
    wanted = {"request": {}, "notification": {}}
    for row in json.loads(listing):
        if row["direction"] in ("client_to_agent", "both"):
            for version in row["versions"]:
                wanted[row["kind"]][row["method"].replace("_*", "_"), int(version[1:])] = row["retryClass"]

    def named(method):
        return "_" if method.startswith("_") else method

    cases = {(named(method), v): kind for kind, versions, method, _ in REQUESTS for v in versions}
    notices = {(named(method), version) for versions, method, _ in NOTIFICATIONS for version in versions}
    missing = {row: kind for row, kind in wanted["request"].items() if row not in ELSEWHERE}
    expect_equal(sorted(cases.items()), sorted(missing.items()), "requests and their classes")
    expect_equal(sorted(notices), sorted(wanted["notification"].keys() - ELSEWHERE), "notifications")


def rows(*points):
    """Each request at each point."""
    return {
        f"{method} v{version} {point}": (retry_class, version, method, params, point)
        for retry_class, versions, method, params in REQUESTS
        for version in versions
        for point in points
    }


class Lost:
    """A keyhop, its client and the one request that the test is about."""

    def __init__(self, room, version, method, params, fault=None, command=None, options=()):
        """`fault`: when the agent reaches this point with the request ("answer=stall"). `command`: the
        agent's, in place of that."""
        # The first of session/new is the test's own where it opens a session, but it need not open one.
        self.opens = method != "session/new"
        point = fault and "{}:{}@1={}".format(fault.split("=")[0], method, fault.split("=")[1])
        self.room, self.version, self.method, self.params = room, version, method, params
        self.keyhop = room.start(*(once(point) if point else ()), command=command, options=options)
        self.client = self.keyhop.client
        self.client.initialize(version)
        self.session = self.client.new_session() if self.opens else None
        if method in ("session/resume", "session/load"):
            self.client.call("session/close", {"sessionId": self.session})
        self.number = None

    def send(self):
        named = dict(PLACE) if self.params is None else {"sessionId": self.session, **self.params}
        self.number = self.client.request(self.method, named)

    def answer(self):
        got = self.client.answers(self.number)
        return got[0] if got else self.client.answer(self.number)

    def finish(self, starts):
        """Ends all, with one exchange more; how often the agent acted because of the request."""
        expect("result" in self.client.call("_test/state"), "the last agent does not serve")
        finish(self.keyhop)
        expect_equal(len(self.room.history().epochs()), starts, "starts of the agent")
        # The restore may set what the client had before: an effect, but not the lost request's.
        wanted = (self.params or {}).get("value", (self.params or {}).get("modeId"))
        acts = self.room.history().acts(self.method)
        return sum(wanted in (None, act.get("value"), act.get("modeId")) for act in acts)


def is_sent_again(retry_class):
    return retry_class in ("idempotent", "duplicating")


@test(cases=rows("read", "acted", "answer"))
def sent(room, retry_class, version, method, params, point):
    """Lost when the agent had read it, acted on it, or was about to answer."""
    lost = Lost(room, version, method, params, f"{point}=kill KILL")
    lost.send()
    answer = lost.answer()
    effects = lost.finish(starts=2)
    before = 0 if point == "read" else 1
    if is_sent_again(retry_class):
        expect("result" in answer, f"the answer: {answer}")
        expect_equal(effects, before + 1, "effects")
        return
    expect_own_error(answer, -32603, "unknown")
    if method == "session/prompt" and point == "acted":
        expect(effects <= 1, "effects")  # it is read, not inserted yet, or already
    else:
        expect_equal(effects, before, "effects")


def gated_command(room):
    """The agent's first start is as ever; each later one waits until the test opens the gate."""
    os.mkfifo(room.path("gate"))
    script = 'if mkdir "$0" 2>/dev/null; then exec "$@"; fi; read _ <"$0/../gate"; exec "$@"'
    return ["sh", "-c", script, room.path("started"), *room.agent_command()]


def open_gate(room):
    """Waits until an agent stands before it."""
    with open(room.path("gate"), "w", encoding="ascii") as gate:
        gate.write("\n")


@test(cases=rows("until the agent serves"))
def held(room, retry_class, version, method, params, point):
    """Sent while there was no agent to take it: it never left, so every class is sent, once."""
    lost = Lost(room, version, method, params, command=gated_command(room))
    kill_agent(room)
    lost.send()
    synchronize(lost.client)
    open_gate(room)
    expect("result" in lost.answer(), f"the answer: {lost.answer()}")
    expect_equal(lost.finish(starts=2), 1, "effects")


STALLING = "read:initialize@1/2=stall"


def start_stalling(room, version, method, params):
    """The second agent does not get on with its initialize."""
    lost = Lost(room, version, method, params, command=room.agent_command(*once(STALLING)))
    kill_agent(room)
    wait_for(lambda: fault_struck(room))
    lost.send()
    synchronize(lost.client)
    return lost


@test(cases=rows("until the next but one"))
def held_for_an_agent_that_dies(room, retry_class, version, method, params, point):
    lost = start_stalling(room, version, method, params)
    kill_agent(room)
    expect("result" in lost.answer(), f"the answer: {lost.answer()}")
    expect_equal(lost.finish(starts=3), 1, "effects")


@test(cases=rows("held"))
def cancelled(room, retry_class, version, method, params, point):
    """A cancelled request that was never sent is not sent."""
    lost = start_stalling(room, version, method, params)
    lost.client.notify("$/cancel_request", {"requestId": lost.number})
    expect_own_error(lost.answer(), -32800, "not_sent")
    kill_agent(room)
    expect_equal(lost.finish(starts=3), 0, "effects")


@test(cases=rows("and acted on"))
def cancelling(room, retry_class, version, method, params, point):
    """A request that the client gave up is not sent again, whatever its class."""
    lost = Lost(room, version, method, params, "answer=stall")
    lost.send()
    wait_for(lambda: fault_struck(room))
    lost.client.notify("$/cancel_request", {"requestId": lost.number})
    synchronize(lost.client)
    kill_agent(room)
    expect_own_error(lost.answer(), -32800, "unknown")
    expect_equal(lost.finish(starts=2), 1, "effects")


# ---- With a key ----

KEYED = {"keys guarded": ("--keys=guard",), "keys forwarded": ("--keys=forward",)}


@test(cases={name: (options,) for name, options in KEYED.items()})
def a_keyed_prompt_that_was_held(room, options):
    """It never left, so it is sent; once."""
    command = gated_command(room)
    lost = Lost(room, 2, "session/prompt", {**PROMPT, "idempotencyKey": "k-1"}, None, command, options)
    kill_agent(room)
    lost.send()
    synchronize(lost.client)
    open_gate(room)
    expect("messageId" in lost.answer().get("result", {}), f"the answer: {lost.answer()}")
    expect_equal(lost.finish(starts=2), 1, "effects")


@test(cases={name: (options,) for name, options in KEYED.items()})
def a_keyed_prompt_that_was_being_cancelled(room, options):
    """It was inserted: its answer says so, or that nobody knows; it is not sent again."""
    params = {**PROMPT, "idempotencyKey": "k-1"}
    lost = Lost(room, 2, "session/prompt", params, "answer=stall", None, options)
    lost.send()
    wait_for(lambda: fault_struck(room))
    lost.client.notify("$/cancel_request", {"requestId": lost.number})
    synchronize(lost.client)
    kill_agent(room)
    answer = lost.answer()
    if "error" in answer:
        expect_own_error(answer, -32800, "unknown")
    lost.finish(starts=2)
    (insertion,) = room.history().insertions()
    if "result" in answer:
        expect_equal(answer["result"]["messageId"], insertion["messageId"], "the message")
    expect_equal(len(room.history().received(b'"session/prompt"')), 1, "prompts at the agents")


# ---- Notifications ----


def notifications(*points):
    return {
        f"{method} v{version} {point}": (version, method, params, point)
        for versions, method, params in NOTIFICATIONS
        for version in versions
        for point in points
    }


def notify(lost):
    session = {} if lost.params is None else {"sessionId": lost.session}
    lost.client.notify(lost.method, {**session, "mark": "this one"})


@test(cases=notifications("read", "acted"))
def a_lost_notification(room, version, method, params, point):
    """Never sent again."""
    lost = Lost(room, version, method, params, f"{point}=kill KILL")
    notify(lost)
    wait_for(lambda: len(room.history().epochs()) == 2)
    expect_equal(lost.finish(starts=2), 0 if point == "read" else 1, "effects")
    expect_equal(len(room.history().received(b"this one")), 1, "notifications at the agents")


@test(cases=notifications("held"))
def a_notification(room, version, method, params, point):
    """It never left, so it goes to the next agent; but a cancel is about what was lost."""
    lost = Lost(room, version, method, params, command=gated_command(room))
    kill_agent(room)
    notify(lost)
    synchronize(lost.client)
    open_gate(room)
    lost.finish(starts=2)
    count = 0 if method == "session/cancel" else 1
    expect_equal(len(room.history().received(b"this one")), count, "notifications at the agents")


if __name__ == "__main__":
    main(__doc__)
