"""What the tests of the guard share: one agent's history and one ledger over many lives of keyhop."""

import collections
import os
import sqlite3

from harness import expect, expect_equal, wait_for

PLACE = {"cwd": "/w", "mcpServers": []}
OPEN, INSERTED = 1, 2  # states of a row
# The client's end is the end: nothing is waited for.
AT_ONCE = ("--drain", "0", "--kill-grace", "1")


class World:
    """Keyhops that come one after another (or live side by side), the ledger that they share, and the agent's
    own record. `state`: another world's name, to share its ledger."""

    def __init__(self, room, name="world", agent=(), options=AT_ONCE, state=None):
        self.room = room
        self.name = name
        self.options = tuple(options)
        self.command = room.agent_command(*agent, history=name, wire=f"wire-{name}")
        self.state = {"XDG_STATE_HOME": room.path(f"state-{state or name}")}
        self.history = room.history(name, f"wire-{name}")

    def at_first(self, *options):
        """The agent has these options too, at its first start only."""
        self.command = [*self.room.changing_command(options, ())[:4], *self.command]

    def ledger(self):
        return os.path.join(self.state["XDG_STATE_HOME"], "keyhop", "ledger.db")

    def begin(self, *options):
        """A keyhop in front of the agent."""
        return self.room.start(
            command=self.command, options=(*self.options, *options), environment=dict(self.state)
        )

    def back(self, session, *options, replay=False):
        """A further keyhop, whose client has resumed the session."""
        keyhop = self.begin(*options)
        keyhop.client.initialize()
        answer = resume(keyhop.client, session, replay)
        expect("result" in answer, f"the session was not resumed: {answer}")
        return keyhop

    def discard(self, keyhop):
        """After its end: what one test starts by the hundred is not kept."""
        for descriptor in (keyhop.client.input, keyhop.client.output):
            if descriptor is not None:
                os.close(descriptor)
        keyhop.client.input = keyhop.client.output = None
        self.room.instances.remove(keyhop)

    def _select(self, query):
        connection = sqlite3.connect(f"file:{self.ledger()}?mode=ro", uri=True, timeout=30)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def rows(self):
        """How many rows the ledger has, by session and state."""
        join = "sessions JOIN keyed_prompts AS prompts ON prompts.session = sessions.number"
        return collections.Counter(self._select(f"SELECT sessions.session, prompts.state FROM {join}"))

    def last_run(self):
        """The number of the keyhop that opened the ledger last."""
        return self._select("SELECT max(number) FROM runs")[0][0]

    # ---- what the agent did ----

    def has_received(self, *parts):
        return os.path.exists(self.history.wire) and self.history.received(*parts)

    def has_sent(self, *parts):
        return os.path.exists(self.history.wire) and self.history.sent(*parts)

    def has_obeyed(self):
        """Whether an order that is obeyed once was obeyed."""
        path = os.path.join(self.history.directory, "orders.jsonl")
        return os.path.exists(path) and os.path.getsize(path) > 0

    def insertions(self, key=None):
        return [row for row in self.history.insertions() if key is None or row.get("key") == key]

    def retained(self, key=None):
        """The user messages that the agent has stored for good."""
        return [row for row in self.history.user_messages() if key is None or row.get("key") == key]

    def wait_for_insertion(self, key, count=1):
        wait_for(lambda: len(self.insertions(key)) >= count)

    def word_for(self, answer, key, text):
        """What a keyed prompt's answer says: "id", "unknown" or "other text". A wrong messageId fails."""
        if "result" in answer:
            named = answer["result"]["messageId"]
            rows = [row for row in self.insertions(key) if row["messageId"] == named]
            expect_equal(len(rows), 1, f"insertions of {key!r} as {named}, the answer to {text!r}")
            expect_equal(rows[0]["prompt"][0]["text"], text, "what the answer's message says")
            return "id"
        error = answer["error"]
        expect_equal(error.get("data", {}).get("source"), "keyhop", f"who made {error}")
        if error["code"] == -32602:
            return "other text"
        expect_equal((error["code"], error["data"].get("outcome")), (-32603, "unknown"), f"{error}")
        return "unknown"


def resume(client, session, replay=False):
    params = {"sessionId": session, **PLACE}
    if replay:
        params["replayFrom"] = {"type": "start"}
    return client.call("session/resume", params)


def submit(client, session, text, key=None):
    """A prompt and its answer."""
    return client.answer(client.prompt(session, text, key))
