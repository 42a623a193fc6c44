"""What the tests of restarted agents share."""

import os
import signal

import processes
from harness import expect_equal

RESTARTING = ("--restart", "on-loss")
MANY_RESTARTS = (*RESTARTING, "--restart-limit", "1000/1")
SET_MODEL = {"configId": "model", "type": "id", "value": "m2"}


def start(room, *agent_options, options=RESTARTING, **more):
    return room.start(*agent_options, options=options, **more)


def kill_agent(room):
    """SIGKILL to the agent that started last, and its end."""
    pid = room.history().epochs()[-1]
    os.kill(pid, signal.SIGKILL)
    processes.wait_gone(pid)
    return pid


def finish(keyhop):
    """The client closes; keyhop ends well, and every request has got exactly one answer."""
    expect_equal(keyhop.close(), 0, "exit status")
    expect_settled(keyhop)


def expect_settled(keyhop):
    expect_equal(keyhop.client.unsettled(), {}, "requests without exactly one answer")


def once(fault):
    return ("--fault", fault, "--fault-once")


def fault_struck(room):
    """Whether the fault that strikes once has struck, or is just about to."""
    return os.path.exists(os.path.join(room.path("history"), "faults"))
