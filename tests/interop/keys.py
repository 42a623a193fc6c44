"""Reads a run of client_keys_v2.mjs: which duplicates reached the agent, and who got which answer."""

import json

from compare import frames

CANCELLED = -32800
INVALID_PARAMS = -32602


class Run:
    def __init__(self, directory):
        log = [json.loads(line) for line in (directory / "client.log").read_bytes().split(b"\n") if line]
        self.answers = {event["aside"]: event for event in log if "aside" in event}
        self.agent = frames(directory / "agent.in")

    def at_agent(self, words):
        """The requests with this prompt that reached the agent."""
        prompts = [frame for frame in self.agent if frame.get("method") == "session/prompt"]
        return [frame for frame in prompts if frame["params"]["prompt"][0]["text"] == words]

    def reached(self, words, count):
        found = len(self.at_agent(words))
        return [] if found == count else [f"'{words}' reached the agent {found} times, not {count}"]

    def outcome(self, name):
        """A request's outcome without its name: equal outcomes compare equal."""
        return {key: value for key, value in self.answers.get(name, {}).items() if key != "aside"}

    def code(self, name):
        return self.outcome(name).get("error", {}).get("code")

    def refused(self, name, words):
        problems = self.reached(words, 0)
        if self.code(name) != INVALID_PARAMS:
            problems.append(
                f"'{name}' was answered {json.dumps(self.outcome(name))[:120]}, not {INVALID_PARAMS}"
            )
        return problems

    def accepted(self, name):
        return (
            [] if "messageId" in (self.outcome(name).get("result") or {}) else [f"'{name}' got no messageId"]
        )

    def alike(self, name, others):
        return [
            f"'{name}' and '{other}' were answered differently"
            for other in others
            if self.outcome(other) != self.outcome(name)
        ]


def _join(run):
    return run.reached("hold join", 1) + run.accepted("join 1") + run.alike("join 1", ["join 2", "join 3"])


def _after_answer(run):
    return run.reached("hold join", 1) + run.accepted("again") + run.alike("join 1", ["again"])


def _pending(run):
    return (
        run.reached("hold pending", 1)
        + run.accepted("pending")
        + run.refused("changed while pending", "hold other")
    )


def _error(run):
    problems = run.alike("error 1", ["error 2", "error 3"]) + run.accepted("after the error")
    if run.outcome("error 1").get("error", {}).get("message") != "out of memory":
        problems.append("the agent's error did not reach the client")
    # Once for the three together, once for the retry: an error leaves the key unused.
    return problems + run.reached("hold error", 2)


def _cancel(run):
    problems = run.reached("hold cancel", 1) + run.alike("cancel 1", ["cancel 2", "cancel 3"])
    if run.code("cancel 1") != CANCELLED:
        problems.append(f"'cancel 1' was answered {run.code('cancel 1')}, not {CANCELLED}")
    cancels = [
        frame["params"]["requestId"] for frame in run.agent if frame.get("method") == "$/cancel_request"
    ]
    if cancels != [frame["id"] for frame in run.at_agent("hold cancel")]:
        problems.append(f"the agent was told to cancel {cancels}")
    return problems


def _bad(run):
    return (
        run.refused("empty key", "hold empty")
        + run.refused("long key", "hold long")
        + run.refused("numeric key", "hold numeric")
    )


def _allowed(run):
    problems = run.reached("hold longest", 1) + run.reached("hold null", 2) + run.reached("hold elsewhere", 1)
    for name in ("longest key", "null key 1", "null key 2", "other session"):
        problems += run.accepted(name)
    return problems


CHECKS = {
    "join": _join,
    "after-answer": _after_answer,
    "changed-after-answer": lambda run: run.refused("changed", "hold changed"),
    "changed-while-pending": _pending,
    "error": _error,
    "cancel": _cancel,
    "bad-keys": _bad,
    "allowed-keys": _allowed,
}
