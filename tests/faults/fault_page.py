"""The page that a faulted keyhop and its test share: fault_page.h in Python."""

import mmap
import struct

SIZE = 4096
ROLES = ("keyhop", "watchdog", "starter")
CALLERS = ("own", "libuv", "sqlite")
OPERATIONS = (
    "memory map read write send receive fork pipe open sync alter look lock mode poll watch signal wait "
    "thread random sqlite clock"
).split()
MODES = ("count_only", "fail", "fail_after", "short", "interrupt", "clock")
FOREVER = 1 << 62

_PLAN = struct.Struct("=IIIIiIQQq")
_FOUND = struct.Struct("=QQQ16Q")
_CALLS = struct.Struct(f"={len(ROLES) * len(OPERATIONS) * len(CALLERS)}Q")


class Plan:
    """What is to fail. `first` from 1."""

    def __init__(
        self,
        mode="count_only",
        role="keyhop",
        operation="memory",
        caller="own",
        error=0,
        first=1,
        count=1,
        step=0,
    ):
        self.mode = mode
        self.role = role
        self.operation = operation
        self.caller = caller
        self.error = error
        self.first = first
        self.count = count
        self.step = step  # nanoseconds

    def __str__(self):
        if self.mode in ("fail", "fail_after"):
            upon = " and all later" if self.count == FOREVER else ""
            what = f"{self.role} {self.operation}/{self.caller} call {self.first}{upon}: error {self.error}"
            return what + (" although done" if self.mode == "fail_after" else "")
        if self.mode == "clock":
            return f"{self.role} clock {self.error} jumps by {self.step} ns at call {self.first}"
        return f"{self.role} {self.mode}"


class Page:
    """A file with a plan; what has been counted so far is read from it."""

    def __init__(self, path, plan):
        self.path = path
        data = _PLAN.pack(
            MODES.index(plan.mode),
            ROLES.index(plan.role),
            OPERATIONS.index(plan.operation),
            CALLERS.index(plan.caller),
            plan.error,
            0,
            plan.first,
            plan.count,
            plan.step,
        )
        with open(path, "wb") as file:
            file.write(data.ljust(SIZE, b"\0"))

    def _bytes(self):
        with open(self.path, "rb") as file, mmap.mmap(file.fileno(), SIZE, prot=mmap.PROT_READ) as memory:
            return memory[:]

    def struck(self):
        """How many calls were touched."""
        return _FOUND.unpack_from(self._bytes(), _PLAN.size)[0]

    def place(self):
        """Where the first one was: addresses in keyhop, as addr2line takes them."""
        _, base, count, *frames = _FOUND.unpack_from(self._bytes(), _PLAN.size)
        return [hex(frame - base) for frame in frames[:count]]

    def calls(self):
        """(role, operation, caller) -> number of calls; without those that never came."""
        numbers = iter(_CALLS.unpack_from(self._bytes(), _PLAN.size + _FOUND.size))
        names = [(role, name, caller) for role in ROLES for name in OPERATIONS for caller in CALLERS]
        return {name: number for name, number in zip(names, numbers) if number}
