"""What the tests of restarted agents share."""

import os
import signal

import processes
from harness import expect_equal

NEVER = ("--restart", "never")
MANY_RESTARTS = ("--restart-limit", "1000/1")
SET_MODEL = {"configId": "model", "type": "id", "value": "m2"}


def kill_agent(room):
    """SIGKILL to the agent that started last, and its end."""
    pid = room.history().epochs()[-1]
    os.kill(pid, signal.SIGKILL)
    processes.wait_gone(pid)
    return pid


def prompt_at_death(keyhop, room, session, text):
    """A prompt that keyhop finds together with the agent's death: it is held, however fast the restore is."""
    keyhop.signal(signal.SIGSTOP)
    kill_agent(room)
    number = keyhop.client.prompt(session, text)
    keyhop.signal(signal.SIGCONT)
    return number


def finish(keyhop):
    """The client closes; keyhop ends well, and every request has got exactly one answer."""
    expect_equal(keyhop.close(), 0, "exit status")
    expect_settled(keyhop)


def expect_settled(keyhop):
    expect_equal(keyhop.client.unsettled(), {}, "requests without exactly one answer")


def once(fault):
    return ("--fault", fault, "--fault-once")


def fault_struck(room):
    """Whether the fault that strikes once has struck, or is just about to: it is written down."""
    path = os.path.join(room.path("history"), "faults")
    return os.path.exists(path) and os.path.getsize(path) > 0


def synchronize(client):
    """keyhop has read all that was sent when this returns, whatever its agent does: it answers this bad frame
    itself, in its turn."""
    client.send({"jsonrpc": "2.0", "id": "synchronize", "method": 7})
    client.answer("synchronize")
