"""keyhop itself is killed at every step of a keyed prompt's life: nothing is inserted twice, and no answer is
claimed that the agent never gave.

Steps: before and after the ledger's write, before and after the prompt leaves, before and after the answer is
written down, and while the next keyhop recovers. Most moments are those at which a file changes; the seed
decides the rest.
"""

import collections
import os
import random
import sys
import time

import processes
from guard import PLACE, World, resume
from harness import expect, expect_equal, main, test

PATIENCE = 1.0  # seconds for a change to be seen; then the kill comes without
KILLS_A_ROUND = 25  # the agent reads its sessions at each start
SHARDS = 8

# Late, early, whole, in chunks; some stay for a while when keyhop has gone, and insert.
AGENTS = (
    (),
    ("--insert-delay", "4", "--linger", "20"),
    ("--echo", "before", "--insert-delay", "2"),
    ("--echo", "late", "--chunked-echo", "--linger", "10"),
    ("--insert-delay", "8", "--linger", "40", "--replay-complete"),
)


def look(path):
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns


class Moment:
    """When to kill. Made before the prompt is sent."""

    def __init__(self, world, chance):
        self.chance = chance
        log = world.ledger() + "-wal"
        acted = os.path.join(world.history.directory, "acted.jsonl")
        kinds = {
            "at any time": (None, 0),
            "before the row": (None, 0),
            "after the row": (log, 1),
            "after the prompt left": (world.history.wire, 1),
            "after the insertion": (acted, 1),
            "after the agent's answer": (world.history.wire, 2),
            "after the answer's row": (log, 2),
            "after the client's answer": (None, 0),
            "in the recovery": (log, 1),
        }
        self.kind = chance.choice(sorted(kinds))
        self.path, self.changes = kinds[self.kind]
        self.seen = look(self.path) if self.path else None

    def wait(self, client, number):
        """Returns at the moment; the answer, if the client has read it."""
        if self.kind == "at any time":
            time.sleep(self.chance.uniform(0, 0.02))
        elif self.kind == "after the client's answer":
            return client.answer(number)
        end = time.monotonic() + PATIENCE
        for _ in range(self.changes):
            while (present := look(self.path)) == self.seen and time.monotonic() < end:
                pass
            self.seen = present
        if self.changes and self.chance.random() < 0.5:
            time.sleep(self.chance.uniform(0, 0.001))
        return None


class Round:
    """One agent's history and one session, many lives of keyhop."""

    def __init__(self, room, name, agent, chance):
        self.world = World(room, name, agent)
        self.chance = chance
        self.kills = 0
        self.words = collections.Counter()
        self.final = {}  # key -> what its last retry was told
        self.keyhop = self.world.begin()
        self.session = self.keyhop.client.open()

    def kill(self):
        """keyhop dies; the client has what it still could read."""
        self.keyhop.kill()
        self.kills += 1
        while self.keyhop.client.receive() is not None:
            pass
        self.world.discard(self.keyhop)

    def recover(self, dies_again):
        """The next keyhop, with the session active. `dies_again`: one more is killed on its way there."""
        self.keyhop = self.world.begin()
        if dies_again:
            self.keyhop.client.initialize()
            self.keyhop.client.request("session/resume", {"sessionId": self.session, **PLACE})
            time.sleep(self.chance.uniform(0, 0.03))
            self.kill()
            self.keyhop = self.world.begin()
        self.keyhop.client.initialize()
        answer = resume(self.keyhop.client, self.session, replay=self.chance.random() < 0.2)
        expect("result" in answer, f"the session was not resumed: {answer}")

    def step(self, number):
        key, text = f"key-{number}", f"prompt {number}"
        moment = Moment(self.world, self.chance)
        client = self.keyhop.client
        has_twin = self.chance.random() < 0.2
        if has_twin:  # the same text without a key, which nobody sends again
            client.prompt(self.session, text, None, 1000)
        client.prompt(self.session, text, key, 1001)
        answer = moment.wait(client, 1001)
        self.kill()
        answers = [answer] if answer else client.answers(1001)
        for early in answers:
            expect_equal(self.world.word_for(early, key, text), "id", "the first answer")
        self.recover(moment.kind == "in the recovery")
        answer = self.keyhop.client.answer(self.keyhop.client.prompt(self.session, text, key, 1002))
        word = self.world.word_for(answer, key, text)
        where = f"killed {moment.kind}: the retry of {key}{' (with a twin)' if has_twin else ''}"
        expect(word == "id" or has_twin, f"{where} was told {word!r}")
        for early in answers:
            expect_equal(answer.get("result"), early["result"], f"{where}, after an answer")
        self.words[word] += 1
        self.final[key] = word
        expect(len(self.world.insertions(key)) <= 1, f"{where}: a second insertion")

    def end(self):
        expect_equal(self.keyhop.close(), 0, "exit status")
        self.world.discard(self.keyhop)
        self.world.room.expect_nothing_left(adopted=None)
        counts = collections.Counter(row.get("key") for row in self.world.insertions())
        stored = collections.Counter(row.get("key") for row in self.world.retained())
        for key, word in self.final.items():
            expect(counts[key] <= 1 and stored[key] <= 1, f"{key} was inserted {counts[key]} times")
            expect(word != "id" or stored[key] == 1, f"{key} was answered and is not there")


@test(seconds=3600, cases={f"{shard + 1} of {SHARDS}": shard for shard in range(SHARDS)})
def kills(room, shard):
    seed = int(os.environ.get("KEYHOP_SEED", "5")) + 1_000_000 * shard
    wanted = int(os.environ.get("KEYHOP_KILLS", "10000" if room.long else "300")) // SHARDS
    chance = random.Random(seed)
    words = collections.Counter()
    done = rounds = prompts = 0
    while done < wanted:
        one = Round(room, f"world-{rounds}", AGENTS[(rounds + shard) % len(AGENTS)], chance)
        for number in range(KILLS_A_ROUND):
            if done + one.kills >= wanted:
                break
            try:
                one.step(number)
            except Exception as error:
                error.args = (f"seed {seed}, round {rounds}, prompt {number}: {error}",)
                raise
        one.end()
        done += one.kills
        rounds += 1
        prompts += len(one.final)
        words += one.words
    print(
        f"{done} kills (seed {seed}), {prompts} keyed prompts, 0 inserted twice, 0 false claims;"
        f" retries answered: {dict(words)}",
        file=sys.stderr,
        flush=True,
    )


# ---- The old agent outlives its keyhop ----


@test(
    seconds=120,
    cases={
        "and inserts late": (300, 1),
        "and is ended before it inserts": (60000, 0),
    },
)
def an_old_agent_is_waited_for(room, delay, old_insertions):
    stubborn = ("--ignore-term", "--ignore-eof", "--insert-delay", str(delay))
    world = World(room, options=("--kill-grace", "1"))
    world.at_first(*stubborn)
    keyhop = world.begin()
    session = keyhop.client.open()
    keyhop.client.prompt(session, "work", "key-1")
    while not world.has_received(b'"key-1"'):
        pass
    (pid,) = world.history.epochs()
    keyhop.kill()
    expect_equal(world.insertions(), [], "insertions before the kill")
    keyhop = world.back(session)
    expect(not processes.is_test_agent(pid), "the session was resumed while the old agent lived")
    expect_equal(len(world.insertions("key-1")), old_insertions, "insertions by the old agent")
    answer = keyhop.client.answer(keyhop.client.prompt(session, "work", "key-1"))
    expect_equal(world.word_for(answer, "key-1", "work"), "id", "the retry")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(len(world.insertions()), 1, "insertions")
    expect_equal(len(world.retained()), 1, "messages")
    room.expect_nothing_left(adopted=None)


if __name__ == "__main__":
    main(__doc__)
