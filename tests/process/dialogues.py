"""Dialogues of a client with an agent, as scripts: they go on whatever happens to the agent meanwhile."""

PLACE = {"cwd": "/w", "mcpServers": []}
ALLOW = {"outcome": {"outcome": "selected", "optionId": "yes"}}


class Unusable(Exception):
    """The agent died before its first initialize was answered: keyhop does not go on."""


class Dialogue:
    def __init__(self, script, version, keys=None):
        self.script = script
        self.version = version
        self.keys = keys  # --keys, or None for no such option


class Asked:
    def __init__(self, method, params):
        self.method = method
        self.params = params
        self.cancelled = False

    def __repr__(self):
        return f"{self.method} {self.params}"


class Talk:
    """What a script speaks with. Requests of the agent's are answered whenever something is read."""

    def __init__(self, client, dialogue):
        self.client = client
        self.version = dialogue.version
        self.dialogue = dialogue
        self.usable = True
        self.asked = {}  # id -> Asked
        self.joined = []  # ids of requests that are one prompt
        self._count = 0

    def ask(self, method, params):
        number = self.client.request(method, params)
        self.asked[number] = Asked(method, params)
        return number

    def get(self, number):
        """The answer, as it came or comes."""
        while not (found := self.client.answers(number)):
            message = self.client.receive_message()
            if "method" in message and "id" in message:
                self.client.respond(message["id"], ALLOW)
        return found[0]

    def call(self, method, params):
        return self.get(self.ask(method, params))

    def hello(self, wait=True):
        params = {"protocolVersion": self.version}
        if self.version == 2:
            params |= {"info": {"name": "tests", "version": "1"}, "capabilities": {}}
        number = self.ask("initialize", params)
        return self.check(number) if wait else number

    def check(self, hello):
        if "error" in self.get(hello):
            raise Unusable

    def new(self):
        return self.call("session/new", PLACE)["result"]["sessionId"]

    def open(self):
        self.hello()
        return self.new()

    def prompt(self, session, orders="", key=None):
        """A prompt with a text of its own."""
        self._count += 1
        params = {"sessionId": session, "prompt": [{"type": "text", "text": f"{self._count} {orders}"}]}
        return self.ask("session/prompt", params if key is None else {**params, "idempotencyKey": key})

    def turn(self, session, orders=""):
        self.get(self.prompt(session, orders))
        self.look()

    def act(self):
        self._count += 1
        return self.ask("_test/act", {"n": self._count})

    def look(self):
        """The agent has dealt with all before this when it is answered."""
        self.call("auth/status", {})

    def cancel(self, number):
        self.asked[number].cancelled = True

    def may_fail(self, asked, error):
        """An error that a death may cause: nobody can know whether it was done, or it must not be undone."""
        data = error.get("data") or {}
        if asked.cancelled and error["code"] == -32800:
            return True
        if error["code"] != -32603 or data.get("source") != "keyhop" or data.get("outcome") != "unknown":
            return False
        if asked.method == "session/prompt":
            return self.dialogue.keys != "forward"
        return asked.method == "_test/act" or data["reason"] in ("newer_change", "replay_interrupted")


DIALOGUES = {}


def dialogue(keys=(None,), versions=(1, 2)):
    def register(script):
        for version in versions:
            for key in keys:
                name = f"{script.__name__} v{version}" + (f" {key}" if key else "")
                DIALOGUES[name] = Dialogue(script, version, key)

    return register


@dialogue()
def hello(talk):
    talk.hello()
    talk.call("session/list", {})


@dialogue()
def all_at_once_from_the_start(talk):
    first = talk.hello(wait=False)
    opened = talk.ask("session/new", PLACE)
    listing = talk.ask("session/list", {})
    talk.check(first)
    talk.get(opened)
    talk.get(listing)


@dialogue()
def open_close_resume(talk):
    session = talk.open()
    talk.call("session/close", {"sessionId": session})
    talk.call("session/resume", {"sessionId": session, **PLACE})
    talk.turn(session)


@dialogue()
def one_turn(talk):
    talk.turn(talk.open(), "[say hello]")


@dialogue()
def a_turn_of_many_updates(talk):
    talk.turn(talk.open(), "[updates 5 150] [tool t]")


@dialogue()
def three_turns(talk):
    session = talk.open()
    for _ in range(3):
        talk.turn(session)


@dialogue()
def three_prompts_at_once(talk):
    session = talk.open()
    for number in [talk.prompt(session) for _ in range(3)]:
        talk.get(number)
    talk.look()


@dialogue()
def settings(talk):
    session = talk.open()
    for value in ("m2", "m3"):
        params = {"sessionId": session, "configId": "model", "type": "id", "value": value}
        talk.call("session/set_config_option", params)
    if talk.version == 1:
        talk.call("session/set_mode", {"sessionId": session, "modeId": "plan"})
    talk.call("session/set_title", {"sessionId": session, "title": "t"})
    talk.turn(session)


@dialogue()
def the_agent_changes_settings(talk):
    session = talk.open()
    talk.turn(session, "[mode plan] [config model m3]")
    talk.turn(session)


@dialogue()
def a_fork(talk):
    session = talk.open()
    talk.turn(session)
    fork = talk.call("session/fork", {"sessionId": session, **PLACE})["result"]["sessionId"]
    talk.turn(fork)


@dialogue()
def two_sessions(talk):
    sessions = [talk.open(), talk.new()]
    for number in [talk.prompt(session, "[say x]") for session in sessions * 2]:
        talk.get(number)
    talk.look()


@dialogue()
def a_cancelled_turn(talk):
    session = talk.open()
    number = talk.prompt(session, "[hang]")
    talk.cancel(number)
    talk.client.notify("session/cancel", {"sessionId": session})
    talk.get(number)
    talk.turn(session)


@dialogue()
def a_cancelled_request(talk):
    session = talk.open()
    number = talk.prompt(session, "[hang]")
    talk.cancel(number)
    talk.client.notify("$/cancel_request", {"requestId": number})
    talk.get(number)
    talk.turn(session)


@dialogue()
def a_permission(talk):
    session = talk.open()
    talk.turn(session, "[permission]")
    talk.turn(session)


@dialogue()
def a_replay(talk):
    session = talk.open()
    talk.turn(session, "[say hello]")
    talk.call("session/close", {"sessionId": session})
    params = {"sessionId": session, **PLACE}
    if talk.version == 1:
        talk.call("session/load", params)
    else:
        talk.call("session/resume", {**params, "replayFrom": {"type": "start"}})
    talk.look()


@dialogue()
def acts(talk):
    talk.hello()
    for number in [talk.act() for _ in range(5)]:
        talk.get(number)


@dialogue()
def of_everything_some(talk):
    session = talk.open()
    numbers = [
        talk.ask("session/list", {}),
        talk.act(),
        talk.ask("session/status", {"sessionId": session}),
        talk.ask("session/set_title", {"sessionId": session, "title": "t"}),
        talk.prompt(session),
        talk.ask("session/fork", {"sessionId": session, **PLACE}),
        talk.act(),
        talk.ask("session/new", PLACE),
    ]
    for number in numbers:
        talk.get(number)
    talk.look()


@dialogue()
def a_login(talk):
    session = talk.open()
    talk.call("auth/login" if talk.version == 2 else "authenticate", {"methodId": "door"})
    talk.call("auth/status", {})
    talk.call("session/status", {"sessionId": session})
    talk.call("auth/logout" if talk.version == 2 else "logout", {})


@dialogue()
def archive_and_delete(talk):
    session = talk.open()
    for method in ("archive", "unarchive", "status", "delete"):
        talk.call(f"session/{method}", {"sessionId": session})
    talk.call("session/list", {})


@dialogue()
def unusual_characters(talk):
    session = talk.open()
    talk.turn(session, "\u4e2d\U0001f600 \\ \" \u2028 [say \u4e2d\U0001f600]")


def same_prompts(talk, key):
    session = talk.open()
    params = {"sessionId": session, "prompt": [{"type": "text", "text": "the same"}], **key}
    group = [talk.ask("session/prompt", params) for _ in range(3)]
    talk.joined.append(group)
    for number in group:
        talk.get(number)
    talk.look()


@dialogue(keys=("guard", "forward"), versions=(2,))
def keyed_prompts(talk):
    same_prompts(talk, {"idempotencyKey": "k-1"})


@dialogue(keys=("guard", "forward"), versions=(2,))
def two_keyed_turns(talk):
    session = talk.open()
    talk.get(talk.prompt(session, "[say a]", "k-1"))
    talk.get(talk.prompt(session, "[say b]", "k-2"))
    talk.look()
