"""A keyhop with nothing to do does nothing, and a long life does not make it grow."""

import time

import processes
from harness import expect, expect_equal, main, test

# The pause is the subject: in it nothing may wake.
PAUSE_SECONDS = 2


def _wake_ups(pids):
    names = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
    return [[processes.status_number(pid, name) for name in names] for pid in pids]


def _expect_asleep(pids):
    before = _wake_ups(pids)
    time.sleep(PAUSE_SECONDS)
    expect_equal(_wake_ups(pids), before, "context switches of keyhop and its watchdog while idle")


@test(
    cases={
        "before anything was said": "new",
        "with a session": "session",
        "with an open request": "open",
        "with an armed time-out": "silence",
    }
)
def nothing_wakes(room, state):
    keyhop = room.start(options=("--silence-timeout", "60") if state == "silence" else ())
    client = keyhop.client
    if state == "new":
        while not any(map(processes.is_test_agent, processes.descendants(keyhop.pid))):
            pass
    else:
        session = client.open()
        client.turn(session, "hello")
        if state in ("open", "silence"):
            client.prompt(session, "[hang] held", "key-1")
        client.call("_test/state")
    _settle(keyhop)
    _expect_asleep([keyhop.pid, keyhop.watchdog()])
    if state in ("open", "silence"):
        client.order("[release]", session)
    expect_equal(keyhop.close(), 0, "exit status")


def _settle(keyhop):
    """Until keyhop, its watchdog and the agent have slept through a moment: what they had to do is done."""
    pids = [keyhop.pid, *processes.descendants(keyhop.pid)]
    before = None
    while (now := _wake_ups(pids)) != before:
        before = now
        time.sleep(0.1)


@test()
def descriptors_and_memory_stay_flat(room):
    """Over 1,000 requests after the first 1,000, errors, joins, cancels and bad lines among them."""
    keyhop = room.start()
    client = keyhop.client
    session = client.open()

    def work(begin):
        for number in range(begin, begin + 200):
            client.answer(client.request("_test/echo", ["x" * 1000], number))
            client.answer(client.request("session/prompt", {"sessionId": "nobody"}, number))
            client.answer(client.prompt(session, f"hello {number % 7}", f"key-{number % 7}", number))
            client.send(b"{bad")
            client.answer(None)
            client.answer(client.request("session/list", {}, number))
            client.notify("$/cancel_request", {"requestId": number})

    work(1000)
    before = (processes.descriptors(keyhop.pid), processes.descriptors(keyhop.watchdog()))
    memory = processes.status_number(keyhop.pid, "VmRSS")
    for begin in range(2000, 2000 + (50 if room.long else 5) * 200, 200):
        work(begin)
    after = (processes.descriptors(keyhop.pid), processes.descriptors(keyhop.watchdog()))
    expect_equal(after, before, "descriptors of keyhop and its watchdog")
    grown = processes.status_number(keyhop.pid, "VmRSS") - memory
    expect(grown < 512, f"keyhop grew by {grown} KiB")
    expect_equal(keyhop.close(), 0, "exit status")


if __name__ == "__main__":
    main(__doc__)
