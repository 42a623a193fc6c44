"""What makes agent_v1.py outlive its process (--history DIR): the counterpart of kept.mjs and kept_v1.mjs."""

import asyncio
import json
import os
import signal

import acp
from acp import schema


def lines_of(path):
    """Whole lines of a file; none if there is no such file yet."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().split("\n")[:-1]
    except FileNotFoundError:
        return []


class History:
    """The directory, in the test agent's own form; see kept.mjs."""

    def __init__(self, directory, stalls):
        os.makedirs(directory, exist_ok=True)
        self.directory, self.stalls, self.count = directory, stalls, 0
        self.epoch = len(self.rows("epochs.jsonl")) + 1
        self.append("epochs.jsonl", json.dumps({"epoch": self.epoch, "pid": os.getpid()}))

    def rows(self, name):
        return [json.loads(line) for line in lines_of(os.path.join(self.directory, name))]

    def append(self, name, line):
        with open(os.path.join(self.directory, name), "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def act(self, effect, method, **more):
        row = {"effect": effect, "method": method, **more, "pid": os.getpid(), "epoch": self.epoch}
        self.append("acted.jsonl", json.dumps(row))

    def acted(self, effect):
        return [row for row in self.rows("acted.jsonl") if row["effect"] == effect]

    def stalls_at(self, point):
        name = f"{point}@{self.epoch}"
        if name not in self.stalls:
            return False
        self.append("faults", name)
        return True

    def fresh_id(self, prefix):
        self.count += 1
        return f"{prefix}-{self.epoch}-{self.count}"


class Kept:
    """The handlers that differ; goes before the agent's own class."""

    def keep(self, history, modes, option, permission):
        self.history, self.modes, self.option, self.permission = history, modes, option, permission
        self.live = {}
        if history.stalls_at("start"):
            while True:
                signal.pause()

    def defaults(self):
        return {"mode": self.modes["currentModeId"], "model": "small"}

    def settings(self, session_id):
        mine = self.live[session_id]
        return {
            "modes": {**self.modes, "currentModeId": mine["mode"]},
            "configOptions": [self.option(mine["model"])],
        }

    def active(self, session_id):
        if session_id not in self.live:
            raise acp.RequestError(-32002, "Resource not found", {"sessionId": session_id})

    async def reopen(self, session_id):
        if self.history.stalls_at("restore"):
            await asyncio.Event().wait()
        if session_id in [row["sessionId"] for row in self.history.acted("new")]:
            self.live.setdefault(session_id, self.defaults())
        self.active(session_id)

    async def new_session(self, cwd, additional_directories=None, mcp_servers=None, **meta):
        session_id = self.history.fresh_id("session")
        self.history.act("new", "session/new", sessionId=session_id, cwd=cwd)
        self.live[session_id] = self.defaults()
        return schema.NewSessionResponse(sessionId=session_id, **self.settings(session_id))

    async def load_session(self, cwd, session_id, mcp_servers=None, additional_directories=None, **meta):
        await self.reopen(session_id)
        for row in self.history.acted("insert"):
            if row["sessionId"] == session_id:
                await self.say(session_id, acp.update_user_message_text(row["prompt"][0]["text"]))
        return schema.LoadSessionResponse(**self.settings(session_id))

    async def resume_session(self, session_id, cwd, additional_directories=None, mcp_servers=None, **meta):
        await self.reopen(session_id)
        return schema.ResumeSessionResponse(**self.settings(session_id))

    async def list_sessions(self, cwd=None, cursor=None, **meta):
        rows = self.history.acted("new")
        return schema.ListSessionsResponse(
            sessions=[{"sessionId": row["sessionId"], "cwd": row["cwd"]} for row in rows]
        )

    async def set_session_mode(self, session_id, mode_id, **meta):
        self.active(session_id)
        self.live[session_id]["mode"] = mode_id
        self.history.act("set", "session/set_mode", sessionId=session_id, modeId=mode_id)
        await self.say(
            session_id, schema.CurrentModeUpdate(sessionUpdate="current_mode_update", currentModeId=mode_id)
        )

    async def set_config_option(self, config_id, session_id, value, **meta):
        self.active(session_id)
        self.live[session_id]["model"] = value
        self.history.act("set", "session/set_config_option", sessionId=session_id, value=value)
        return schema.SetSessionConfigOptionResponse(configOptions=[self.option(value)])

    async def prompt(self, session_id, prompt, **meta):
        self.active(session_id)
        kind, number = prompt[0].text.split(" ")[:2]
        if kind == "hang":
            await asyncio.Event().wait()
        content = [{"type": "text", "text": prompt[0].text}]
        self.history.act(
            "insert",
            "session/prompt",
            sessionId=session_id,
            messageId=self.history.fresh_id("user"),
            prompt=content,
        )
        await self.say(session_id, acp.update_agent_message_text(f"reply {number}"))
        if kind == "stay":
            await asyncio.Event().wait()
        if kind == "asks":
            await self.client.request_permission(**self.permission(session_id))
        return schema.PromptResponse(stopReason="end_turn")
