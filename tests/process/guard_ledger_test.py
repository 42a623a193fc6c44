"""The ledger as keyhops and people meet it: shared, busy, unusable, private; and prompts without a key that
are sent again only where their absence is proven."""

import contextlib
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import time

from client import is_idle, prompt_params
from guard import INSERTED, OPEN, World, resume, submit
from harness import expect, expect_equal, expect_own_error, main, test, wait_for
from restart import finish


PROVEN = ("--recover-prompts", "proven")
V1_AGENT = ("--no-resume", "--v1-message-ids")  # loads, and replays


def frame(number, session, text, key):
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "session/prompt",
        "params": prompt_params(session, text, key),
    }


def shown_by(room, *arguments):
    """What `keyhop ledger` prints."""
    return subprocess.run([room.keyhop, "ledger", *arguments], stdout=subprocess.PIPE, check=True).stdout


def make_ledger(world):
    """A ledger without a row."""
    keyhop = world.begin()
    keyhop.client.initialize()
    submit(keyhop.client, "nobody's", "", "key")  # refused by the agent, once the ledger is open
    finish(keyhop)


@contextlib.contextmanager
def locked(path):
    """Another program has the ledger for itself."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


# ---- Shared ----


@test()
def two_keyhops_share_one(room):
    world = World(room)
    keyhops = [world.begin() for _ in range(2)]
    sessions = [keyhop.client.open() for keyhop in keyhops]
    ids = {}
    for number in range(20):
        numbers = [
            keyhop.client.prompt(session, f"prompt {number}", f"key-{number}")
            for keyhop, session in zip(keyhops, sessions)
        ]
        for keyhop, session, request in zip(keyhops, sessions, numbers):
            ids[session, number] = keyhop.client.answer(request)["result"]["messageId"]
    keyhops[0].kill()
    finish(keyhops[1])
    keyhop = world.back(sessions[0])
    resume(keyhop.client, sessions[1])
    for (session, number), wanted in ids.items():
        answer = submit(keyhop.client, session, f"prompt {number}", f"key-{number}")
        expect_equal(answer["result"]["messageId"], wanted, f"the retry of {number} in {session}")
    finish(keyhop)
    expect_equal(len(world.insertions()), len(ids), "insertions")
    shown = json.loads(shown_by(room, "--json", world.ledger()))
    rows = [(row["session"], row["state"], row["messageId"]) for row in shown]
    wanted = [(session, "inserted", message) for (session, _), message in ids.items()]
    expect_equal(sorted(rows), sorted(wanted), "what `keyhop ledger` shows")
    room.expect_nothing_left(adopted=None)


@test()
def two_keyhops_in_one_session_insert_once(room):
    world = World(room)
    first = world.begin()
    session = first.client.open()
    submit(first.client, session, "earlier", "key-0")
    second = world.back(session)
    wanted = submit(first.client, session, "work", "key-1")["result"]["messageId"]
    for _ in range(2):  # it did not know of the row; then it has read it
        answer = submit(second.client, session, "work", "key-1")
        word = world.word_for(answer, "key-1", "work")
        expect(word == "unknown" or answer["result"]["messageId"] == wanted, f"{answer}")
    finish(second)
    finish(first)
    expect_equal(len(world.insertions("key-1")), 1, "insertions")


@test()
def agents_of_different_names_never_mix(room):
    worlds = [
        World(room, name, ("--name", name, "--fixed-session", "s"), state="both") for name in ("one", "two")
    ]
    ids = []
    for world in worlds:
        keyhop = world.begin()
        session = keyhop.client.open()
        ids.append(submit(keyhop.client, session, f"for {world.name}", "key-1")["result"]["messageId"])
        keyhop.kill()
    for world, wanted in zip(worlds, ids):
        keyhop = world.back("s")
        answer = submit(keyhop.client, "s", f"for {world.name}", "key-1")
        expect_equal(answer["result"]["messageId"], wanted, f"the retry at {world.name}")
        finish(keyhop)
        expect_equal(len(world.insertions()), 1, f"insertions by {world.name}")
    room.expect_nothing_left(adopted=None)


@test()
def another_path_to_the_same_agent_forgets_nothing(room):
    world = World(room)
    keyhop = world.begin()
    session = keyhop.client.open()
    first = submit(keyhop.client, session, "work", "key-1")["result"]["messageId"]
    finish(keyhop)
    moved = room.path("agent-2")
    os.symlink(world.command[0], moved)
    world.command[0] = moved
    keyhop = world.back(session)
    expect_equal(submit(keyhop.client, session, "work", "key-1")["result"]["messageId"], first, "the retry")
    finish(keyhop)
    expect_equal(len(world.insertions()), 1, "insertions")


# ---- Busy ----


@test()
def a_locked_ledger_delays_that_session_only(room):
    world = World(room)
    keyhop = world.begin()
    client = keyhop.client
    session = client.open()
    other = client.new_session()
    submit(client, session, "earlier", "key-0")
    wait_for(lambda: world.rows() == {(session, INSERTED): 1})
    with locked(world.ledger()):
        number = client.prompt(session, "waits", "key-1")
        behind = client.request("session/status", {"sessionId": session})
        times = []
        end = time.monotonic() + 3
        while time.monotonic() < end:
            begun = time.monotonic()
            answer = submit(client, other, "[updates 10 100] passes")
            expect("result" in answer, f"the other session's prompt: {answer}")
            client.receive_until(is_idle)
            times.append(time.monotonic() - begun)
        expect_equal(client.answers(number) + client.answers(behind), [], "answers while it is locked")
        expect(not world.has_received(b'"waits"'), "the prompt left before its row was written")
    client.receive_until(lambda _: client.answers(number) and client.answers(behind))
    for waited in (number, behind):
        expect("result" in client.answers(waited)[0], f"what waited: {client.answers(waited)}")
    finish(keyhop)
    longest = f"{max(times) * 1000:.0f} ms"
    print(f"{len(times)} turns beside a locked ledger, the longest {longest}", file=sys.stderr, flush=True)
    expect(len(times) >= 10, f"only {len(times)} turns of the other session")
    order = [row["prompt"][0]["text"] for row in world.insertions("key-1")]
    expect_equal(order, ["waits"], "insertions of the key")


@test()
def what_was_sent_before_the_ledger_was_open_is_not_mistaken(room):
    """A prompt without a key, and the same text with one; the first alone is inserted."""
    world = World(room, agent=("--fault", "inserted:session/prompt@1=kill KILL", "--fault-once"))
    make_ledger(world)
    with locked(world.ledger()):
        keyhop = world.begin()
        client = keyhop.client
        session = client.open()
        twin = client.prompt(session, "[hang] work")
        client.call("_test/state")
    keyed = client.prompt(session, "[hang] work", "key-1")
    wait_for(lambda: world.has_received(b'"key-1"'))
    client.order("[release]", session)
    expect_own_error(client.answer(twin), -32603, "unknown")
    word = world.word_for(client.answer(keyed), "key-1", "[hang] work")
    expect(word in ("id", "unknown"), f"the keyed prompt was told {word!r}")
    finish(keyhop)
    wanted = [None, "key-1"] if word == "id" else [None]
    expect_equal([row.get("key") for row in world.insertions()], wanted, "keys of the insertions")


@test(cases={"keyed": (2, "key-1"), "proven absent": (2, None), "v1, proven absent": (1, None)})
def a_message_seen_before_the_ledger_was_open_is_not_mistaken(room, version, key):
    world = World(room, agent=V1_AGENT if version == 1 else (), options=PROVEN)
    make_ledger(world)
    run = world.last_run()
    with locked(world.ledger()):
        keyhop = world.begin()
        client = keyhop.client
        session = client.open(version)
        earlier = client.prompt(session, "earlier")
        client.call("_test/state")
    wait_for(lambda: world.last_run() > run)
    client.call("_test/state")  # keyhop has heard of it
    if not client.answers(earlier):
        client.answer(earlier)
    answer = submit(client, session, "[die before_insert] earlier", key)
    if "error" in answer:
        expect_own_error(answer, -32603, "unknown")
    elif version == 2:
        expect_equal(answer["result"]["messageId"], world.insertions()[1]["messageId"], "the answer")
    finish(keyhop)
    expect_equal(len(world.insertions()), 2 if "result" in answer else 1, "insertions")


# ---- Not usable ----


def make_newer(room):
    world = World(room, "newer")
    make_ledger(world)
    with sqlite3.connect(world.ledger()) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    return world.ledger()


def make_file(room):
    with open(room.path("file"), "w", encoding="utf-8") as file:
        file.write("no directory\n")
    return os.path.join(room.path("file"), "ledger.db")


UNUSABLE = {
    "below a file": make_file,
    "where nothing can be made": lambda room: "/proc/keyhop/ledger.db",
    "of a newer keyhop": make_newer,
    "that is a directory": lambda room: room.directory,
}


@test(cases=UNUSABLE)
def without_its_ledger_only_keyed_prompts_are_refused(room, make):
    path = make(room)
    world = World(room)
    keyhop = world.begin("--ledger", path)
    client = keyhop.client
    session = client.open()
    for _ in range(2):
        error = expect_own_error(submit(client, session, "keyed", "key-1"), -32603, "not_sent")
        expect("--ledger" in error["message"], f"it does not say what to do: {error}")
        expect("result" in submit(client, session, "[tool a] not keyed"), "a prompt without a key")
    expect("result" in client.call("session/list", {}), "a listing")
    finish(keyhop)
    expect(not world.has_received(b'"key-1"'), "the prompt was sent unprotected")
    keyhop = world.back(session)  # with a ledger that works
    expect("result" in submit(keyhop.client, session, "keyed", "key-1"), "the retry with a ledger")
    finish(keyhop)
    expect_equal(len(world.insertions("key-1")), 1, "insertions")


@test()
def a_full_disk_refuses_keyed_prompts(room):
    """No file of keyhop's may grow over 64 KiB: the ledger's log soon cannot."""
    world = World(room)
    make_ledger(world)
    limited = 'ulimit -f 128; exec "$@"'
    arguments = ["sh", "-c", limited, "sh", room.keyhop, *world.options, "--log-level", "off", "--"]
    keyhop = room.run([*arguments, *world.command], dict(world.state))
    client = keyhop.client
    session = client.open()
    for count in range(30):
        answer = submit(client, session, f"prompt {count}", f"key-{count}")
        if "error" in answer:
            break
    error = expect_own_error(answer, -32603, "not_sent")
    expect("--ledger" in error["message"], f"it does not say what to do: {error}")
    expect("result" in submit(client, session, "not keyed"), "a prompt without a key")
    finish(keyhop)
    expect(not world.has_received(b'"key-%d"' % count), "the prompt was sent unprotected")
    keyhop = world.back(session)
    for number in range(count + 1):
        answer = submit(keyhop.client, session, f"prompt {number}", f"key-{number}")
        word = world.word_for(answer, f"key-{number}", f"prompt {number}")
        expect_equal(word, "id", f"the retry of {number} where there is room again")
    finish(keyhop)
    expect_equal(len(world.insertions()), count + 2, "insertions")


# ---- Private ----


@test()
def no_key_and_no_text_is_written_anywhere(room):
    secrets = [b"SECRETKEY", b"SECRETTEXT"]
    key, text = "SECRETKEY-0b6f3c1e", "SECRETTEXT the password is 1234"
    world = World(room, options=("--drain", "0", "--log-level", "debug", "--log-file", room.path("log")))
    keyhop = world.begin()
    session = keyhop.client.open()
    submit(keyhop.client, session, text, key)
    submit(keyhop.client, session, "SECRETTEXT another", key)
    submit(keyhop.client, session, text, "SECRETKEY" * 40)
    submit(keyhop.client, session, f"[die before_insert] {text}", key + "-1")
    submit(keyhop.client, session, f"[die after_insert] {text}", key + "-2")
    submit(keyhop.client, session, f"[error 32050] {text}", key + "-3")
    keyhop.client.prompt(session, f"[no_answer] {text}", key + "-4")
    world.wait_for_insertion(key + "-4")
    files = read_all(room.path("state-world"), room.path("log"), keyhop.stderr_path)
    keyhop.kill()
    keyhop = world.back(session)
    submit(keyhop.client, session, f"[no_answer] {text}", key + "-4")
    finish(keyhop)
    for options in ([], ["--json"]):
        files[f"keyhop ledger {options}"] = shown_by(room, *options, world.ledger())
    more = read_all(room.path("state-world"), room.path("log"), keyhop.stderr_path)
    expect(len(world.insertions(key)) == 1, "the key was not used")
    expect(any(name.endswith("-wal") for name in files), "the ledger's log was not looked at")
    for name, data in [*files.items(), *more.items()]:
        expect(data or name.endswith(("-wal", "-shm", "-owners")), f"{name} is empty")
        for secret in secrets:
            expect(secret not in data, f"{secret} is in {name}")
    room.expect_nothing_left(adopted=None)


def read_all(*paths):
    found = {}
    for path in paths:
        names = [path] if os.path.isfile(path) else []
        for directory, _, entries in os.walk(path):
            names += [os.path.join(directory, entry) for entry in entries]
        for name in names:
            with open(name, "rb") as file:
                found[name] = file.read()
    return found


# ---- Many at once ----

TOGETHER = 100


def commits(path):
    """Commits in the ledger's log: frames that say how big the database is after them."""
    with open(path + "-wal", "rb") as file:
        log = file.read()
    page = int.from_bytes(log[8:12], "big")
    salt = log[16:24]
    heads = [log[at : at + 24] for at in range(32, len(log) - page - 23, page + 24)]
    return sum(head[8:16] == salt and head[4:8] != bytes(4) for head in heads)


@test()
def many_prompts_that_come_together_share_commits(room):
    world = World(room)
    keyhop = world.begin()
    client = keyhop.client
    session = client.open()
    single = []
    for number in range(20):
        begun = time.monotonic()
        submit(client, session, "one", f"single-{number}")
        single.append(time.monotonic() - begun)
    wait_for(lambda: world.rows() == {(session, INSERTED): 20})
    counts, times = [], []
    for batch in range(1, 4):
        session = client.new_session()
        first = 1000 * batch
        numbers = range(TOGETHER)
        frames = [frame(first + n, session, "[hang] many", f"key-{n}") for n in numbers]
        before = commits(world.ledger())
        begun = time.monotonic()
        client.send(*frames)
        client.call("_test/state")  # behind them all
        times.append(time.monotonic() - begun)
        counts.append(commits(world.ledger()) - before)
        expect_equal(len(world.history.received(b'"key-')), TOGETHER * batch, "prompts at the agent")
        expect_equal(world.rows()[session, OPEN], TOGETHER, "rows")
    print(
        f"{TOGETHER} keyed prompts in one write: {counts} commits, {1000 * min(times):.1f} ms;"
        f" one alone: {1000 * statistics.median(single):.1f} ms",
        file=sys.stderr,
        flush=True,
    )
    # A first one may be on its way to the disk while the others come; on a busy machine some more.
    expect(1 <= min(counts) <= 3, f"{counts} commits")
    finish(keyhop)


# ---- Prompts without a key ----

LOSSES = {
    f"v{version}, {point}": (version, point)
    for version in (2, 1)
    for point in ("before_insert", "after_insert")
}


@test(cases=LOSSES)
def a_prompt_without_a_key_is_sent_again_if_its_absence_is_proven(room, version, point):
    world = World(room, agent=V1_AGENT if version == 1 else (), options=PROVEN)
    keyhop = world.begin()
    session = keyhop.client.open(version)
    expect("result" in submit(keyhop.client, session, "earlier"), "the earlier prompt")
    answer = submit(keyhop.client, session, f"[die {point}] work")
    is_decided = version == 2 or point == "before_insert"  # v1's answer is the turn's end, which is lost
    expect_equal("result" in answer, is_decided, f"success of {answer}")
    if version == 2:
        named = answer["result"]["messageId"]
        expect_equal(named, world.insertions()[-1]["messageId"], "the answer")
    elif is_decided:
        expect_equal(answer["result"], {"stopReason": "end_turn"}, "the answer")
    else:
        expect_own_error(answer, -32603)
    finish(keyhop)
    expect_equal(len(world.insertions()), 2, "insertions")


@test(cases={"v2": 2, "v1": 1})
def it_is_not_sent_again_by_default(room, version):
    world = World(room)
    keyhop = world.begin()
    session = keyhop.client.open(version)
    submit(keyhop.client, session, "earlier")
    answer = submit(keyhop.client, session, "[die before_insert] work")
    expect_own_error(answer, -32603, "unknown")
    finish(keyhop)
    expect_equal(len(world.insertions()), 1, "insertions")


if __name__ == "__main__":
    main(__doc__)
