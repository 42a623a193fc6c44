#!/usr/bin/env python3
"""A long life of keyhop: its agent is killed again and again under a mixed load of several sessions.

    soak.py --keyhop PATH --agent PATH [--minutes M] [--restarts N] [--seed S] [--json]

What keyhop holds of the machine (descriptors, processes, threads, memory, the ledger's file) after a warm-up
is compared with the end. The kills are spread over the minutes; with 0 they come as fast as they can.

Exit status: 0 everything is flat and every request got one answer, 1 not, 64 usage.
"""

import argparse
import collections
import ctypes
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

import processes  # noqa: E402
from client import prompt_params  # noqa: E402
from harness import Failure, Room, TimedOut, expect, expect_equal, wait_for  # noqa: E402

SESSIONS = 4
LIFE_OF_A_SESSION = 20  # rounds; then it is deleted, and its rows with it
ROUND_SECONDS = 30
MEMORY_GROWTH_MAX_KIB = 2048
LEDGER_GROWTH_MAX = 256 * 1024
WARM_UP = 0.2  # of all restarts
OPTIONS = ("--restart-limit", "1000/1", "--drain", "1", "--log-level", "warning")


class Soak:
    def __init__(self, room, seed):
        self.room = room
        self.chance = random.Random(seed)
        self.keyhop = room.start(options=OPTIONS, command=room.agent_command(wire=None))
        self.client = self.keyhop.client
        self.counts = collections.Counter()
        self.client.initialize()
        self.sessions = [self.client.new_session() for _ in range(SESSIONS)]
        self.keys = 0
        self.restarts = 0
        self.epochs = 0

    # ---- One round: a load, a kill in the midst of it, every answer ----

    def round(self, number):
        self.replace_a_session(number)
        pending = self.send_load()
        before = self.chance.randrange(len(pending))
        killed = False
        while pending or not killed:
            if not killed and (len(pending) <= before or not pending):
                self.kill_agent()
                killed = True
            if killed and set(pending.values()) == {"cancelled"}:
                self.cancel()  # the first one may have been lost with the agent
                pending[self.client.request("session/list", {})] = "list"
            if pending:
                self.take_answer(pending)
        answer = self.client.call("session/list", {})  # the next agent has been restored
        expect("result" in answer, f"a listing after a restart: {answer}")
        expect_equal(self.client.unsettled(), {}, "requests without exactly one answer")
        self.client.sent.clear()
        self.client.received.clear()

    def replace_a_session(self, number):
        if number % (LIFE_OF_A_SESSION // SESSIONS) != 0:
            return
        self.client.call("session/delete", {"sessionId": self.sessions.pop(0)})
        self.sessions.append(self.client.new_session())
        self.counts["sessions"] += 1

    def send_load(self):
        """Everything at once; id -> what it was."""
        pending = {}
        for session in self.sessions[:-1]:
            self.keys += 1
            key = f"key-{self.keys}"
            size = self.chance.choice((10, 1000, 60000))
            text = f"{self.keys} [updates {self.chance.randrange(4)} {size}]"
            for _ in range(self.chance.choice((1, 1, 2, 3))):
                pending[self.client.request("session/prompt", prompt_params(session, text, key))] = "keyed"
            if self.chance.random() < 0.5:
                pending[self.client.prompt(session, f"{self.keys} without {'x' * 50}")] = "unkeyed"
        echo = ["y" * self.chance.choice((10, 300000))]
        pending[self.client.request("_test/echo", echo)] = "echo"
        pending[self.client.request("session/list", {})] = "list"
        last = self.sessions[-1]
        self.keys += 1
        pending[self.client.prompt(last, f"[hang] {self.keys}", f"key-{self.keys}")] = "cancelled"
        self.cancel()
        return pending

    def cancel(self):
        self.client.notify("session/cancel", {"sessionId": self.sessions[-1]})
        self.counts["cancels"] += 1

    def take_answer(self, pending):
        message = self.client.receive_message()
        if "method" in message:
            self.counts["updates"] += 1
            return
        what = pending.pop(message["id"])
        if "result" in message:
            self.counts[f"{what}: answered"] += 1
            return
        error = message["error"]
        outcome = (error.get("data") or {}).get("outcome", error["code"])
        allowed = what in ("unkeyed", "echo", "keyed") and outcome in ("unknown", "not_sent")
        expect(allowed or what == "cancelled", f"{what}: {message}")
        self.counts[f"{what}: {outcome}"] += 1

    def kill_agent(self):
        """The one that runs by now."""
        pids = wait_for(lambda: self.new_agents())
        self.epochs += len(pids)
        os.kill(pids[-1], signal.SIGKILL)
        self.restarts += 1

    def new_agents(self):
        return self.room.history().epochs()[self.epochs :]

    # ---- What it holds ----

    def settle(self):
        """Until keyhop and its watchdog have slept through a moment."""
        pids = [self.keyhop.pid, self.keyhop.watchdog()]
        before = None
        while (now := [processes.status_number(pid, "voluntary_ctxt_switches") for pid in pids]) != before:
            before = now
            time.sleep(0.2)

    def holdings(self):
        self.client.call("session/list", {})
        self.settle()
        pid = self.keyhop.pid
        ledger = os.path.join(self.room.path("state"), "keyhop", "ledger.db")
        return {
            "descriptors": processes.descriptors(pid),
            "descriptors_watchdog": processes.descriptors(self.keyhop.watchdog()),
            "processes": len(processes.descendants(pid)),
            "threads": processes.status_number(pid, "Threads"),
            "memory_kib": processes.status_number(pid, "VmRSS"),
            "ledger_bytes": os.path.getsize(ledger),
            "ledger_log_bytes": os.path.getsize(ledger + "-wal"),
        }


# How much more than at the start is flat; what is not named may not grow at all.
GROWTH_MAX = {
    "memory_kib": MEMORY_GROWTH_MAX_KIB,
    "ledger_bytes": LEDGER_GROWTH_MAX,
    "ledger_log_bytes": 4 << 20,  # it is cut to this when it has grown
}


def run(room, settings):
    """The results; raises a Failure for what is wrong before the end."""
    soak = Soak(room, settings.seed)
    begun = time.monotonic()
    start = None
    shown = begun
    for number in range(1, settings.restarts + 1):
        signal.setitimer(signal.ITIMER_REAL, ROUND_SECONDS)
        soak.round(number)
        if start is None and number >= settings.restarts * WARM_UP:
            start = soak.holdings()
        if time.monotonic() - shown >= 10:
            shown = time.monotonic()
            memory = processes.status_number(soak.keyhop.pid, "VmRSS")
            print(f"{number} of {settings.restarts} restarts, {memory} KiB", file=sys.stderr, flush=True)
        due = begun + number * settings.minutes * 60 / settings.restarts
        signal.setitimer(signal.ITIMER_REAL, 0)
        time.sleep(max(0, due - time.monotonic()))  # the pace is what was asked for
    signal.setitimer(signal.ITIMER_REAL, ROUND_SECONDS)
    end = soak.holdings()
    expect_equal(soak.keyhop.close(), 0, "exit status")
    keyed = collections.Counter(row["key"] for row in room.history().insertions() if row.get("key"))
    twice = [key for key, count in keyed.items() if count > 1]
    room.expect_nothing_left()
    grown = [name for name in start if end[name] - start[name] > GROWTH_MAX.get(name, 0)]
    return {
        "seed": settings.seed,
        "minutes": round((time.monotonic() - begun) / 60, 2),
        "restarts": soak.restarts,
        "prompts_inserted_twice": len(twice),
        "counts": dict(sorted(soak.counts.items())),
        "start": start,
        "end": end,
        "grown": grown,
        "flat": not grown and not twice,
    }


def show(results):
    print(f"{results['restarts']} restarts in {results['minutes']} minutes, seed {results['seed']}")
    for name, count in results["counts"].items():
        print(f"  {name:<24}{count:>10}")
    print(f"{'':<26}{'start':>10}{'end':>10}")
    for name, value in results["start"].items():
        print(f"  {name:<24}{value:>10}{results['end'][name]:>10}")
    print("flat" if results["flat"] else f"NOT FLAT: {results['grown']}")


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--keyhop", required=True, type=os.path.abspath)
    parser.add_argument("--agent", required=True, type=os.path.abspath)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--restarts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--json", action="store_true", help="the results as JSON on stdout")
    settings = parser.parse_args()
    settings.long = False
    if settings.restarts < 10:
        parser.error("at least 10 restarts, some of which are the warm-up")
    ctypes.CDLL(None).prctl(processes.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def on_alarm(_signal, _frame):
        raise TimedOut

    signal.signal(signal.SIGALRM, on_alarm)
    room = Room(types.SimpleNamespace(**vars(settings)), tempfile.mkdtemp(prefix="keyhop-soak-"))
    try:
        results = run(room, settings)
    except (Failure, TimedOut, EOFError, KeyError) as failure:
        print(f"FAILED (seed {settings.seed}): {failure or 'nothing happens'}", file=sys.stderr)
        traceback.print_tb(failure.__traceback__)
        for instance in room.instances:
            print(instance.stderr()[-2000:].decode("utf-8", "replace"), file=sys.stderr)
        return 1
    finally:
        processes.kill_all()
        shutil.rmtree(room.directory, ignore_errors=True)
    if settings.json:
        print(json.dumps(results))
    else:
        show(results)
    return 0 if results["flat"] else 1


if __name__ == "__main__":
    sys.exit(main())
