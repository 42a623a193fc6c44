"""Chains of pass-through proxies before the test agent, and what each of them recorded."""

import os
import shlex
import signal

import processes

MIXED = (("proxy", "fresh"), ("_proxy", "text"), ("proxy", "keep"))


def test_proxy(room):
    return os.path.join(os.path.dirname(room.agent), "keyhop-test-proxy")


class Component:
    """A command and its record, which all its starts share."""

    def __init__(self, record, command):
        self.record = record
        self.command = command

    def _lines(self):
        try:
            with open(self.record, "rb") as file:
                return file.read().split(b"\n")
        except FileNotFoundError:
            return []

    def pids(self):
        """Of its starts, in order."""
        return [int(line.split()[1]) for line in self._lines() if line.startswith(b"= ")]

    def shoot(self):
        """SIGKILL to its last start, if it has any that lives, and its end."""
        for pid in self.pids()[-1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            processes.wait_gone(pid)


class Recorded(Component):
    """Any command, with a record of its starts and nothing else."""

    def __init__(self, record, command):
        super().__init__(record, ["sh", "-c", 'echo "= $$" >>"$0"; exec "$@"', record, *command])


class Proxy(Component):
    """One pass-through proxy, which records what it reads and writes."""

    def __init__(self, room, name, spelling="proxy", ids="fresh", *options, place=""):
        self.name = name
        record = room.path(f"{place}record-{name}")
        command = [test_proxy(room), "--name", name, "--spelling", spelling, "--ids", ids]
        super().__init__(record, [*command, "--record", record, *options])

    def read(self, *parts):
        """Lines that it read, of all its starts; only those that contain every one of `parts`."""
        return self._side(b"<", parts)

    def written(self, *parts):
        return self._side(b">", parts)

    def _side(self, sign, parts):
        lines = [line[1:] for line in self._lines() if line.startswith(sign)]
        return [line for line in lines if all(part in line for part in parts)]

    def kill(self):
        """SIGKILL to its last start, which lives, and its end."""
        pid = self.pids()[-1]
        os.kill(pid, signal.SIGKILL)
        processes.wait_gone(pid)
        return pid


def proxies(room, kinds=MIXED, place=""):
    """`place`: a directory of the room for their records, with its slash."""
    return [Proxy(room, f"p{number}", *kind, place=place) for number, kind in enumerate(kinds)]


def with_proxies(*chain):
    """keyhop's options for these proxies, or for these commands."""
    commands = [link.command if isinstance(link, Component) else link for link in chain]
    return tuple(word for command in commands for word in ("--proxy", shlex.join(command)))


def keyhop_of(room, *chain, options=()):
    """The command of a keyhop without an agent: a component of the keyhop before it."""
    return [room.keyhop, *options, *with_proxies(*chain)]
