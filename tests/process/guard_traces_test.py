"""The idempotency-keys RFD's own traces and the evaluator's checks, in front of an agent that ignores keys.

Effects are counted in the agent's history: messages inserted, and tools run for them.
"""

import json

from client import is_idle, prompt_params
from guard import World, resume, submit
from harness import expect, expect_equal, main, test
from restart import finish, kill_agent

AGENTS = {
    "plain": (),
    "late echo in chunks, marked replay, string ids": (
        "--echo",
        "late",
        "--chunked-echo",
        "--replay-complete",
        "--string-ids",
    ),
}


class Scene:
    """A client in front of keyhop, with one session."""

    def __init__(self, room, agent=()):
        self.room = room
        self.world = World(room, "history", agent)
        self.keyhop = self.world.begin()
        self.session = self.client.open()

    @property
    def client(self):
        return self.keyhop.client

    def submit(self, text, key="key-1", session=None):
        return submit(self.client, session or self.session, text, key)

    def submit_well(self, text, key="key-1", session=None):
        """The messageId."""
        answer = self.submit(text, key, session)
        expect("result" in answer, f"no success: {answer}")
        return answer["result"]["messageId"]

    def wait_until_idle(self):
        """The session's only turn has ended when this returns."""
        if not any(is_idle(json.loads(line)) for line in self.client.received):
            self.client.receive_until(is_idle)

    def reconnect(self):
        """The client closes, starts keyhop again and resumes the session."""
        finish(self.keyhop)
        self.keyhop = self.world.back(self.session)

    def restart_agent(self):
        """The agent is killed; keyhop has restored the session when this returns."""
        pid = self.world.history.epochs()[-1]
        expect_equal(kill_agent(self.room), pid, "the agent that was killed")
        self.client.call("session/status", {"sessionId": self.session})

    def release(self):
        self.client.order("[release]", self.session)

    def end(self, messages, keyed):
        """All turns end; counts what was inserted in all, and under the key by session."""
        finish(self.keyhop)
        expect_equal(len(self.world.insertions()), messages, "insertions")
        expect_equal(len(self.world.retained()), messages, "messages")
        for session, wanted in keyed.items():
            rows = [row["messageId"] for row in self.world.insertions("key-1") if row["sessionId"] == session]
            expect_equal(rows, wanted, f"messages of the key in {session}")


# ---- The RFD's traces: a retry … ----


@test(cases=AGENTS)
def on_the_same_connection(room, *agent):
    scene = Scene(room, agent)
    first = scene.submit_well("hello")
    for _ in range(3):
        expect_equal(scene.submit_well("hello"), first, "the retry's answer")
    scene.wait_until_idle()
    expect_equal(scene.submit_well("hello"), first, "the answer after the work")
    scene.end(1, {scene.session: [first]})


@test(cases=AGENTS)
def after_a_resume_on_a_new_connection(room, *agent):
    scene = Scene(room, agent)
    first = scene.submit_well("hello")
    for _ in range(3):
        scene.reconnect()
        expect_equal(scene.submit_well("hello"), first, "the retry's answer")
    scene.end(1, {scene.session: [first]})


@test(cases=AGENTS)
def before_the_resume_it_is_told_to_resume(room, *agent):
    scene = Scene(room, agent)
    first = scene.submit_well("hello")
    finish(scene.keyhop)
    scene.keyhop = scene.world.begin()
    scene.client.initialize()
    error = scene.submit("hello")["error"]
    expect_equal((error["code"], error["data"]["sessionId"]), (-32002, scene.session), "the error")
    expect("result" in resume(scene.client, scene.session), "the session was not resumed")
    expect_equal(scene.submit_well("hello"), first, "the retry's answer")
    scene.end(1, {scene.session: [first]})


@test(cases=AGENTS)
def after_the_agent_restarted(room, *agent):
    scene = Scene(room, agent)
    first = scene.submit_well("hello")
    for _ in range(3):
        scene.restart_agent()
        expect_equal(scene.submit_well("hello"), first, "the retry's answer")
    scene.end(1, {scene.session: [first]})


@test(cases=AGENTS)
def while_the_first_is_held(room, *agent):
    scene = Scene(room, agent)
    client = scene.client
    scene.submit_well("[hold] at work", "key-0")
    numbers = [client.prompt(scene.session, "held", "key-1") for _ in range(3)]
    client.call("_test/state")
    expect_equal([client.answers(number) for number in numbers], [[], [], []], "answers while it is held")
    scene.release()
    ids = [client.answer(number)["result"]["messageId"] for number in numbers]
    expect_equal(len(set(ids)), 1, "different answers")
    scene.end(2, {scene.session: [ids[0]]})


@test(cases=AGENTS)
def after_an_error(room, *agent):
    scene = Scene(room, agent)
    expect_equal(scene.submit("[error 32050] once")["error"]["code"], -32050, "the agent's error")
    first = scene.submit_well("[error 32050] once")
    expect_equal(scene.submit_well("[error 32050] once"), first, "the retry's answer")
    scene.end(1, {scene.session: [first]})


@test(cases=AGENTS)
def in_another_session_and_in_a_fork(room, *agent):
    scene = Scene(room, agent)
    first = scene.submit_well("hello")
    other = scene.client.new_session()
    second = scene.submit_well("hello", session=other)
    scene.client.receive_until(is_idle)
    place = {"sessionId": scene.session, "cwd": "/w", "mcpServers": []}
    fork = scene.client.call("session/fork", place)["result"]["sessionId"]
    third = scene.submit_well("hello", session=fork)
    for session, wanted in ((scene.session, first), (other, second), (fork, third)):
        expect_equal(scene.submit_well("hello", session=session), wanted, "the retry's answer")
    finish(scene.keyhop)
    expect_equal(
        [(row["sessionId"], row["messageId"]) for row in scene.world.insertions()],
        [(scene.session, first), (other, second), (fork, third)],
        "insertions",
    )


@test(cases=AGENTS)
def of_a_prompt_inserted_during_active_work(room, *agent):
    scene = Scene(room, agent)
    first = scene.submit_well("[hold] at work")
    expect_equal(scene.submit_well("[hold] at work"), first, "the retry while it is at work")
    scene.restart_agent()
    expect_equal(scene.submit_well("[hold] at work"), first, "the retry after the work's end")
    scene.reconnect()
    expect_equal(scene.submit_well("[hold] at work"), first, "the retry on a new connection")
    scene.end(1, {scene.session: [first]})


# ---- Its schema cases ----


@test(
    cases={
        "a valid key": ("k", 1, 1),
        "the longest key": ("k" * 255, 1, 1),
        "null is no key": (None, 2, 2),
        "an empty string": ("", 0, 0),
        "over 255 characters": ("k" * 256, 0, 0),
        "no string": (17, 0, 0),
    }
)
def schema(room, key, successes, insertions):
    scene = Scene(room)
    params = {**prompt_params(scene.session, "hello"), "idempotencyKey": key}
    answers = [scene.client.call("session/prompt", params) for _ in range(2)]
    ids = {answer["result"]["messageId"] for answer in answers if "result" in answer}
    codes = [answer["error"]["code"] for answer in answers if "error" in answer]
    expect_equal(len(ids), successes, "different messageIds")
    expect_equal(codes, [] if successes else [-32602, -32602], "errors")
    finish(scene.keyhop)
    expect_equal(len(scene.world.insertions()), insertions, "insertions")
    expect_equal(len(scene.world.history.received(b"session/prompt")), insertions, "prompts at the agent")


# ---- The evaluator's checks ----


def everywhere(scene, check):
    """On this connection, after the agent's restart and on a new connection."""
    check()
    scene.restart_agent()
    check()
    scene.reconnect()
    check()
    scene.restart_agent()
    check()


@test()
def a_replayed_request_gets_the_stored_result_and_no_second_transition(room):
    scene = Scene(room)
    text = "[tool migrate] run the migration"
    first = scene.submit_well(text)
    scene.client.receive_until(is_idle)
    everywhere(scene, lambda: expect_equal(scene.submit_well(text), first, "the stored result"))
    scene.end(1, {scene.session: [first]})
    expect_equal(len(scene.world.history.effects("tool")), 1, "work done")


@test()
def a_key_with_changed_intent_gets_a_stable_error(room):
    scene = Scene(room)
    first = scene.submit_well("transfer 10")
    scene.client.receive_until(is_idle)
    errors = []
    everywhere(scene, lambda: errors.append(scene.submit("transfer 1000")["error"]))
    expect_equal(errors[0]["code"], -32602, "the error's code")
    expect_equal(errors, errors[:1] * 4, "the error each time")
    expect_equal(scene.submit_well("transfer 10"), first, "the first prompt's answer afterwards")
    scene.end(1, {scene.session: [first]})
    expect_equal(scene.world.history.received(b"transfer 1000"), [], "of the changed intent at the agent")


@test()
def a_conflict_takes_a_new_decision_with_a_new_key(room):
    scene = Scene(room)
    stale = "[error 32009] [tool stale] set it to 2"
    expect_equal(scene.submit(stale, "key-stale")["error"]["code"], -32009, "the conflict")
    scene.submit_well("[tool other] somebody else's change", "key-0")
    scene.client.receive_until(is_idle)
    # The client reads again what is there …
    place = {"sessionId": scene.session, "cwd": "/w", "mcpServers": [], "replayFrom": {"type": "start"}}
    number = scene.client.request("session/resume", place)
    scene.client.answer(number)
    shown = [json.loads(line) for line in scene.client.received if b'"user_message"' in line]
    texts = [message["params"]["update"]["content"][0]["text"] for message in shown]
    expect("[tool other] somebody else's change" in texts, f"what was read again: {texts}")
    # … and decides anew.
    second = scene.submit_well("[tool new] set it to 3")
    scene.client.receive_until(is_idle)
    everywhere(scene, lambda: expect_equal(scene.submit_well("[tool new] set it to 3"), second, "the retry"))
    scene.end(2, {scene.session: [second]})
    tools = [row["tool"] for row in scene.world.history.effects("tool")]
    expect_equal(tools, ["other", "new"], "work done")


@test()
def effects_are_counted_at_the_agent_not_attempts(room):
    scene = Scene(room)
    text = "[tool deploy] deploy"
    attempts = 0
    answers = set()

    def retry():
        nonlocal attempts
        for _ in range(5):
            attempts += 1
            answers.add(scene.submit_well(text))

    retry()
    scene.wait_until_idle()
    everywhere(scene, retry)
    expect_equal(len(answers), 1, "different answers")
    scene.end(1, {scene.session: list(answers)})
    expect_equal((attempts, len(scene.world.history.effects("tool"))), (25, 1), "attempts and effects")


if __name__ == "__main__":
    main(__doc__)
