"""Compares what two runs of one dialogue left behind; says where they part in a few lines."""

import json

ENDS = {"client": b'"dialogue"', "agent": b'"stdin closed"'}
# What a dialogue must have had on the wire, so that a shrunken one cannot pass for an equal one.
METHODS = {
    1: {
        "client": "initialize session/new session/prompt session/cancel session/set_mode session/set_config_option "
        "session/list session/load session/resume session/close _vendor/echo _vendor/note future/method",
        "agent": "session/update session/request_permission fs/read_text_file fs/write_text_file terminal/create "
        "terminal/output terminal/wait_for_exit terminal/kill terminal/release elicitation/create _vendor/ask "
        "_vendor/refuse _vendor/tell future/method future/notification",
    },
    2: {
        "client": "initialize auth/login session/new session/prompt session/cancel $/cancel_request tool_call/cancel "
        "terminal/cancel session/set_config_option session/list session/resume session/close session/delete "
        "auth/logout _vendor/echo _vendor/note future/method",
        "agent": "session/update session/request_permission $/cancel_request elicitation/create elicitation/complete "
        "_vendor/ask _vendor/refuse _vendor/tell future/method future/notification",
    },
}


def _around(line, at):
    """The line near byte `at`, short enough to read."""
    begin = max(0, at - 60)
    end = at + 60
    text = line[begin:end].decode("utf-8", "backslashreplace")
    return f"{'…' if begin else ''}{text}{'…' if end < len(line) else ''}"


def difference(left, right, names):
    """None if the files are byte-equal, else where they part and both sides there."""
    ours, theirs = left.read_bytes(), right.read_bytes()
    if ours == theirs:
        return None
    ours, theirs = ours.split(b"\n"), theirs.split(b"\n")
    for number, (one, other) in enumerate(zip(ours, theirs), 1):
        if one == other:
            continue
        at = next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
        width = max(map(len, names))
        return "\n".join(
            [f"line {number} of {len(ours)} and {len(theirs)}, byte {at}:"]
            + [f"  {name:{width}} {_around(line, at)}" for name, line in zip(names, (one, other))]
        )
    return f"{len(ours)} lines in {names[0]}, {len(theirs)} in {names[1]}"


def frames(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]


def complete(run, version):
    """What is missing from one run: its last events, callbacks that never came, methods never used."""
    problems = []
    for who, end in ENDS.items():
        log = (run / f"{who}.log").read_bytes() if (run / f"{who}.log").exists() else b""
        lines = log.split(b"\n")
        if len(lines) < 2 or end not in lines[-2]:
            problems.append(f"{who}.log stops before the end of the dialogue")
        problems += [
            f"{who}.log: {line.decode(errors='replace')[:120]}"
            for line in lines
            if b'"missing":' in line[:99]
        ]
        if not problems:
            used = {frame.get("method") for frame in frames(run / f"{who}.out")}
            problems += [
                f"{who} never sent {name}" for name in METHODS[version][who].split() if name not in used
            ]
    return problems


def wires(run):
    """What one end wrote and the other did not read as it was written."""
    problems = []
    for writer, reader in (("client", "agent"), ("agent", "client")):
        names = (f"{writer} wrote", f"{reader} read")
        found = difference(run / f"{writer}.out", run / f"{reader}.in", names)
        if found:
            problems.append(f"{writer} to {reader}, {found}")
    return problems


def traces(direct, through):
    """Where the two runs differ: what the applications saw, and the bytes at all four pipe ends."""
    problems = []
    for who in ENDS:
        for suffix in ("log", "out", "in"):
            name = f"{who}.{suffix}"
            found = difference(direct / name, through / name, ("direct", "through"))
            if found:
                problems.append(f"{name}, {found}")
    return problems
