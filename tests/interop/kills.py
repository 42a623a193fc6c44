"""Reads a run of a client whose agent was killed again and again: client_kills.mjs, client_kills_v1.py.

The client's log says what was asked and what came back, its raw bytes say what crossed the pipe, and the
agent's own history says what it did. Nothing of this is what keyhop says about itself.
"""

import json

KILLS = 20
# The first word of prompts that the agent reads and does not insert.
NEVER_INSERTED = "hang"


def _rows(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []


class Run:
    def __init__(self, directory):
        self.log = _rows(directory / "client.log")
        history = directory / "history"
        self.epochs = _rows(history / "epochs.jsonl")
        self.acted = _rows(history / "acted.jsonl")
        # The test agent counts a message that it could not count before it died by the id alone.
        self.stored = {
            row["messageId"]: row["content"]
            for file in history.glob("session-*.jsonl")
            for row in _rows(file)
            if row["t"] == "user"
        }
        self.asks = [event for event in self.log if "ask" in event]
        self.settled = {}
        for event in self.log:
            if "settled" in event:
                self.settled.setdefault(event["settled"], []).append(event)
        self.sent = _rows(directory / "client.out")
        self.received = []  # (place behind it in bytes, message)
        at = 0
        for line in (directory / "client.in").read_bytes().split(b"\n")[:-1]:
            at += len(line) + 1
            self.received.append((at, json.loads(line)))

    def events(self, name):
        return [event for event in self.log if name in event]

    def prompts(self):
        """Every prompt that was asked, by its text."""
        prompts = [ask for ask in self.asks if ask["method"] == "session/prompt"]
        return {_text(ask["params"]["prompt"]): ask for ask in prompts}

    def insertions(self):
        """(session, text, message id) of each insertion, in order."""
        return [
            (
                row["sessionId"],
                _text(row.get("prompt") or self.stored[row["messageId"]]),
                row["messageId"],
            )
            for row in self.acted
            if row["effect"] == "insert"
        ]

    def updates(self):
        """(place in bytes, session, update) of each update that the client read."""
        return [
            (at, message["params"]["sessionId"], message["params"]["update"])
            for at, message in self.received
            if message.get("method") == "session/update"
        ]

    def replays(self):
        """(session, begin, end in bytes, was answered well) of each replay that the client asked for."""
        ids = [message["id"] for message in self.sent if "method" in message and "id" in message]
        answered = {message["id"]: at for at, message in self.received if "method" not in message}
        return [
            (ask["params"]["sessionId"], ask["read"], answered[request_id], self._is_result(ask))
            for ask, request_id in zip(self.asks, ids)
            if ask["method"] == "session/load" or ask["params"].get("replayFrom")
        ]

    def _is_result(self, ask):
        return "result" in self.settled[ask["ask"]][0]


def _text(content):
    return "".join(block["text"] for block in content)


def _agent(run):
    """Each of the agent's processes but the last one was killed, by nobody but the client."""
    killed = [event["killed"] for event in run.events("killed")]
    started = [row["pid"] for row in run.epochs]
    problems = [] if len(killed) == KILLS else [f"{len(killed)} kills, not {KILLS}"]
    if started[:-1] != killed:
        problems.append(f"processes {started}, killed {killed}")
    return problems


def _settled(run):
    """Every promise settled once, every request was answered once, the connection closed at the end only."""
    problems = [
        f"request {ask['ask']} ({ask['method']}) settled {len(run.settled.get(ask['ask'], []))} times"
        for ask in run.asks
        if len(run.settled.get(ask["ask"], [])) != 1
    ]
    answers = [message["id"] for _, message in run.received if "method" not in message]
    ids = [message["id"] for message in run.sent if "method" in message and "id" in message]
    problems += [
        f"id {request_id} was answered {answers.count(request_id)} times"
        for request_id in {*ids, *answers}
        if ids.count(request_id) != 1 or answers.count(request_id) != 1
    ]
    names = [next(iter(event)) for event in run.log]
    if "end" not in names or "closed" in names[: names.index("end")]:
        problems.append("the connection closed before the end of the dialogue")
    if {"code": 0, "signal": None} not in [event["agentEnded"] for event in run.events("agentEnded")]:
        problems.append(f"keyhop ended with {run.events('agentEnded')}")
    return problems


def _answers(run):
    """Each answer is what it should be: a result, or keyhop's own error that says how it stands."""
    problems = []
    for ask in run.asks:
        outcome = run.settled[ask["ask"]][0]
        fitting = ["result"] if "result" in outcome else []
        data = outcome.get("error", {}).get("data")
        if isinstance(data, dict) and data.get("source") == "keyhop" and data.get("outcome") == "unknown":
            fitting = ["unknown"]
        if not {*fitting} & ({"result", "unknown"} if ask["expect"] == "either" else {ask["expect"]}):
            problems.append(f"{ask['method']} {json.dumps(ask['params'])[:90]}: {json.dumps(outcome)[:300]}")
    return problems


def _insertions(run):
    """Nothing was inserted twice, what was answered was inserted, under the id that the answer names."""
    inserted = {}
    for session, text, message_id in run.insertions():
        inserted.setdefault((session, text), []).append(message_id)
    problems = [
        f"{text!r} was inserted {len(ids)} times" for (_, text), ids in inserted.items() if len(ids) > 1
    ]
    prompts = run.prompts()
    problems += [f"{text!r} was never asked" for _, text in inserted if text not in prompts]
    for ask in [ask for ask in run.asks if ask["method"] == "session/prompt"]:
        text = _text(ask["params"]["prompt"])
        ids = inserted.get((ask["params"]["sessionId"], text), [])
        result = run.settled[ask["ask"]][0].get("result")
        if text.startswith(NEVER_INSERTED):
            wanted = not ids
        elif result is not None:
            wanted = len(ids) == 1 and result.get("messageId", ids[0]) == ids[0]
        else:
            wanted = len(ids) == 1 or ask["expect"] == "either"
        if not wanted:
            problems.append(f"{text!r} was answered {result}, inserted as {ids}")
    return problems


def _settings(run):
    """What was set last is set in the end, and both sides say the same."""
    checked = run.events("settings")
    problems = [
        f"{event['settings']}: {event['found']}, not {event['wanted']}"
        for event in checked
        if event["found"] != event["wanted"]
    ]
    return problems if len(checked) == 5 else [*problems, f"{len(checked)} sessions looked at, not 5"]


def _updates(run):
    """Live updates came once; history came only where the client asked for it, and then all of it."""
    windows = run.replays()
    last = {session: begin for session, begin, _, _ in windows}
    texts = {}
    for at, session, update in run.updates():
        if any(session == asked and begin < at < end for asked, begin, end, _ in windows):
            continue
        content = update.get("content") or {}
        text = _text(content) if isinstance(content, list) else content.get("text")
        if update["sessionUpdate"] in ("user_message", "user_message_chunk", "agent_message_chunk"):
            texts[session, text] = texts.get((session, text), 0) + 1
    problems = [f"{text!r} was shown {count} times" for (_, text), count in texts.items() if count > 1]
    for text, ask in run.prompts().items():
        reply = (ask["params"]["sessionId"], f"reply {text.split()[1]}")
        if not text.startswith(NEVER_INSERTED) and ask["expect"] == "result" and reply not in texts:
            problems.append(f"the reply to {text!r} was not shown")
    for session, begin, end, well in windows:
        shown = [
            _text(update["content"]) if isinstance(update["content"], list) else update["content"]["text"]
            for at, of, update in run.updates()
            if of == session and begin < at < end and update["sessionUpdate"].startswith("user_message")
        ]
        held = [text for of, text, _ in run.insertions() if of == session]
        # After the last one nothing was inserted any more.
        if well and shown != (held if begin == last[session] else held[: len(shown)]):
            problems.append(f"{session}: replayed {shown}, inserted {held}")
    if len(last) < 5:
        problems.append(f"{len(last)} sessions were replayed, not 5")
    return problems


def _withdrawn(run):
    """A dead agent's questions were taken back, once each, and the client's late answers did no harm."""
    questions = [
        message["id"] for _, message in run.received if message.get("method") == "session/request_permission"
    ]
    cancelled = [
        message["params"]["requestId"]
        for _, message in run.received
        if message.get("method") == "$/cancel_request"
    ]
    problems = [] if len(questions) == 2 and questions == cancelled else [f"{questions}, {cancelled}"]
    asked = [event["permission"] for event in run.events("permission")]
    # The Python SDK does not tell its application, which answers later.
    noticed = [
        event.get("withdrawn") or event["late"] for event in run.log if {"withdrawn", "late"} & {*event}
    ]
    return problems if asked == noticed else [*problems, f"asked {asked}, withdrawn {noticed}"]


CHECKS = {
    "agent": _agent,
    "settled": _settled,
    "answers": _answers,
    "insertions": _insertions,
    "settings": _settings,
    "updates": _updates,
    "withdrawn": _withdrawn,
}


def check(directory):
    """By name, what is wrong with the run in this directory."""
    if not (directory / "client.log").exists() or not (directory / "client.in").exists():
        return {"log": ["no trace"]}
    run = Run(directory)
    found = {"settled": _settled(run)}
    # What follows looks into each answer.
    return {name: check(run) for name, check in CHECKS.items()} if not found["settled"] else found
