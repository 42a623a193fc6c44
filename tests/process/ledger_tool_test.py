"""`keyhop ledger`: what a person and a program are shown, what is erased, and that looking leaves no trace."""

import json
import os
import re
import sqlite3
import subprocess

from harness import expect, expect_equal, main, test

NOTHING, USAGE, BAD_FILE, INPUT_OUTPUT = 1, 64, 65, 74


def run(room, *arguments, environment=None):
    """`keyhop ledger` to its end: exit status, stdout, stderr."""
    return room.run_to_end("ledger", *arguments, environment={"TZ": "UTC", **(environment or {})})


def make(room, name="ledger.db"):
    """A ledger as keyhop leaves it behind, without a prompt."""
    path = os.path.join(room.directory, "state", name)
    relay = subprocess.run(
        [room.keyhop, "--ledger", path, "--", "true"],
        env=room.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    expect_equal(relay.returncode, 0, f"exit status of the relay: {relay.stderr!r}")
    return path


def fill(path):
    """Three prompts of two sessions, in each state."""
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO sessions (number, agent, session) VALUES (1, 'one', 'a'), (2, 'two', 'b\x1b[2J')")
        for key, (session, state, message) in enumerate([(1, 1, ""), (1, 2, '"m-1"'), (2, 3, "")]):
            connection.execute(
                "INSERT INTO keyed_prompts VALUES (?, ?, x'00', x'00', ?, 0, ?, ?, 1, ?, ?)",
                (session, bytes([key]) * 16, state, key, message, 86400000 * key, 86400000 * key + 1000),
            )
    connection.close()


def files(path):
    """What is in every file beside that one."""
    directory = os.path.dirname(path)
    found = {}
    for name in sorted(os.listdir(directory)):
        if os.path.isdir(os.path.join(directory, name)):
            continue
        with open(os.path.join(directory, name), "rb") as file:
            found[name] = file.read()
    return found


@test()
def nothing_is_remembered_where_there_is_no_file(room):
    missing = os.path.join(room.directory, "no", "ledger.db")
    for arguments, environment in (
        ([missing], {}),
        ([], {"KEYHOP_LEDGER": missing}),
        ([], {"XDG_STATE_HOME": room.directory}),
        ([], {"XDG_STATE_HOME": "", "HOME": room.directory}),
        ([], {"XDG_STATE_HOME": "relative", "HOME": room.directory}),
    ):
        status, out, err = run(room, *arguments, environment=environment)
        expect_equal((status, err), (0, ""), f"exit status and stderr of {arguments} {environment}")
        expect(room.directory in out, f"it names the file: {out!r}")
        expect_equal(run(room, *arguments, "--json", environment=environment)[:2], (0, "[]\n"), "as JSON")
    expect_equal(run(room, "--forget", "a", missing)[0], NOTHING, "exit status of --forget")
    expect(not os.path.exists(os.path.join(room.directory, "no")), "nothing was made")


@test()
def the_default_place(room):
    for variables, place in (
        ({"XDG_STATE_HOME": os.path.join(room.directory, "x"), "HOME": room.directory}, "x/keyhop/ledger.db"),
        ({"XDG_STATE_HOME": "x", "HOME": room.directory}, ".local/state/keyhop/ledger.db"),
    ):
        relay = subprocess.run(
            [room.keyhop, "--", "true"],
            env=room.environment(KEYHOP_LEDGER="", **variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        expect_equal(relay.returncode, 0, "exit status")
        path = os.path.join(room.directory, place)
        expect_equal(os.stat(path).st_mode & 0o777, 0o600, "its mode")
        expect_equal(os.stat(os.path.dirname(path)).st_mode & 0o777, 0o700, "its directory's mode")


@test()
def forward_and_off_open_none(room):
    for options in (["--keys", "forward"], ["--ledger", "off"]):
        relay = subprocess.run(
            [room.keyhop, *options, "--", "true"],
            env=room.environment(XDG_STATE_HOME=os.path.join(room.directory, "none")),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        expect_equal(relay.returncode, 0, "exit status")
        expect(not os.path.exists(os.path.join(room.directory, "none")), f"{options}: nothing was made")


@test()
def words_for_a_person(room):
    path = make(room)
    expect_equal(run(room, path)[0], 0, "exit status of an empty one")
    fill(path)
    before = files(path)
    status, out, err = run(room, path)
    expect_equal((status, err), (0, ""), "exit status and stderr")
    lines = out.splitlines()
    for number, words in enumerate(
        [
            ("AGENT", "SESSION", "SENT", "STATE", "MESSAGE ID"),
            ("one", "a", "1970-01-01 00:00", "days ago", "no answer yet", "-"),
            ("one", "a", "1970-01-02 00:00", "answered", "m-1"),
            ("two", "b?[2J", "1970-01-03 00:00", "outcome unknown"),
            ("3 prompts", "2 sessions", path),
        ]
    ):
        for word in words:
            expect(word in lines[number], f"line {number} has {word!r}: {lines[number]!r}")
    expect("\x1b" not in out, "no control characters")
    expect_equal(files(path), before, "the directory afterwards")


@test()
def values_for_a_program(room):
    path = make(room)
    fill(path)
    before = files(path)
    status, out, err = run(room, "--json", path)
    expect_equal((status, err), (0, ""), "exit status and stderr")
    rows = json.loads(out)
    expect_equal(
        rows[1],
        {
            "agent": "one",
            "session": "a",
            "state": "inserted",
            "messageId": "m-1",
            "sentAt": "1970-01-02T00:00:00Z",
            "changedAt": "1970-01-02T00:00:01Z",
        },
        "the second",
    )
    expect_equal([row["state"] for row in rows], ["open", "inserted", "unknown"], "states")
    expect_equal([row["messageId"] for row in rows], [None, "m-1", None], "message ids")
    expect_equal(rows[2]["session"], "b\x1b[2J", "a session's id")
    expect_equal(files(path), before, "the directory afterwards")


@test()
def forgets_a_session_and_no_other(room):
    path = make(room)
    fill(path)
    expect_equal(run(room, "--forget", "nobody", path)[0], NOTHING, "exit status of an unknown one")
    status, out, err = run(room, "--forget", "a", path)
    expect_equal((status, err), (0, ""), "exit status and stderr")
    expect(re.search(r"\b2 prompts\b", out), f"says how many: {out!r}")
    expect_equal([row["session"] for row in json.loads(run(room, "--json", path)[1])], ["b\x1b[2J"], "what is left")
    status, out, _ = run(room, "--json", "--forget", "b\x1b[2J", path)
    expect_equal((status, json.loads(out)), (0, {"session": "b\x1b[2J", "forgotten": 1}), "as JSON")
    expect_equal(run(room, "--forget", "a", path)[0], NOTHING, "exit status the second time")
    expect_equal(run(room, "--json", path)[1], "[]\n", "in the end")


@test()
def what_cannot_be_read_is_said(room):
    path = make(room)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    text = os.path.join(room.directory, "text")
    with open(text, "w", encoding="utf-8") as file:
        file.write("no ledger\n" * 1000)
    for name, wanted, word in ((path, BAD_FILE, "newer"), (text, BAD_FILE, "no ledger"), (os.path.join(text, "x"), INPUT_OUTPUT, "cannot")):
        before = files(name) if os.path.isfile(name) else None
        for more in ([], ["--json"], ["--forget", "a"]):
            status, out, err = run(room, *more, name)
            expect_equal((status, out), (wanted, ""), f"exit status and stdout of {more} {name}")
            expect(word in err and name in err and err.count("\n") == 1, f"one line that says why: {err!r}")
        expect_equal(files(name) if os.path.isfile(name) else None, before, "the directory afterwards")


@test()
def wrong_use(room):
    for arguments, environment in (
        (["a", "b"], {}),
        (["--forget"], {}),
        (["--forget", "a", "--forget", "b"], {}),
        ([""], {}),
        ([], {"KEYHOP_LEDGER": "off"}),
    ):
        status, out, err = run(room, *arguments, environment=environment)
        expect_equal((status, out), (USAGE, ""), f"exit status and stdout of {arguments}")
        expect("ledger" in err or "--forget" in err, f"what to do: {err!r}")


if __name__ == "__main__":
    main(__doc__)
