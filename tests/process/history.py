"""The test agent's own record: what it did, what crossed its wire, what it spawned."""

import json
import os


class History:
    def __init__(self, directory, wire):
        self.directory = directory
        self.wire = wire

    def _lines(self, name):
        try:
            with open(os.path.join(self.directory, name), encoding="utf-8", errors="surrogateescape") as file:
                return file.read().split("\n")[:-1]
        except FileNotFoundError:
            return []

    def effects(self, effect, method=None):
        rows = [json.loads(line) for line in self._lines("acted.jsonl")]
        return [row for row in rows if row["effect"] == effect and method in (None, row["method"])]

    def insertions(self):
        return self.effects("insert")

    def acts(self, method):
        """Every effect that requests of this method had."""
        return [row for row in map(json.loads, self._lines("acted.jsonl")) if row["method"] == method]

    def epochs(self):
        """The pids of the agent's processes, in the order of their starts."""
        return [json.loads(line)["pid"] for line in self._lines("epochs.jsonl")]

    def user_messages(self):
        """What the sessions hold of the user's, each as it was sent."""
        everything = (
            os.listdir(self.directory) if os.path.isdir(self.directory) else []
        )  # killed at its start
        names = [name for name in everything if name.startswith("session-")]
        rows = [json.loads(line) for name in sorted(names) for line in self._lines(name)]
        return [row for row in rows if row["t"] == "user"]

    def spawned(self):
        """Pids by mode."""
        pids = {}
        for line in self._lines("pids"):
            pid, mode = line.split()
            pids.setdefault(mode, []).append(int(pid))
        return pids

    def clocked(self):
        """Every line of the wire in order, of an agent with --wire-clock: "<" or ">", seconds, the line. The
        last line of an agent that was killed may be cut off anywhere."""
        with open(self.wire, "rb") as file:
            for entry in file.read().split(b"\n")[:-1]:
                moment, space, line = entry[1:].partition(b" ")
                if space:
                    yield entry[:1].decode(), int(moment) / 1e9, line

    def _wire(self, direction):
        with open(self.wire, "rb") as file:
            lines = file.read().split(b"\n")
        return [line[1:] for line in lines if line.startswith(direction)]

    def received(self, *parts):
        """Lines that the agent read, whole; only those that contain every one of `parts`."""
        return [line for line in self._wire(b"<") if all(part in line for part in parts)]

    def sent(self, *parts):
        return [line for line in self._wire(b">") if all(part in line for part in parts)]
