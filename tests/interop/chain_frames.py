"""What a component passed on, byte by byte: the members of frames and envelopes as they were written."""

import json
import re

# A string, or a byte that opens, closes or separates.
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)
ENVELOPES = ("proxy/successor", "_proxy/successor")
OPENINGS = ("proxy/initialize", "_proxy/initialize")


def members(written):
    """The members of an object by name, each as the bytes that were written."""
    found, depth, name, begin = {}, 0, None, 0
    for token in TOKEN.finditer(written):
        kind = token.group()
        if kind in b"{[":
            depth += 1
        if depth == 1 and kind == b":":
            begin = token.end()
        elif depth == 1 and kind in b",}" and name is not None:
            found[name] = written[begin : token.start()].strip()
            name = None
        elif depth == 1 and name is None and kind[:1] == b'"':
            name = json.loads(kind)
        if kind in b"}]":
            depth -= 1
    return found


class Carried:
    """A frame without what belongs to its hop: envelope, id, spelling. `wrapped`: it came in an envelope."""

    def __init__(self, line):
        frame = members(line)
        method = json.loads(frame["method"]) if "method" in frame else None
        self.id = frame.get("id")
        self.wrapped = method in ENVELOPES
        self.answers = method is None
        if self.wrapped:
            inner = members(frame["params"])
            method, self.body = json.loads(inner["method"]), inner.get("params")
        else:
            self.body = frame.get("params")
        if self.body == b"null":
            self.body = None  # the same in an envelope, where the SDKs write one for the other
        self.method = "initialize" if method in OPENINGS else method
        if self.answers:
            self.body = b"".join(
                name.encode() + b" " + frame[name] for name in ("result", "error") if name in frame
            )
        self.named = None  # the request that it is about, by an id of the hop
        if self.method in ("$/cancel_request", "elicitation/create"):
            self.named = members(self.body).get("requestId")
        if self.named is not None:
            written = rb'("requestId"\s*:\s*)' + re.escape(self.named)
            self.body = re.sub(written, rb"\1ID", self.body, count=1)

    def content(self):
        kind = "answer" if self.answers else "request" if self.id is not None else "notification"
        return (kind, self.method, self.body)


def carried(path):
    return [Carried(line) for line in path.read_bytes().split(b"\n") if line.strip()]


def short(content):
    kind, method, body = content
    return f"{kind} {method or ''} {(body or b'')[:200].decode(errors='replace')}"


def parting(written, read, names):
    """None if both lists of contents are equal, else where they part."""
    for number, (one, other) in enumerate(zip(written, read), 1):
        if one != other:
            return f"frame {number}\n  {names[0]}: {short(one)}\n  {names[1]}: {short(other)}"
    if len(written) != len(read):
        return f"{len(written)} frames {names[0]}, {len(read)} {names[1]}"
    return None


def ends(run):
    """What one end wrote and the other did not read: bytes and order, but for what hops may change."""
    problems = []
    for writer, reader in (("client", "agent"), ("agent", "client")):
        written, read = (
            [frame.content() for frame in carried(run / name)] for name in (f"{writer}.out", f"{reader}.in")
        )
        found = parting(written, read, ("written", "read"))
        problems += [f"{writer} to {reader}, {found}"] if found else []
    return [*problems, *misnamed(run)]


def misnamed(run):
    """What names a request by an id that the reader does not know it by."""
    problems = []
    for who in ("client", "agent"):
        read, written = carried(run / f"{who}.in"), carried(run / f"{who}.out")
        for frame in read:
            # A cancel is about a request of its sender, an elicitation about one of its reader.
            among = read if frame.method == "$/cancel_request" else written
            if frame.named is not None and not any(
                frame.named == asked.id for asked in among if asked.method
            ):
                problems.append(f"{who} cannot know {frame.named.decode()} in {short(frame.content())}")
    return problems


def hop(run):
    """What a component read and did not write: its stdio is in hop.in and hop.out."""
    came, went = carried(run / "hop.in"), carried(run / "hop.out")
    read = {"to the successor": [], "to the predecessor": [], "cancels": []}
    written = {name: [] for name in read}
    strays = [frame for frame, requests in _with(came, went) if frame.answers and not _asked(frame, requests)]
    if strays:
        return [f"nobody asked for {short(strays[0].content())}"]
    for frame in came:
        # Plain is from the predecessor; so is the answer to what went to it plain.
        on = not (_asked(frame, went) if frame.answers else frame).wrapped
        read[_where(frame, on)].append(frame.content())
    for frame in went:
        on = (_asked(frame, came) if frame.answers else frame).wrapped
        written[_where(frame, on)].append(frame.content())
    found = {name: parting(read[name], written[name], ("read", "written")) for name in read}
    return [f"{name}, {problem}" for name, problem in found.items() if problem]


def _asked(answer, requests):
    """The request that a frame answers."""
    return next((frame for frame in requests if not frame.answers and frame.id == answer.id), None)


def _with(came, went):
    """Every frame, with those among which the request is that it answers."""
    return [*((frame, went) for frame in came), *((frame, came) for frame in went)]


def _where(frame, on):
    # Cancels are plain on every hop, whichever way they go.
    if frame.method == "$/cancel_request":
        return "cancels"
    return "to the successor" if on else "to the predecessor"
