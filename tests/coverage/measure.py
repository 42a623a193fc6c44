#!/usr/bin/env python3
"""Runs the unit tests of rules and core and the simulation, built with the preset `coverage`, and reports
which lines and branches of rules/ and proxy/core/ none of them executed.

    measure.py --build DIR [--json]

Every program is read with its own profile and the counts are added up here: the programs hold functions of one
name and different bodies, which a common profile would leave out. Excepted without being listed:
  - what an INVARIANT( ) does when its condition fails, and proxy/core/invariant.cpp;
  - the way past all cases of a switch over an enum: the compiler demands every case (-Wswitch).
Everything else that is not covered must stand in exclusions.txt, which says how; an entry that excludes
nothing is an error too.

Exit status: 0 all is covered or excluded, 1 something is not or a test failed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True

from exclusions import Exclusions  # noqa: E402
from source import Source  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("rules", "proxy/core")
EXCEPTED = ("proxy/core/invariant.h", "proxy/core/invariant.cpp")
PROFDATA, COV, FILT = "llvm-profdata-14", "llvm-cov-14", "llvm-cxxfilt-14"

SIM = "sim/keyhop-sim"
ONE = ["--jobs", "1"]  # counters are not atomic
# Program below tests/, its arguments. The counts are fixed, so that the figure is too.
RUNS = (
    ("unit/keyhop-unit-rules", []),
    ("unit/keyhop-unit-core", []),
    ("unit/keyhop-unit-allocation", []),
    ("sim/keyhop-transcript-tests", []),
    ("sim/keyhop-lives-tests", []),
    (SIM, ["--world", "relay", "--seeds", str(ROOT / "tests/sim/seeds.txt"), "--count", "3000", *ONE]),
    (SIM, ["--world", "lives", "--seeds", str(ROOT / "tests/sim/seeds.txt"), "--count", "3000", *ONE]),
    (SIM, ["--world", "guard", "--seeds", str(ROOT / "tests/sim/guard_seeds.txt"), "--count", "4000", *ONE]),
    (SIM, ["--messages", "2000"]),
)


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_all(build, profiles):
    """Runs every program, two at a time; returns whether all succeeded."""

    def run(numbered):
        number, (program, arguments) = numbered
        path = build / "tests" / program
        profile = profiles / f"{path.name}.{number}.profraw"
        done = subprocess.run(
            [path, *arguments],
            env={**os.environ, "LLVM_PROFILE_FILE": str(profile)},
            cwd=profiles,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )
        words = " ".join([path.name, *arguments[:2]])
        if done.returncode != 0:
            say(f"  {words}: exit status {done.returncode}\n{done.stdout[-4000:]}")
        else:
            say(f"  {words}: passed")
        return done.returncode == 0

    with ThreadPoolExecutor(2) as pool:
        return all(list(pool.map(run, enumerate(RUNS))))


def export(program, profile, *options):
    command = [COV, "export", f"-instr-profile={profile}", *options, str(program)]
    command += [str(ROOT / folder) for folder in FOLDERS]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class Counts:
    """How often each line and each branch was executed, over all programs."""

    def __init__(self):
        self.lines = defaultdict(lambda: defaultdict(int))  # file -> line -> count
        self.branches = defaultdict(lambda: defaultdict(lambda: [0, 0]))  # file -> place -> [true, false]
        self.functions = defaultdict(set)  # file -> (first line, last line, mangled name)

    def add(self, program, profile):
        self._add_lines(export(program, profile, "-format=lcov"))
        for function in json.loads(export(program, profile))["data"][0]["functions"]:
            self._add_function(function)

    def _add_lines(self, lcov):
        file = None
        for line in lcov.splitlines():
            if line.startswith("SF:"):
                file = relative(line[3:])
            elif line.startswith("DA:") and file:
                number, count = line[3:].split(",")[:2]
                self.lines[file][int(number)] += int(count)

    def _add_function(self, function):
        files = [relative(name) for name in function["filenames"]]
        first = function["regions"][0]
        if files[first[5]]:
            self.functions[files[first[5]]].add((first[0], first[2], function["name"]))
        for branch in function["branches"]:
            file = files[branch[6]]
            if not file:
                continue
            total = self.branches[file][tuple(branch[:4])]
            total[0] += branch[4]
            total[1] += branch[5]


def relative(name):
    """The file's name from the root; empty if it is not measured."""
    path = os.path.relpath(os.path.realpath(name), ROOT)
    measured = path.startswith(tuple(folder + "/" for folder in FOLDERS))
    return path if measured and path not in EXCEPTED else ""


def demangled(names):
    names = sorted(names)
    done = subprocess.run([FILT], input="\n".join(names), check=True, stdout=subprocess.PIPE, text=True)
    return dict(zip(names, done.stdout.splitlines()))


def short_name(full):
    """`Edge::on(acp::X const&)::$_0::operator()` and the like: `on`."""
    full = full.replace("[abi:cxx11]", "")
    head = re.split(r"\(", full.replace("(anonymous namespace)", "_"), maxsplit=1)[0]
    head = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", head))
    return head.split("::")[-1].split(" ")[-1]


class File:
    """One measured file: its figures, and what of it was not executed."""

    def __init__(self, name, counts, names):
        self.name = name
        self.source = Source(ROOT / name)
        self.functions = sorted((b, e, short_name(names[n])) for b, e, n in counts.functions[name])
        self.lines = self.lines_missed = self.branches = self.branches_missed = 0
        self.missed = []  # (line, last line, function, text, how many lines, how many branches)
        self._judge_lines(counts.lines[name])
        self._judge_branches(counts.branches[name])
        self.missed.sort()

    def function_at(self, line):
        around = [(b, e, n) for b, e, n in self.functions if b <= line <= e]
        return max(around)[2] if around else ""

    def _judge_lines(self, counts):
        judged = {line: count for line, count in counts.items() if not self.source.is_invariant(line, 0)}
        self.lines = len(judged)
        missed = sorted(line for line, count in judged.items() if count == 0)
        self.lines_missed = len(missed)
        while missed:
            size = 1
            while size < len(missed) and missed[size] == missed[0] + size:
                size += 1
            first, last = missed[0], missed[size - 1]
            self.missed.append((first, last, self.function_at(first), self.source.text(first), size, 0))
            missed = missed[size:]

    def _judge_branches(self, counts):
        for (line, column, last, end), taken in counts.items():
            if self.source.is_invariant(line, column) or self.source.is_constant(line, column):
                continue
            if self.source.is_enum_switch(line, column):
                continue
            words = self.source.between(line, column, last, end)
            if words == ":":  # of a loop over a range
                words = self.source.text(line)
            self.branches += 2
            for way, count in zip(("true", "false"), taken):
                if count != 0:
                    continue
                self.branches_missed += 1
                text = f"{words} never {way}"
                self.missed.append((line, line, self.function_at(line), text, 0, 1))


def total_of(files):
    def percent(missed, of):
        return 100.0 if of == 0 else 100.0 * (of - missed) / of

    sums = {key: sum(getattr(file, key) for file in files) for key in FIGURES}
    sums["linePercent"] = round(percent(sums["lines_missed"], sums["lines"]), 2)
    sums["branchPercent"] = round(percent(sums["branches_missed"], sums["branches"]), 2)
    return sums


FIGURES = ("lines", "lines_missed", "branches", "branches_missed")


def print_table(files, uncovered, excluded, unused):
    print(f"{'file':<36}{'lines':>7}{'missed':>8}{'':>9}{'branches':>10}{'missed':>8}")
    for name, group in [(file.name, [file]) for file in files] + [("all", files)]:
        sums = total_of(group)
        print(
            f"{name:<36}{sums['lines']:>7}{sums['lines_missed']:>8}{sums['linePercent']:>8.2f}%"
            f"{sums['branches']:>10}{sums['branches_missed']:>8}{sums['branchPercent']:>8.2f}%"
        )
    for title, items in (("Excluded", excluded), ("NOT COVERED", uncovered)):
        if items:
            print(f"\n{title}:")
        for item in items:
            reason = f" — {item['reason']}" if item["reason"] else ""
            print(f"{item['file']}:{item['line']}: {item['function']}: {item['text']}{reason}")
    if unused:
        print("\nEntries of exclusions.txt that exclude nothing:")
    for entry in unused:
        print(entry)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    counts = Counts()
    with tempfile.TemporaryDirectory() as directory:
        profiles = Path(directory)
        say("Running the tests of rules and core")
        if not run_all(options.build.resolve(), profiles):
            return 1
        say("Reading what they executed")
        for program in dict.fromkeys(program for program, _ in RUNS):
            path = options.build / "tests" / program
            merged = profiles / f"{path.name}.profdata"
            raw = sorted(profiles.glob(f"{path.name}.*.profraw"))
            subprocess.run([PROFDATA, "merge", "-sparse", *raw, "-o", merged], check=True)
            counts.add(path, merged)
    names = demangled({name for found in counts.functions.values() for _, _, name in found})
    files = [File(name, counts, names) for name in sorted(counts.lines)]
    exclusions = Exclusions(Path(__file__).with_name("exclusions.txt"))
    uncovered, excluded = [], []
    for file in files:
        for line, last, function, text, lines, branches in file.missed:
            reason = exclusions.reason_for(file.name, function, text)
            where = str(line) if line == last else f"{line}-{last}"
            item = {"file": file.name, "line": where, "function": function, "text": text, "reason": reason}
            (excluded if reason else uncovered).append({**item, "lines": lines, "branches": branches})
    unused = exclusions.unused()
    if options.json:
        table = {file.name: total_of([file]) for file in files}
        whole = {"files": table, "all": total_of(files), "excluded": excluded, "uncovered": uncovered}
        print(json.dumps({**whole, "unused": unused}, indent=1))
    else:
        print_table(files, uncovered, excluded, unused)
    say(f"coverage: {len(uncovered)} places not covered, {len(excluded)} excluded")
    return 1 if uncovered or unused else 0


if __name__ == "__main__":
    sys.exit(main())
