"""Facts about processes, from /proc: who lives, below whom, with which mark."""

import os
import select
import signal

PR_SET_CHILD_SUBREAPER = 36
# Names the test that a process belongs to, in its environment and its descendants'.
MARK = "PROCESS_TEST_MARK"
WATCHDOG_NAME = "keyhop-watch"
AGENT_NAME = "keyhop-test-age"  # the kernel keeps 15 characters


def _read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def name_of(pid):
    return _read(pid, "comm").decode("utf-8", "replace").strip()


def command_line(pid):
    return _read(pid, "cmdline")


def is_test_agent(pid):
    return name_of(pid) == AGENT_NAME


def describe(pid):
    return f"{pid} {name_of(pid)} ({state_of(pid)}) {command_line(pid)[:80]!r}"


def _stat(pid):
    return _read(pid, "stat").rpartition(b") ")[2].split()


def state_of(pid):
    """The state's letter, or an empty string for no such process."""
    fields = _stat(pid)
    return fields[0].decode() if fields else ""


def parent_of(pid):
    return int(_stat(pid)[1])


def _parents():
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(entry)):
            parents[int(entry)] = int(fields[1])
    return parents


def children(pid):
    return [child for child, parent in _parents().items() if parent == pid]


def descendants(pid):
    parents = _parents()
    found, grown = {pid}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return sorted(found - {pid})


def marked(mark):
    """Living processes with this mark."""
    wanted = f"{MARK}={mark}".encode()
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [pid for pid in pids if wanted in _read(pid, "environ").split(b"\0")]


def status_number(pid, name):
    """A number of /proc/PID/status, as VmHWM (KiB) or voluntary_ctxt_switches."""
    for line in _read(pid, "status").decode().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise ProcessLookupError(f"{pid} has no {name}")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def environment(pid):
    return [entry.decode() for entry in _read(pid, "environ").split(b"\0") if entry]


def reap_all():
    """Waits until this process has no child; how many there were."""
    count = 0
    while True:
        try:
            os.waitpid(-1, 0)
            count += 1
        except ChildProcessError:
            return count


def kill_all():
    """Kills everything below this process; what a killed one leaves comes to us and is killed too."""
    while True:
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def wait_gone(pid):
    """Waits for the end of a process that need not be our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    poller.poll()
    os.close(descriptor)
