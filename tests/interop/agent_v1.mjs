// An ACP v1 agent on the official TypeScript SDK. The first word of a prompt says what it does; everything
// it is asked and everything it gets back goes into its log. See dialogue.mjs for why the order is fixed.
// With --history DIR its sessions outlive it and its prompts are simpler, see kept_v1.mjs.
import * as acp from "@agentclientprotocol/sdk";
import { argument, describe, errorWithUnknownMember, Gate, Trace } from "./trace.mjs";
import { awkward, bigText } from "./samples.mjs";
import { keepV1 } from "./kept_v1.mjs";

const trace = new Trace(argument("trace"), "agent");
const any = (params) => params;
const cancelled = new Gate();
const held = [];
const modes = {
  currentModeId: "ask",
  availableModes: [
    { id: "ask", name: "Ask" },
    { id: "code", name: "Code", description: "writes ✍️" },
  ],
};
const option = (currentValue) => ({
  id: "model",
  name: "Model",
  type: "select",
  currentValue,
  options: [
    { value: "small", name: "Small" },
    { value: "large", name: "Large", _meta: awkward },
  ],
});

/** Logs a handler's call, then runs it. */
function seen(name, run = () => ({})) {
  return (context) => {
    trace.log({ asked: name, params: context.params });
    return run(context);
  };
}

/** Asks the client and logs what came back, result or error. */
async function ask(client, name, request) {
  const outcome = await request.then(
    (result) => ({ result }),
    (error) => ({ error: describe(error) }),
  );
  trace.log({ answered: name, ...outcome });
  return outcome;
}

const say = (client, sessionId, update, more = {}) =>
  client.notify("session/update", { sessionId, update, ...more });
const text = (words) => ({ type: "text", text: words });
const chunk = (words) => ({ sessionUpdate: "agent_message_chunk", content: text(words) });
const permission = (sessionId) => ({
  sessionId,
  toolCall: {
    toolCallId: "call-1",
    title: "rm -rf ./build",
    kind: "delete",
    status: "pending",
    _meta: { awkward },
  },
  options: [
    { optionId: "yes", name: "Allow ✅", kind: "allow_once" },
    { optionId: "no", name: "Reject", kind: "reject_once" },
  ],
  _meta: { "vendor.example/trace": "00-4bf92f3577b34da6" },
});

const turns = {
  async updates({ params: { sessionId }, client }) {
    await say(client, sessionId, { sessionUpdate: "user_message_chunk", content: text("echo") });
    await say(client, sessionId, { ...chunk("first 🥇"), _meta: { awkward } }, { _meta: awkward });
    await say(client, sessionId, {
      sessionUpdate: "agent_thought_chunk",
      content: text("hm…"),
      vendorMember: [1, null],
    });
    await say(client, sessionId, {
      sessionUpdate: "tool_call",
      toolCallId: "call-1",
      title: "Reading",
      kind: "read",
      status: "pending",
      rawInput: awkward,
    });
    await say(client, sessionId, { sessionUpdate: "_vendor_kind", payload: awkward });
    await say(client, sessionId, { sessionUpdate: "kind_of_a_later_version", payload: null });
    await client.notify("future/notification", { sessionId, payload: awkward });
    await ask(client, "permission", client.request("session/request_permission", permission(sessionId)));
    await say(client, sessionId, {
      sessionUpdate: "tool_call_update",
      toolCallId: "call-1",
      status: "completed",
      content: [{ type: "content", content: text("done") }],
    });
    await say(client, sessionId, {
      sessionUpdate: "plan",
      entries: [{ content: "α", priority: "high", status: "completed" }],
    });
    await say(client, sessionId, chunk("last"));
    return { stopReason: "end_turn", _meta: { awkward }, vendorResult: { kept: true, n: 0.1 } };
  },
  async big({ params: { sessionId }, client }) {
    await say(client, sessionId, chunk(bigText));
    return { stopReason: "max_tokens" };
  },
  async fail() {
    throw errorWithUnknownMember(acp.RequestError, -31999, "the model is gone 💥", {
      awkward,
      unknownMember: [null],
    });
  },
  async cancel({ params: { sessionId }, client }) {
    await say(client, sessionId, chunk("working"));
    const asked = ask(
      client,
      "permission",
      client.request("session/request_permission", permission(sessionId)),
    );
    await cancelled.wait();
    await say(client, sessionId, chunk("stopping"));
    await asked;
    return { stopReason: "cancelled" };
  },
  async hold({ params: { sessionId }, client, signal }) {
    await say(client, sessionId, chunk("holding"));
    if (!signal.aborted) await new Promise((done) => signal.addEventListener("abort", done));
    throw acp.RequestError.requestCancelled({ because: "asked to", unknownMember: 1 });
  },
  async withdraw({ params: { sessionId }, client }) {
    const withdrawal = new AbortController();
    const asked = ask(
      client,
      "withdrawn permission",
      client.request("session/request_permission", permission(sessionId), {
        cancellationSignal: withdrawal.signal,
      }),
    );
    withdrawal.abort();
    await asked;
    return { stopReason: "refusal" };
  },
  async tools({ params: { sessionId }, client, requestId }) {
    const request = (method, params) => ask(client, method, client.request(method, { sessionId, ...params }));
    await request("fs/read_text_file", { path: "/etc/große datei", line: 1, limit: 2 });
    await request("fs/write_text_file", { path: "/missing", content: awkward.emoji });
    await request("terminal/create", { command: "make", args: ["-j2"], env: [{ name: "A", value: "ü" }] });
    await request("terminal/output", { terminalId: "term-1" });
    await request("terminal/wait_for_exit", { terminalId: "term-1" });
    await request("terminal/kill", { terminalId: "term-1" });
    await request("terminal/release", { terminalId: "term-1" });
    // The one place besides $/cancel_request where a JSON-RPC id stands inside params.
    const form = {
      mode: "form",
      message: "which?",
      requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
    };
    await ask(client, "elicitation", client.request("elicitation/create", { requestId, ...form }));
    await request("future/method", { awkward });
    // The agent's ids run past the id of the prompt that is open in the other direction.
    for (let n = 0; n < 12; n += 1) await request("_vendor/ask", { n, awkward });
    await request("_vendor/refuse", {});
    await client.notify("_vendor/tell", awkward);
    return { stopReason: "end_turn" };
  },
};

async function newSession({ client }) {
  await say(client, "session-é", {
    sessionUpdate: "available_commands_update",
    availableCommands: [{ name: "test", description: "runs 🧪" }],
  });
  return { sessionId: "session-é", modes, configOptions: [option("small")], _meta: { awkward } };
}

async function loadSession({ params: { sessionId }, client }) {
  await say(client, sessionId, { sessionUpdate: "user_message_chunk", content: text("earlier") });
  await say(client, sessionId, chunk("reply"));
  return { modes };
}

const listSessions = () => ({
  sessions: [{ sessionId: "session-é", cwd: "/", title: "ü", _meta: awkward }],
  nextCursor: "",
});

async function setMode({ params, client }) {
  await say(client, params.sessionId, { sessionUpdate: "current_mode_update", currentModeId: params.modeId });
  return {};
}

function setOption({ params }) {
  if (params.configId === "model") return { configOptions: [option(params.value)] };
  throw new acp.RequestError(-32602, "no such option", { configId: params.configId, known: ["model"] });
}

const prompt = (context) => turns[context.params.prompt[0].text.split(" ")[0]](context);

const kept = argument("history") && (await keepV1(argument("history"), { modes, option, say, permission }));

const app = acp
  .agent({ name: "interop" })
  .onRequest(
    "initialize",
    seen("initialize", () => ({
      protocolVersion: 1,
      agentInfo: { name: "interop-ts", version: "1.0.0" },
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true },
        sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {}, _meta: awkward },
        _meta: { unknown: awkward },
      },
      authMethods: [],
      _meta: { cancelsRequests: true },
    })),
  )
  .onRequest("authenticate", seen("authenticate"))
  .onRequest("session/new", seen("session/new", kept?.newSession ?? newSession))
  .onRequest("session/load", seen("session/load", kept?.loadSession ?? loadSession))
  .onRequest(
    "session/resume",
    seen("session/resume", kept?.resumeSession ?? (() => ({ modes, configOptions: [option("large")] }))),
  )
  .onRequest("session/list", seen("session/list", kept?.listSessions ?? listSessions))
  .onRequest("session/close", seen("session/close"))
  .onRequest(
    "session/delete",
    seen("session/delete", ({ params }) => {
      if (params.sessionId === "gone") throw acp.RequestError.sessionNotFound("gone");
      return {};
    }),
  )
  .onRequest("session/set_mode", seen("session/set_mode", kept?.setMode ?? setMode))
  .onRequest("session/set_config_option", seen("session/set_config_option", kept?.setOption ?? setOption))
  .onRequest("session/prompt", seen("session/prompt", kept?.prompt ?? prompt))
  .onNotification(
    "session/cancel",
    seen("session/cancel", () => cancelled.open()),
  )
  .onRequest(
    "_vendor/echo",
    any,
    seen("_vendor/echo", ({ params }) => ({ echo: params, awkward })),
  )
  .onRequest(
    "_vendor/null",
    any,
    seen("_vendor/null", () => null),
  )
  .onRequest(
    "_vendor/throw",
    any,
    seen("_vendor/throw", () => Promise.reject(new Error("an ordinary error"))),
  )
  // Three requests are answered in the opposite order, once all of them are there.
  .onRequest(
    "_vendor/reverse",
    any,
    seen("_vendor/reverse", ({ params }) => {
      const answer = new Promise((resolve) => held.push(resolve));
      if (held.length === 3)
        setImmediate(() =>
          held
            .splice(0)
            .reverse()
            .forEach((resolve) => resolve({ done: true })),
        );
      return answer.then((result) => ({ ...result, n: params.n }));
    }),
  )
  .onNotification(
    "_vendor/note",
    any,
    seen("_vendor/note", ({ params, client }) => client.notify("_vendor/tell", { noted: params })),
  )
  .onNotification("future/notification", any, seen("future/notification"));

const connection = app.connect(acp.ndJsonStream(trace.writing(process.stdout), trace.reading(process.stdin)));
await connection.closed;
trace.log({ end: "stdin closed" });
