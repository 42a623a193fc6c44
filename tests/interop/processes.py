"""Runs a peer with a time limit and leaves nothing of it behind.

The runner is a subreaper: whatever loses its parent comes to it, also what gave itself a session of its own.
So "nothing was left" is a plain question to the kernel, and a run that leaves something fails.
"""

import ctypes
import os
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
# How long the rest of a run may take to go by itself: keyhop's watchdog outlives it by a moment.
GRACE_S = 10


def become_subreaper():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def run(command, cwd, environment, output, timeout_s):
    """Runs the command; returns what was wrong with it, an empty list if nothing was.

    Its stdout goes to the file `output`, its stderr to `output`.err.
    """
    with open(output, "wb") as out, open(f"{output}.err", "wb") as err:
        child = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        problems = []
        try:
            status = child.wait(timeout_s)
            if status != 0:
                problems.append(f"{os.path.basename(command[0])} ended with status {status}")
            problems += [f"left behind: {name}" for name in _left_after(GRACE_S)]
        except subprocess.TimeoutExpired:
            problems.append(f"did not end within {timeout_s} s")
        finally:
            _end_all(child)
    return problems


def _left_after(grace_s):
    """Waits until every adopted process is gone; the command lines of those that are not."""
    deadline = time.monotonic() + grace_s
    while _reap() and time.monotonic() < deadline:
        time.sleep(0.02)
    return [_command_line(process) for process in _children(os.getpid())] if _reap() else []


def _reap():
    """Reaps what has ended; true while there is any child left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
        return True
    except ChildProcessError:
        return False


def _end_all(child):
    """Kills everything below this process, as often as it takes: the killed ones' children come to us."""
    while True:
        for process in _children(os.getpid()):
            _kill_tree(process)
        if child.returncode is None:
            child.wait()
        if not _reap():
            return
        time.sleep(0.01)


def _kill_tree(process):
    for below in _children(process):
        _kill_tree(below)
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _children(parent):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                # The second field is a name in parentheses that may itself hold spaces and parentheses.
                if int(stat.read().rpartition(b")")[2].split()[1]) == parent:
                    found.append(int(name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def _command_line(process):
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip() or f"zombie {process}"
    except (FileNotFoundError, ProcessLookupError):
        return f"process {process}"
