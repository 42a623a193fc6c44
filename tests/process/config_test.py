"""keyhop --config FILE: every option that a file can have, whose value counts, and what is wrong in which line."""

import os
import re
import subprocess

from harness import expect, expect_equal, main, test

USAGE = 64

# Every option of the help that a file can have: values that it takes, and values that it refuses, as TOML.
OPTIONS = {
    "keys": (['"guard"', '"forward"'], ['"sometimes"', "1", "true"]),
    "rule": (
        ['["_x/save=keyed", "_x/load=idempotent"]', "[]"],
        ['"_x/save=keyed"', '["_x"]', "[1]", '["_x=keyed", "_x=keyed"]', '["session/prompt=keyed"]'],
    ),
    "proxy": (['["cat"]', "['cat \"-\"']", "[]"], ['"cat"', "[1]", '["cat \'"]', '[""]', '["  "]']),
    "drain": (["1.5", "0", '"2.5"'], ["-1", "1e9", "nan", '"soon"', "[1]", "1979-05-27"]),
    "kill-grace": (["0", "0.25", '"3"'], ["-0.5", "false", '"1s"']),
    "max-frame": (['"1MiB"', "1_048_576", "0x100000"], ['"1XB"', "1.5", "0", "{}"]),
    "silence-timeout": (["10", '"off"', '"0.5"'], ["0", '"on"', "false"]),
    "restart": (['"never"', '"on-loss"'], ['"perhaps"', "false"]),
    "restart-limit": (['"3/10"'], ["3", '"3"', "[3, 10]"]),
    "restore-timeout": (["7", '"7"'], ["-7", '"x"']),
    "recover-prompts": (['"never"', '"proven"'], ['"always"', "true"]),
    "ledger": (['"off"', "'off'"], ['""', "0", '"a\\u0000b"']),
    "log-level": (['"off"', '"error"'], ['"loud"', "2", "[]"]),
    "log-format": (['"json"', '"text"'], ['"xml"', "0.5"]),
    "log-file": (['"/dev/null"'], ['""', "07:32:00"]),
    "stderr-tail": (["0", "100", '"5"'], ["101", "-1", "1.5"]),
}

# And those that it cannot have, with the reason.
NOT_IN_A_FILE = {
    "config": "a file names no other file",
    "help": "asked for, not set",
    "version": "asked for, not set",
    "json": "of the subcommands",
    "forget": "of a subcommand, and never to be done by default",
}


def file_of(room, content, name="keyhop.toml"):
    path = room.path(name)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path


def expect_refused(room, content, line, *words):
    """Refused, with the file and the line first, in two lines: what is wrong, and where help is."""
    path = file_of(room, content)
    status, out, err = room.run_to_end("--config", path, "--", "true")
    expect_equal((status, out), (USAGE, ""), f"exit status and stdout of {content!r}")
    expect(err.startswith(f"keyhop: {path}:{line}: "), f"file and line {line} of {content!r}: {err!r}")
    expect(err.count("\n") == 2 and len(err) < 700, f"two lines: {err!r}")
    for word in words:
        expect(word in err, f"{word!r} is not said of {content!r}: {err!r}")


@test()
def every_option_of_the_help_has_a_key_or_a_reason(room):
    _, out, _ = room.run_to_end("--help")
    shown = set(re.findall(r"--([a-z][a-z-]*)", out))
    expect_equal(sorted(shown), sorted(OPTIONS.keys() | NOT_IN_A_FILE.keys()), "the options of the help")
    for name in NOT_IN_A_FILE:
        for value in ('"x"', "true", "[]"):
            expect_refused(room, f"\n{name} = {value}\n", 2, f'unknown option "{name}"')


@test()
def every_option_takes_what_its_flag_takes(room):
    for name, (good, bad) in OPTIONS.items():
        for value in good:
            path = file_of(room, f"# {name}\n{name} = {value}\n")
            status, _, err = room.run_to_end("--config", path, "--", "true")
            expect_equal(status, 0, f"exit status with {name} = {value}: {err!r}")
        for value in bad:
            expect_refused(room, f"\n# {name}\n{name} = {value}\n", 3, name)


@test()
def the_advice_is_that_of_the_flag(room):
    for name, value in (
        ("drain", "soon"),
        ("keys", "sometimes"),
        ("max-frame", "1XB"),
        ("restart-limit", "3"),
    ):
        _, _, by_flag = room.run_to_end(f"--{name}={value}", "--", "true")
        path = file_of(room, f'{name} = "{value}"\n')
        _, _, by_file = room.run_to_end("--config", path, "--", "true")
        expect_equal(by_file.replace(f"{path}:1: ", "--"), by_flag, f"what is said of {name}")


@test()
def a_whole_file_works(room):
    """Of what the options do, keys = "forward" can be seen at the agent, and log-file in the file."""
    log = room.path("log")
    values = {name: good[-1] for name, (good, _) in OPTIONS.items()} | {"log-file": f'"{log}"'}
    path = file_of(room, "".join(f"{name} = {value}\n" for name, value in values.items()))
    keyhop = room.start(options=["--config", path, "--log-level", "info"])
    session = keyhop.client.open()
    for _ in range(2):
        keyhop.client.answer(keyhop.client.prompt(session, "hello", "key-1"))
    expect_equal(keyhop.close(), 0, "exit status")
    expect_equal(len(room.history().insertions()), 2, 'insertions with keys = "forward"')
    expect(os.path.getsize(log) > 0, "nothing is in the log file")


@test()
def the_variable_names_a_file_and_is_not_passed_on(room):
    path = file_of(room, 'keys = "forward"\n')
    command = ["sh", "-c", 'test -z "$KEYHOP_CONFIG" && exit 7']
    status, _, err = room.run_to_end("--", *command, environment={"KEYHOP_CONFIG": path})
    expect_equal(status, 7, f"exit status: {err!r}")
    status, _, err = room.run_to_end("--", *command, environment={"KEYHOP_CONFIG": room.path("none")})
    expect(
        status == USAGE and "KEYHOP_CONFIG" in err and room.path("none") in err, f"no file: {status} {err!r}"
    )
    wrong = file_of(room, "\nnonsense = 1\n", "wrong.toml")
    status, _, err = room.run_to_end("--", *command, environment={"KEYHOP_CONFIG": wrong})
    expect(status == USAGE and f"{wrong}:2: " in err, f"a wrong file: {status} {err!r}")
    status, _, err = room.run_to_end("--config", path, "--", *command, environment={"KEYHOP_CONFIG": wrong})
    expect_equal(status, 7, f"exit status where the flag wins: {err!r}")


@test()
def flags_and_variables_win(room):
    def log_is_json(*options, **environment):
        path = file_of(room, 'log-format = "json"\n')
        _, _, err = room.run_to_end("--config", path, *options, "--", "true", environment=environment)
        return err.startswith("{")

    expect(log_is_json(), "the file over the default")
    expect(log_is_json(KEYHOP_LOG_FORMAT=""), "the file over an empty variable")
    expect(not log_is_json(KEYHOP_LOG_FORMAT="text"), "the variable over the file")
    expect(not log_is_json("--log-format=text"), "the flag over the file")
    expect(log_is_json("--log-format=json", KEYHOP_LOG_FORMAT="text"), "the flag over the variable")


WRONG = {
    "an unknown key": ("drain = 1\nnonsense = 1\n", 2, 'unknown option "nonsense"'),
    "a key with dashes": ("--drain = 1", 1, 'unknown option "--drain"'),
    "a key with underscores": ("kill_grace = 1", 1, 'unknown option "kill_grace"'),
    "an unknown table": ("\n\n[options]\ndrain = 1\n", 3, 'unknown table "options"'),
    "a component without a command": ('\n[[proxy]]\nargs = ["x"]\n', 2, "[[proxy]] needs a command"),
    "a component with too much": ('\n[[proxy]]\ncommand = "x"\nx = "y"\n', 4, 'unknown option "proxy.x"'),
    "an option of later": ('\ntrace = "x"\n', 2, 'unknown option "trace"', "not in this version"),
    "a table for an option": ("\n[drain]\n", 2, "drain: give a number"),
    "dotted": ("drain.seconds = 1", 1, "drain: give a number"),
    "a number for a word": ("\nlog-level = 5", 2, "log-level: give a string, not an integer"),
    "a word for an array": ('rule = "_x=keyed"', 1, "rule: give an array of strings, not a string"),
    "in an array": ('rule = [\n"_x=keyed",\n"_y"]', 3, 'rule "_y": give METHOD=CLASS'),
    "given twice": ("drain = 1\n\ndrain = 1\n", 3, "drain"),
    "not UTF-8": (b'# \xc3\xa9\nledger = "\xff"\n', 2, "utf-8"),
    "an end too early": ('\n\nledger = "', 3, ""),
    "control characters": (b"\n\x1b[2J = 1\n", 2, ""),
    "an escape in a key": ('\n"\\u001b[2J" = 1\n', 2, '"?[2J"'),
    "no TOML": ("#!/bin/sh\nexec agent\n", 2, ""),
    "too deep a key": ("\n" + "a." * 101 + "a = 1", 2, "dots"),
    "too deep a value": ("\ndrain = " + "[" * 10000, 2, "depth"),
    "the first of several": ("nonsense = 1\ndrain = -1\na = 1\n", 1, "nonsense"),
}


@test(cases=WRONG)
def wrong_files_are_refused_with_the_line(room, content, line, *words):
    expect_refused(room, content, line, *words)


@test()
def what_is_no_file_is_refused(room):
    large = file_of(room, b"#" * ((1 << 20) + 1), "large")
    file_of(room, b"#" * (1 << 20), "most")
    os.mkdir(room.path("directory"))
    for name, word in (
        (room.path("none"), "No such file"),
        (room.path("directory"), "directory"),
        (os.path.join(large, "x"), "Not a directory"),
        (large, "1024 KiB"),
        ("/dev/zero", "1024 KiB"),
    ):
        status, out, err = room.run_to_end("--config", name, "--", "true")
        expect_equal((status, out), (USAGE, ""), f"exit status and stdout of {name}")
        expect("--config" in err and name in err and word in err, f"what is said of {name}: {err!r}")
    status, _, err = room.run_to_end("--config", room.path("most"), "--", "true")
    expect_equal(status, 0, f"exit status with a file of the largest size: {err!r}")
    for arguments in (("--config",), ("--config=",), ("--config", large, "--config", large)):
        status, _, err = room.run_to_end(*arguments, "--", "true")
        expect(status == USAGE and "--config" in err, f"{arguments}: {status} {err!r}")


@test()
def a_pipe_will_do(room):
    reading, writing = os.pipe()
    os.write(writing, b"\nnonsense = 1\n")
    os.close(writing)
    with os.fdopen(reading) as file:
        result = subprocess.run(
            [room.keyhop, "--config", "/dev/stdin", "--", "true"],
            env=room.environment(),
            stdin=file,
            capture_output=True,
            check=False,
        )
    expect(result.returncode == USAGE and b"/dev/stdin:2: " in result.stderr, f"{result.stderr!r}")


@test()
def the_ledger_of_the_file_is_that_of_keyhop_ledger(room):
    place = room.path("somewhere.db")
    path = file_of(room, f'drain = 1\nledger = "{place}"\n')
    keyhop = room.start(options=["--config", path])
    keyhop.client.answer(keyhop.client.prompt(keyhop.client.open(), "hello", "key-1"))
    expect_equal(keyhop.close(), 0, "exit status")
    expect(os.path.exists(place), "the ledger is not where the file says")
    by_name = room.run_to_end("ledger", "--json", place)
    expect(by_name[0] == 0 and "[]" != by_name[1].strip(), f"the ledger: {by_name}")
    expect_equal(room.run_to_end("ledger", "--json", "--config", path)[:2], by_name[:2], "by flag")
    expect_equal(
        room.run_to_end("ledger", "--json", environment={"KEYHOP_CONFIG": path})[:2],
        by_name[:2],
        "by variable",
    )
    status, _, err = room.run_to_end("ledger", "--config", file_of(room, "x = 1"))
    expect(status == USAGE and "keyhop.toml:1: " in err, f"a wrong file: {status} {err!r}")


if __name__ == "__main__":
    main(__doc__)
