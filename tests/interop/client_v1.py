"""An ACP v1 client on the official Python SDK, the counterpart of client_v1.mjs: the same dialogue.

    python client_v1.py --trace DIR -- COMMAND [ARG…]

The agent is started the way the SDK does it, with its short environment and with a stderr that nobody reads.
"""

import asyncio
import sys

import acp
from acp import schema
from acp.transports import spawn_stdio_transport

from record import AWKWARD, BIG_TEXT, Trace, describe

# Only ends a run that is broken anyway (a callback was lost): the log then says what was missing.
PATIENCE_S = 10


class Refusal(acp.RequestError):
    def to_error_obj(self):
        return {**super().to_error_obj(), "_vendorHint": {"retry": False, "zähler": [1, 2.5, None]}}


class InteropClient(acp.Client):
    """Logs every callback and answers it; `seen` counts them, see dialogue.mjs."""

    def __init__(self, trace):
        self.trace = trace
        self.seen = 0
        self.changed = asyncio.Condition()
        self.stopping = asyncio.Event()
        self.permission_answer = "yes"

    async def callback(self, name, **value):
        self.trace.log(callback=name, value=value)
        async with self.changed:
            self.seen += 1
            self.changed.notify_all()

    async def until(self, count):
        try:
            async with self.changed:
                await asyncio.wait_for(self.changed.wait_for(lambda: self.seen >= count), PATIENCE_S)
        except asyncio.TimeoutError:
            return False
        return True

    async def session_update(self, session_id, update, **meta):
        await self.callback("session/update", session=session_id, update=update, meta=meta)
        if getattr(getattr(update, "content", None), "text", None) == "stopping":
            self.stopping.set()

    async def request_permission(self, session_id, tool_call, options, **meta):
        await self.callback(
            "session/request_permission", session=session_id, call=tool_call, options=options, meta=meta
        )
        if self.permission_answer == "when stopping":
            await self.stopping.wait()
            return schema.RequestPermissionResponse(
                outcome={"outcome": "cancelled"}, field_meta={"awkward": AWKWARD}
            )
        return schema.RequestPermissionResponse(
            outcome={"outcome": "selected", "optionId": self.permission_answer}
        )

    async def read_text_file(self, session_id, path, line=None, limit=None, **meta):
        await self.callback(
            "fs/read_text_file", session=session_id, path=path, line=line, limit=limit, meta=meta
        )
        return schema.ReadTextFileResponse(content=AWKWARD["emoji"], field_meta=AWKWARD)

    async def write_text_file(self, session_id, path, content, **meta):
        await self.callback("fs/write_text_file", session=session_id, path=path, content=content, meta=meta)
        raise Refusal(-31998, "read-only 🔒", {"awkward": AWKWARD})

    async def create_terminal(
        self, session_id, command, args=None, env=None, cwd=None, output_byte_limit=None, **meta
    ):
        await self.callback(
            "terminal/create", session=session_id, command=command, args=args, env=env, meta=meta
        )
        return schema.CreateTerminalResponse(terminalId="term-1")

    async def terminal_output(self, session_id, terminal_id, **meta):
        await self.callback("terminal/output", session=session_id, terminal=terminal_id, meta=meta)
        return schema.TerminalOutputResponse(output="ok\r\n\u001b[0m", truncated=False)

    async def wait_for_terminal_exit(self, session_id, terminal_id, **meta):
        await self.callback("terminal/wait_for_exit", session=session_id, terminal=terminal_id, meta=meta)
        return schema.WaitForTerminalExitResponse(exitCode=0)

    async def kill_terminal(self, session_id, terminal_id, **meta):
        await self.callback("terminal/kill", session=session_id, terminal=terminal_id, meta=meta)

    async def release_terminal(self, session_id, terminal_id, **meta):
        await self.callback("terminal/release", session=session_id, terminal=terminal_id, meta=meta)

    async def create_elicitation(self, message, mode, **meta):
        await self.callback("elicitation/create", message=message, mode=mode, meta=meta)
        return schema.AcceptElicitationResponse(action="accept", content={"name": "ü"})

    async def ext_method(self, method, params):
        await self.callback("_" + method, params=params)
        if method == "vendor/refuse":
            raise Refusal(-31998, "no", {"awkward": AWKWARD})
        return {"n": params["n"], "awkward": AWKWARD}

    async def ext_notification(self, method, params):
        await self.callback("_" + method, params=params)


class Dialogue:
    def __init__(self, client, agent, trace):
        self.client, self.agent, self.trace = client, agent, trace

    async def step(self, name, callbacks, request, midway=None, midway_after=1):
        """One request and the callbacks that come with it; `midway` is run while the request is open."""
        before = self.client.seen
        task = asyncio.ensure_future(request)
        if midway:
            await self.client.until(before + midway_after)
            await midway()
        outcome = {}
        try:
            outcome["result"] = await task
        except Exception as error:  # also a validation error of the SDK is an outcome
            outcome["error"] = describe(error)
        if not await self.client.until(before + callbacks):
            self.trace.log(step=name, missing=before + callbacks - self.client.seen)
        self.trace.log(step=name, **outcome)
        return outcome.get("result")

    async def aside(self, name, request):
        """Logs one of several requests that are open at the same time, when its answer arrives."""
        self.trace.log(aside=name, result=await request)


async def run(client, agent, trace):
    dialogue = Dialogue(client, agent, trace)
    step = dialogue.step
    raw = agent._conn.send_request

    initialized = await step(
        "initialize",
        0,
        agent.initialize(
            1,
            schema.ClientCapabilities(fs={"readTextFile": True, "writeTextFile": True}, terminal=True),
            schema.Implementation(name="interop-py", title="Ünïcödé", version="1.0.0"),
            **AWKWARD,
        ),
    )
    session = (await step("new", 1, agent.new_session("/", awkward=AWKWARD))).session_id

    def prompt(words, **meta):
        return agent.prompt(session, [acp.text_block(words)], **meta)

    # "future/notification" has no handler here, so a turn of updates has eight callbacks, not nine.
    await step("updates", 8, prompt("updates", **AWKWARD))
    client.permission_answer = "no"
    await step("rejected permission", 8, prompt("updates again"))
    await step("big", 1, prompt("big " + BIG_TEXT))
    await step("fail", 0, prompt("fail"))
    client.permission_answer = "when stopping"
    await step("cancel", 3, prompt("cancel"), midway=lambda: agent.cancel(session), midway_after=2)
    if initialized.field_meta["cancelsRequests"]:
        # The SDK has no call for $/cancel_request; the open prompt's id is the last one it gave out.
        def cancel_last():
            return agent._conn.send_notification(
                "$/cancel_request", {"requestId": agent._conn._next_request_id - 1}
            )

        await step("hold", 1, prompt("hold"), midway=cancel_last)
    await step("tools", 22, prompt("tools"))
    await step("set_mode", 1, agent.set_session_mode(session, "code"))
    await step("set_config_option", 0, agent.set_config_option("model", session, "large"))
    await step("set_config_option, unknown", 0, agent.set_config_option("colour", session, "red"))
    await step("list", 0, agent.list_sessions(cursor=""))
    await step("load", 2, agent.load_session("/", session))
    await step("echo", 0, agent.ext_method("vendor/echo", AWKWARD))
    await step("echo with params null", 0, raw("_vendor/echo"))
    await step("null result", 0, raw("_vendor/null"))
    await step("ordinary error", 0, agent.ext_method("vendor/throw", {}))
    await step("unknown method", 0, raw("future/method", {"awkward": AWKWARD}))
    await step("bad params", 0, raw("session/prompt", {"sessionId": session, "prompt": "not a list"}))
    await step("note", 1, agent.ext_notification("vendor/note", {"awkward": AWKWARD}))
    await asyncio.gather(
        *(dialogue.aside(f"reverse {n}", agent.ext_method("vendor/reverse", {"n": n})) for n in (1, 2, 3))
    )
    await step("resume", 0, agent.resume_session(session, "/"))
    await step("close", 0, agent.close_session(session))
    if initialized.agent_capabilities.session_capabilities.delete:
        await step("delete", 0, raw("session/delete", {"sessionId": session}))
        await step("delete of a missing session", 0, raw("session/delete", {"sessionId": "gone"}))


async def main():
    split = sys.argv.index("--")
    trace = Trace(sys.argv[sys.argv.index("--trace") + 1], "client")
    limit = acp.core.DEFAULT_STDIO_BUFFER_LIMIT_BYTES
    async with spawn_stdio_transport(*sys.argv[split + 1 :], limit=limit) as (reader, writer, process):
        trace.record_reads(reader)
        trace.record_writes(writer)
        client = InteropClient(trace)
        agent = acp.connect_to_agent(client, writer, reader, use_unstable_protocol=True)
        try:
            await run(client, agent, trace)
        finally:
            await agent.close()
    trace.log(agentEnded=process.returncode)
    trace.log(end="dialogue")


asyncio.run(main())
