"""How long after what decides it an answer reaches the client; how long the machine was too busy."""

import bisect
import json
import os
import subprocess
import tempfile
import threading
import time

from harness import Failure, expect

LATE_MAX = 0.1
# A run of all tests keeps a small machine busier than the heartbeat can see: of many answers one in so many may
# be late there, up to a bound that nothing but a lost timer passes. KEYHOP_LATENESS=strict allows none.
LATE_ONE_IN = 100
LATE_BOUND = 2.0
MODE = os.environ.get("KEYHOP_LATENESS", "")
REPORTED_ONLY = MODE == "reported"
STRICT = MODE == "strict"


class Heartbeat:
    """Round trips through a process that only passes bytes on, and small writes to the disk, all the time: where
    those took long, there was no processor or no disk for keyhop and its agent either, and a delay says nothing
    about keyhop."""

    PAUSE = 0.002
    DISK_PAUSE = 0.02
    STALL = 0.01
    SHARE = 3  # a round trip waits for a processor twice; an agent's end and start do so several times

    def __init__(self):
        self.stalls = []  # begin, end
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=beat, daemon=True) for beat in (self._beat, self._beat_disk)]
        self._echo = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._echo.stdin.close()
        self._echo.stdout.close()
        self._echo.wait()

    def _beat(self):
        last = time.monotonic()
        while not self._stop.wait(self.PAUSE):
            self._echo.stdin.write(b"x")
            self._echo.stdout.read(1)
            now = time.monotonic()
            if now - last > self.STALL:
                self.stalls.append((last, now))
            last = now

    def _beat_disk(self):
        with tempfile.TemporaryFile() as file:
            while not self._stop.wait(self.DISK_PAUSE):
                began = time.monotonic()
                os.pwrite(file.fileno(), b"x", 0)
                os.fdatasync(file.fileno())
                now = time.monotonic()
                if now - began > self.STALL:
                    self.stalls.append((began, now))

    def late_max(self, begin, end):
        """How late something may be that was decided at `begin` and came at `end`, in seconds."""
        stalled = sum(late - early for early, late in self.stalls if early < end and late > begin)
        return LATE_MAX + self.SHARE * stalled


class Lateness:
    """Of each answered request: when it was decided what the client is to get, and when it got it.

    A result or an error of the agent's is decided when the agent has written it. An error of keyhop's own is
    decided when what the request needs has been restored after the death that lost it: the session, or
    the connection where it names none. The agents' own record of their wires says when."""

    def __init__(self, conversation, history, kills, heartbeat):
        self.conversation = conversation
        self.kills = kills  # the n-th agent was killed at the n-th
        self.heartbeat = heartbeat
        self.read_in = {}  # id -> the last epoch that read it
        self.written = {}  # id -> when its answer was
        self.restored = {}  # session or None -> [(epoch, when)]
        self._read(history)

    def _read(self, history):
        epoch = 0
        own = {}
        for direction, moment, line in history.clocked():
            try:
                message = json.loads(line)
            except ValueError:  # an input that ended in the middle of a line, or an entry that a kill cut off
                continue
            number = message.get("id")
            method = message.get("method")
            if direction == "<" and method is not None:
                epoch += method == "initialize"
                if isinstance(number, str):
                    own[number] = message["params"].get("sessionId")
                else:
                    self.read_in[number] = epoch
            elif direction == ">" and method is None and "id" in message:
                if number in own:
                    self.restored.setdefault(own[number], []).append((epoch, moment))
                else:
                    expect(number not in self.written, f"the agents answered {number} twice")
                    self.written[number] = moment

    def _decided(self, number, came):
        if number in self.written:
            return self.written[number]
        # Lost with the agent that read it, or at the latest with the last that was killed before the answer.
        lost_in = self.read_in.get(number) or bisect.bisect_left(self.kills, came)
        session = self.conversation.sessions_of[number]
        return next((moment for epoch, moment in self.restored.get(session, []) if epoch > lost_in), None)

    def check(self):
        """The delays of all answers in seconds; fails where they are late and the machine was not."""
        found = []
        late_ones = []
        for number, (message, came) in self.conversation.answers.items():
            if number in self.conversation.cancelled:
                continue
            decided = self._decided(number, came)
            if decided is None:
                continue  # the agent was killed between its writing and its record of that
            late = came - decided
            found.append(late)
            if REPORTED_ONLY:  # a sanitizer's program is late by nature
                continue
            if late > self.heartbeat.late_max(decided, came):
                late_ones.append((late, message))
        allowed = 0 if STRICT else len(found) // LATE_ONE_IN
        worst, message = max(late_ones, default=(0, None), key=lambda entry: entry[0])
        if len(late_ones) > allowed or worst > LATE_BOUND:
            raise Failure(f"{len(late_ones)} of {len(found)} late, one by {worst * 1000:.0f} ms: {message}")
        return found
