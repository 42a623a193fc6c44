"""Every failure of the machine, one at a time: the i-th malloc, read, write, fork, pipe, fsync, SQLite call
… fails with an error that it can have, for every i of each short dialogue.

keyhop neither crashes nor hangs and leaves nothing behind; no keyed prompt is inserted twice, no answer is
wrong, now or from a later keyhop with the same ledger. A bad disk costs keyed prompts only. Without memory
keyhop ends with 70.

Without KEYHOP_TESTS_LONG=1 a sample, drawn anew each time (FAULT_SEED draws the same one again).
"""

import collections
import errno
import json
import os
import random
import signal
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

import processes  # noqa: E402
from dialogues_of_faults import DIALOGUES, Gone, Life  # noqa: E402
from fault_page import FOREVER, Page, Plan  # noqa: E402
from guard import resume, submit  # noqa: E402
from harness import Failure, TimedOut, expect, expect_equal, main, test  # noqa: E402

LIBRARY = os.environ.get("FAULT_LIBRARY", "")
SEED = os.environ.get("FAULT_SEED") or str(random.SystemRandom().randrange(1 << 32))
SHARDS = 4
SAMPLE = int(os.environ.get("FAULT_SAMPLE", "14"))  # faults of a dialogue and shard
RUN_SECONDS = float(os.environ.get("FAULT_SECONDS", "45"))
GAVE_UP = b"keyhop: internal error: a library gave up"
OUT_OF_MEMORY = b"keyhop: out of memory"
NO_MEMORY, IO_ERROR, FULL, CANNOT_OPEN, READ_ONLY, BUSY = 7, 10, 13, 14, 8, 5  # SQLite's

# What each call may say, by operation and caller; and what it may go on saying.
ERRORS = {
    ("memory", "own"): ("ENOMEM",),
    ("memory", "libuv"): ("ENOMEM",),
    ("memory", "sqlite"): ("ENOMEM",),
    ("map", "own"): ("ENOMEM",),
    ("map", "sqlite"): ("ENOMEM",),
    ("read", "own"): ("EINTR", "EAGAIN", "EIO"),
    ("read", "libuv"): ("EINTR",),
    ("read", "sqlite"): ("EINTR", "EIO"),
    ("write", "own"): ("EINTR", "EAGAIN", "EPIPE", "EIO", "ENOSPC"),
    ("write", "libuv"): ("EINTR",),
    ("write", "sqlite"): ("EINTR", "EIO", "ENOSPC"),
    ("send", "own"): ("EINTR", "ENOBUFS"),
    ("receive", "own"): ("EINTR", "EAGAIN"),
    ("fork", "own"): ("EAGAIN", "ENOMEM"),
    ("pipe", "own"): ("EMFILE", "ENFILE"),
    ("pipe", "libuv"): ("EMFILE",),
    ("open", "own"): ("EMFILE", "EACCES", "ENOSPC"),
    ("open", "libuv"): ("EMFILE",),
    ("open", "sqlite"): ("EMFILE", "EACCES", "ENOSPC"),
    ("sync", "own"): ("EIO",),
    ("sync", "sqlite"): ("EIO", "ENOSPC"),
    ("alter", "own"): ("ENOSPC", "EIO", "EACCES"),
    ("alter", "sqlite"): ("ENOSPC", "EIO"),
    ("look", "own"): ("EACCES", "ENOMEM"),
    ("look", "sqlite"): ("EIO",),
    ("lock", "own"): ("ENOLCK", "EAGAIN"),
    ("lock", "sqlite"): ("ENOLCK", "EAGAIN"),
    ("mode", "own"): ("EMFILE",),
    ("poll", "own"): ("EINTR",),
    ("poll", "libuv"): ("EINTR",),
    ("watch", "own"): ("EMFILE", "ENOMEM", "ENOSPC"),
    ("watch", "libuv"): ("EMFILE", "ENOMEM", "ENOSPC"),
    ("signal", "own"): ("EMFILE",),
    ("wait", "own"): ("EINTR",),
    ("thread", "own"): ("EAGAIN",),
    ("random", "own"): ("ENOSYS",),
}
LASTING = {"ENOMEM", "EIO", "ENOSPC", "EMFILE", "EACCES", "ENFILE"}
# A watchdog that can never read /proc, or never gets a page, knows the agent's process group only.
PASSING = {("watchdog", "open"), ("watchdog", "read"), ("watchdog", "map")}
DATABASE = (NO_MEMORY, IO_ERROR, FULL, CANNOT_OPEN, READ_ONLY, BUSY)
HOUR = 3600 * 10**9


def faults_at(place, number):
    """Every plan for the calls at one place, of which there are `number`."""
    role, operation, caller = place
    more = {"role": role, "operation": operation, "caller": caller}
    if operation == "clock":
        # The monotonic one goes on, the wall clock may go anywhere.
        for first in range(1, number + 1):
            yield Plan("clock", role, operation, error=1, first=first, step=HOUR)
            yield Plan("clock", role, operation, error=0, first=first, step=-24 * HOUR)
    elif operation == "sqlite":
        for first in range(1, number + 1):
            for error in DATABASE:
                yield Plan("fail", **more, error=error, first=first)
                yield Plan("fail", **more, error=error, first=first, count=FOREVER)
            yield Plan("fail_after", **more, error=IO_ERROR, first=first)
    else:
        names = ERRORS.get((operation, caller), ())
        if role == "starter":  # it waits for one byte from a socket
            names = [name for name in names if name == "EINTR"]
        for name in names:
            for first in range(1, number + 1):
                yield Plan("fail", **more, error=getattr(errno, name), first=first)
                lasts = name in LASTING and (role, operation) not in PASSING
                # Thousands of allocations: that all later ones fail, too, is tried from every eighth on.
                if lasts and (operation != "memory" or first // SHARDS % 8 == 0):
                    yield Plan("fail", **more, error=getattr(errno, name), first=first, count=FOREVER)


# (What a watchdog reads from /proc comes whole.)
ALWAYS = [Plan("short"), *(Plan("interrupt", role) for role in ("keyhop", "watchdog", "starter"))]


class Trial:
    """One run of one dialogue with one plan, and what came of it."""

    def __init__(self, room, name, plan, dialogue):
        self.room = room
        self.plan = plan
        self.script, agent, self.wanted_status = DIALOGUES[dialogue]
        self.page = Page(room.path(f"page-{name}"), plan)
        self.life = Life(room, name, LIBRARY, self.page, agent)
        self.status = None

    def run(self):
        life = self.life
        try:
            self.script(life)
        except Gone:
            pass
        for keyhop in life.keyhops:
            self.status = self._end(keyhop)
        self._check_end()
        self._check_answers()
        self.room.expect_nothing_left(adopted=None)
        if life.session and life.keyed:
            self._come_back()
            self.room.expect_nothing_left(adopted=None)
        self._check_history()

    def _end(self, keyhop):
        client = keyhop.client
        client.close_writing()
        while client.receive() is not None:
            pass
        return keyhop.wait()

    # ---- What must hold ----

    def _is_of_disk(self):
        plan = self.plan
        return plan.caller == "sqlite" or plan.operation in ("sqlite", "sync", "alter", "lock", "thread")

    def _is_harmless(self):
        always = ("count_only", "short", "interrupt", "clock")
        return self.plan.mode in always or self.plan.error == errno.EINTR

    def _check_end(self):
        words = self.life.words()
        # libuv knows no other way where it cannot watch a descriptor, or make its pipes in a child.
        may_give_up = self.plan.caller == "libuv" and self.plan.operation in ("watch", "pipe")
        may_give_up = may_give_up or self.plan.operation == "map"
        if may_give_up and GAVE_UP in words and self.status in (69, 70, 75, self.wanted_status):
            return
        expect(b"internal error" not in words, f"{words[-300:]!r}")
        if self.status == 70 and self.plan.role == "keyhop" and not self._is_harmless():
            is_memory = self.plan.error in (errno.ENOMEM, errno.EMFILE, errno.ENOSPC)
            may = is_memory or self.plan.operation == "random"
            is_said = OUT_OF_MEMORY in words or b"keyhop: the system" in words
            expect(may and is_said, f"ended with 70: {words[-300:]!r}")
            return
        allowed = {self.wanted_status}
        if self.plan.mode == "clock" or not (self._is_harmless() or self._is_of_disk()):
            # Its agent could not be started (again), in time; the client could not be spoken with.
            allowed |= {0, 69, 75}
        if not self._is_harmless() and any("[die" in text for text in self.life.keyed.values()):
            allowed.add(137)  # the dialogue was over when the agent killed itself
        expect(self.status in allowed, f"exit status {self.status}: {words[-300:]!r}")

    def _check_answers(self):
        life = self.life
        for keyhop in life.keyhops:
            lines = [json.loads(line) for line in keyhop.client.received]
            ids = collections.Counter(line["id"] for line in lines if "method" not in line)
            expect(not ids or max(ids.values()) == 1, f"answered more than once: {ids}")
        for method, key, answer in life.told:
            if key:
                if "result" in answer:
                    life.world.word_for(answer, key, life.keyed[key])
            elif self._is_of_disk():
                expect("result" in answer, f"a bad disk spoils {method}: {answer}")
        expect(not life.refused_early, f"said not to be sent, but inserted: {life.refused_early}")
        if self._is_harmless():
            wrong = [answer for _, _, answer in life.told if "error" in answer]
            is_late = self.plan.mode == "clock"  # what had an hour may time out
            expect(not wrong or life.signalled or is_late, f"an error for nothing: {wrong[:1]}")
            unsettled = life.keyhop.client.unsettled()
            expect_equal(unsettled, {}, "requests without exactly one answer")

    def _come_back(self):
        """A keyhop without faults: every key is answered, from the ledger or by the agent."""
        life = self.life
        world = life.world
        keyhop = world.begin()
        keyhop.client.initialize()
        expect("result" in resume(keyhop.client, life.session), "the session is not resumed")
        for key, text in life.keyed.items():
            if "[no_answer]" in text and not world.insertions(key):
                continue
            world.word_for(submit(keyhop.client, life.session, text, key), key, text)
        # An order to die may have been left for now.
        answers = [submit(keyhop.client, life.session, "without a key") for _ in range(2)]
        expect(any("result" in answer for answer in answers), f"a prompt without a key: {answers}")
        expect_equal(keyhop.close(), 0, "exit status of the next keyhop")
        expect_equal(keyhop.client.unsettled(), {}, "requests without exactly one answer")
        broken = [name for name in os.listdir(os.path.dirname(world.ledger())) if ".broken" in name]
        expect(not broken, f"a sound ledger was moved aside: {broken}")

    def _check_history(self):
        for key in self.life.keyed:
            expect(len(self.life.world.insertions(key)) <= 1, f"{key} was inserted more than once")

    def outcome(self):
        if not self.page.struck():
            return "did not come to it"
        if self.status != self.wanted_status:
            return f"ended with {self.status}"
        errors = [answer["error"] for _, _, answer in self.life.told if "error" in answer]
        if not errors or self.life.signalled:
            return "harmless"
        outcomes = {error.get("data", {}).get("outcome", "other error") for error in errors}
        return "told " + "/".join(sorted(outcomes))


def chosen(plans, long, chance):
    if long:
        return plans
    by_place = collections.defaultdict(list)
    for plan in plans:
        by_place[plan.mode, plan.role, plan.operation, plan.caller].append(plan)
    # A place each, in turn, so that the rare calls have theirs too.
    places = list(by_place.values())
    return [chance.choice(chance.choice(places)) for _ in range(SAMPLE)]


def where(error):
    steps = traceback.extract_tb(error.__traceback__)
    return "".join(f" <- {os.path.basename(at.filename)}:{at.lineno}" for at in reversed(steps[2:]))


def attempt(room, name, plan, dialogue):
    trial = Trial(room, name, plan, dialogue)
    signal.setitimer(signal.ITIMER_REAL, RUN_SECONDS)
    try:
        trial.run()
        return trial
    except TimedOut as late:
        reason = "hangs" + where(late)
    except Failure as failure:
        reason = str(failure)
    except Exception as error:  # what a dialogue cannot go on with
        reason = f"{type(error).__name__}: {error}" + where(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    processes.kill_all()
    room.instances.clear()
    raise Failure(f"{plan}: {reason}; at {' '.join(trial.page.place())}")


CASES = {f"{name} {shard + 1}/{SHARDS}": (name, shard) for name in DIALOGUES for shard in range(SHARDS)}


@test(seconds=7000, cases=CASES)
def nothing_breaks(room, dialogue, shard):
    expect(os.access(LIBRARY, os.R_OK), "FAULT_LIBRARY names the library to preload")
    chance = random.Random(f"{SEED} {dialogue} {shard}")
    calls = attempt(room, "count", Plan(), dialogue).page.calls()
    plans = [plan for place, number in calls.items() for plan in faults_at(place, number)]
    plans = [plan for plan in ALWAYS + plans if plan.first % SHARDS == shard or plan in ALWAYS[shard::SHARDS]]
    outcomes = collections.Counter()
    failures = []
    for number, plan in enumerate(chosen(plans, room.long, chance)):
        try:
            outcomes[attempt(room, str(number), plan, dialogue).outcome()] += 1
        except Failure as failure:
            failures.append(str(failure))
    summary = ", ".join(f"{count} {word}" for word, count in outcomes.most_common())
    print(f"{dialogue} {shard + 1}/{SHARDS}: {summary}; {len(failures)} failed", file=sys.stderr, flush=True)
    for failure in failures:
        print(f"  {dialogue}: {failure}", file=sys.stderr, flush=True)
    expect(not failures, f"{len(failures)} of {sum(outcomes.values()) + len(failures)}: {failures[:1]}")


if __name__ == "__main__":
    print(f"FAULT_SEED={SEED}", file=sys.stderr, flush=True)
    main(__doc__)
