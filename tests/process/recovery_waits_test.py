"""Between two agents: the budget and its waits, what is held meanwhile, a person's restart, other ends."""

import os
import re
import select
import signal
import time

import processes
from client import encode
from harness import expect, expect_equal, expect_own_error, main, test, wait_for
from restart import NEVER, expect_settled, fault_struck, finish, kill_agent, once, synchronize

VERSIONS = {"v1": 1, "v2": 2}

# ---- Whether at all ----


@test(cases={"by default": (), "--restart on-loss": (("--restart", "on-loss"),)})
def restarted(room, options=()):
    keyhop = room.start(options=options)
    client = keyhop.client
    session = client.open()
    kill_agent(room)
    expect("result" in client.answer(client.prompt(session, "on")), "the prompt failed")
    finish(keyhop)
    expect_equal(len(room.history().epochs()), 2, "starts of the agent")


@test(cases={"--restart never": (NEVER,), "a limit of none": (("--restart-limit", "0/60"),)})
def not_restarted(room, options):
    keyhop = room.start(options=options)
    client = keyhop.client
    session = client.open()
    number = client.prompt(session, "[hang]")
    client.call("_test/state")
    kill_agent(room)
    expect_own_error(client.answer(number), -32603, "unknown")
    client.read_to_end()
    expect_equal(keyhop.wait(), 128 + signal.SIGKILL, "exit status")
    expect_settled(keyhop)
    expect_equal(len(room.history().epochs()), 1, "starts of the agent")


@test()
def the_first_agent_exits_before_initialize(room):
    """No loop: one clear error, and its own exit status."""
    script = 'echo start >> "$0"; echo "Cannot find module x" >&2; exit 7'
    keyhop = room.start(command=["sh", "-c", script, room.path("starts")])
    client = keyhop.client
    error = expect_own_error(client.answer(client.request("initialize", {"protocolVersion": 1}, 0)), -32603)
    expect_equal(error["data"]["agent"]["exitCode"], 7, "the exit code")
    expect("Cannot find module x" in error["data"]["agent"]["stderrTail"], "the cause is not told")
    expect("Cannot find module x" in error["message"] or "7" in error["message"], "no person can act on it")
    client.read_to_end()
    expect_equal(keyhop.wait(), 7, "exit status")
    expect_settled(keyhop)
    with open(room.path("starts"), encoding="ascii") as file:
        expect_equal(file.read(), "start\n", "starts")


# ---- The budget ----


@test(cases={"six times in a short window": "5/3", "four times": "3/2"})
def an_agent_that_dies_too_often(room, limit):
    """Restarted while the budget lasts; then definite errors at once; then service again."""
    restarts = int(limit.partition("/")[0])
    keyhop = room.start(options=("--restart-limit", limit))
    client = keyhop.client
    session = client.open()
    for _ in range(restarts):
        kill_agent(room)
        client.call("session/list", {})
    open_prompt = client.prompt(session, "[hang]")
    client.call("_test/state")
    kill_agent(room)
    expect_own_error(client.answer(open_prompt), -32603, "unknown")
    spent = 0
    while "error" in (answer := client.call("session/list", {})):
        error = expect_own_error(answer, -32603, "not_sent")
        expect_equal(error["data"]["agent"]["signal"], 9, "what ended the agent")
        spent += 1
    expect(spent > 0, "the budget was never spent")
    for _ in range(2):
        expect("result" in client.answer(client.prompt(session, "on")), "no service after the wait")
        kill_agent(room)
        while "error" in client.call("session/list", {}):
            pass
    finish(keyhop)
    expect_equal(len(room.history().epochs()), restarts + 4, "starts of the agent")
    expect_equal(len(room.history().insertions()), 2, "insertions")


@test()
def all_that_waits_gets_its_error_when_the_budget_is_spent(room):
    """What was sent is unknown, what was held was not sent; each once."""
    command = room.changing_command([], ["--fault", "read:initialize@1=kill KILL"])
    keyhop = room.start(command=command, options=("--restart-limit", "2/60"))
    client = keyhop.client
    session = client.open()
    lost = client.prompt(session, "[hang]")
    client.call("_test/state")
    kill_agent(room)
    held = [client.prompt(session, "held"), client.request("session/list", {}), client.request("_test/act")]
    answers = {}
    while len(answers) < 4:
        message = client.receive_message()
        if message.get("id") in (lost, *held):
            answers[message["id"]] = message
    expect_own_error(answers[lost], -32603, "unknown")
    for number in held:
        expect_own_error(answers[number], -32603, "not_sent")
    client.close_writing()
    client.read_to_end()
    expect_equal(keyhop.wait(), 75, "exit status")
    expect_settled(keyhop)
    expect_equal(len(room.history().epochs()), 3, "starts of the agent")


# ---- What is held meanwhile ----

HELD_MAX_MIB = 8  # what keyhop holds; it reads in pieces of 64 KiB, and the pipes hold some more
TEXT_SIZE = 60_000


def bytes_read(keyhop):
    """How many bytes keyhop has read from its client, as SIGUSR1 tells."""
    before = keyhop.stderr().count(b"counters:")
    keyhop.signal(signal.SIGUSR1)
    wait_for(lambda: keyhop.stderr().count(b"counters:") > before)
    return int(re.findall(rb"from client \d+ frames (\d+) bytes", keyhop.stderr())[-1])


def write_until_paused(keyhop):
    """Large requests until keyhop takes no more: their ids and what was left of the last one."""
    client = keyhop.client
    numbers = []
    rest = b""
    poller = select.poll()
    poller.register(client.input, select.POLLOUT)
    while len(numbers) < 1000:
        if not poller.poll(0):
            # A round of its loop lies between two reports: what it wants to read it has read then.
            if bytes_read(keyhop) == bytes_read(keyhop) and not poller.poll(0):
                return numbers, rest
            continue
        if not rest:
            numbers.append(1000 + len(numbers))
            echo = {"method": "_test/echo", "params": "x" * TEXT_SIZE}
            client.sent.append(encode({"jsonrpc": "2.0", "id": numbers[-1], **echo}))
            rest = client.sent[-1] + b"\n"
        rest = rest[os.write(client.input, rest) :]
    raise AssertionError("keyhop takes everything")


@test()
def what_is_held_is_bounded(room):
    """The client is paused, not dropped, and all is delivered in order once the agent serves."""
    command = room.changing_command([], once("read:initialize@1/2=stall"))
    keyhop = room.start(command=command)
    client = keyhop.client
    client.open()
    kill_agent(room)
    wait_for(lambda: fault_struck(room))
    numbers, rest = write_until_paused(keyhop)
    taken = len(numbers) * TEXT_SIZE / (1 << 20)
    expect(HELD_MAX_MIB <= taken <= HELD_MAX_MIB + 2, f"{taken} MiB were taken")
    expect(processes.status_number(keyhop.pid, "VmHWM") < 100 * 1024, "held frames take much memory")
    kill_agent(room)
    client.write(rest)
    for number in numbers:
        answer = client.receive_until(lambda message: "id" in message)
        expect_equal((answer["id"], len(answer["result"])), (number, TEXT_SIZE), "the next answer")
    finish(keyhop)


# ---- A person's restart ----


@test(cases=VERSIONS)
def a_person_restarts_an_agent_that_hangs(room, version):
    keyhop = room.start()
    client = keyhop.client
    session = client.open(version)
    first = room.history().epochs()[0]
    client.answer(client.prompt(session, "all is ready"))
    os.kill(first, signal.SIGSTOP)
    prompt = client.prompt(session, "lost in the pipe")
    listing = client.request("session/list", {})
    keyhop.signal(signal.SIGUSR2)
    expect_own_error(client.answer(prompt), -32603)
    expect("result" in client.answer(listing), "the listing was not sent again")
    expect(processes.state_of(first) in ("", "Z"), "the stopped agent lives")
    finish(keyhop)
    expect_equal(len(room.history().epochs()), 2, "starts of the agent")
    expect_equal(len(room.history().insertions()), 1, "insertions")


def start_in_restore(room, point="read:session/resume@1"):
    """A keyhop whose second agent does not get on with the restore; one prompt (7) is lost, one (8) held."""
    options = ("--drain", "0.2", "--kill-grace", "0.2")
    keyhop = room.start(*once(f"{point}/2=stall"), options=options)
    client = keyhop.client
    session = client.open()
    client.prompt(session, "[hang]", request_id=7)
    # On a busy machine it waits for the ledger to be opened, and others pass it.
    wait_for(lambda: room.history().received(b"[hang]"))
    kill_agent(room)
    client.prompt(session, "held", request_id=8)
    wait_for(lambda: fault_struck(room))
    return keyhop


@test(cases={"initialize": "read:initialize@1", "resume": "read:session/resume@1"})
def the_client_closes_during_the_restore(room, point):
    keyhop = start_in_restore(room, point)
    expect_equal(keyhop.close(), 0, "exit status")
    expect_settled(keyhop)
    for number, outcome in ((7, "unknown"), (8, "not_sent")):
        expect_own_error(keyhop.client.answers(number)[0], -32603, outcome)


@test(cases={"initialize": "read:initialize@1", "resume": "read:session/resume@1"})
def a_signal_during_the_restore(room, point):
    keyhop = start_in_restore(room, point)
    keyhop.signal(signal.SIGTERM)
    keyhop.client.read_to_end()
    expect_equal(keyhop.wait(), 128 + signal.SIGTERM, "exit status")
    expect_settled(keyhop)


@test()
def keyhop_is_killed_during_the_restore(room):
    keyhop = start_in_restore(room)
    keyhop.kill()
    room.expect_nothing_left(adopted=None)


@test()
def a_person_restarts_during_the_restore(room):
    keyhop = start_in_restore(room)
    keyhop.signal(signal.SIGUSR2)
    expect_own_error(keyhop.client.answer(7), -32603, "unknown")
    expect("messageId" in keyhop.client.answer(8)["result"], "the held prompt")
    finish(keyhop)
    expect_equal(len(room.history().insertions()), 1, "insertions")


def start_without_agent(room, limit):
    """A keyhop all of whose later agents die at once until the test says that they are well."""
    script = (
        'if mkdir "$0" 2>/dev/null || test -e "$0/well"; then exec "$@"; fi; '
        'echo start >>"$0/starts"; exit 3'
    )
    command = ["sh", "-c", script, room.path("started"), *room.agent_command()]
    keyhop = room.start(command=command, options=("--restart-limit", limit))
    session = keyhop.client.open()
    kill_agent(room)
    return keyhop, session


def count_starts(room):
    try:
        with open(room.path("started/starts"), encoding="ascii") as file:
            return len(file.readlines())
    except FileNotFoundError:
        return 0


@test(cases={"while it waits": ("50/60", 4), "when the budget is spent": ("2/60", 2)})
def a_person_does_not_wait(room, limit, starts):
    """SIGUSR2 between two agents starts one at once, however long the wait would be."""
    keyhop, session = start_without_agent(room, limit)
    client = keyhop.client
    wait_for(lambda: count_starts(room) == starts)
    if limit == "2/60":
        while "error" not in client.call("session/list", {}):
            pass
        held = None
    else:
        held = client.prompt(session, "held")
        synchronize(client)
    os.mkdir(room.path("started/well"))
    begin = time.monotonic()
    keyhop.signal(signal.SIGUSR2)
    wait_for(lambda: len(room.history().epochs()) == 2)
    if held is not None:
        expect("result" in client.answer(held), "the held prompt")
    expect("result" in client.answer(client.prompt(session, "on")), "no service")
    expect(time.monotonic() - begin < 20, "the wait was waited for")
    finish(keyhop)


@test()
def a_person_restarts_where_nothing_may_be(room):
    """--restart never: the signal is refused in words, and the agent lives."""
    keyhop = room.start(options=NEVER)
    client = keyhop.client
    client.open()
    keyhop.signal(signal.SIGUSR2)
    wait_for(lambda: b"SIGUSR2" in keyhop.stderr())
    expect("result" in client.call("session/list", {}), "the agent does not serve")
    finish(keyhop)
    expect_equal(len(room.history().epochs()), 1, "starts of the agent")


if __name__ == "__main__":
    main(__doc__)
