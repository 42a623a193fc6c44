"""Many deaths in one run, at moments that nobody chose: nothing twice, nothing lost, nothing left behind."""

import json
import os
import random
import signal
import sys
import threading
import time

import processes
from harness import expect, expect_equal, expect_own_error, main, test, wait_for
from lateness import LATE_BOUND, STRICT, Heartbeat, Lateness
from restart import MANY_RESTARTS, SET_MODEL, finish, kill_agent


@test(seconds=600)
def many_restarts_leave_nothing_behind(room):
    """Descriptors and memory stay as they were after the first few."""
    count = 1000
    keyhop = room.start(options=(*MANY_RESTARTS, "--log-level", "off"))
    client = keyhop.client
    session = client.open()
    marks = []
    for number in range(count):
        kill_agent(room)
        client.call("session/list", {})
        client.call("session/set_title", {"sessionId": session, "title": str(number)})
        if number in (count // 5, count - 1):
            marks.append((processes.descriptors(keyhop.pid), processes.status_number(keyhop.pid, "VmRSS")))
        living = [pid for pid in processes.descendants(keyhop.pid) if processes.is_test_agent(pid)]
        expect(len(living) == 1, f"{len(living)} agents live")
    (descriptors, memory), (descriptors_after, memory_after) = marks
    finish(keyhop)
    expect_equal(len(room.history().epochs()), count + 1, "starts of the agent")
    expect_equal(descriptors_after, descriptors, "descriptors")
    expect(memory_after <= memory + 512, f"memory grew from {memory} to {memory_after} KiB")


class Killer(threading.Thread):
    """SIGKILL to each agent in turn, at a moment that the seed decides: most of them while they serve, some
    while they start or restore (two of those on end make keyhop wait longer, so not all)."""

    def __init__(self, history, conversation, count, seed):
        super().__init__(daemon=True)
        self.history = history
        self.conversation = conversation
        self.count = count
        self.random = random.Random(seed)
        self.kills = []  # when

    def run(self):
        known = 0
        while len(self.kills) < self.count:
            wait_for(lambda: len(self.history.epochs()) > known)
            pids = self.history.epochs()
            known = len(pids)
            if self.random.random() < 0.8:
                enough = self.conversation.successes + self.random.randint(5, 40)
                wait_for(lambda: self.conversation.successes >= enough)
                time.sleep(self.random.uniform(0, 0.002))
            else:
                time.sleep(self.random.uniform(0, 0.01))
            self.kills.append(time.monotonic())
            os.kill(pids[-1], signal.SIGKILL)
            processes.wait_gone(pids[-1])


class Conversation:
    """A client that keeps many requests of all kinds open."""

    OPEN_MAX = 20

    def __init__(self, client, seed):
        self.client = client
        self.random = random.Random(seed)
        client.initialize()
        self.sessions = [client.new_session() for _ in range(5)]
        self.open = {}
        self.requests = {}  # id -> (kind, when it was sent)
        self.sessions_of = {}  # id -> the session that it names, or None
        self.answers = {}  # id -> (message, when it came)
        self.successes = 0
        self.cancelled = set()

    def send_one(self):
        kind = self.random.choice(["keyed", "keyed", "unkeyed", "status", "act", "set", "fork"])
        session = None if kind == "act" else self.random.choice(self.sessions)
        number = 1000 + len(self.requests)
        client = self.client
        self.requests[number] = self.open[number] = (kind, time.monotonic())
        self.sessions_of[number] = session
        if kind == "keyed":
            client.prompt(session, f"p{number}", f"k{number}", number)
        elif kind == "unkeyed":
            client.prompt(session, f"p{number}", None, number)
        elif kind == "status":
            client.request("session/status", {"sessionId": session}, number)
        elif kind == "act":
            client.request("_test/act", {"n": number}, number)
        elif kind == "set":
            client.request("session/set_config_option", {"sessionId": session, **SET_MODEL}, number)
        else:  # what it opens is deleted at once: restoring thousands would be another test
            client.request("session/fork", {"sessionId": session, "cwd": "/w"}, number)

    def receive_one(self):
        message = self.client.receive_message()
        if "method" not in message and message["id"] in self.requests:
            self.open.pop(message["id"], None)
            self.answers[message["id"]] = (message, time.monotonic())
            self.successes += "result" in message
            opened = message.get("result", {}).get("sessionId")
            if opened:
                self.client.request("session/delete", {"sessionId": opened})
        return message

    def run(self, goes_on):
        while goes_on():
            while len(self.open) < self.OPEN_MAX:
                self.send_one()
            self.receive_one()
        listing = self.client.request("session/list", {})
        while self.receive_one().get("id") != listing:  # the last agent serves then
            pass
        self.cancelled = set(self.open)
        for number in self.cancelled:
            self.client.notify("$/cancel_request", {"requestId": number})
        while self.open:
            self.receive_one()


def expect_three_zeros(conversation, history, keys):
    """No effect twice, no success without its effect, no error where one may be sent again."""
    messages = {json.loads(row["sent"])[0]["text"] for row in history.user_messages()}
    acts = [row["params"]["n"] for row in history.acts("_test/act")]
    # Each prompt has a text of its own, and a fork's copies are no insertions.
    inserted = [row["hash"] for row in history.insertions()]
    expect_equal(len(inserted), len(set(inserted)), "different prompts among those inserted")
    expect_equal(len(acts), len(set(acts)), "different acts among those done")
    for number, (message, _) in conversation.answers.items():
        kind = conversation.requests[number][0]
        if kind in ("keyed", "unkeyed") and "result" in message:
            expect(f"p{number}" in messages, f"{kind} prompt {number} was answered and is not there")
        if kind == "act" and "result" in message:
            expect(number in acts, f"act {number} was answered and is not done")
        if number in conversation.cancelled and "error" in message:
            expect_equal(message["error"]["code"], -32800, "the answer to a cancelled request")
        elif kind in ("status", "set", "fork") or (kind == "keyed" and keys == "forward"):
            expect("result" in message, f"{kind} {number}: {message}")
        elif "error" in message:
            expect_own_error(message, -32603)


KILLS_A_ROUND = 50  # the test agent reads its sessions at each start
SHARDS = 4  # of each kind, side by side


def random_round(room, name, keys, kills, seed):
    """One keyhop through that many kills; how many requests there were and how late their answers came."""
    # Of each agent's first requests some are acted on and not answered until it dies.
    silent = ("--leave-open", "_test/act@2", "--leave-open", "session/prompt@3")
    care = "honour" if keys == "forward" else "ignore"
    wire = f"wire-{name}"
    agent = room.agent_command("--keys", care, "--wire-clock", *silent, history=name, wire=wire)
    options = (*MANY_RESTARTS, "--keys", keys, "--log-level", "off")
    state = {"XDG_STATE_HOME": room.path(f"state-{name}")}  # each round is another agent's
    keyhop = room.start(command=agent, options=options, environment=state)
    with Heartbeat() as heartbeat:
        conversation = Conversation(keyhop.client, seed)
        killer = Killer(room.history(name), conversation, kills, seed)
        killer.start()
        conversation.run(killer.is_alive)
        killer.join()
    finish(keyhop)
    history = room.history(name, wire)
    expect_three_zeros(conversation, history, keys)
    return len(conversation.requests), Lateness(conversation, history, killer.kills, heartbeat).check()


@test(
    seconds=600,
    cases={
        f"keys {keys}, {shard + 1} of {SHARDS}": (keys, shard)
        for keys in ("forward", "guard")
        for shard in range(SHARDS)
    },
)
def random_kills(room, keys, shard):
    seed = int(os.environ.get("KEYHOP_SEED", "4")) + 1_000_000 * shard
    left = int(os.environ.get("KEYHOP_KILLS", "10000" if room.long else "2000")) // (2 * SHARDS)
    kills = requests = 0
    late = []
    while kills < left:
        count = min(KILLS_A_ROUND, left - kills)
        sent, times = random_round(room, f"history-{kills}", keys, count, seed + kills)
        kills, requests, late = kills + count, requests + sent, late + times
    late.sort()
    median, high, most = (1000 * late[int(part * (len(late) - 1))] for part in (0.5, 0.99, 1))
    print(
        f"{keys}: {kills} kills (seed {seed}), {requests} requests; from what decided an answer to its"
        f" receipt: median {median:.1f} ms, 99 % {high:.1f} ms, max {most:.0f} ms",
        file=sys.stderr,
        flush=True,
    )


def expect_prompt_errors(keyhop, numbers, decided, heartbeat):
    """Each of these requests has an error at once after decided()."""
    came = {}
    while len(came) < len(numbers):
        message = keyhop.client.receive_message()
        if message.get("id") in numbers:
            came[message["id"]] = time.monotonic()
            expect("error" in message, f"no error: {message}")
    since = wait_for(decided)
    last = max(came.values())
    late = last - since
    most = heartbeat.late_max(since, last) if STRICT else LATE_BOUND
    expect(late <= most, f"{late * 1000:.0f} ms late")


@test()
def errors_come_at_once_where_a_restore_is_refused(room):
    refusing = ("--wire-clock", "--refuse", "session/resume=-32002/2")
    keyhop = room.start(*refusing)
    client = keyhop.client
    session = client.open()
    with Heartbeat() as heartbeat:
        kill_agent(room)
        numbers = [client.prompt(session, f"held {number}") for number in range(50)]

        def refused():
            lines = room.history().clocked()  # the record is written after the refusal
            return next((moment for way, moment, line in lines if way == ">" and b"-32002" in line), None)

        expect_prompt_errors(keyhop, numbers, refused, heartbeat)
    finish(keyhop)


@test()
def errors_come_at_once_where_the_budget_is_spent(room):
    keyhop = room.start(options=("--restart-limit", "1/60"))
    client = keyhop.client
    session = client.open()
    kill_agent(room)
    client.call("session/list", {})
    numbers = [client.prompt(session, f"[hang] {number}") for number in range(50)]
    client.call("_test/state")
    with Heartbeat() as heartbeat:
        kill_agent(room)
        gone = time.monotonic()
        numbers.append(client.request("session/list", {}))
        expect_prompt_errors(keyhop, numbers, lambda: gone, heartbeat)
    expect_equal(keyhop.close(), 75, "exit status")


if __name__ == "__main__":
    main(__doc__)
