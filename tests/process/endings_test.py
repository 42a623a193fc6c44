"""Every way in which keyhop and its agent can end: the exit status, the answers, and that nothing is left."""

import json
import os
import signal
import sys
import time

import processes
from harness import expect, expect_equal, main, test
from restart import NEVER

# Everything that belongs to the agent, in every relation to it. Not the daemon, which is left alone.
FAMILY = (
    "[grandchild plain] [grandchild group] [grandchild session] [grandchild orphan] [grandchild stubborn]"
)
FAMILY_SIZE = 5


def start_family(room, *agent_options, grace="0.3", options=()):
    """keyhop, its agent with descendants of all kinds, one session and one open request (id 7)."""
    keyhop = room.start(*agent_options, options=("--kill-grace", grace, "--drain", "0.1", *options))
    client = keyhop.client
    session = client.open()
    client.turn(session, FAMILY)
    client.prompt(session, "[hang] open", request_id=7)
    client.call("_test/state")
    spawned = room.history().spawned()
    expect_equal(sum(map(len, spawned.values())), FAMILY_SIZE, "spawned processes")
    return keyhop


def expect_lost(client, reason=None):
    """Request 7 gets exactly one error of keyhop's, and stdout ends."""
    client.read_to_end()
    answers = [message for message in map(json.loads, client.received) if message.get("id") == 7]
    expect_equal(len(answers), 1, "answers to the open request")
    error = answers[0]["error"]
    expect_equal((error["code"], error["data"]["outcome"]), (-32603, "unknown"), "the open request's error")
    return error["data"].get("agent", {})


def agent_pid(client):
    return client.call("_test/state")["result"]["pid"]


# ---- Each ending, counted ----

RUDE = ("--ignore-eof", "--ignore-term")


@test(repeated=True, cases={"polite agent": (), "agent that ignores EOF and TERM": (RUDE,)})
def the_client_closes(room, agent_options=()):
    keyhop = start_family(room, *agent_options)
    keyhop.client.close_writing()
    expect_lost(keyhop.client)
    expect_equal(keyhop.wait(), 0, "exit status")


@test(repeated=True, cases={"INT": signal.SIGINT, "TERM": signal.SIGTERM, "HUP": signal.SIGHUP})
def a_signal_to_keyhop(room, number):
    keyhop = start_family(room)
    keyhop.signal(number)
    expect_lost(keyhop.client)
    expect_equal(keyhop.wait(), 128 + number, "exit status")


@test(repeated=True)
def a_signal_to_keyhop_with_an_agent_that_ignores_it(room):
    keyhop = start_family(room, *RUDE)
    keyhop.signal(signal.SIGTERM)
    expect_equal(expect_lost(keyhop.client).get("signal"), 9, "what ended the agent")
    expect_equal(keyhop.wait(), 128 + signal.SIGTERM, "exit status")


@test(repeated=True)
def two_signals_to_keyhop(room):
    """The second one is not waited for: KILL at once, not after the grace of a minute."""
    keyhop = start_family(room, *RUDE, grace="60")
    keyhop.signal(signal.SIGINT)
    keyhop.signal(signal.SIGTERM)
    begin = time.monotonic()
    expect_lost(keyhop.client)
    expect(keyhop.wait() in (128 + signal.SIGINT, 128 + signal.SIGTERM), f"exit status: {keyhop.status}")
    expect(time.monotonic() - begin < 20, "the grace was waited for")


@test(repeated=True, cases={"polite agent": (), "agent that ignores EOF and TERM": (RUDE,)})
def keyhop_is_killed(room, agent_options=()):
    keyhop = start_family(room, *agent_options)
    keyhop.kill()
    room.expect_nothing_left(adopted=None)


@test(repeated=True)
def keyhop_is_killed_while_it_ends(room):
    """The watchdog goes on with what was ordered."""
    keyhop = start_family(room, *RUDE, grace="2")
    keyhop.signal(signal.SIGTERM)
    processes.wait_gone(room.history().spawned()["group"][0])  # it went at TERM, so the end has been ordered
    keyhop.kill()
    room.expect_nothing_left(adopted=None)


@test(repeated=True, cases={"the client closes": "eof", "a signal": "term", "keyhop is killed": "kill"})
def the_watchdog_is_killed_and_then(room, how):
    keyhop = start_family(room)
    first = keyhop.watchdog()
    os.kill(first, signal.SIGKILL)
    processes.wait_gone(first)
    while keyhop.watchdog() in (None, first):
        keyhop.client.call("_test/state")  # the relay goes on
    if how == "eof":
        keyhop.client.close_writing()
        expect_lost(keyhop.client)
        expect_equal(keyhop.wait(), 0, "exit status")
    elif how == "term":
        keyhop.signal(signal.SIGTERM)
        expect_lost(keyhop.client)
        expect_equal(keyhop.wait(), 128 + signal.SIGTERM, "exit status")
    else:
        keyhop.kill()
        room.expect_nothing_left(adopted=None)


@test(repeated=True, cases={"with 0": 0, "with 7": 7, "with 255": 255})
def the_agent_exits(room, code):
    keyhop = start_family(room, options=NEVER)
    keyhop.client.request("_test/order", {"text": f"[exit {code}]"})
    expect_equal(expect_lost(keyhop.client).get("exitCode"), code, "the exit code in the error")
    expect_equal(keyhop.wait(), code, "exit status")


@test(repeated=True, cases={"KILL": 9, "SEGV": 11, "TERM": 15})
def the_agent_is_killed_by(room, number):
    keyhop = start_family(room, options=NEVER)
    os.kill(agent_pid(keyhop.client), number)
    expect_equal(expect_lost(keyhop.client).get("signal"), number, "the signal in the error")
    expect_equal(keyhop.wait(), 128 + number, "exit status")


@test(
    repeated=True,
    cases={"until EOF": ((), 0), "until TERM": (("--ignore-eof",), 128 + 15), "until KILL": (RUDE, 128 + 9)},
)
def the_agent_closes_stdout_and_stays(room, agent_options, status):
    keyhop = start_family(room, *agent_options, options=NEVER)
    keyhop.client.request("_test/order", {"text": "[close_stdout]"})
    expect_lost(keyhop.client)
    expect_equal(keyhop.wait(), status, "exit status")


@test(repeated=True)
def the_agent_exits_while_a_child_holds_stdout(room):
    keyhop = start_family(room, options=NEVER)
    keyhop.client.request("_test/order", {"text": "[stdout_to_child] [exit 5]"})
    expect_equal(expect_lost(keyhop.client).get("exitCode"), 5, "the exit code in the error")
    expect_equal(keyhop.wait(), 5, "exit status")


@test(repeated=True)
def the_client_closes_its_reading_end(room):
    keyhop = start_family(room)
    keyhop.client.close_reading()
    expect_equal(keyhop.wait(), 0, "exit status")


@test(repeated=True)
def the_client_vanishes(room):
    keyhop = start_family(room)
    keyhop.client.close_writing()
    keyhop.client.close_reading()
    expect_equal(keyhop.wait(), 0, "exit status")


# ---- The half close ----


@test(cases={"within the drain": ("5", 300), "after the drain, before the agent goes": ("0.1", 600)})
def late_answers_after_the_client_closed_arrive(room, drain, delay):
    keyhop = room.start("--linger", "3000", options=("--drain", drain))
    client = keyhop.client
    session = client.open()
    client.prompt(session, f"[insert_after {delay}] late", request_id=7)
    client.close_writing()
    expect("messageId" in client.answer(7).get("result", {}), "the late answer was lost")
    client.read_to_end()
    expect_equal(keyhop.wait(), 0, "exit status")


@test()
def what_was_sent_before_the_end_is_delivered(room):
    keyhop = room.start()
    client = keyhop.client
    client.initialize(1)
    for number in range(1000, 2000):
        client.request("_test/echo", ["x" * 1000], number)
    client.close_writing()
    lines = client.read_to_end()
    expect_equal(len(lines), 1000, "answers")
    expect_equal(keyhop.wait(), 0, "exit status")


@test(cases={"EOF": (("--ignore-eof",), 0), "EOF and TERM": (RUDE, 0)})
def an_agent_that_ignores(room, agent_options, status):
    keyhop = room.start(*agent_options, options=("--kill-grace", "0.3"))
    keyhop.client.open()
    begin = time.monotonic()
    expect_equal(keyhop.close(), status, "exit status")
    expect(time.monotonic() - begin >= 0.3, "the grace was not given")


@test()
def an_agent_that_needs_its_grace_gets_it(room):
    keyhop = room.start("--linger", "700", options=("--kill-grace", "30"))
    keyhop.client.open()
    expect_equal(keyhop.close(), 0, "exit status")


@test()
def the_grace_after_a_signal_lets_the_agent_write_what_it_must(room):
    agent = [
        sys.executable,
        "-c",
        (
            "import os, signal, time\n"
            "def leave(*_):\n"
            "    time.sleep(0.3)\n"  # the agent's own slow work, not a test's wait
            '    os.write(1, b\'{"jsonrpc":"2.0","id":7,"result":{}}\\n\')\n'
            "    os._exit(0)\n"
            "signal.signal(signal.SIGTERM, leave)\n"
            "os.read(0, 65536)\n"
            'os.write(1, b\'{"jsonrpc":"2.0","method":"ready"}\\n\')\n'
            "while True: signal.pause()\n"
        ),
    ]
    keyhop = room.start(command=agent)
    client = keyhop.client
    client.request("initialize", {"protocolVersion": 1}, 7)
    client.receive_message()
    keyhop.signal(signal.SIGTERM)
    expect_equal(client.answer(7).get("result"), {}, "the answer that the agent gave while it ended")
    client.read_to_end()
    expect_equal(keyhop.wait(), 128 + signal.SIGTERM, "exit status")


# ---- Agents that never were ----


@test(cases={"no such file": ("/nonexistent/agent", "initialize"), "a directory": ("/tmp", "session/list")})
def a_command_that_cannot_be_executed(room, command, method):
    keyhop = room.start(command=[command])
    client = keyhop.client
    client.request(method, {}, 7)
    error = client.answer(7)["error"]
    expect_equal(
        (error["code"], error["data"]["source"], error["data"]["outcome"]),
        (-32603, "keyhop", "not_sent"),
        "the error",
    )
    expect_equal(client.read_to_end(), [], "what follows")
    expect_equal(keyhop.wait(), 69, "exit status")


@test()
def a_command_that_cannot_be_executed_and_is_asked_nothing(room):
    keyhop = room.start(command=["/nonexistent/agent"])
    expect_equal(keyhop.close(), 69, "exit status")


@test(
    cases={
        "with 3": ("exit 3", 3, {"exitCode": 3}),
        "killed": ("kill -KILL $$", 137, {"signal": 9}),
        "with 0": ("exit 0", 0, {"exitCode": 0}),
    }
)
def an_agent_that_dies_before_anything_was_asked(room, script, status, end):
    """keyhop stays for the first request, whenever it comes, or for the client's end."""
    command = ["sh", "-c", f"echo last words >&2; {script}"]
    # The agent is gone for certain when the first request is sent: nothing below keyhop lives any more.
    keyhop = room.start(command=command)
    for pid in processes.descendants(keyhop.pid):
        processes.wait_gone(pid)
    keyhop.client.notify("session/cancel", {"sessionId": "s"})
    keyhop.client.request("initialize", {"protocolVersion": 1}, 7)
    data = keyhop.client.answer(7)["error"]["data"]
    expect_equal({**data["agent"], **end}, data["agent"], "how the agent ended")
    expect("last words" in data["agent"]["stderrTail"], "no last words")
    expect_equal(keyhop.client.read_to_end(), [], "what follows")
    expect_equal(keyhop.wait(), status, "exit status")
    silent = room.start(command=command)
    expect_equal(silent.close(), status, "exit status after the client's end")


@test()
def a_signal_while_nothing_was_asked(room):
    keyhop = room.start(command=["sh", "-c", "exit 3"])
    for pid in processes.descendants(keyhop.pid):
        processes.wait_gone(pid)
    keyhop.signal(signal.SIGTERM)
    expect(keyhop.wait() in (3, 128 + signal.SIGTERM), f"exit status {keyhop.status}")


@test(repeated=True)
def a_signal_at_the_very_start(room):
    """Before keyhop watches signals the system's default ends it; nothing may be left in either case."""
    keyhop = room.start()
    keyhop.signal(signal.SIGTERM)
    expect_equal(keyhop.wait(), 128 + signal.SIGTERM, "exit status")
    room.expect_nothing_left(adopted=None)


@test(repeated=True)
def keyhop_is_killed_at_the_very_start(room):
    keyhop = room.start(*RUDE)
    keyhop.kill()
    room.expect_nothing_left(adopted=None)


# ---- Who is ended, and who is not ----


@test(cases={mode: mode for mode in ("plain", "group", "session", "orphan", "stubborn")})
def a_descendant_alone(room, mode):
    keyhop = room.start(options=("--kill-grace", "0.3"))
    keyhop.client.turn(keyhop.client.open(), f"[grandchild {mode}]")
    (pid,) = room.history().spawned()[mode]
    expect(processes.is_test_agent(pid), "the descendant does not live")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(processes.state_of(pid), "", "the descendant's state")


@test(cases={"EOF": "eof", "TERM": "term", "the agent's exit": "exit", "KILL of keyhop": "kill"})
def a_daemon_is_left_alone_and_named(room, how):
    keyhop = room.start(options=NEVER if how == "exit" else ())
    client = keyhop.client
    client.turn(client.open(), "[grandchild daemon] [grandchild orphan]")
    (daemon,) = room.history().spawned()["daemon"]
    (orphan,) = room.history().spawned()["orphan"]
    try:
        if how == "exit":
            client.request("_test/order", {"text": "[exit 4]"})
            client.read_to_end()
        elif how == "eof":
            client.close_writing()
        else:
            keyhop.signal(signal.SIGTERM if how == "term" else signal.SIGKILL)
        statuses = {"eof": 0, "term": 128 + signal.SIGTERM, "exit": 4, "kill": 128 + signal.SIGKILL}
        expect_equal(keyhop.wait(), statuses[how], "exit status")
        if how == "kill":
            processes.wait_gone(orphan)
        expect(processes.is_test_agent(daemon), "the daemon was ended")
        expect_equal(processes.state_of(orphan) in ("", "Z"), True, "the orphan ended")
        if how != "kill":
            expect(str(daemon).encode() in keyhop.stderr(), "the daemon is not named")
    finally:
        os.kill(daemon, signal.SIGKILL)
    room.expect_nothing_left(adopted=None if how == "kill" else 1)


@test()
def no_zombie_while_keyhop_lives(room):
    """Orphans that end are reaped by whoever they came to, while the agent goes on."""
    keyhop = room.start()
    client = keyhop.client
    client.turn(client.open(), "[grandchild orphan] [grandchild daemon]")
    for pids in room.history().spawned().values():
        os.kill(pids[0], signal.SIGKILL)
        while processes.state_of(pids[0]):
            client.call("_test/state")
    expect_equal(keyhop.close(), 0, "exit status")


if __name__ == "__main__":
    main(__doc__)
