"""An ACP v1 agent on the official Python SDK, the counterpart of agent_v1.mjs: the same prompts, the same log.

Where the SDK has no call for something (unknown update kinds, methods of a later version), the message goes
through its connection object as it is. With --history DIR its sessions outlive it and its prompts are simpler,
see kept.py.
"""

import asyncio
import sys

import acp
from acp import schema
from acp.stdio import stdio_streams

from kept import History, Kept
from record import AWKWARD, BIG_TEXT, Trace, describe

SESSION = "session-é"
MODES = {
    "currentModeId": "ask",
    "availableModes": [
        {"id": "ask", "name": "Ask"},
        {"id": "code", "name": "Code", "description": "writes ✍️"},
    ],
}


def option(current):
    values = [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large", "_meta": AWKWARD}]
    return {"id": "model", "name": "Model", "type": "select", "currentValue": current, "options": values}


def permission(session_id):
    return {
        "session_id": session_id,
        "tool_call": schema.ToolCallUpdate(
            toolCallId="call-1", title="rm -rf ./build", kind="delete", status="pending"
        ),
        "options": [
            schema.PermissionOption(optionId="yes", name="Allow ✅", kind="allow_once"),
            schema.PermissionOption(optionId="no", name="Reject", kind="reject_once"),
        ],
        "vendor.example/trace": "00-4bf92f3577b34da6",
    }


class ErrorWithUnknownMember(acp.RequestError):
    def to_error_obj(self):
        return {**super().to_error_obj(), "_vendorHint": {"retry": False, "zähler": [1, 2.5, None]}}


class InteropAgent(acp.Agent):
    def __init__(self, trace):
        self.trace = trace
        self.cancelled = asyncio.Event()
        self.held = []

    def on_connect(self, conn):
        self.client = conn

    def asked(self, name, **params):
        self.trace.log(asked=name, params=params)

    async def ask(self, name, request):
        """Asks the client and logs what came back, result or error."""
        try:
            self.trace.log(answered=name, result=await request)
        except acp.RequestError as error:
            self.trace.log(answered=name, error=describe(error))

    async def say(self, session_id, update, **meta):
        await self.client.session_update(session_id, update, **meta)

    async def raw_update(self, session_id, update):
        await self.client._conn.send_notification(
            "session/update", {"sessionId": session_id, "update": update}
        )

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **meta):
        self.asked(
            "initialize",
            version=protocol_version,
            capabilities=client_capabilities,
            info=client_info,
            meta=meta,
        )
        return schema.InitializeResponse(
            protocolVersion=1,
            agentInfo=schema.Implementation(name="interop-py", version="1.0.0"),
            agentCapabilities=schema.AgentCapabilities(
                loadSession=True,
                promptCapabilities=schema.PromptCapabilities(image=True),
                sessionCapabilities={"list": {}, "resume": {}, "close": {}},
                field_meta={"unknown": AWKWARD},
            ),
            authMethods=[],
            # This SDK knows no $/cancel_request: the client leaves those steps out.
            field_meta={"cancelsRequests": False},
        )

    async def new_session(self, cwd, additional_directories=None, mcp_servers=None, **meta):
        self.asked("session/new", cwd=cwd, directories=additional_directories, servers=mcp_servers, meta=meta)
        command = schema.AvailableCommand(name="test", description="runs 🧪")
        await self.say(
            SESSION,
            schema.AvailableCommandsUpdate(
                sessionUpdate="available_commands_update", availableCommands=[command]
            ),
        )
        return schema.NewSessionResponse(
            sessionId=SESSION, modes=MODES, configOptions=[option("small")], field_meta={"awkward": AWKWARD}
        )

    async def load_session(self, cwd, session_id, mcp_servers=None, additional_directories=None, **meta):
        self.asked("session/load", cwd=cwd, session=session_id, servers=mcp_servers, meta=meta)
        await self.say(session_id, acp.update_user_message_text("earlier"))
        await self.say(session_id, acp.update_agent_message_text("reply"))
        return schema.LoadSessionResponse(modes=MODES)

    async def list_sessions(self, cwd=None, cursor=None, **meta):
        self.asked("session/list", cwd=cwd, cursor=cursor, meta=meta)
        return schema.ListSessionsResponse(
            sessions=[{"sessionId": SESSION, "cwd": "/", "title": "ü", "_meta": AWKWARD}], nextCursor=""
        )

    async def resume_session(self, session_id, cwd, additional_directories=None, mcp_servers=None, **meta):
        self.asked("session/resume", session=session_id, cwd=cwd, servers=mcp_servers, meta=meta)
        return schema.ResumeSessionResponse(modes=MODES, configOptions=[option("large")])

    async def close_session(self, session_id, **meta):
        self.asked("session/close", session=session_id, meta=meta)

    async def authenticate(self, method_id, **meta):
        self.asked("authenticate", method=method_id, meta=meta)

    async def set_session_mode(self, session_id, mode_id, **meta):
        self.asked("session/set_mode", session=session_id, mode=mode_id, meta=meta)
        await self.say(
            session_id, schema.CurrentModeUpdate(sessionUpdate="current_mode_update", currentModeId=mode_id)
        )

    async def set_config_option(self, config_id, session_id, value, **meta):
        self.asked("session/set_config_option", session=session_id, config=config_id, value=value, meta=meta)
        if config_id != "model":
            raise acp.RequestError(-32602, "no such option", {"configId": config_id, "known": ["model"]})
        return schema.SetSessionConfigOptionResponse(configOptions=[option(value)])

    async def cancel(self, session_id, **meta):
        self.asked("session/cancel", session=session_id, meta=meta)
        self.cancelled.set()

    async def prompt(self, session_id, prompt, **meta):
        self.asked("session/prompt", session=session_id, prompt=prompt, meta=meta)
        return await getattr(self, "turn_" + prompt[0].text.split(" ")[0])(session_id)

    async def turn_updates(self, session_id):
        await self.say(session_id, acp.update_user_message_text("echo"))
        await self.say(session_id, acp.update_agent_message_text("first 🥇"), **AWKWARD)
        await self.raw_update(
            session_id,
            {
                "sessionUpdate": "agent_thought_chunk",
                "content": {"type": "text", "text": "hm…"},
                "vendorMember": [1, None],
            },
        )
        await self.say(
            session_id,
            acp.start_tool_call("call-1", "Reading", kind="read", status="pending", raw_input=AWKWARD),
        )
        await self.raw_update(session_id, {"sessionUpdate": "_vendor_kind", "payload": AWKWARD})
        await self.raw_update(session_id, {"sessionUpdate": "kind_of_a_later_version", "payload": None})
        await self.client._conn.send_notification(
            "future/notification", {"sessionId": session_id, "payload": AWKWARD}
        )
        await self.ask("permission", self.client.request_permission(**permission(session_id)))
        await self.say(session_id, acp.update_tool_call("call-1", status="completed"))
        await self.say(
            session_id, acp.update_plan([acp.plan_entry("α", priority="high", status="completed")])
        )
        await self.say(session_id, acp.update_agent_message_text("last"))
        return schema.PromptResponse(stopReason="end_turn", field_meta={"awkward": AWKWARD})

    async def turn_big(self, session_id):
        await self.say(session_id, acp.update_agent_message_text(BIG_TEXT))
        return schema.PromptResponse(stopReason="max_tokens")

    async def turn_fail(self, session_id):
        raise ErrorWithUnknownMember(
            -31999, "the model is gone 💥", {"awkward": AWKWARD, "unknownMember": [None]}
        )

    async def turn_cancel(self, session_id):
        await self.say(session_id, acp.update_agent_message_text("working"))
        asked = asyncio.create_task(
            self.ask("permission", self.client.request_permission(**permission(session_id)))
        )
        await self.cancelled.wait()
        self.cancelled.clear()
        await self.say(session_id, acp.update_agent_message_text("stopping"))
        await asked
        return schema.PromptResponse(stopReason="cancelled")

    async def turn_tools(self, session_id):
        client = self.client
        await self.ask("fs/read_text_file", client.read_text_file(session_id, "/etc/große datei", 1, 2))
        await self.ask("fs/write_text_file", client.write_text_file(session_id, "/missing", AWKWARD["emoji"]))
        variable = schema.EnvVariable(name="A", value="ü")
        await self.ask("terminal/create", client.create_terminal(session_id, "make", ["-j2"], [variable]))
        await self.ask("terminal/output", client.terminal_output(session_id, "term-1"))
        await self.ask("terminal/wait_for_exit", client.wait_for_terminal_exit(session_id, "term-1"))
        await self.ask("terminal/kill", client.kill_terminal(session_id, "term-1"))
        await self.ask("terminal/release", client.release_terminal(session_id, "term-1"))
        form = schema.ElicitationSchema(
            type="object", properties={"name": {"type": "string"}}, required=["name"]
        )
        mode = schema.ElicitationFormSessionMode(sessionId=session_id, requestedSchema=form)
        await self.ask("elicitation", client.create_elicitation("which?", mode))
        await self.ask("future/method", client._conn.send_request("future/method", {"awkward": AWKWARD}))
        # The agent's ids run past the id of the prompt that is open in the other direction.
        for n in range(12):
            await self.ask("_vendor/ask", client.ext_method("vendor/ask", {"n": n, "awkward": AWKWARD}))
        await self.ask("_vendor/refuse", client.ext_method("vendor/refuse", {}))
        await client.ext_notification("vendor/tell", AWKWARD)
        return schema.PromptResponse(stopReason="end_turn")

    async def ext_method(self, method, params):
        self.asked("_" + method, params=params)
        if method == "vendor/echo":
            return {"echo": params, "awkward": AWKWARD}
        if method == "vendor/null":
            return None
        if method == "vendor/throw":
            raise ValueError("an ordinary error")
        if method != "vendor/reverse":
            raise acp.RequestError.method_not_found("_" + method)
        # Three requests are answered in the opposite order, once all of them are there.
        answer = asyncio.get_running_loop().create_future()
        self.held.append(answer)
        if len(self.held) == 3:
            held, self.held = self.held, []
            for earlier in reversed(held):
                earlier.set_result(None)
        # Also the last one gives way first, so that all three wake in the order their answers were set.
        await asyncio.shield(asyncio.ensure_future(answer))
        return {"done": True, "n": params["n"]}

    async def ext_notification(self, method, params):
        self.asked("_" + method, params=params)
        if method == "vendor/note":
            await self.client.ext_notification("vendor/tell", {"noted": params})


class KeptAgent(Kept, InteropAgent):
    pass


def argument(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


async def main():
    trace = Trace(argument("--trace"), "agent")
    agent = InteropAgent(trace)
    if argument("--history"):
        agent = KeptAgent(trace)
        agent.keep(
            History(argument("--history"), (argument("--stall") or "").split(",")), MODES, option, permission
        )
    trace.record_reads()
    reader, writer = await stdio_streams(limit=acp.core.DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    trace.record_writes(writer)
    await acp.run_agent(agent, writer, reader, use_unstable_protocol=True)
    trace.log(end="stdin closed")


asyncio.run(main())
