"""The list of what no test can reach, exclusions.txt; its head says how it is written."""

import re


class Exclusions:
    def __init__(self, path):
        self._reasons = {}
        self._used = set()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            entry = re.fullmatch(r"([^:\s]+):(\S+): (.+) — (\S.*)", line)
            if entry is None:
                raise SystemExit(f"{path.name}:{number}: not `file:function: text — reason`")
            self._reasons[entry.group(1), entry.group(2), entry.group(3)] = entry.group(4)

    def reason_for(self, file, function, text):
        """Why this is not covered; empty if it is not excluded."""
        key = (file, function, text)
        if key not in self._reasons:
            return ""
        self._used.add(key)
        return self._reasons[key]

    def unused(self):
        return [":".join(key[:2]) + ": " + key[2] for key in self._reasons if key not in self._used]
