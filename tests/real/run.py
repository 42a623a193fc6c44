#!/usr/bin/env python3
"""Runs agent_test.py for each released agent, offline, behind keyhop.

    run.py --keyhop PATH [--cache DIR] [--only AGENT]… [-- OPTION…]

The agents are installed with npm (1.1 GB on disk, pinned in package-lock.json) into --cache, default
build/real. Their model is a stand-in on loopback (model.py): no account, and no network after the install.
OPTIONs go to agent_test.py.

Exit status: 0 all passed, 1 something failed, 64 usage, 77 nothing could be run and stderr says why.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # before our own modules: the source tree stays as it is

from agents import AGENTS  # noqa: E402

HERE = Path(__file__).resolve().parent
PINS = ("package.json", "package-lock.json")
NPM = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
NPM += ["--engine-strict=false"]  # the agents get a Node of their own
SKIPPED = 77


def skip(what, why):
    print(f"SKIPPED: {what}: {why}", file=sys.stderr, flush=True)


def programs(cache):
    """The directory of the agents' commands; installs what is not there yet, whole or not at all."""
    digest = hashlib.sha256(b"\0".join((HERE / file).read_bytes() for file in PINS)).hexdigest()[:12]
    directory = cache / digest
    if not directory.exists():
        print("Installing the released agents (npm, 1.1 GB on disk)", file=sys.stderr, flush=True)
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="unfinished-") as unfinished:
            made = Path(unfinished) / "agents"
            made.mkdir()
            for file in PINS:
                shutil.copy(HERE / file, made)
            subprocess.run(NPM, cwd=made, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)
            os.replace(made, directory)
    return directory / "node_modules" / ".bin"


def node_major(directory):
    """The major version of the Node that the agents get, 0 for none."""
    path = os.pathsep.join((str(directory), os.environ["PATH"]))
    node = shutil.which("node", path=path)
    try:
        version = subprocess.run([node or "node", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    match = re.match(r"v(\d+)\.", version.stdout)
    return int(match.group(1)) if match else 0


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.error = lambda message: (print(f"run.py: {message}", file=sys.stderr), sys.exit(64))
    parser.add_argument("--keyhop", type=Path, required=True, help="the keyhop to test")
    parser.add_argument("--cache", type=Path, default=HERE.parent.parent / "build" / "real")
    parser.add_argument("--only", action="append", choices=list(AGENTS))
    parser.add_argument("options", nargs="*", help="for agent_test.py, after --")
    options = parser.parse_args(arguments)
    if not os.access(options.keyhop, os.X_OK):
        parser.error(f"--keyhop: {options.keyhop} is not a program")
    return options


def main():
    options = parse(sys.argv[1:])
    if not shutil.which("npm"):
        skip("the released agents", "there is no npm here to install them with (Debian: nodejs, npm)")
        return SKIPPED
    try:
        directory = programs(options.cache.resolve())
    except subprocess.CalledProcessError as failed:
        print(f"run.py: the install failed: {failed}", file=sys.stderr)
        return 1
    statuses = []
    major = node_major(directory)
    for name in options.only or AGENTS:
        wanted = AGENTS[name].node_major_min
        if major < wanted:
            skip(name, f"it needs Node {wanted}, and here is {major or 'none that runs'}")
            continue
        print(f"{name}, behind keyhop", flush=True)
        command = [sys.executable, str(HERE / "agent_test.py"), "--keyhop", str(options.keyhop)]
        command += ["--agent", str(directory / name), "--jobs", "2", *options.options]
        statuses.append(subprocess.run(command, stdin=subprocess.DEVNULL).returncode)
    if not statuses:
        return SKIPPED
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
