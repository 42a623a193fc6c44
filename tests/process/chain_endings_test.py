"""How a chain ends: what is still answered, the exit status, and that no component is left."""

import signal

import processes
from chain import Recorded, keyhop_of, proxies, test_proxy, with_proxies
from harness import expect, expect_equal, expect_own_error, main, test
from restart import expect_settled, finish, kill_agent

CHAINS = {"plain": False, "nested": True}
TWICE = ("--restart-limit", "1/60")


def start(room, nested, *agent_options, options=()):
    """keyhop before three proxies; nested: two further keyhops between them."""
    chain = proxies(room)
    inner = Recorded(room.path("record-keyhop"), keyhop_of(room, chain[1], keyhop_of(room)))
    links = (chain[0], inner, chain[2]) if nested else chain
    keyhop = room.start(*agent_options, options=(*options, *with_proxies(*links)))
    return keyhop, chain, [*chain, inner] if nested else chain


def pids(room, components):
    return [component.pids()[-1] for component in components] + room.history().epochs()[-1:]


@test(repeated=True, cases=CHAINS)
def all_end_with_the_client(room, nested):
    keyhop, _, components = start(room, nested)
    keyhop.client.open()
    living = pids(room, components)
    finish(keyhop)
    expect_equal(pids(room, components), living, "who was started last")
    expect_equal([pid for pid in living if processes.state_of(pid) not in ("", "Z")], [], "who lives")


@test(repeated=True, cases=CHAINS)
def what_is_open_when_the_client_closes_is_answered(room, nested):
    keyhop, _, _ = start(room, nested)
    client = keyhop.client
    session = client.open()
    numbers = [client.prompt(session, f"text {count}", f"k{count}") for count in range(20)]
    numbers += [client.request("session/list", {}) for _ in range(20)]
    client.close_writing()
    client.read_to_end()
    expect_equal(keyhop.wait(), 0, "exit status")
    expect_settled(keyhop)
    failed = [answer for number in numbers for answer in client.answers(number) if "error" in answer]
    expect_equal(failed, [], "errors")
    expect_equal(len(room.history().insertions()), 20, "insertions")


@test(
    repeated=True,
    cases={
        f"{chain}, {name}": (nested, number)
        for chain, nested in CHAINS.items()
        for name, number in (("INT", signal.SIGINT), ("TERM", signal.SIGTERM), ("HUP", signal.SIGHUP))
    },
)
def all_end_with_a_signal(room, nested, signal_number):
    keyhop, _, components = start(room, nested)
    client = keyhop.client
    session = client.open()
    number = client.prompt(session, "[hang]")
    client.call("_test/state")
    living = pids(room, components)
    keyhop.signal(signal_number)
    expect_own_error(client.answer(number), -32603)
    expect_equal(keyhop.close(), 128 + signal_number, "exit status")
    expect_equal(pids(room, components), living, "who was started last")


@test(repeated=True, cases=CHAINS)
def all_end_with_a_killed_keyhop(room, nested):
    """Whoever cannot be told any more is ended all the same."""
    keyhop, _, components = start(
        room, nested, "--ignore-eof", "--ignore-term", options=("--kill-grace", "0.2")
    )
    client = keyhop.client
    client.prompt(client.open(), "[hang]")
    client.call("_test/state")
    living = pids(room, components)
    keyhop.kill()
    for pid in living:
        processes.wait_gone(pid)
    client.read_to_end()
    room.expect_nothing_left(adopted=None)


@test(cases={**{f"proxy {number}": number for number in range(3)}, "the agent": None})
def a_spent_budget_is_told_and_is_the_exit_status(room, number):
    keyhop, chain, _ = start(room, False, options=TWICE)
    client = keyhop.client
    session = client.open()
    hanging = client.prompt(session, "[hang]")
    spent = None if number is None else chain[number]
    others = [proxy for proxy in chain if proxy is not spent]
    before = [proxy.pids() for proxy in others]
    for _ in range(2):
        client.call("_test/state")
        if spent is None:
            kill_agent(room)
        else:
            spent.kill()
        client.answer(client.request("session/list", {}))
    expect_equal([proxy.pids() for proxy in others], before, "who else was started")
    expect_own_error(client.answers(hanging)[0], -32603, "unknown")
    expect_own_error(client.answer(client.prompt(session, "x")), -32603, "not_sent")
    living = [pid for pid in pids(room, chain) if processes.state_of(pid) not in ("", "Z")]
    expect_equal(len(living), 3, "who lives")
    expect_equal(keyhop.close(), 75, "exit status")
    expect_settled(keyhop)
    expect_equal([pid for pid in living if processes.state_of(pid) not in ("", "Z")], [], "who lives still")


@test(
    cases={
        f"{where}, {how}": (place, how == "asked")
        for where, place in (("first", 0), ("in the middle", 1), ("last", 2))
        for how in ("asked", "not asked")
    }
)
def a_command_that_cannot_be_started_is_named(room, place, is_asked):
    commands = [[test_proxy(room)], [test_proxy(room)]]
    commands.insert(place, ["/nonexistent/my-proxy"])
    keyhop = room.start(options=with_proxies(*commands))
    if is_asked:
        answer = keyhop.client.call("initialize", {"protocolVersion": 2, "capabilities": {}})
        error = expect_own_error(answer, -32603)
        expect("my-proxy" in error["message"], f"it is not named: {error['message']}")
    expect_equal(keyhop.close(), 69, "exit status")
    expect_settled(keyhop)


if __name__ == "__main__":
    main(__doc__)
