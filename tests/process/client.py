"""An ACP client over two descriptors. It keeps every byte that it wrote and read."""

import collections
import json
import os
import select

CHUNK = 1 << 16


def encode(frame):
    """A frame's line without its line feed. Bytes stay as they are."""
    if isinstance(frame, bytes):
        return frame
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode()


class Client:
    """The two descriptors differ, also where they name one socket or terminal."""

    def __init__(self, input_end, output_end):
        self.input = input_end
        self.output = output_end
        self.reads = True  # also while it writes, so that two full pipes do not stop it
        self.sent = []
        self.received = []
        self.lines = collections.deque()
        self.at_end = False
        self._rest = bytearray()
        self._searched = 0
        self._next_id = 100
        for descriptor in (input_end, output_end):
            if descriptor is not None:
                os.set_blocking(descriptor, False)

    # ---- bytes ----

    def write(self, data, piece=CHUNK):
        """Writes everything, at most `piece` bytes at a time."""
        view = memoryview(data)
        poller = select.poll()
        poller.register(self.input, select.POLLOUT)
        if self.reads and self.output is not None and not self.at_end:
            poller.register(self.output, select.POLLIN)
        while view:
            ready = dict(poller.poll())
            if self.output in ready and not self._fill():
                poller.unregister(self.output)
            if self.input in ready:
                try:
                    view = view[os.write(self.input, view[:piece]) :]
                except BlockingIOError:
                    pass

    def _fill(self):
        """One read. False at the end."""
        try:
            piece = os.read(self.output, 1 << 20)
        except BlockingIOError:
            return True
        except OSError:  # a terminal whose other end has gone
            piece = b""
        if not piece:
            self.at_end = True
            return False
        self._rest += piece
        end = self._rest.rfind(b"\n", self._searched)
        self._searched = len(self._rest)
        if end >= 0:
            self.lines.extend(bytes(self._rest[:end]).split(b"\n"))
            del self._rest[: end + 1]
            self._searched = len(self._rest)
        return True

    def receive(self):
        """The next line without its line feed, or None at the end."""
        poller = None
        while not self.lines:
            if self.at_end:
                return None
            if poller is None:
                poller = select.poll()
                poller.register(self.output, select.POLLIN)
            poller.poll()
            self._fill()
        line = self.lines.popleft()
        self.received.append(line)
        return line

    def take_unread(self):
        """What was read from the descriptor and not received; the client forgets it."""
        data = b"".join(line + b"\n" for line in self.lines) + bytes(self._rest)
        self.lines.clear()
        self._rest.clear()
        self._searched = 0
        return data

    def read_to_end(self):
        """Every line up to the end of keyhop's stdout; these lines."""
        lines = []
        if self.output is not None:
            while (line := self.receive()) is not None:
                lines.append(line)
        if self._rest:
            raise AssertionError(f"keyhop's stdout ends in the middle of a line: {bytes(self._rest[:200])!r}")
        return lines

    def close_writing(self):
        if self.input is not None:
            os.close(self.input)
            self.input = None

    def close_reading(self):
        os.close(self.output)
        self.output = None

    # ---- messages ----

    def send(self, *frames, piece=CHUNK):
        lines = [encode(frame) for frame in frames]
        self.sent += lines
        self.write(b"".join(line + b"\n" for line in lines), piece)

    def receive_message(self):
        line = self.receive()
        if line is None:
            raise EOFError("keyhop's stdout ended")
        return json.loads(line)

    def receive_until(self, wanted):
        """Reads up to the first message for which wanted(message) holds; that message."""
        while not wanted(message := self.receive_message()):
            pass
        return message

    def answer(self, request_id):
        """Reads up to the answer to that id."""

        def is_answer(message):
            named = message.get("id")
            return "method" not in message and type(named) is type(request_id) and named == request_id

        return self.receive_until(is_answer)

    def answers(self, request_id):
        """All answers under that id, by value and type, that were received so far."""
        messages = [message for message in map(json.loads, self.received) if "method" not in message]
        return [
            message
            for message in messages
            if type(message["id"]) is type(request_id) and message["id"] == request_id
        ]

    def unsettled(self):
        """How many answers each request has that has not exactly one, and each id that no request had."""
        counts = collections.Counter()
        for message in map(json.loads, self.received):
            if "method" not in message:
                counts[json.dumps(message["id"])] += 1
        for message in map(json.loads, self.sent):
            if "method" in message and "id" in message:
                counts[json.dumps(message["id"])] -= 1
        return {number: 1 + count for number, count in counts.items() if count != 0}

    def request(self, method, params=None, request_id=None):
        """Sends a request; its id."""
        if request_id is None:
            request_id = self._next_id
            self._next_id += 1
        frame = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            frame["params"] = params
        self.send(frame)
        return request_id

    def notify(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def respond(self, request_id, result):
        self.send({"jsonrpc": "2.0", "id": request_id, "result": result})

    def call(self, method, params=None):
        """A request and its answer. The agent handles frames in order, so everything sent before has been
        handled when this returns."""
        return self.answer(self.request(method, params))

    # ---- ACP ----

    def initialize(self, version=2):
        params = {"protocolVersion": version}
        if version == 1:
            params["clientCapabilities"] = {
                "fs": {"readTextFile": True, "writeTextFile": True},
                "terminal": True,
            }
        else:
            params |= {"info": {"name": "tests", "version": "1"}, "capabilities": {}}
        return self.call("initialize", params)["result"]

    def new_session(self):
        return self.call("session/new", {"cwd": "/w", "mcpServers": []})["result"]["sessionId"]

    def open(self, version=2):
        """initialize and session/new; the session's id."""
        self.initialize(version)
        return self.new_session()

    def prompt(self, session, text, key=None, request_id=None):
        return self.request("session/prompt", prompt_params(session, text, key), request_id)

    def turn(self, session, text):
        """A prompt of v2 and its whole turn; everything that it ordered is done when this returns."""
        self.prompt(session, text)
        return self.receive_until(is_idle)

    def order(self, text, session=None):
        """The agent has the orders when this returns, and carries them out next. A release is done."""
        params = {"text": text}
        if session:
            params["sessionId"] = session
        return self.call("_test/order", params)

    def emit(self, line):
        """The agent writes this line as it is."""
        return self.call("_test/emit", {"line": line})


def prompt_params(session, text, key=None):
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    if key is not None:
        params["idempotencyKey"] = key
    return params


def is_idle(message):
    return is_update(message, "state_update") and message["params"]["update"]["state"] == "idle"


def is_update(message, kind=None):
    if message.get("method") != "session/update":
        return False
    return kind is None or message["params"]["update"]["sessionUpdate"] == kind
