"""What a person or an editor gives to keyhop, and what it says to that."""

import json
import os

import processes
from client import Client
from harness import expect, expect_equal, main, test

USAGE = 64

# Every option with a sound value and an unsound one.
OPTIONS = {
    "keys": ("forward", "sometimes"),
    "rule": ("_vendor/x=keyed", "_vendor/x"),
    "drain": ("1.5", "-1"),
    "kill-grace": ("0", "soon"),
    "max-frame": ("1MiB", "1XB"),
    "silence-timeout": ("10", "x"),
    "restart": ("never", "perhaps"),
    "ledger": ("off", None),
    "config": ("/dev/null", "/nonexistent/keyhop.toml"),
    "log-level": ("debug", "loud"),
    "log-format": ("json", "xml"),
    "log-file": ("/dev/null", None),
    "stderr-tail": ("0", "101"),
}


@test()
def help_fits_a_terminal(room):
    status, out, err = room.run_to_end("--help")
    expect_equal((status, err), (0, ""), "exit status and stderr")
    lines = out.splitlines()
    expect(len(lines) <= 40, f"{len(lines)} lines")
    expect_equal([line for line in lines if len(line) > 80], [], "lines of more than 80 columns")
    for name in OPTIONS:
        expect(f"--{name}" in out, f"--{name} is not in it")


@test()
def version(room):
    status, out, err = room.run_to_end("--version")
    expect_equal((status, err, out.count("\n")), (0, "", 1), "exit status, stderr and lines")
    expect(out.startswith("keyhop ") and out.split()[1][0].isdigit(), f"the version: {out!r}")


@test()
def wrong_options_name_the_flag(room):
    wrong = [(f"--{name}={bad}", f"--{name}") for name, (_, bad) in OPTIONS.items() if bad is not None]
    wrong += [
        ("--nonsense", "--nonsense"),
        ("--nonsense=1", "--nonsense"),
        ("--trace=x", "--trace"),
        ("-x", "-x"),
    ]
    for argument, flag in wrong:
        status, out, err = room.run_to_end(argument, "--", "true")
        expect_equal((status, out), (USAGE, ""), f"exit status and stdout of {argument}")
        expect(flag in err, f"stderr of {argument} does not name the flag: {err!r}")
        expect(len(err) < 300, f"stderr of {argument} is long: {err!r}")
    for name in OPTIONS:
        status, _, err = room.run_to_end(f"--{name}")
        expect(status == USAGE and f"--{name}" in err, f"--{name} without a value: {status} {err!r}")


@test()
def a_wrong_command_is_usage(room):
    for arguments in (("--",), ("agent",), ("--json", "--", "true"), ("--", "")):
        status, out, err = room.run_to_end(*arguments)
        expect_equal((status, out), (USAGE, ""), f"exit status and stdout of {arguments}")
        expect(err.startswith("keyhop: "), f"stderr of {arguments}: {err!r}")


@test()
def environment_twins(room):
    for name, (good, bad) in OPTIONS.items():
        variable = "KEYHOP_" + name.upper().replace("-", "_")
        status, _, err = room.run_to_end("--", "true", environment={variable: good})
        expect_equal(status, 0, f"exit status with {variable}={good}: {err!r}")
        if bad is None:
            continue
        status, _, err = room.run_to_end("--", "true", environment={variable: bad})
        expect(status == USAGE and variable in err, f"{variable}={bad}: {status} {err!r}")
        status, _, err = room.run_to_end(f"--{name}={good}", "--", "true", environment={variable: bad})
        expect_equal(status, 0, f"exit status where the flag wins over {variable}")


@test()
def environment_twins_work_and_are_not_passed_on(room):
    twins = {"KEYHOP_" + name.upper().replace("-", "_"): good for name, (good, _) in OPTIONS.items()}
    keyhop = room.start(environment={**twins, "OTHER": "stays", "KEYHOPPER": "stays too"})
    client = keyhop.client
    session = client.open()
    for _ in range(2):
        client.answer(client.prompt(session, "hello", "key-1"))
    agent = client.call("_test/state")["result"]["pid"]
    variables = processes.environment(agent)
    expect("OTHER=stays" in variables and "KEYHOPPER=stays too" in variables, "a variable was lost")
    own = [entry for entry in variables if entry.startswith("KEYHOP_")]
    expect_equal(own, ["KEYHOP_PLACE=1"], "keyhop's variables at the agent")
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(len(room.history().insertions()), 2, "insertions with KEYHOP_KEYS=forward")


@test()
def rules(room):
    status, out, err = room.run_to_end("rules")
    expect_equal((status, err), (0, ""), "exit status and stderr")
    expect("session/prompt" in out, "session/prompt is not in it")
    status, out, _ = room.run_to_end("rules", "--json")
    rows = json.loads(out)
    expect_equal((status, len(rows)), (0, 93), "exit status and rows")
    status, out, _ = room.run_to_end("rules", "--json", "session/prompt")
    expect(
        status == 0 and {row["method"] for row in json.loads(out)} == {"session/prompt"},
        f"one method: {out!r}",
    )
    status, _, err = room.run_to_end("rules", "--nonsense")
    expect(status == USAGE and "--nonsense" in err, f"a wrong option: {status} {err!r}")


def _on_terminal(room, *arguments):
    ours, theirs = os.openpty()
    keyhop = room.run([room.keyhop, *arguments], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    return keyhop, Client(None, ours)


def _read_terminal(client):
    return [line.rstrip(b"\r").decode() for line in client.read_to_end()]


@test()
def on_a_terminal_without_agent(room):
    keyhop, client = _on_terminal(room)
    lines = _read_terminal(client)
    expect_equal(keyhop.wait(), USAGE, "exit status")
    expect_equal(lines, room.run_to_end("--help")[1].splitlines(), "what the terminal shows")


@test()
def on_a_terminal_keyhop_becomes_the_agent(room):
    keyhop, client = _on_terminal(
        room, "--keys=forward", "--", "sh", "-c", "echo $$ $0 $1; exit 7", "a b", "c"
    )
    lines = _read_terminal(client)
    expect_equal(keyhop.wait(), 7, "exit status")
    expect_equal(lines, [f"{keyhop.pid} a b c"], "what the terminal shows")


@test()
def on_a_terminal_with_a_command_that_cannot_be_executed(room):
    keyhop, client = _on_terminal(room, "--", "/nonexistent/agent")
    lines = _read_terminal(client)
    expect_equal(keyhop.wait(), 69, "exit status")
    expect("/nonexistent/agent" in "\n".join(lines), f"what the terminal shows: {lines}")


@test()
def arguments_of_the_agent_are_untouched(room):
    words = ["--help", "--", "", "a b", "$HOME", "*", "--keys=forward", "\n", "é"]
    keyhop = room.run(
        [room.keyhop, "--", "sh", "-c", 'printf "%s\\0" "$@" >"$0"', room.path("words"), *words]
    )
    expect_equal(keyhop.close(), 0, "exit status")
    with open(room.path("words"), encoding="utf-8") as file:
        expect_equal(file.read().split("\0")[:-1], words, "the agent's arguments")


@test()
def two_instances_at_once(room):
    """Of one user, with the same session name and key: nothing of one is seen by the other."""
    names = ("one", "two")
    same = ("--fixed-session", "s1")
    keyhops = [
        room.start(command=room.agent_command(*same, "--name", name, history=name, wire=f"wire-{name}"))
        for name in names
    ]
    for keyhop in keyhops:
        keyhop.client.open()
    for number in range(1000, 1100):
        for name, keyhop in zip(names, keyhops):
            keyhop.client.prompt("s1", f"hello {name}", "key-1", number)
    results = []
    for keyhop in keyhops:
        answers = [keyhop.client.answer(number)["result"]["messageId"] for number in range(1000, 1100)]
        expect_equal(len(set(answers)), 1, "messages")
        results.append(answers[0])
    for name, keyhop, message in zip(names, keyhops, results):
        expect_equal(keyhop.close(), 0, "exit status")
        rows = room.history(name).insertions()
        expect_equal(
            [(row["messageId"], row["prompt"][0]["text"]) for row in rows],
            [(message, f"hello {name}")],
            f"insertions of {name}",
        )


if __name__ == "__main__":
    main(__doc__)
