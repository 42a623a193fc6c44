"""The agent is killed at every byte that it writes and that it reads, in the middle of recorded dialogues.

Each dialogue is run once without a fault, to count its bytes, and then once for each place where the agent
dies: all of them in long mode, else a sample that is spread evenly. KEYHOP_SEED chooses another one.
"""

import os
import random
import shutil
import signal

from dialogues import DIALOGUES, Talk, Unusable
from harness import Failure, TimedOut, expect, main, test
from restart import once
from zeros import expect_three_zeros

LONG = os.environ.get("KEYHOP_TESTS_LONG") == "1"
PLACES = 25  # of one dialogue, of its output and input together


def run(room, name, dialogue, fault=None):
    """The whole dialogue; its Talk and its history."""
    options = ("--keys", dialogue.keys) if dialogue.keys else ()
    agent = ("--keys", "honour") if dialogue.keys == "forward" else ()
    command = room.agent_command(*agent, *(once(fault) if fault else ()), history=name, wire=f"wire-{name}")
    state = {"XDG_STATE_HOME": room.path(f"state-{name}")}  # each dialogue is another agent's
    keyhop = room.start(command=command, options=("--log-level", "off", *options), environment=state)
    talk = Talk(keyhop.client, dialogue)
    try:
        dialogue.script(talk)
    except Unusable:
        talk.usable = False
    keyhop.client.close_writing()
    keyhop.client.read_to_end()
    status = keyhop.wait()
    keyhop.client.close_reading()
    room.instances.remove(keyhop)
    history = room.history(name, f"wire-{name}")
    died = os.path.exists(os.path.join(history.directory, "faults"))
    # An agent that dies before the connection stands, or once the client has closed, has no successor.
    expect(status in (0, 128 + signal.SIGKILL), f"exit status {status}")
    expect(status == 0 or died, "no agent died")
    expect(talk.usable or status != 0, "the dialogue was not held")
    expect(len(history.epochs()) <= 1 + died, "a start too many")
    return talk, history


def places(seed, lines):
    """Where to kill: ("output" or "input", byte). `lines`: all of either."""
    sizes = {side: sum(len(line) + 1 for line in every) for side, every in lines.items()}
    every = [(side, byte) for side, size in sizes.items() for byte in range(1, size + 1)]
    if LONG:
        return every
    chance = random.Random(seed)
    step = len(every) / PLACES
    spread = [every[int((part + chance.random()) * step)] for part in range(PLACES)]
    # Whether the connection stands is decided within these: a whole answer, without and with its line feed.
    first = len(lines["output"][0])
    return [("output", first), ("output", first + 1), *spread]


@test(seconds=7200 if LONG else 60, cases={name: name for name in DIALOGUES})
def killed_at_every_byte(room, name):
    dialogue = DIALOGUES[name]
    talk, history = run(room, "recorded", dialogue)
    expect_three_zeros(talk, history)
    failed = [talk.client.answers(number) for number, asked in talk.asked.items() if not asked.cancelled]
    expect(not any("error" in answers[0] for answers in failed), f"errors without any fault: {failed}")
    lines = {"output": history.sent(), "input": history.received()}
    seed = os.environ.get("KEYHOP_SEED", "4") + name
    for side, byte in places(seed, lines):
        place = f"{side}@{byte}"
        try:
            talk, history = run(room, place, dialogue, f"{place}=kill KILL")
            expect_three_zeros(talk, history)
        except TimedOut:
            raise Failure(f"killed at {place}: the client waits for ever") from None
        except Exception as reason:
            raise Failure(f"killed at {place}: {type(reason).__name__} {reason}") from reason
        shutil.rmtree(history.directory)
        shutil.rmtree(room.path(f"state-{place}"), ignore_errors=True)
        os.remove(history.wire)


if __name__ == "__main__":
    main(__doc__)
