#!/usr/bin/env python3
"""Seeds the defects of mutations.toml into a copy of the tree, one at a time, and tells which of them the
unit tests and the simulation notice.

    mutate.py --build DIR [--json] [--only NAME]... [--jobs N]

Each job has a copy of the tree and a build of its own below DIR; the tree itself is only read. A defect is
noticed if a test fails or crashes, or does not end in time. One whose text is not found once, or that does not
compile, is an error of the list. NAME: a part of the defect's name.

Exit status: 0 at least 95% are noticed and every survivor is explained in the list, 1 not so, 64 usage.
"""

import argparse
import json
import os
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

sys.dont_write_bytecode = True

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("CMakeLists.txt", "rules", "proxy", "tests", "bench")
NOTICED_MIN = 0.95
MEMORY_MAX = 8 << 30  # of one program
# A defect may make a test slower; one that takes this much longer than without it hangs.
SLOWER_MAX, SECONDS_MORE = 6, 30
BUILD_SECONDS_MAX = 1800

SIM = ["keyhop-sim", "sim/keyhop-sim"]
ONE = ["--jobs", "1"]
SEEDS = str(ROOT / "tests/sim/seeds.txt")
GUARD_SEEDS = str(ROOT / "tests/sim/guard_seeds.txt")
STOP = ["--abort"]  # at the first failure
# Their tables are full or their texts large: they come last.
SLOW = ("*a replay of too many messages*", "*what was too much to keep*", "*members beyond the limit*")
ALL_BUT_SLOW = "".join(f'~"{name}"' for name in SLOW)
ONLY_SLOW = ",".join(f'"{name}"' for name in SLOW)
# Name, target, program below tests/, its arguments. The counts are fixed, so that the figure is too. Only what
# a run gets to is linked.
RUNS = (
    ("unit rules", "keyhop-unit-rules", "unit/keyhop-unit-rules", STOP),
    ("transcripts", "keyhop-transcript-tests", "sim/keyhop-transcript-tests", STOP),
    ("unit core", "keyhop-unit-core", "unit/keyhop-unit-core", [*STOP, ALL_BUT_SLOW]),
    ("lives", "keyhop-lives-tests", "sim/keyhop-lives-tests", STOP),
    ("sim relay", *SIM, ["--world", "relay", "--seeds", SEEDS, "--count", "3000", *ONE]),
    ("sim lives", *SIM, ["--world", "lives", "--seeds", SEEDS, "--count", "3000", *ONE]),
    ("sim guard", *SIM, ["--world", "guard", "--seeds", GUARD_SEEDS, "--count", "4000", *ONE]),
    ("sim messages", *SIM, ["--messages", "500"]),
    ("sim every byte", *SIM, ["--every-byte", *ONE]),
    ("unit core, slow", "keyhop-unit-core", "unit/keyhop-unit-core", [*STOP, ONLY_SLOW]),
)


def say(text):
    print(text, file=sys.stderr, flush=True)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        say(f"mutate.py: {message}")
        sys.exit(64)


class ListError(Exception):
    """The list of defects, or the tree without any, is not as it must be."""


@dataclass
class Mutation:
    name: str
    file: str
    old: str
    new: str
    survives: str = ""


@dataclass
class Result:
    mutation: Mutation
    noticed_by: str = ""  # empty: it survived
    test: str = ""  # the first test that failed, where the program tells
    error: str = ""
    seconds: float = 0.0


def read_list(path, only):
    with path.open("rb") as file:
        entries = [Mutation(**entry) for entry in tomllib.load(file)["mutation"]]
    names = [entry.name for entry in entries]
    if len(set(names)) != len(names):
        raise ListError("two mutations have one name")
    if only:
        entries = [entry for entry in entries if any(part in entry.name for part in only)]
        if not entries:
            raise ListError("no mutation has such a name")
    for entry in entries:
        count = (ROOT / entry.file).read_text().count(entry.old)
        if count != 1:
            raise ListError(f"{entry.name}: its text stands {count} times in {entry.file}")
    # One file after the other, so that few are compiled back; a header, which costs most, last.
    return sorted(entries, key=lambda entry: (entry.file.endswith(".h"), entry.file))


def copy_tree(target):
    """Makes `target` the same as the tree; files that are the same already keep their time."""
    kept = set()
    for top in COPIED:
        paths = [ROOT / top] if (ROOT / top).is_file() else sorted((ROOT / top).rglob("*"))
        for path in paths:
            relative = path.relative_to(ROOT)
            if not path.is_file() or {"node_modules", "__pycache__"} & set(relative.parts):
                continue
            kept.add(relative)
            copy = target / relative
            content = path.read_bytes()
            if copy.is_file() and copy.read_bytes() == content:
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    for path in list(target.rglob("*")):
        if path.is_file() and path.relative_to(target) not in kept:
            path.unlink()


def failed_test(output):
    """The name of the first test case that a Catch2 program reports, or a line of the simulation's."""
    found = re.search(r"^-{40,}\n(\S.*(?:\n\S.*)*?)(?:\n  .*)*\n-{40,}$", output, re.MULTILINE)
    if found:
        return found.group(1).replace("\n", " ")
    found = re.search(r"^.*FAILED.*$", output, re.MULTILINE)
    return found.group(0).strip()[:160] if found else ""


@dataclass
class Job:
    """A copy of the tree and its build."""

    directory: Path
    seconds: dict = field(default_factory=dict)  # what each run takes without a defect

    @property
    def source(self):
        return self.directory / "src"

    @property
    def out(self):
        return self.directory / "out"

    def environment(self):
        return {**os.environ, "CCACHE_BASEDIR": str(self.directory)}

    def prepare(self, threads):
        copy_tree(self.source)
        if not (self.out / "build.ninja").exists():
            command = ["cmake", "-G", "Ninja", "-S", self.source, "-B", self.out, "-DCMAKE_BUILD_TYPE=None"]
            command += ["-DCMAKE_CXX_FLAGS=-O1", "-DCMAKE_C_FLAGS=-O1"]
            if shutil.which("ccache"):
                command += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ListError(f"cmake failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        output = self.build(dict.fromkeys(target for _, target, _, _ in RUNS), threads)
        if output:
            raise ListError(f"the tree does not compile:\n{output}")

    def build(self, targets, threads=1):
        """Empty, or what the compiler says."""
        command = ["ninja", "-C", self.out, f"-j{threads}", *targets]
        done = subprocess.run(
            command,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=BUILD_SECONDS_MAX,
        )
        return "" if done.returncode == 0 else done.stdout[-3000:]

    def run(self, program, arguments, limit):
        """Exit status (None: it did not end in time) and output."""
        with subprocess.Popen(
            [self.out / "tests" / program, *arguments],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return None, ""
        return process.returncode, output

    def measure(self):
        for name, _, program, arguments in RUNS:
            begin = time.monotonic()
            status, output = self.run(program, arguments, 600)
            if status != 0:
                raise ListError(f"{name} fails without any defect:\n{output[-3000:]}")
            self.seconds[name] = time.monotonic() - begin

    def try_out(self, mutation):
        begin = time.monotonic()
        result = Result(mutation)
        path = self.source / mutation.file
        text = path.read_text()
        try:
            path.write_text(text.replace(mutation.old, mutation.new))
            self._run_tests(result)
        finally:
            path.write_text(text)
        result.seconds = time.monotonic() - begin
        return result

    def _run_tests(self, result):
        for name, target, program, arguments in RUNS:
            if output := self.build([target]):
                result.error = f"does not compile:\n{output}"
                return
            status, output = self.run(program, arguments, SECONDS_MORE + SLOWER_MAX * self.seconds[name])
            if status != 0:
                result.noticed_by = name
                result.test = "does not end" if status is None else failed_test(output)
                return


def describe(result):
    if result.error:
        return f"ERROR: {result.error}"
    if result.noticed_by:
        return f"{result.noticed_by}: {result.test}".rstrip(": ")
    return "SURVIVED" + (f" ({result.mutation.survives})" if result.mutation.survives else ", unexplained")


def try_all(jobs, mutations):
    waiting = queue.SimpleQueue()
    for mutation in mutations:
        waiting.put(mutation)
    results, lock, failures = [], threading.Lock(), []

    def work(job):
        while not failures:
            try:
                result = job.try_out(waiting.get_nowait())
            except queue.Empty:
                return
            except BaseException as error:  # of a thread: told by the main one
                failures.append(error)
                return
            with lock:
                results.append(result)
                place = f"[{len(results)}/{len(mutations)}]"
                say(f"{place} {result.mutation.name} -> {describe(result)} ({result.seconds:.0f} s)")

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    order = {mutation.name: place for place, mutation in enumerate(mutations)}
    return sorted(results, key=lambda result: order[result.mutation.name])


def as_json(results, summary):
    table = [
        {
            "name": result.mutation.name,
            "file": result.mutation.file,
            "noticedBy": result.noticed_by,
            "test": result.test,
            "error": result.error,
            "survives": result.mutation.survives,
            "seconds": round(result.seconds, 1),
        }
        for result in results
    ]
    return json.dumps({**summary, "mutations": table}, indent=1)


def judge(results, seconds):
    errors = [result for result in results if result.error]
    survivors = [result for result in results if not result.error and not result.noticed_by]
    noticed = len(results) - len(errors) - len(survivors)
    unexplained = [result for result in survivors if not result.mutation.survives]
    # An explanation of what is noticed after all is wrong.
    outdated = [result for result in results if result.noticed_by and result.mutation.survives]
    summary = {
        "all": len(results),
        "noticed": noticed,
        "percent": round(100 * noticed / len(results), 1),
        "survived": len(survivors),
        "unexplained": len(unexplained),
        "errors": len(errors),
        "seconds": round(seconds),
    }
    passed = noticed >= NOTICED_MIN * len(results) and not unexplained and not errors and not outdated
    return summary, survivors + errors, outdated, passed


def prepare(options):
    os.nice(10)
    # Inherited by all that runs.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threads = os.cpu_count() or 1
    jobs = [Job(options.build.resolve() / str(number)) for number in range(1, options.jobs + 1)]
    for job in jobs:  # all but the first find most of it in the compiler's cache
        say(f"Building {job.directory.name} of {len(jobs)}")
        job.prepare(threads)
    say("Running the tests without a defect")
    jobs[0].measure()
    for job in jobs[1:]:
        job.seconds = jobs[0].seconds
    return jobs


def main():
    parser = Parser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error("--jobs takes a number from 1")
    begin = time.monotonic()
    try:
        mutations = read_list(Path(__file__).with_name("mutations.toml"), options.only)
        options.jobs = min(options.jobs, len(mutations))
        results = try_all(prepare(options), mutations)
    except ListError as error:
        say(f"mutation: {error}")
        return 1
    summary, notable, outdated, passed = judge(results, time.monotonic() - begin)
    if options.json:
        print(as_json(results, summary))
    else:
        for result in notable:
            print(f"{result.mutation.name} ({result.mutation.file}): {describe(result)}")
        for result in outdated:
            print(f"{result.mutation.name}: is noticed by {result.noticed_by}, so its explanation is wrong")
        print(
            f"{summary['noticed']} of {summary['all']} mutations noticed ({summary['percent']}%), "
            f"{summary['survived']} survived, {summary['unexplained']} of them unexplained, "
            f"{summary['errors']} errors; {summary['seconds']} s"
        )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
