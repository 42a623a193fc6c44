"""Every component of a chain is killed at every step of recorded dialogues.

A step is a frame that the component has read, or has written. Each dialogue is run once without a fault, and
then once for each component and step: all of them in long mode, else a sample that is spread evenly.
KEYHOP_SEED chooses another one.
"""

import os
import random
import shutil
import signal

from chain import proxies, with_proxies
from dialogues import DIALOGUES, Talk, Unusable
from harness import Failure, TimedOut, expect, expect_equal, main, test
from restart import once
from zeros import expect_three_zeros

LONG = os.environ.get("KEYHOP_TESTS_LONG") == "1"
STEPS = int(os.environ.get("KEYHOP_STEPS", "12"))  # of one dialogue, of all components together
ONLY = os.environ.get("KEYHOP_STEP")  # as "p0, written@1": that one, 20 times
KINDS = (("proxy", "fresh"), ("_proxy", "text"))
AGENT = "agent"


class Run:
    """The whole dialogue, held through the chain while one component may die once."""

    def __init__(self, room, name, dialogue, victim=None, fault=None):
        self.directory = name
        os.mkdir(room.path(name))
        self.chain = proxies(
            room, [self._kind(kind, f"p{n}" == victim, fault) for n, kind in enumerate(KINDS)]
        )
        for proxy in self.chain:
            inside = room.path(f"{name}/record-{proxy.name}")
            proxy.command[proxy.command.index(proxy.record)] = inside
            proxy.record = inside
        options = (*(("--keys", dialogue.keys) if dialogue.keys else ()), *with_proxies(*self.chain))
        agent = ("--keys", "honour") if dialogue.keys == "forward" else ()
        agent += once(fault) if victim == AGENT else ()
        places = {"history": f"{name}/history", "wire": f"{name}/wire"}
        state = {"XDG_STATE_HOME": room.path(f"{name}/state")}
        keyhop = room.start(
            command=room.agent_command(*agent, **places),
            options=("--log-level", "debug" if ONLY else "off", *options),
            environment=state,
        )
        self.talk = Talk(keyhop.client, dialogue)
        try:
            dialogue.script(self.talk)
        except Unusable:
            self.talk.usable = False
        keyhop.client.close_writing()
        keyhop.client.read_to_end()
        self.status = keyhop.wait()
        keyhop.client.close_reading()
        room.instances.remove(keyhop)
        self.history = room.history(*places.values())

    @staticmethod
    def _kind(kind, dies, fault):
        return (*kind, "--fault", fault, "--fault-times", "1") if dies else kind

    def starts(self):
        return {
            **{proxy.name: len(proxy.pids()) for proxy in self.chain},
            AGENT: len(self.history.epochs()),
        }

    def steps(self):
        """(component, fault) of all that it read and wrote."""
        counts = {proxy.name: (len(proxy.read()), len(proxy.written())) for proxy in self.chain}
        counts[AGENT] = (len(self.history.received()), len(self.history.sent()))
        return [
            (name, f"{point}@{number}=kill KILL")
            for name, both in counts.items()
            for point, count in zip(("read", "written"), both, strict=True)
            for number in range(1, count + 1)
        ]

    def check(self, quiet, victim):
        expect_three_zeros(self.talk, self.history)
        # An agent that dies before the connection stands, or once the client has closed, has no successor.
        expect(self.status in (0, 128 + signal.SIGKILL), f"exit status {self.status}")
        expect(self.talk.usable or (victim == AGENT and self.status != 0), "the dialogue was not held")
        for name, count in self.starts().items():
            # A proxy that dies before it has initialized is asked in the other spelling, and in the first one
            # again.
            most = quiet[name] + (0 if name != victim else 1 if name == AGENT else 2)
            expect(count <= most, f"{name} was started {count} times, not {most}")


def chosen(seed, steps):
    if ONLY:
        return [step for step in steps if ONLY in ", ".join(step)] * 20
    if LONG:
        return steps
    chance = random.Random(seed)
    part = max(1, len(steps) / STEPS)
    return [steps[int(begin + chance.random() * part) % len(steps)] for begin in every(len(steps), part)]


def every(length, part):
    begin = 0.0
    while begin < length:
        yield begin
        begin += part


@test(seconds=7200 if LONG else 120, cases={name: name for name in DIALOGUES})
def killed_at_every_step(room, name):
    dialogue = DIALOGUES[name]
    quiet = Run(room, "recorded", dialogue)
    expect_equal(quiet.status, 0, "exit status without any fault")
    quiet.check(quiet.starts(), None)
    failed = [
        quiet.talk.client.answers(number) for number, asked in quiet.talk.asked.items() if not asked.cancelled
    ]
    expect(not any("error" in answers[0] for answers in failed), f"errors without any fault: {failed}")
    for count, (victim, fault) in enumerate(chosen(os.environ.get("KEYHOP_SEED", "4") + name, quiet.steps())):
        place = f"{victim}, {fault}"
        try:
            run = Run(room, f"run-{count}", dialogue, victim, fault)
            run.check(quiet.starts(), victim)
        except TimedOut:
            raise Failure(f"{place}: the client waits for ever") from None
        except Exception as reason:
            raise Failure(f"{place}: {type(reason).__name__} {reason}") from reason
        shutil.rmtree(room.path(run.directory))
    print(f"{name}: {count + 1} kills", flush=True)


if __name__ == "__main__":
    main(__doc__)
