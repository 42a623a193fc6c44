"""One running keyhop and the client in front of it."""

import os
import signal
import subprocess

import processes
from client import Client


class Instance:
    """stdin, stdout: "pipe", or a descriptor that is handed over as it is (the test owns it).
    stderr: "file", or a descriptor."""

    def __init__(
        self, arguments, environment, stderr_path, stdin="pipe", stdout="pipe", stderr="file", closed=()
    ):
        own = []

        def pipe(wanted):
            if wanted != "pipe":
                return wanted, None
            ends = os.pipe()
            own.extend(ends)
            return ends, ends

        stdin, in_ends = pipe(stdin)
        stdout, out_ends = pipe(stdout)
        self.stderr_path = stderr_path
        stderr_file = os.open(stderr_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if closed:
            signs = " ".join({0: "<&-", 1: ">&-", 2: "2>&-"}[number] for number in closed)
            arguments = ["sh", "-c", f'exec "$@" {signs}', "sh", *arguments]
        self.process = subprocess.Popen(
            arguments,
            env=environment,
            stdin=in_ends[0] if in_ends else stdin,
            stdout=out_ends[1] if out_ends else stdout,
            stderr=stderr_file if stderr == "file" else stderr,
        )
        os.close(stderr_file)
        self.pid = self.process.pid
        self.status = None
        for descriptor in [in_ends and in_ends[0], out_ends and out_ends[1]]:
            if descriptor:
                os.close(descriptor)
        self.client = Client(in_ends and in_ends[1], out_ends and out_ends[0])

    def wait(self):
        """The exit status; 128 and the signal's number if a signal ended it, as a shell has it."""
        if self.status is None:
            code = self.process.wait()
            self.status = code if code >= 0 else 128 - code
        return self.status

    def close(self):
        """The client closes its writing end, reads to the end and waits; the exit status."""
        self.client.close_writing()
        self.client.read_to_end()
        return self.wait()

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        """SIGKILL, waited for. What it leaves comes to the test's process."""
        self.signal(signal.SIGKILL)
        return self.wait()

    def watchdog(self):
        """The pid of the watchdog, which keeps its environment and changes its name."""
        found = [
            pid for pid in processes.children(self.pid) if processes.name_of(pid) == processes.WATCHDOG_NAME
        ]
        return found[0] if found else None

    def stderr(self):
        with open(self.stderr_path, "rb") as file:
            return file.read()
