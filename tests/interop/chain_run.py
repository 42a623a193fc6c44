#!/usr/bin/env python3
"""Chains with the conductors and SDKs of others: keyhop in each place must look like their own part there.

    chain_run.py --keyhop PATH [--hop PATH] [--work DIR] [--cache DIR] [--only ROW]… [--long] [--json]
                 [--require]

A row is a chain between an SDK's client and agent (the dialogues of run.py). Per row and protocol version:
    ROW-vN/run     the dialogue runs to its end, has in it what it should, every request is answered once
    ROW-vN/equal   what both applications saw and the frames at all four pipe ends are those of the row that
                   it is measured by (chain_compare.py says what may differ)
    ROW-vN/bytes   keyhop as a tapped component wrote what it read, or one end read what the other wrote: the
                   bytes of all params, results and errors, and their order (chain_frames.py)
unbridged/… shows that the chains which keyhop bridges do not work without it. What needs the SDK release
before the methods were renamed runs with --long (or KEYHOP_TESTS_LONG=1) only.

Exit status: 0 all passed, 1 something failed, 64 usage, 77 skipped since a program is missing (not with
--require). The peers are built into --cache or $KEYHOP_INTEROP_CACHE if they are not there (chain_peers.py).
"""

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import chain_compare  # noqa: E402
import chain_frames  # noqa: E402
import chain_peers  # noqa: E402
import install  # noqa: E402
import processes  # noqa: E402
import run  # noqa: E402

HOP = "keyhop-test-proxy"
# How long a chain that cannot work may keep its client waiting before that counts as no answer.
UNBRIDGED_S = 5
CLIENTS = {1: "client_v1.mjs", 2: "client_v2.mjs"}
AGENTS = {1: "agent_v1.mjs", 2: "agent_v2.mjs"}
# A Python agent cancels nothing and has no request cancelled: @thinkwell/conductor does not translate the ids
# of cancels, so a request that is cancelled through it is never answered.
UNCANCELLED = {1: "agent_v1.py"}


class Row:
    """`chain`: the command that a client starts, from the programs and the agent's command. `measure`: the
    row that it must equal. `exact`: nothing in it parses and writes anew. `long`: only with --long. `agents`:
    by protocol version.
    """

    def __init__(self, chain, measure=None, exact=False, long=False, agents=None):
        self.chain = chain
        self.measure = measure
        self.exact = exact
        self.long = long
        self.agents = agents or AGENTS


def eight_hops(use, agent):
    """Both spellings in one chain, ids of all kinds, all that a wrong spelling may get."""
    hops = [
        use.test_hop("proxy", "fresh"),
        use.test_hop("_proxy", "keep", "refuse"),
        use.test_hop("proxy", "text"),
        use.test_hop("_proxy", "fresh", "pass"),
        use.test_hop("proxy", "keep"),
        use.test_hop("_proxy", "text", "exit"),
        use.old_hop(),
        use.test_hop("proxy", "fresh"),
    ]
    return use.conduct(*hops, agent)


def two_conductors(use, agent):
    nested = use.hops(use.old_hop(), use.hops())
    return use.conduct(use.test_hop("proxy"), nested, use.test_hop("proxy"), agent)


ROWS = {
    "conductor-5": Row(lambda use, agent: use.conductor(5, use.sdk(5), agent)),
    "keyhop-before-agent": Row(
        lambda use, agent: use.conductor(5, use.sdk(5), use.conduct(agent)), "conductor-5"
    ),
    "keyhop-before-5": Row(
        lambda use, agent: use.conduct(use.conductor(5, use.sdk(5), agent)), "conductor-5"
    ),
    "keyhop-under-5": Row(lambda use, agent: use.conductor(5, use.tap(use.hops()), agent), "conductor-5"),
    # Two that nobody tells apart but for the order of their starts, with one ledger.
    "two-keyhops-under-5": Row(
        lambda use, agent: use.conductor(5, use.hops(), use.hops(), agent), "conductor-5"
    ),
    "keyhop-conducts-5": Row(lambda use, agent: use.conduct(use.sdk(5), agent), "conductor-5"),
    "bridge-under-5": Row(
        lambda use, agent: use.conductor(5, use.tap(use.hops(use.old_hop())), agent), "conductor-5"
    ),
    "eight-hops": Row(eight_hops, exact=True),
    "two-conductors": Row(two_conductors, exact=True),
    "conductor-3": Row(lambda use, agent: use.conductor(3, use.sdk(3), agent), long=True),
    "keyhop-under-3": Row(
        lambda use, agent: use.conductor(3, use.tap(use.hops()), agent), "conductor-3", long=True
    ),
    "keyhop-conducts-3": Row(lambda use, agent: use.conduct(use.sdk(3), agent), "conductor-3", long=True),
    "bridge-sdk-3-under-5": Row(
        lambda use, agent: use.conductor(5, use.hops(use.sdk(3)), agent), "conductor-5", long=True
    ),
    "bridge-sdk-5-under-3": Row(
        lambda use, agent: use.conductor(3, use.hops(use.sdk(5)), agent), "conductor-3", long=True
    ),
    # Its proxies speak an older dialect still, which keyhop does not: so keyhop is its agent, or its client.
    "thinkwell": Row(lambda use, agent: use.thinkwell(agent), agents=UNCANCELLED),
    "keyhop-under-thinkwell": Row(
        lambda use, agent: use.thinkwell(use.conduct(agent)), "thinkwell", agents=UNCANCELLED
    ),
    "thinkwell-under-keyhop": Row(
        lambda use, agent: use.conduct(use.thinkwell(agent)), "thinkwell", agents=UNCANCELLED
    ),
}
# Chains of two spellings, and whether a client that asks them to initialize gets a result. The first one
# shows that the question can be answered. A third value: only with --long.
UNBRIDGED = {
    "sdk-5-under-5": (lambda use, agent: use.conductor(5, use.sdk(5), agent), True),
    "hop-under-5": (lambda use, agent: use.conductor(5, use.test_hop("_proxy"), agent), False),
    "sdk-3-under-5": (lambda use, agent: use.conductor(5, use.sdk(3), agent), False, "long"),
    "sdk-5-under-3": (lambda use, agent: use.conductor(3, use.sdk(5), agent), False, "long"),
}


class Programs(run.Runner):
    """What chains are made of, as commands: lists of words."""

    def __init__(self, options, rust):
        super().__init__(options)
        self.hop = options.hop
        self.rust = rust
        self.traces = None  # of the chain that is made at the moment

    def conductor(self, release, *components):
        """The conductor of that SDK release over these components, the last one the agent."""
        return [str(self.rust[release].conductor), "agent", *map(shlex.join, components)]

    def sdk(self, release):
        return [str(self.rust[release].pass_through)]

    def test_hop(self, spelling, ids="fresh", wrong="refuse"):
        return [str(self.hop), "--spelling", spelling, "--ids", ids, "--wrong-spelling", wrong]

    def old_hop(self):
        """What SDK releases before 5 do: they end at a wrong spelling, and wrap their cancels."""
        return [*self.test_hop("_proxy", wrong="exit"), "--cancels", "wrapped"]

    def tap(self, component):
        """The component with its stdio recorded."""
        return [self.python, str(self.peers / "chain_tap.py"), "--trace", str(self.traces), "--", *component]

    def hops(self, *components):
        """keyhop without an agent: a hop, or a nested conductor of these components."""
        proxies = [word for component in components for word in ("--proxy", shlex.join(component))]
        return [*self.keyhop, *proxies]

    def conduct(self, *components):
        """keyhop as the conductor of these components, the last one the agent."""
        return [*self.hops(*components[:-1]), "--", *components[-1]]

    def thinkwell(self, agent):
        return [*self.program("chain_thinkwell.mjs"), "--", *agent]


class Matrix:
    def __init__(self, options, report):
        releases = chain_peers.RELEASES if options.long else [5]
        rust = {release: chain_peers.peers(options.cache, release) for release in releases}
        work = options.work
        options.work = work / "exact"
        self.exact = Programs(options, rust)
        options.work = work
        self.programs = Programs(options, rust)
        samples = self.programs.peers / "samples.mjs"
        shutil.copy(self.programs.peers / "chain_samples.mjs", samples)
        self.report = report
        self.done = {}

    def directory(self, name, version):
        """The traces of a row, which is run the first time that they are asked for."""
        if (name, version) not in self.done:
            self.done[name, version] = self._run(name, version)
        return self.done[name, version]

    def _run(self, name, version):
        row = ROWS[name]
        programs = self.exact if row.exact else self.programs
        directory = programs.traces = programs.work / f"{name}-v{version}"
        trace = ["--trace", str(directory)]
        chain = row.chain(programs, [*programs.program(row.agents[version]), *trace])
        problems = programs.run(directory, [*programs.program(CLIENTS[version]), *trace, "--", *chain])
        found = chain_compare.complete(directory, version)
        self.report.add(
            f"{name}-v{version}/run", [*problems, *(found or chain_compare.answered_once(directory))]
        )
        return directory

    def row(self, name):
        for version in ROWS[name].agents:
            through, measure = self.directory(name, version), ROWS[name].measure
            if ROWS[name].exact or (through / "hop.out").exists():
                check = chain_frames.ends if ROWS[name].exact else chain_frames.hop
                missing = chain_compare.complete(through, version)
                self.report.add(f"{name}-v{version}/bytes", missing or check(through))
            if not measure:
                continue
            direct = self.directory(measure, version)
            broken = [run for run in (direct, through) if chain_compare.complete(run, version)]
            self.report.add(
                f"{name}-v{version}/equal",
                [f"{run.name} is not complete" for run in broken]
                or chain_compare.differences(direct, through),
            )

    def unbridged(self, name):
        programs, (chain, works, *_) = self.programs, UNBRIDGED[name]
        directory = programs.work / f"unbridged-{name}"
        agent = [*programs.program(AGENTS[1]), "--trace", str(directory)]
        ask = [programs.python, str(programs.peers / "chain_ask.py"), "--seconds", str(UNBRIDGED_S), "--"]
        problems = programs.run(directory, [*ask, *chain(programs, agent)])
        said = run.tail(directory / "client.output")
        if said.endswith("it works") != works:
            problems.append(f"expected that it {'works' if works else 'does not work'}\n{said}")
        self.report.add(f"unbridged/{name}", problems)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.error = lambda message: (print(f"chain_run.py: {message}", file=sys.stderr), sys.exit(64))
    parser.add_argument("--keyhop", type=Path, required=True, help="the keyhop to test")
    parser.add_argument("--keyhop-arg", action="append", default=[], help="an option for it (repeatable)")
    parser.add_argument("--hop", type=Path, help=f"{HOP} (in the same build)")
    parser.add_argument("--work", type=Path, default=run.BUILD / "chains", help="traces (%(default)s)")
    parser.add_argument("--cache", type=Path, default=chain_peers.CACHE, help="peers (%(default)s)")
    parser.add_argument("--only", action="append", default=[], choices=[*ROWS, "unbridged"])
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one run (%(default)s)")
    parser.add_argument("--long", action="store_true", default=bool(os.environ.get("KEYHOP_TESTS_LONG")))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--require", action="store_true", help="fail instead of skipping")
    options = parser.parse_args(arguments)
    options.hop = options.hop or options.keyhop.resolve().parent.parent / "tests" / "agents" / HOP
    for name, program in (("--keyhop", options.keyhop), ("--hop", options.hop)):
        if not (program.is_file() and os.access(program, os.X_OK)):
            parser.error(f"{name}: {program} is not a program")
    for name in ("keyhop", "hop", "work", "cache"):
        setattr(options, name, getattr(options, name).resolve())
    options.agent = None
    return options


def main():
    options = parse(sys.argv[1:])
    report = run.Report(options.json)
    try:
        install.require_programs()
        options.cache.mkdir(parents=True, exist_ok=True)
        matrix = Matrix(options, report)
    except install.Missing as missing:
        print(f"SKIPPED: the chains with other conductors need {missing}", file=sys.stderr)
        return 1 if options.require else run.SKIPPED
    except install.Failed as failed:
        print(f"chain_run.py: install failed: {failed}", file=sys.stderr)
        return 1
    processes.become_subreaper()
    for name, row in ROWS.items():
        if name in options.only or (not options.only and (options.long or not row.long)):
            matrix.row(name)
    for name, row in UNBRIDGED.items():
        if (not options.only or "unbridged" in options.only) and (options.long or len(row) == 2):
            matrix.unbridged(name)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
