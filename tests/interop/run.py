#!/usr/bin/env python3
"""Interop with the official SDKs: the same dialogue direct and through keyhop must look the same.

    run.py --keyhop PATH [--agent PATH] [--work DIR] [--cache DIR] [--only NAME]… [--json] [--require]
           [--prove]

A pair is a client and an agent, each on an official SDK. Direct, the client starts the agent; through, it
starts `keyhop -- AGENT`. Per pair:
    NAME/direct   the dialogue runs to its end without keyhop and has in it what it should
    NAME/through  so it does with keyhop, and both pipes carry the bytes that were written at the other end
    NAME/equal    callbacks and results of both applications and the bytes at all four pipe ends equal
keys/… reads what a client's duplicates became; kills-…/… what became of a conversation whose agent is
killed 20 times (kills.py); methods holds keyhop's method table against the SDKs' lists.
Nothing is compared loosely: the dialogues are made so that there is only one right trace (dialogue.mjs).

Exit status: 0 all passed, 1 something failed, 64 usage, 77 skipped since a program is missing (not with
--require). SDKs are installed into --cache or $KEYHOP_INTEROP_CACHE, default build/interop/cache.
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # before our own modules: the source tree stays as it is

import compare  # noqa: E402
import install  # noqa: E402
import keys  # noqa: E402
import kills  # noqa: E402
import processes  # noqa: E402

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "interop"

# name: protocol version, client, agent
PAIRS = {
    "v1-ts-ts": (1, "client_v1.mjs", "agent_v1.mjs"),
    "v1-ts-py": (1, "client_v1.mjs", "agent_v1.py"),
    "v1-py-ts": (1, "client_v1.py", "agent_v1.mjs"),
    "v1-py-py": (1, "client_v1.py", "agent_v1.py"),
    "v2-ts-ts": (2, "client_v2.mjs", "agent_v2.mjs"),
}
TEST_AGENT = "keyhop-test-agent"
# name: client and its options, agent and its options. The agents outlive their processes (--history), but for
# their settings. The second process stalls at its start, the third one in its restore.
SDK_STALLS = ["--stall", "start@2,restore@3"]
TS_V1, TS_V2 = (["client_kills.mjs", "--protocol", version] for version in "12")


def test_agent(restore, *options):
    stalls = ("--fault", "start@1/2=stall", "--fault", f"read:{restore}@1/3=stall", "--fault-once")
    return [TEST_AGENT, "--forget-settings", "--chunks", "0", *stalls, *options]


KILLS = {
    "kills-v1-ts-agent": (TS_V1, test_agent("session/resume")),
    "kills-v1-ts-agent-load": (TS_V1, test_agent("session/load", "--no-resume")),
    "kills-v1-ts-ts": (TS_V1, ["agent_v1.mjs", *SDK_STALLS]),
    "kills-v1-ts-py": (TS_V1, ["agent_v1.py", *SDK_STALLS]),
    "kills-v1-py-agent": (["client_kills_v1.py"], test_agent("session/resume")),
    "kills-v2-ts-agent": (TS_V2, test_agent("session/resume")),
    "kills-v2-ts-ts": (TS_V2, ["agent_v2.mjs", *SDK_STALLS]),
}
# What altering_relay.py spoils, and the check that must notice.
PROOFS = {
    "drop-update": "through",
    "id-type": "through",
    "reorder": "through",
    "meta-byte": "through",
    "meta-byte-to-agent": "through",
    "serialise": "through",
    "duplicate-answer": "through",
    "exit-status": "equal",
    "orphan": "through",
}
SKIPPED = 77


class Report:
    def __init__(self, as_json):
        self.as_json = as_json
        self.results = []

    def add(self, name, problems):
        self.results.append({"name": name, "passed": not problems, "problems": problems})
        if not self.as_json:
            print(f"{'FAIL' if problems else 'PASS'} {name}", flush=True)
            for problem in problems:
                print("     " + problem.replace("\n", "\n     "), flush=True)

    def finish(self):
        if self.as_json:
            print(json.dumps(self.results, ensure_ascii=False, indent=1))
        return 0 if self.results and all(result["passed"] for result in self.results) else 1


def tail(file):
    """The end of what a run printed, for the report."""
    return file.read_text(errors="replace")[-2000:].rstrip() if file.exists() else ""


class Runner:
    def __init__(self, options):
        self.keyhop = [str(options.keyhop), *options.keyhop_arg]
        self.agent = options.agent
        self.timeout_s = options.timeout
        self.work = options.work
        # The peers are run from a copy: Node looks for packages beside the file that imports them.
        self.peers = self.work / "peers"
        shutil.rmtree(self.peers, ignore_errors=True)
        self.peers.mkdir(parents=True)
        for file in [*HERE.glob("*.mjs"), *HERE.glob("*.py")]:
            shutil.copy(file, self.peers)
        (self.peers / "node_modules").symlink_to(install.node_modules(options.cache))
        self.python = str(install.python(options.cache))

    def program(self, file):
        if file == TEST_AGENT:
            return [str(self.agent)]
        return [shutil.which("node") if file.endswith(".mjs") else self.python, str(self.peers / file)]

    def environment(self, home):
        """A small environment whose HOME is the run's own: keyhop keeps its state below it."""
        kept = ("PATH", "LANG", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS")
        return {"HOME": str(home), **{name: os.environ[name] for name in kept if name in os.environ}}

    def dialogue(self, directory, client, agent, before_agent=()):
        """One run; its problems, and its files in the directory."""
        agent_command = [*before_agent, *self.program(agent), "--trace", str(directory)]
        return self.run(directory, [*self.program(client), "--trace", str(directory), "--", *agent_command])

    def run(self, directory, command):
        shutil.rmtree(directory, ignore_errors=True)
        home = directory / "home"
        home.mkdir(parents=True)
        output = directory / "client.output"
        problems = processes.run(command, directory, self.environment(home), output, self.timeout_s)
        return [*problems, tail(Path(f"{output}.err"))] if problems else []

    def direct(self, name):
        version, client, agent = PAIRS[name]
        directory = self.work / name / "direct"
        problems = self.dialogue(directory, client, agent) + compare.complete(directory, version)
        return directory, problems or compare.wires(directory)

    def through(self, name, keyhop, label="through"):
        version, client, agent = PAIRS[name]
        directory = self.work / name / label
        problems = self.dialogue(directory, client, agent, [*keyhop, "--"]) + compare.complete(
            directory, version
        )
        if not all(
            (directory / f"{who}.{end}").exists() for who in ("client", "agent") for end in ("in", "out")
        ):
            return directory, problems or ["no trace"]
        return directory, problems + compare.wires(directory)

    def pair(self, name, report):
        direct, problems = self.direct(name)
        report.add(f"{name}/direct", problems)
        through, problems = self.through(name, self.keyhop)
        report.add(f"{name}/through", problems)
        report.add(
            f"{name}/equal",
            compare.traces(direct, through) if (through / "agent.log").exists() else ["no trace"],
        )

    def keys(self, report, keyhop):
        directory = self.work / "keys"
        problems = self.dialogue(directory, "client_keys_v2.mjs", "agent_v2.mjs", [*keyhop, "--"])
        report.add("keys/run", problems)
        if not (directory / "agent.in").exists():
            return
        run = keys.Run(directory)
        for name, check in keys.CHECKS.items():
            report.add(f"keys/{name}", check(run))

    def kills(self, name, report, keyhop):
        (client, *client_options), (agent, *agent_options) = KILLS[name]
        directory = self.work / name
        trace, history = ["--trace", str(directory)], ["--history", str(directory / "history")]
        command = [*self.program(client), *client_options, *trace, *history, "--", *keyhop]
        command += ["--restart-limit", "1000/60", "--", *self.program(agent), *agent_options, *history]
        # Only an SDK agent writes a trace.
        problems = self.run(directory, [*command, *([] if agent == TEST_AGENT else trace)])
        report.add(f"{name}/run", problems)
        for check, found in kills.check(directory).items():
            report.add(f"{name}/{check}", found)

    def methods(self, report):
        if not (self.peers / "check_methods.mjs").exists():
            return
        rules, output = self.work / "rules.json", self.work / "methods.output"
        environment = self.environment(self.work)
        problems = processes.run(
            [*self.keyhop, "rules", "--json"], self.work, environment, rules, self.timeout_s
        )
        if not problems:
            command = [*self.program("check_methods.mjs"), str(self.peers / "node_modules"), str(rules)]
            problems = processes.run(command, self.peers, environment, output, self.timeout_s)
        words = "".join(tail(file) for file in (output, Path(f"{output}.err"), Path(f"{rules}.err")))
        report.add("methods", problems and [*problems, words])


def prove(runner, report, name="v1-ts-ts"):
    """Every comparison goes red when the relay between the peers spoils something, and green when not."""
    relay = [sys.executable, str(HERE / "altering_relay.py")]
    direct, problems = runner.direct(name)
    report.add("prove/direct", problems)
    through, problems = runner.through(name, relay)
    report.add("prove/unaltered", problems + compare.traces(direct, through))
    for how, check in PROOFS.items():
        through, problems = runner.through(name, [*relay, "--alter", how], how)
        if check == "equal":
            problems = compare.traces(direct, through)
        report.add(f"prove/{how}", [] if problems else ["was not noticed"])
        if problems and not report.as_json:
            print("     noticed: " + problems[-1].replace("\n", "\n     "))
    noticed = Report(as_json=True)
    runner.keys(noticed, relay)
    # A relay without keys gets these right; each other one must have failed.
    rightly = {"keys/run", "keys/allowed-keys"}
    missed = [result["name"] for result in noticed.results if result["passed"] != (result["name"] in rightly)]
    report.add("prove/keys", [f"{missed} did not tell a plain relay from keyhop"] if missed else [])


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.error = lambda message: (print(f"run.py: {message}", file=sys.stderr), sys.exit(64))
    parser.add_argument("--keyhop", type=Path, help="the keyhop to test")
    parser.add_argument("--agent", type=Path, help="its test agent (in the same build)")
    parser.add_argument("--keyhop-arg", action="append", default=[], help="an option for it (repeatable)")
    parser.add_argument("--work", type=Path, default=BUILD / "run", help="where the traces go (%(default)s)")
    cache = os.environ.get("KEYHOP_INTEROP_CACHE") or BUILD / "cache"
    parser.add_argument("--cache", type=Path, default=Path(cache), help="installed SDKs (%(default)s)")
    parser.add_argument("--only", action="append", default=[], choices=[*PAIRS, *KILLS, "keys", "methods"])
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one run (%(default)s)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--require", action="store_true", help="fail instead of skipping")
    parser.add_argument(
        "--prove", action="store_true", help="show that the comparisons can fail; needs no keyhop"
    )
    options = parser.parse_args(arguments)
    if options.keyhop is None and not options.prove:
        parser.error("--keyhop PATH is needed")
    if options.keyhop and not (options.keyhop.is_file() and os.access(options.keyhop, os.X_OK)):
        parser.error(f"--keyhop: {options.keyhop} is not a program")
    options.keyhop = options.keyhop and options.keyhop.resolve()
    if options.keyhop and not options.agent:
        options.agent = options.keyhop.parent.parent / "tests" / "agents" / TEST_AGENT
    wanted = [agent for name, (_, agent) in KILLS.items() if name in (options.only or KILLS)]
    if (
        options.agent
        and any(agent[0] == TEST_AGENT for agent in wanted)
        and not os.access(options.agent, os.X_OK)
    ):
        parser.error(f"--agent: {options.agent} is not a program")
    options.agent = options.agent and options.agent.resolve()
    options.work, options.cache = options.work.resolve(), options.cache.resolve()
    return options


def main():
    options = parse(sys.argv[1:])
    report = Report(options.json)
    try:
        install.require_programs()
        options.cache.mkdir(parents=True, exist_ok=True)
        runner = Runner(options)
    except install.Missing as missing:
        print(f"SKIPPED: interop with the official SDKs needs {missing}", file=sys.stderr)
        return 1 if options.require else SKIPPED
    except install.Failed as failed:
        print(f"run.py: install failed: {failed}", file=sys.stderr)
        return 1
    processes.become_subreaper()
    if options.prove:
        prove(runner, report)
        return report.finish()
    for name in PAIRS:
        if not options.only or name in options.only:
            runner.pair(name, report)
    for name in KILLS:
        if not options.only or name in options.only:
            runner.kills(name, report, runner.keyhop)
    if not options.only or "keys" in options.only:
        runner.keys(report, runner.keyhop)
    if not options.only or "methods" in options.only:
        runner.methods(report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
