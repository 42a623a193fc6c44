"""A client on the official Python SDK (v1), its agent killed 20 times: the counterpart of client_kills.mjs.

python client_kills_v1.py --trace DIR --history DIR -- COMMAND [ARG…]
"""

import asyncio
import json
import os
import signal
import sys

import acp
from acp import schema
from acp.transports import spawn_stdio_transport

from kept import lines_of
from record import Trace, describe, plain

ORDERS = {
    "chat": "[say {}]",
    "stay": "[say {}] [hold]",  # does not come to an end
    "asks": "[say {}] [permission]",
    "hang": "[hang]",  # is read and not inserted
}


class Victim:
    """The agent process that is killed, see victim.mjs."""

    def __init__(self, directory, trace):
        self.directory, self.trace, self.kills = directory, trace, 0

    def lines(self, name):
        return lines_of(os.path.join(self.directory, name))

    async def until(self, condition):
        while not condition():
            await asyncio.sleep(0.002)

    async def kill(self, when):
        """SIGKILL to the current process, which has started if every earlier one was killed here."""
        await self.until(lambda: len(self.lines("epochs.jsonl")) > self.kills)
        pid = json.loads(self.lines("epochs.jsonl")[self.kills])["pid"]
        self.kills += 1
        os.kill(pid, signal.SIGKILL)
        self.trace.log(killed=pid, when=when)
        return pid

    async def kill_and_wait(self, when):
        """The same, and its end: nothing that is sent from now on reaches that process."""
        pid = await self.kill(when)
        await self.until(lambda: not os.path.exists(f"/proc/{pid}"))

    async def stalled(self, times):
        await self.until(lambda: len(self.lines("faults")) >= times)


class KilledClient(acp.Client):
    def __init__(self, trace):
        self.trace = trace
        self.replies, self.asked = set(), 0
        self.changed = asyncio.Condition()
        self.too_late = asyncio.Event()

    async def until(self, condition):
        async with self.changed:
            await self.changed.wait_for(condition)

    async def session_update(self, session_id, update, **meta):
        async with self.changed:
            self.replies.add(getattr(getattr(update, "content", None), "text", None))
            self.changed.notify_all()

    async def request_permission(self, session_id, tool_call, options, **meta):
        self.trace.log(permission=session_id)
        async with self.changed:
            self.asked += 1
            self.changed.notify_all()
        # This SDK tells nobody that a question was taken back: its answer comes when the agent is long gone.
        await self.too_late.wait()
        self.too_late.clear()
        self.trace.log(late=session_id)
        return schema.RequestPermissionResponse(outcome={"outcome": "selected", "optionId": "yes"})


class Conversation:
    """What client_kills.mjs does, in the same order."""

    def __init__(self, trace, victim, client, agent):
        self.trace, self.victim, self.client, self.agent = trace, victim, client, agent
        self.settings = {}  # by session: what was set last and confirmed
        self.asked = self.prompts = 0

    async def ask(self, method, params, request, expect="result"):
        """One request and what became of it; see client_kills.mjs."""
        self.asked += 1
        number = self.asked
        read = os.fstat(self.trace.in_file).st_size
        self.trace.log(ask=number, method=method, params=params, expect=expect, read=read)
        try:
            result = plain(await request)
            self.trace.log(settled=number, result=result)
            return result
        except acp.RequestError as error:
            self.trace.log(settled=number, error=describe(error))

    def prompt(self, kind, session, expect="result"):
        """The number of a prompt of this kind, and the task of its answer."""
        self.prompts += 1
        text = f"{kind} {self.prompts} " + ORDERS[kind].format(f"reply {self.prompts}")
        params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        request = self.agent.prompt(session, [acp.text_block(text)])
        return self.prompts, asyncio.create_task(self.ask("session/prompt", params, request, expect))

    async def replied(self, number):
        await self.client.until(lambda: f"reply {number}" in self.client.replies)

    async def chat(self, *sessions):
        for number, answer in [self.prompt("chat", session) for session in sessions]:
            await answer
            await self.replied(number)

    def settings_in(self, result):
        model = next(option for option in result["configOptions"] if option["id"] == "model")
        return {"mode": result["modes"]["currentModeId"], "model": model["currentValue"]}

    async def open(self, cwd):
        result = await self.ask("session/new", {"cwd": cwd}, self.agent.new_session(cwd))
        self.settings[result["sessionId"]] = self.settings_in(result)
        return result

    async def set_mode(self, session, mode):
        params = {"sessionId": session, "modeId": mode}
        await self.ask("session/set_mode", params, self.agent.set_session_mode(session, mode))
        self.settings[session]["mode"] = mode

    async def set_model(self, session, value):
        params = {"sessionId": session, "configId": "model", "value": value}
        request = self.agent.set_config_option("model", session, value)
        await self.ask("session/set_config_option", params, request)
        self.settings[session]["model"] = value

    async def reopen(self, session, cwd):
        params = {"sessionId": session, "cwd": cwd}
        result = await self.ask("session/load", params, self.agent.load_session(cwd, session))
        self.trace.log(settings=session, wanted=self.settings[session], found=self.settings_in(result))

    async def list(self):
        await self.ask("session/list", {}, self.agent.list_sessions())

    async def killed_at_work(self, *sessions):
        sent = [self.prompt("stay", session, "unknown") for session in sessions]
        for number, _ in sent:
            await self.replied(number)
        await self.victim.kill(f"in the middle of {len(sessions)} turns")
        await asyncio.gather(*(answer for _, answer in sent))

    async def killed_with_a_prompt_unanswered(self, session):
        _, answer = self.prompt("hang", session, "unknown")
        # A session's requests are read in order: when this one is answered, the prompt was read.
        await self.set_model(session, self.settings[session]["model"])
        await self.victim.kill("while a prompt is unanswered")
        await answer

    async def killed_at_a_question(self, session):
        before = self.client.asked
        _, answer = self.prompt("asks", session, "unknown")
        await self.client.until(lambda: self.client.asked > before)
        await self.victim.kill("while a permission request is open")
        await answer
        self.client.too_late.set()

    async def killed_while(self, when, *requests):
        """Kills when all these have been begun, and waits for none of them before."""
        tasks = [asyncio.create_task(request) for request in requests]
        await asyncio.sleep(0)
        await self.victim.kill(when)
        return await asyncio.gather(*tasks)

    async def round(self, a, b, c, model, mode, cwd):
        await self.victim.kill_and_wait("between turns")
        await self.chat(a, b)
        await self.killed_at_work(a)
        await self.killed_at_work(a, b)
        await self.killed_with_a_prompt_unanswered(b)
        await self.killed_at_a_question(a)
        await self.killed_while("while settings are set", self.set_model(b, model), self.set_mode(a, mode))
        when = "while sessions are listed and made"
        made = (await self.killed_while(when, self.list(), self.open(cwd)))[1]["sessionId"]
        await self.chat(made)
        params = {"sessionId": c, "cwd": "/three"}
        resume = self.ask("session/resume", params, self.agent.resume_session(c, "/three"))
        await self.killed_while("while a session is opened again", resume)
        return made

    async def run(self):
        await self.ask("initialize", {}, self.agent.initialize(1))
        first = await self.open("/one")
        a = first["sessionId"]
        b, c = [(await self.open(cwd))["sessionId"] for cwd in ("/two", "/three")]
        modes = [mode["id"] for mode in first["modes"]["availableModes"]]
        option = next(option for option in first["configOptions"] if option["id"] == "model")
        models = [value["value"] for value in option["options"]]
        await self.set_mode(a, modes[1])
        await self.set_model(a, models[1])
        await self.set_model(b, models[1])
        await self.chat(a, b, c)

        await self.victim.kill_and_wait("between turns")
        _, early = self.prompt("chat", a)
        await self.victim.stalled(1)
        await self.victim.kill("while it starts")
        await self.victim.stalled(2)
        await self.victim.kill("in its restore")
        await early
        made = [await self.round(a, b, c, models[n], modes[n], f"/made {n}") for n in (0, 1)]
        _, last = self.prompt("chat", c, "either")
        await asyncio.sleep(0)
        await self.victim.kill("in the moment of a prompt")
        await last

        await self.list()
        await self.chat(a, b, c, *made)
        for session, cwd in zip((a, b, c, *made), ("/one", "/two", "/three", "/made 0", "/made 1")):
            await self.reopen(session, cwd)


async def main():
    split = sys.argv.index("--")
    trace = Trace(sys.argv[sys.argv.index("--trace") + 1], "client")
    victim = Victim(sys.argv[sys.argv.index("--history") + 1], trace)
    limit = acp.core.DEFAULT_STDIO_BUFFER_LIMIT_BYTES
    async with spawn_stdio_transport(*sys.argv[split + 1 :], limit=limit) as (reader, writer, process):
        trace.record_reads(reader)
        trace.record_writes(writer)
        client = KilledClient(trace)
        agent = acp.connect_to_agent(client, writer, reader, use_unstable_protocol=True)
        conversation = asyncio.ensure_future(Conversation(trace, victim, client, agent).run())
        ended = asyncio.ensure_future(process.wait())
        await asyncio.wait({conversation, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not conversation.done():
            trace.log(closed=True)
            sys.exit("keyhop ended before the dialogue did")
        await conversation
        ended.cancel()
        trace.log(kills=victim.kills)
        trace.log(end="dialogue")
        await agent.close()
    trace.log(agentEnded={"code": process.returncode, "signal": None})


asyncio.run(main())
