"""Every component of a chain is killed at every step of recorded dialogues.

A step is a frame that somebody has read, or has written: a component, or the client. Each dialogue is run
once without a fault, and then once for each step and each component that dies just then: by itself where the
step is its own, else shot by whoever takes the step, who goes on when it is dead. All of them in long mode,
else a sample that is spread evenly. KEYHOP_SEED chooses another one.
"""

import os
import random
import shutil
import signal

import dialogues
from chain import Recorded, keyhop_of, proxies, with_proxies
from dialogues import DIALOGUES, Talk, Unusable
from harness import Failure, TimedOut, expect, expect_equal, main, test
from restart import once
from zeros import expect_three_zeros

LONG = os.environ.get("KEYHOP_TESTS_LONG") == "1"
STEPS = int(
    os.environ.get("KEYHOP_STEPS", "8")
)  # of one dialogue in the plain chain; in a nested one half of it
ONLY = os.environ.get("KEYHOP_STEP")  # as "p0, p1 written@1": p0 dies at that one; 20 times
KINDS = (("proxy", "fresh"), ("_proxy", "text"))
CHAINS = ("plain", "nested")
AGENT = "agent"
CLIENT = "client"


@dialogues.dialogue()
def an_elicitation(talk):
    session = talk.open()
    talk.turn(session, "[elicit]")
    talk.turn(session)


@dialogues.dialogue()
def mcp_messages(talk):
    session = talk.open()
    talk.client.notify("mcp/message", {"serverId": "s", "requestId": 0, "method": "notifications/x"})
    talk.turn(session, "[ext mcp/message]")
    talk.turn(session)


class Step:
    """`who` has read or written its frame of that number for the first time."""

    def __init__(self, who, point, number):
        self.who = who
        self.point = point
        self.number = number

    def __repr__(self):
        return f"{self.who} {self.point}@{self.number}"


class Run:
    """The whole dialogue, held through the chain while one component may die once."""

    def __init__(self, room, name, dialogue, nested, victim=None, step=None):
        self.directory = name
        self.room = room
        self.dialogue = dialogue
        self.victim = victim
        self.step = step
        os.mkdir(room.path(name))
        self.keys = ("--keys", dialogue.keys) if dialogue.keys else ()
        self.chain = proxies(room, KINDS, name + "/")
        for proxy in self.chain:
            proxy.command += self._fault(proxy.name, "--fault-times", "1")
        self.components = {proxy.name: proxy for proxy in self.chain}
        links = list(self.chain)
        if nested:
            links[1] = Recorded(
                room.path(f"{name}/record-keyhop"), keyhop_of(room, links[1], options=self.keys)
            )
            self.components["keyhop"] = links[1]
        self._hold(links)

    def _fault(self, name, *times):
        if self.step is None or self.step.who != name:
            return ()
        action = "kill KILL" if self.victim == name else f"shoot {self._record(self.victim)}"
        return ("--fault", f"{self.step.point}@{self.step.number}={action}", *times)

    def _record(self, name):
        return self.room.path(f"{self.directory}/record-{name}")

    def _hold(self, links):
        agent = ("--keys", "honour") if self.dialogue.keys == "forward" else ()
        fault = self._fault(AGENT)
        agent += once(fault[1]) if fault else ()
        places = {"history": f"{self.directory}/history", "wire": f"{self.directory}/wire"}
        self.components[AGENT] = Recorded(self._record(AGENT), self.room.agent_command(*agent, **places))
        keyhop = self.room.start(
            command=self.components[AGENT].command,
            options=("--log-level", "debug" if ONLY else "off", *self.keys, *with_proxies(*links)),
            environment={"XDG_STATE_HOME": self.room.path(f"{self.directory}/state")},
        )
        self.talk = Talk(keyhop.client, self.dialogue)
        if self.step and self.step.who == CLIENT:
            self._watch(keyhop.client)
        try:
            self.dialogue.script(self.talk)
        except Unusable:
            self.talk.usable = False
        self.steps_of_client = {"read": len(keyhop.client.received), "written": len(keyhop.client.sent)}
        keyhop.client.close_writing()
        keyhop.client.read_to_end()
        self.status = keyhop.wait()
        keyhop.client.close_reading()
        self.room.instances.remove(keyhop)
        self.history = self.room.history(*places.values())

    def _watch(self, client):
        """The client shoots when it has taken its step."""
        name = {"read": "receive", "written": "send"}[self.step.point]
        taken = getattr(client, name)
        count = 0

        def counted(*arguments):
            nonlocal count
            value = taken(*arguments)
            count += 1
            if count == self.step.number:
                self.components[self.victim].shoot()
            return value

        setattr(client, name, counted)

    def starts(self):
        return {name: len(component.pids()) for name, component in self.components.items()}

    def steps(self):
        """All that this run took."""
        counts = {
            proxy.name: {"read": len(proxy.read()), "written": len(proxy.written())} for proxy in self.chain
        }
        counts[AGENT] = {"read": len(self.history.received()), "written": len(self.history.sent())}
        counts[CLIENT] = self.steps_of_client
        return [
            Step(who, point, number)
            for who, both in counts.items()
            for point, count in both.items()
            for number in range(1, count + 1)
        ]

    def check(self, quiet):
        expect_three_zeros(self.talk, self.history)
        # An agent that dies once the client has closed has no successor.
        expect(self.status in (0, 128 + signal.SIGKILL), f"exit status {self.status}")
        expect(self.talk.usable or self._may_break(), "the dialogue was not held")
        starts = self.starts()
        for name, count in starts.items():
            expect(
                count <= self._starts_max(name, quiet, starts), f"starts: {starts}, without a fault {quiet}"
            )

    def _may_break(self):
        """An agent that dies before the connection stands has no successor, and neither has a proxy that dies
        before it was asked anything: of all that it is shot at, only others' first steps come that early."""
        return self.status != 0 if self.victim == AGENT else self.victim != self.step.who

    def _starts_max(self, name, quiet, starts):
        if self.victim == "keyhop" and name == self.chain[1].name:
            return starts["keyhop"] * quiet[name]  # it is in that one's care
        # A proxy that dies before it has initialized is asked in the other spelling, and in the first one
        # again.
        return quiet[name] + (0 if name != self.victim else 1 if name == AGENT else 2)


def chosen(seed, deaths, count):
    if ONLY:
        return [death for death in deaths if f"{death[0]}, {death[1]}" == ONLY] * 20
    if LONG:
        return deaths
    chance = random.Random(seed)
    part = max(1, len(deaths) / count)
    return [deaths[int(begin + chance.random() * part) % len(deaths)] for begin in every(len(deaths), part)]


def every(length, part):
    begin = 0.0
    while begin < length:
        yield begin
        begin += part


@test(
    seconds=7200 if LONG else 120,
    cases={f"{name}, {chain}": (name, chain == "nested") for name in DIALOGUES for chain in CHAINS},
)
def killed_at_every_step(room, name, nested):
    dialogue = DIALOGUES[name]
    quiet = Run(room, "recorded", dialogue, nested)
    expect_equal(quiet.status, 0, "exit status without any fault")
    starts = quiet.starts()
    quiet.check(starts)
    failed = [
        quiet.talk.client.answers(number) for number, asked in quiet.talk.asked.items() if not asked.cancelled
    ]
    expect(not any("error" in answers[0] for answers in failed), f"errors without any fault: {failed}")
    deaths = [(victim, step) for step in quiet.steps() for victim in quiet.components]
    count = 0
    seed = os.environ.get("KEYHOP_SEED", "4") + name
    for victim, step in chosen(seed, deaths, (STEPS + 1) // 2 if nested else STEPS):
        try:
            run = Run(room, f"run-{count}", dialogue, nested, victim, step)
            run.check(starts)
        except TimedOut:
            raise Failure(f"{victim}, {step}: the client waits for ever") from None
        except Exception as reason:
            raise Failure(f"{victim}, {step}: {type(reason).__name__} {reason}") from reason
        shutil.rmtree(room.path(run.directory))
        count += 1
    print(f"{name}: {count} kills", flush=True)


if __name__ == "__main__":
    main(__doc__)
