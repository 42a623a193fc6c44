"""Short dialogues that go on whatever fails. What a script asked and was told stays in its Life."""

import os
import signal

from guard import AT_ONCE, PLACE, World
from harness import wait_for


class Gone(Exception):
    """keyhop has ended."""


class Life:
    """One dialogue with its agent's history, its ledger and its keyhops. `page`: the plan of all of them."""

    def __init__(self, room, name, library, page, agent=()):
        self.world = World(room, name, agent, options=AT_ONCE)
        self.library = library
        self.page = page
        self.keyhops = []
        self.begins = []  # where in the file the words of each begin
        self.session = None
        self.inserted_before = set()  # keys, before the last keyhop began
        self.keyed = {}  # key -> text
        self.told = []  # method, key, answer; in the order of the answers
        self.refused_early = []  # keys that were inserted although "not sent"
        self.signalled = False

    def begin(self):
        """A keyhop with the plan."""
        preload = {"LD_PRELOAD": self.library, "FAULT_PAGE": self.page.path}
        world = self.world
        path = world.room.path(f"stderr-{len(world.room.instances)}")  # a file may have served before
        begin = os.path.getsize(path) if os.path.exists(path) else 0
        self.inserted_before = {row.get("key") for row in world.insertions()}
        keyhop = world.room.start(
            command=world.command, options=world.options, environment={**world.state, **preload}
        )
        self.keyhops.append(keyhop)
        self.begins.append(begin)

    @property
    def keyhop(self):
        return self.keyhops[-1]

    def words(self):
        """What the last keyhop said on stderr."""
        return self.keyhop.stderr()[self.begins[-1] :]

    def ask(self, method, params, key=None):
        try:
            return method, key, self.keyhop.client.request(method, params)
        except BrokenPipeError:
            raise Gone from None

    def get(self, asked):
        method, key, number = asked
        try:
            answer = self.keyhop.client.answer(number)
        except (EOFError, ConnectionResetError):
            raise Gone from None
        self.told.append((method, key, answer))
        if key and answer.get("error", {}).get("data", {}).get("outcome") == "not_sent":
            # Of an earlier keyhop's insertion this one, without its ledger, cannot know.
            was_sent = self.world.insertions(key) and key not in self.inserted_before
            self.refused_early += [key] if was_sent else []
        return answer

    def call(self, method, params):
        return self.get(self.ask(method, params))

    def hello(self):
        client = {"info": {"name": "tests", "version": "1"}, "capabilities": {}}
        self.call("initialize", {"protocolVersion": 2, **client})

    def open(self):
        """initialize and session/new. Gone if there is no session to speak in."""
        self.hello()
        answer = self.call("session/new", PLACE)
        if "result" not in answer:
            raise Gone
        self.session = answer["result"]["sessionId"]

    def prompt(self, text, key=None):
        params = {"sessionId": self.session, "prompt": [{"type": "text", "text": text}]}
        if key:
            self.keyed.setdefault(key, text)
            params["idempotencyKey"] = key
        return self.ask("session/prompt", params, key)

    def is_living(self):
        """Does not reap it, so that its number stays its own."""
        return os.waitid(os.P_PID, self.keyhop.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def wait_for_insertion(self, key, asked):
        """Or for another end of that prompt."""
        client = self.keyhop.client
        wait_for(
            lambda: self.world.insertions(key)
            or not self._read(client)
            or client.answers(asked[2])
            or not self.is_living()
        )

    def _read(self, client):
        """Takes what has come; False at the end."""
        client._fill()
        while client.lines:
            client.receive()
        return not client.at_end


DIALOGUES = {}


def dialogue(*agent, status=0):
    """`status`: how keyhop ends in it."""

    def register(script):
        DIALOGUES[script.__name__] = (script, agent, status)
        return script

    return register


@dialogue()
def plain(life):
    life.begin()
    life.open()
    life.get(life.prompt("[updates 3 200] work"))
    life.call("session/list", {})


@dialogue()
def keyed(life):
    life.begin()
    life.open()
    first = life.prompt("[insert_after 5] one", "key-1")
    again = life.prompt("[insert_after 5] one", "key-1")  # joins
    life.get(first)
    life.get(again)
    life.get(life.prompt("without"))
    life.get(life.prompt("two", "key-2"))
    life.get(life.prompt("[insert_after 5] one", "key-1"))  # from memory
    life.call("session/list", {})


@dialogue()
def agent_dies(life):
    life.begin()
    life.open()
    life.get(life.prompt("zero", "key-0"))
    life.get(life.prompt("[die after_insert] one", "key-1"))
    life.get(life.prompt("[die before_insert] two", "key-2"))
    life.call("session/list", {})


@dialogue()
def family(life):
    """Descendants of all kinds; the agent is killed, the next one ended."""
    life.begin()
    life.open()
    for relation in ("plain", "session", "orphan"):
        life.get(life.prompt(f"[grandchild {relation}] {relation}"))
    life.get(life.prompt("[die now] one", "key-1"))
    life.get(life.prompt("[grandchild session] two", "key-2"))


def begin_unanswered(life):
    """One prompt answered, one inserted whose answer does not come; its id."""
    life.begin()
    life.open()
    life.get(life.prompt("zero", "key-0"))
    asked = life.prompt("[no_answer] one", "key-1")
    life.wait_for_insertion("key-1", asked)
    return asked


@dialogue()
def keyhop_dies(life):
    begin_unanswered(life)
    life.keyhop.kill()
    life.begin()
    life.hello()
    life.call("session/resume", {"sessionId": life.session, **PLACE})
    if "key-1" not in life.inserted_before:
        return  # the first time it is not answered
    life.get(life.prompt("[no_answer] one", "key-1"))
    life.get(life.prompt("two", "key-2"))


@dialogue(status=128 + signal.SIGTERM)
def terminated(life):
    asked = begin_unanswered(life)
    if not life.is_living():
        raise Gone
    life.keyhop.signal(signal.SIGTERM)
    life.signalled = True
    life.get(asked)
