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
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def effects(self, effect, method=None):
        rows = [json.loads(line) for line in self._lines("acted.jsonl")]
        return [row for row in rows if row["effect"] == effect and method in (None, row["method"])]

    def insertions(self):
        return self.effects("insert")

    def spawned(self):
        """Pids by mode."""
        pids = {}
        for line in self._lines("pids"):
            pid, mode = line.split()
            pids.setdefault(mode, []).append(int(pid))
        return pids

    def _wire(self, direction):
        with open(self.wire, "rb") as file:
            lines = file.read().split(b"\n")
        return [line[1:] for line in lines if line.startswith(direction)]

    def received(self, *parts):
        """Lines that the agent read, whole; only those that contain every one of `parts`."""
        return [line for line in self._wire(b"<") if all(part in line for part in parts)]

    def sent(self, *parts):
        return [line for line in self._wire(b">") if all(part in line for part in parts)]
