"""Runs tests against real keyhop processes, each test in a process and a directory of its own.

A test is a function of one Room. Its process is a subreaper, so that everything it started, whatever became
of its parent, is below it: a test passes only if nothing of that is left, not even a zombie. Waits are
blocking calls that an event ends; the test's time limit is one alarm that fails it.
"""

import argparse
import collections
import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import processes
from instance import Instance
from history import History

# How long what a test started may take to go after its last keyhop has ended.
LEAVING_SECONDS = 20
AGENT_LIFETIME_SECONDS = 300  # of what the test agent spawns: a failed test leaves nothing for ever


class Failure(Exception):
    """The reason why a test failed."""


class TimedOut(Exception):
    pass


def expect(condition, reason):
    if not condition:
        raise Failure(reason)


def expect_equal(got, wanted, what):
    if got != wanted:
        raise Failure(f"{what}: {_short(got)}, not {_short(wanted)}")


def expect_own_error(answer, code, outcome=None):
    """An error that keyhop made itself; the error."""
    error = answer["error"]
    expect_equal(error["code"], code, "the error's code")
    expect_equal(error["data"]["source"], "keyhop", "who made the error")
    if outcome:
        expect_equal(error["data"]["outcome"], outcome, "the outcome")
    return error


def wait_for(condition):
    """Looks again and again until the condition holds; its value. For what no descriptor tells of; the
    test's alarm ends a wait in vain."""
    while not (value := condition()):
        time.sleep(0.002)
    return value


def _short(value):
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:200]} … {text[-200:]}"


class Test:
    def __init__(self, function, name, arguments, seconds, repeated):
        self.function = function
        self.name = name
        self.arguments = arguments
        self.seconds = seconds
        self.repeated = repeated


_tests = []


def test(seconds=60, repeated=False, cases=None):
    """Registers a test. `cases`: a dictionary of one test per name, its values the further arguments.
    `repeated`: run as often as --count says."""

    def register(function):
        for case, arguments in (cases or {"": ()}).items():
            name = f"{function.__name__} {case}".strip()
            arguments = arguments if isinstance(arguments, tuple) else (arguments,)
            _tests.append(Test(function, name, arguments, seconds, repeated))
        return function

    return register


class Room:
    """What one test has: a directory, the programs, and everything that it started."""

    def __init__(self, settings, directory):
        self.keyhop = settings.keyhop
        self.agent = settings.agent
        self.long = settings.long
        self.directory = directory
        self.mark = os.path.basename(directory)
        self.instances = []

    def path(self, name):
        return os.path.join(self.directory, name)

    def environment(self, **more):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KEYHOP_")}
        clean[processes.MARK] = self.mark
        clean["XDG_STATE_HOME"] = self.path("state")
        clean.update(more)
        return clean

    def agent_command(self, *options, history="history", wire="wire"):
        command = [self.agent, "--no-sync", "--offspring-seconds", str(AGENT_LIFETIME_SECONDS)]
        command += ["--history", self.path(history)]
        if wire:
            command += ["--wire", self.path(wire)]
        return command + list(options)

    def changing_command(self, first, later, *options):
        """The test agent with some options at its first start and others at every later one."""
        script = 'if mkdir "$0" 2>/dev/null; then exec "$@" FIRST; else exec "$@" LATER; fi'
        script = script.replace("FIRST", shlex.join(first)).replace("LATER", shlex.join(later))
        return ["sh", "-c", script, self.path("started"), *self.agent_command(*options)]

    def history(self, name="history", wire="wire"):
        return History(self.path(name), self.path(wire))

    def start(self, *agent_options, options=(), command=None, environment=None, **streams):
        """Starts keyhop in front of the test agent, or of `command`. For `streams` see Instance."""
        arguments = [self.keyhop, *options, "--"]
        arguments += command if command is not None else self.agent_command(*agent_options)
        return self.run(arguments, environment, **streams)

    def run(self, arguments, environment=None, **streams):
        name = self.path(f"stderr-{len(self.instances)}")
        instance = Instance(arguments, self.environment(**(environment or {})), name, **streams)
        self.instances.append(instance)
        return instance

    def run_to_end(self, *arguments, environment=None):
        """A keyhop that is expected to end by itself: exit status, stdout, stderr."""
        result = subprocess.run(
            [self.keyhop, *arguments],
            env=self.environment(**(environment or {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return result.returncode, result.stdout.decode(), result.stderr.decode()

    def expect_nothing_left(self, adopted=0):
        """Fails if keyhop left any process, living or dead. `adopted`: how many it may have left to us to
        reap, None for any (it was killed)."""
        for instance in self.instances:
            expect(instance.status is not None, "the test did not wait for keyhop")
        signal.setitimer(signal.ITIMER_REAL, LEAVING_SECONDS)
        try:
            count = processes.reap_all()
        except TimedOut:
            left = ", ".join(processes.describe(pid) for pid in processes.descendants(os.getpid()))
            raise Failure(f"processes left: {left}") from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        expect(adopted is None or count <= adopted, f"keyhop ended before {count} of its processes had")
        left = processes.marked(self.mark)
        expect(not left, "processes left: " + ", ".join(map(processes.describe, left)))
        spawned = [pid for pids in self.history().spawned().values() for pid in pids]
        left = [pid for pid in spawned if processes.is_test_agent(pid)]
        expect(not left, f"spawned processes left: {left}")
        self.instances.clear()


def _run_here(case, settings):
    """The test's own process. Returns why it failed, or an empty string."""
    if ctypes.CDLL(None, use_errno=True).prctl(processes.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        return "no subreaper: " + os.strerror(ctypes.get_errno())

    def on_alarm(_signal, _frame):
        raise TimedOut

    signal.signal(signal.SIGALRM, on_alarm)
    room = Room(settings, tempfile.mkdtemp(prefix="keyhop-process-"))
    try:
        signal.setitimer(signal.ITIMER_REAL, case.seconds * settings.patience)
        case.function(room, *case.arguments)
        signal.setitimer(signal.ITIMER_REAL, 0)
        room.expect_nothing_left()
        return ""
    except Failure as failure:
        return str(failure) + _where(failure)
    except TimedOut as late:
        return f"nothing happened within {case.seconds} s" + _where(late)
    except Exception as error:  # a test that cannot go on has failed
        return f"{type(error).__name__}: {error}" + _where(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        processes.kill_all()
        if settings.keep:
            print(f"kept {case.name}: {room.directory}", flush=True)
        else:
            shutil.rmtree(room.directory, ignore_errors=True)


def _where(error):
    steps = traceback.extract_tb(error.__traceback__)
    return "".join(f" <- {os.path.basename(step.filename)}:{step.lineno}" for step in reversed(steps[-4:]))


class _Runner:
    def __init__(self, settings):
        self.settings = settings
        self.running = {}  # pid -> (test, read end)
        self.left = collections.Counter()
        self.seconds = {}
        self.failures = {}
        self.passed = self.failed = 0

    def run(self, tests):
        queue = []
        for case in tests:
            times = self.settings.count if case.repeated else 1
            self.left[case.name] = times
            queue += [case] * times
        for case in queue:
            while len(self.running) >= self.settings.jobs:
                self._take_result()
            self._begin(case)
        while self.running:
            self._take_result()

    def _begin(self, case):
        self.seconds.setdefault(case.name, time.monotonic())
        read_end, write_end = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            try:
                os.write(write_end, _run_here(case, self.settings).encode()[:4000])
            finally:
                os._exit(0)
        os.close(write_end)
        self.running[pid] = (case, read_end)

    def _take_result(self):
        pid, status = os.waitpid(-1, 0)
        case, read_end = self.running.pop(pid)
        reason = b""
        while piece := os.read(read_end, 4096):
            reason += piece
        os.close(read_end)
        if status != 0:
            reason += f" (the test's process ended with {status})".encode()
        if reason:
            self.failures.setdefault(case.name, []).append(reason.decode("utf-8", "replace"))
        self.left[case.name] -= 1
        if self.left[case.name] == 0:
            self._report(case)

    def _report(self, case):
        seconds = time.monotonic() - self.seconds[case.name]
        times = f", {self.settings.count} times" if case.repeated else ""
        failures = self.failures.get(case.name)
        if not failures:
            self.passed += 1
            print(f"PASS {case.name} ({seconds:.1f} s{times})", flush=True)
            return
        self.failed += 1
        share = f" ({len(failures)} of {self.settings.count})" if case.repeated else ""
        print(f"FAIL {case.name}{share}: {failures[0]}", flush=True)


def main(description):
    """Runs the tests that the calling program registered; exits 0 if all passed, else 1."""
    is_long = os.environ.get("KEYHOP_TESTS_LONG") == "1"
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--keyhop", required=True, type=os.path.abspath, help="the program under test")
    parser.add_argument("--agent", required=True, type=os.path.abspath, help="keyhop-test-agent")
    parser.add_argument("--count", type=int, default=200 if is_long else 20, help="of repeated tests")
    parser.add_argument("--jobs", type=int, default=8, help="tests at a time")
    parser.add_argument(
        "--patience", type=float, default=1, help="factor for time limits (sanitizers, slow machines)"
    )
    parser.add_argument("--only", action="append", help="tests whose name contains this")
    parser.add_argument("--keep", action="store_true", help="leave the tests' directories")
    settings = parser.parse_args()
    settings.long = is_long
    for program in (settings.keyhop, settings.agent):
        if not os.access(program, os.X_OK):
            parser.error(f"{program} cannot be executed")
    tests = [case for case in _tests if not settings.only or any(part in case.name for part in settings.only)]
    runner = _Runner(settings)
    runner.run(tests)
    print(f"{runner.passed} passed, {runner.failed} failed")
    sys.exit(1 if runner.failed or not tests else 0)
