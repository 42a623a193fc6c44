"""A source file as the coverage report reads it: what stands where, and what is excepted by its text."""

import re


class Source:
    """Lines and columns count from 1, as the compiler does."""

    def __init__(self, path):
        self._lines = path.read_text(encoding="utf-8").split("\n")
        self._invariants = self._find_invariants()

    def text(self, line):
        return self._lines[line - 1].strip()

    def between(self, line, column, last, end):
        """The code from one place to another, its white space made one blank."""
        raw = [text.encode() for text in self._lines[line - 1 : last]]
        raw[-1] = raw[-1][: end - 1]
        raw[0] = raw[0][column - 1 :]
        return " ".join(b" ".join(raw).decode().split())

    def is_invariant(self, line, column):
        """Within an INVARIANT( ); with column 0: the line begins within one."""
        return any(begin < (line, column) < end for begin, end in self._invariants)

    def is_constant(self, line, column):
        """The condition is decided when it is compiled."""
        before = self._lines[line - 1][: column - 1]
        rest = self._lines[line - 1][column - 1 :]
        return before.endswith("if constexpr (") or (before.endswith("while (") and rest.startswith("true)"))

    def is_enum_switch(self, line, column):
        """What a switch over an enum asks. The compiler demands every case of it, hence it has no default."""
        if not self._lines[line - 1][: column - 1].endswith("switch ("):
            return False
        for text in self._lines[line - 1 :]:
            if label := re.match(r"\s*(case ([^:]|::)+|default):", text):
                return "::" in label.group(1) or re.fullmatch(r"case [a-z_]+", label.group(1)) is not None
        return False

    def _find_invariants(self):
        spans = []
        for number, text in enumerate(self._lines, 1):
            for found in re.finditer(r"\bINVARIANT\(", text):
                spans.append(((number, found.start()), self._closing(number, found.end())))
        return spans

    def _closing(self, number, at):
        depth = 1
        while number <= len(self._lines):
            for column, char in enumerate(self._lines[number - 1][at:], at + 1):
                depth += {"(": 1, ")": -1}.get(char, 0)
                if depth == 0:
                    return (number, column)
            number, at = number + 1, 0
        return (number, 0)
