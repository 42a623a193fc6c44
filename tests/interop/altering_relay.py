#!/usr/bin/env python3
"""A stand-in for keyhop that passes lines on and spoils one thing.

    altering_relay.py [--alter HOW] -- AGENT [ARG…]

run.py --prove uses it to show that each comparison can fail. Without --alter it changes nothing.
"""

import os
import re
import subprocess
import sys
import threading


class Alteration:
    """Both directions as functions from a line to the lines that go out instead."""

    def __init__(self, how):
        self.how = how
        self.kept = b""
        self.done = False

    def to_client(self, line):
        return getattr(self, "_" + self.how.replace("-", "_"), lambda same: [same])(line)

    def to_agent(self, line):
        # The answer to the request whose id was made a string.
        if self.how == "id-type":
            line = re.sub(rb'"id":\s*"0"', b'"id":0', line)
        if self.how == "meta-byte-to-agent":
            return self._meta_byte(line)
        return [line]

    def _once(self, line, alter):
        if self.done:
            return [line]
        changed = alter(line)
        self.done = changed != [line]
        return changed

    def _drop_update(self, line):
        return self._once(line, lambda same: [] if b"agent_message_chunk" in same else [same])

    def _duplicate_answer(self, line):
        return self._once(line, lambda same: [same, same] if b"end_turn" in same else [same])

    def _id_type(self, line):
        return [
            re.sub(rb'("id":\s*)0([,}])', rb'\1"0"\2', line, 1) if b"request_permission" in line else line
        ]

    def _meta_byte(self, line):
        return self._once(line, lambda same: [same.replace(b"e-7", b"E-7", 1) if b"_meta" in same else same])

    def _serialise(self, line):
        return [line.replace(b'":', b'": ')]

    def _reorder(self, line):
        """The answer of a prompt goes out before the update that stands in front of it."""
        if self.kept:
            kept, self.kept, self.done = self.kept, b"", True
            return [line, kept]
        if not self.done and b'"text":"last"' in line:
            self.kept = line
            return []
        return [line]


def pump(source, target, alter):
    for line in iter(source.readline, b""):
        target.write(b"".join(alter(line)))
        target.flush()


def main():
    split = sys.argv.index("--")
    how = sys.argv[2] if sys.argv[1] == "--alter" else "nothing"
    alteration = Alteration(how)
    if how == "orphan":
        subprocess.Popen(["sleep", "60"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=2)
    agent = subprocess.Popen(sys.argv[split + 1 :], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def feed():
        pump(sys.stdin.buffer, agent.stdin, alteration.to_agent)
        agent.stdin.close()

    threading.Thread(target=feed, daemon=True).start()
    pump(agent.stdout, sys.stdout.buffer, alteration.to_client)
    status = agent.wait()
    os._exit(3 if how == "exit-status" else status)


main()
