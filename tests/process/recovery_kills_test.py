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
from restart import MANY_RESTARTS, SET_MODEL, finish, kill_agent, start


@test(seconds=600)
def many_restarts_leave_nothing_behind(room):
    """Descriptors and memory stay as they were after the first few."""
    count = 1000 if room.long else 100
    keyhop = start(room, options=(*MANY_RESTARTS, "--log-level", "off"))
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
                enough = self.conversation.successes + self.random.randint(20, 60)
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
        self.answers = {}  # id -> (message, when it came)
        self.successes = 0
        self.cancelled = set()

    def send_one(self):
        kind = self.random.choice(["keyed", "keyed", "unkeyed", "status", "act", "set", "fork"])
        session = self.random.choice(self.sessions)
        number = 1000 + len(self.requests)
        client = self.client
        self.requests[number] = self.open[number] = (kind, time.monotonic())
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
        else:  # what it opens is closed at once: restoring thousands would be another test
            client.request("session/fork", {"sessionId": self.sessions[0], "cwd": "/w"}, number)

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

    def delays(self, kills):
        """For each kill, how long until the last request that was open then had its answer; without prompts
        and acts, of which some are left open."""
        found = []
        for kill in kills:
            waits = [
                came - kill
                for number, (_, came) in self.answers.items()
                if self.requests[number][0] in ("status", "set", "fork")
                and self.requests[number][1] < kill < came
            ]
            if waits:
                found.append(max(waits))
        return sorted(found)


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


KILLS_A_ROUND = 50  # the test agent reads its whole history at each start


def random_round(room, name, keys, kills, seed):
    """One keyhop through that many kills; the requests sent, and the seconds from deaths to last answers."""
    # Of each agent's first requests some are acted on and not answered until it dies.
    silent = ("--leave-open", "_test/act@2", "--leave-open", "session/prompt@3")
    care = "honour" if keys == "forward" else "ignore"
    agent = room.agent_command("--keys", care, *silent, history=name, wire=None)
    keyhop = start(room, command=agent, options=(*MANY_RESTARTS, "--keys", keys, "--log-level", "off"))
    conversation = Conversation(keyhop.client, seed)
    killer = Killer(room.history(name), conversation, kills, seed)
    killer.start()
    conversation.run(killer.is_alive)
    killer.join()
    finish(keyhop)
    expect_three_zeros(conversation, room.history(name), keys)
    return len(conversation.requests), conversation.delays(killer.kills)


@test(seconds=1200, cases={"keys forwarded": "forward", "keys guarded": "guard"})
def random_kills(room, keys):
    seed = int(os.environ.get("KEYHOP_SEED", "4"))
    left = int(os.environ.get("KEYHOP_KILLS", "2000" if room.long else "200")) // 2
    kills = requests = 0
    delays = []
    while kills < left:
        count = min(KILLS_A_ROUND, left - kills)
        sent, waits = random_round(room, f"history-{kills}", keys, count, seed + kills)
        kills, requests, delays = kills + count, requests + sent, delays + waits
    delays.sort()
    print(
        f"{keys}: {kills} kills (seed {seed}), {requests} requests; from a death to the last answer:"
        f" median {delays[len(delays) // 2] * 1000:.0f} ms, max {delays[-1] * 1000:.0f} ms",
        file=sys.stderr,
        flush=True,
    )

if __name__ == "__main__":
    main(__doc__)
