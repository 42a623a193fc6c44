"""A stand-in for the model behind a real agent: an HTTP server on loopback, no other address.

It speaks as much as the agents need of two public interfaces: OpenAI's Responses (`POST …/responses`) and
Anthropic's Messages (`POST …/messages`), both as server-sent events. Every turn is one short answer. A turn
whose last user text has HOLD in it waits until `release()`, or until the agent has gone: that is "active
work". It is also the agents' proxy (environment()), and refuses whatever they want of the world.
"""

import http.server
import json
import select
import threading

HOLD = "[hold]"
ANSWER = "Done."


class Model:
    """Answers until close(). Requests come on threads of their own."""

    def __init__(self):
        self.changed = threading.Condition()
        self.turns = []  # the last user text of each turn that reached the model
        self.refused = []  # what was asked for beside it
        self._released = False
        self._answers = 0
        model = self

        class Handler(_Handler):
            of = model

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def environment(self):
        """Sends everything that the agent wants from elsewhere to this server, which refuses it."""
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        proxies = {name: self.address for name in names} | {name.lower(): self.address for name in names}
        return proxies | {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}

    def release(self):
        """Held turns end, and later ones do not wait."""
        with self.changed:
            self._released = True
            self.changed.notify_all()

    def close(self):
        self.release()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # ---- called by the handlers ----

    def begin(self, text):
        """Notes a turn; the number of its answer, which no other has."""
        with self.changed:
            self.turns.append(text)
            self._answers += 1
            self.changed.notify_all()
            return self._answers

    def refuse(self, what):
        with self.changed:
            self.refused.append(what)

    def wait_released(self, connection):
        """True once released, False if the agent closed the connection before."""
        poller = select.poll()
        poller.register(connection, select.POLLRDHUP)
        while True:
            with self.changed:
                if self.changed.wait_for(lambda: self._released, 0.02):
                    return True
            if poller.poll(0):
                return False


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    of = None

    def log_message(self, *_words):
        pass

    def do_GET(self):
        self._refuse()

    def do_HEAD(self):
        self._refuse()

    def do_CONNECT(self):
        self._refuse()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        events = {"/v1/responses": _responses, "/v1/messages": _messages}.get(path)
        if events is None:
            return self._refuse()
        request = json.loads(body)
        text = _last_user_text(request.get("input") or request.get("messages"))
        number = self.of.begin(text)
        if not request.get("stream"):
            return self._send("application/json", json.dumps(_message(request, number)).encode())
        self.close_connection = True  # that is how the stream ends
        self._begin(200, "text/event-stream")
        for event in events(request, number):
            # A held turn has begun to answer: it has said a word, and no more.
            if event.get("delta") and HOLD in text and not self.of.wait_released(self.connection):
                return None
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return None

    def handle(self):
        try:
            super().handle()
        except ConnectionError:  # an agent that was killed
            pass

    def _refuse(self):
        self.of.refuse(f"{self.command} {self.path}")
        self._send("application/json", b'{"error":{"message":"not here"}}', 404)

    def _send(self, kind, data, status=200):
        self._begin(status, kind, {"Content-Length": str(len(data))})
        self.wfile.write(data)

    def _begin(self, status, kind, more=None):
        self.send_response(status)
        for name, value in ({"Content-Type": kind} | (more or {})).items():
            self.send_header(name, value)
        self.end_headers()


def _last_user_text(items):
    if isinstance(items, str):
        return items
    texts = [_text(item.get("content")) for item in items or [] if item.get("role") == "user"]
    return texts[-1] if texts else ""


def _text(content):
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])


def _responses(request, number):
    """One answer as the Responses interface streams it."""
    part = {"type": "output_text", "text": ANSWER, "annotations": []}
    name = f"msg_{number}"
    item = {"type": "message", "id": name, "role": "assistant", "status": "completed", "content": [part]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": f"resp_{number}", "object": "response", "model": request.get("model"), "output": []}
    yield {"type": "response.created", "response": response | {"status": "in_progress"}}
    added = item | {"status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": added}
    place = {"item_id": name, "output_index": 0, "content_index": 0}
    yield {"type": "response.output_text.delta", **place, "delta": ANSWER}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    done = response | {"status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": done}


def _message(request, number):
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model"),
        "content": [{"type": "text", "text": ANSWER}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _messages(request, number):
    """One answer as the Messages interface streams it."""
    whole = _message(request, number)
    yield {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}}
    yield {"type": "content_block_stop", "index": 0}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}
