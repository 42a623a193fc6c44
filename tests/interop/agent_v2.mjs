// An ACP v2 agent on the official TypeScript SDK, the counterpart of agent_v1.mjs. It ignores idempotency
// keys, as every v2 agent on this SDK does: the SDK drops the member before a handler sees it.
// With --history DIR its sessions outlive it and its prompts are simpler, see kept_v2.mjs.
import * as acp from "@agentclientprotocol/sdk/experimental/v2";
import { argument, describe, errorWithUnknownMember, Gate, Trace } from "./trace.mjs";
import { awkward, bigText } from "./samples.mjs";
import { keepV2 } from "./kept_v2.mjs";

const trace = new Trace(argument("trace"), "agent");
const any = (params) => params;
const released = new Gate();
const held = [];
const sessions = new Set();
let messages = 0;

const option = (currentValue) => ({
  configId: "model",
  name: "Model",
  type: "select",
  currentValue,
  options: [
    { value: "small", name: "Small" },
    { value: "large", name: "Large", _meta: awkward },
  ],
});
const loud = (currentValue) => ({ configId: "loud", name: "Loud 📢", type: "boolean", currentValue });

/** Logs a handler's call, then runs it. */
function seen(name, run = () => ({})) {
  return (context) => {
    trace.log({ asked: name, params: context.params });
    return run(context);
  };
}

/** Asks the client and logs what came back, result or error. */
async function ask(name, request) {
  const outcome = await request.then(
    (result) => ({ result }),
    (error) => ({ error: describe(error) }),
  );
  trace.log({ answered: name, ...outcome });
}

const say = (client, sessionId, update, more = {}) =>
  client.notify("session/update", { sessionId, update, ...more });
const text = (words) => ({ type: "text", text: words });
const state = (name, more = {}) => ({ sessionUpdate: "state_update", state: name, ...more });
const chunk = (words) => ({ sessionUpdate: "agent_message_chunk", messageId: "a-1", content: text(words) });
const permission = (sessionId) => ({
  sessionId,
  title: "rm -rf ./build",
  subject: { type: "tool_call", toolCall: { toolCallId: "call-1", title: "rm", _meta: { awkward } } },
  options: [
    { optionId: "yes", name: "Allow ✅", kind: "allow_once" },
    { optionId: "no", name: "Reject", kind: "reject_once" },
  ],
  _meta: { "vendor.example/trace": "00-4bf92f3577b34da6" },
});

/** Inserts the prompt: echoes it and returns the answer. */
async function insert(client, { sessionId, prompt }) {
  messages += 1;
  const messageId = `u-${messages}`;
  await say(client, sessionId, { sessionUpdate: "user_message", messageId, content: prompt });
  return { messageId };
}

/** Runs work after the handler's answer was written. */
const afterAnswer = (work) => setImmediate(() => void work());

const turns = {
  async updates({ params, client }) {
    const { sessionId } = params;
    afterAnswer(async () => {
      await say(client, sessionId, state("running", { _meta: { awkward } }));
      await say(client, sessionId, {
        sessionUpdate: "agent_thought_chunk",
        messageId: "t-1",
        content: text("hm…"),
        vendorMember: [1, null],
      });
      await say(
        client,
        sessionId,
        { ...chunk("first 🥇"), _meta: { gone: null, awkward } },
        { _meta: awkward },
      );
      await say(client, sessionId, {
        sessionUpdate: "tool_call_update",
        toolCallId: "call-1",
        title: "Reading",
        status: "in_progress",
        content: null,
        capabilities: { cancel: {} },
        rawInput: awkward,
      });
      await say(client, sessionId, { sessionUpdate: "_vendor_kind", payload: awkward });
      await say(client, sessionId, { sessionUpdate: "kind_of_a_later_version", payload: null });
      await say(client, sessionId, state("requires_action"));
      await client.notify("future/notification", { sessionId, payload: awkward });
      await ask("permission", client.request("session/request_permission", permission(sessionId)));
      await say(client, sessionId, {
        sessionUpdate: "tool_call_update",
        toolCallId: "call-1",
        status: "completed",
        capabilities: null,
      });
      await say(client, sessionId, {
        sessionUpdate: "agent_message",
        messageId: "a-1",
        content: [text("last")],
      });
      await say(client, sessionId, state("idle", { stopReason: "end_turn", background: [] }));
    });
    return { ...(await insert(client, params)), _meta: { awkward }, vendorResult: { kept: true, n: 0.1 } };
  },
  async big({ params, client }) {
    afterAnswer(() => say(client, params.sessionId, chunk(bigText)));
    return insert(client, params);
  },
  async fail() {
    throw errorWithUnknownMember(acp.RequestError, -31999, "the model is gone 💥", {
      awkward,
      unknownMember: [null],
    });
  },
  // Held until the client releases, fails or cancels it.
  async hold({ params, client, signal }) {
    const withdrawn = new Promise((done) =>
      signal.addEventListener("abort", () => done({ cancelled: "request" })),
    );
    await client.notify("_vendor/tell", { holding: params.sessionId });
    const verdict = signal.aborted
      ? { cancelled: "request" }
      : await Promise.race([released.wait(), withdrawn]);
    if (verdict.cancelled)
      throw acp.RequestError.requestCancelled({ by: verdict.cancelled, unknownMember: 1 });
    if (verdict.fail) throw new acp.RequestError(-32603, "out of memory", { awkward });
    return insert(client, params);
  },
  async busy({ params, client }) {
    afterAnswer(() => say(client, params.sessionId, state("running")));
    return insert(client, params);
  },
  async withdraw({ params, client }) {
    const withdrawal = new AbortController();
    const asked = ask(
      "withdrawn permission",
      client.request("session/request_permission", permission(params.sessionId), {
        cancellationSignal: withdrawal.signal,
      }),
    );
    withdrawal.abort();
    await asked;
    return insert(client, params);
  },
  async tools({ params, client, requestId }) {
    const { sessionId } = params;
    const request = (method, more) => ask(method, client.request(method, { sessionId, ...more }));
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    await request("elicitation/create", { mode: "form", message: "which?", requestedSchema });
    // The one place besides $/cancel_request where a JSON-RPC id stands inside params.
    await ask(
      "elicitation of a request",
      client.request("elicitation/create", { requestId, mode: "form", message: "who?", requestedSchema }),
    );
    await request("elicitation/create", {
      mode: "url",
      message: "sign in",
      url: "https://vendor.example/é?a=1&b=%20",
      elicitationId: "e-1",
    });
    await client.notify("elicitation/complete", { elicitationId: "e-1", _meta: awkward });
    await request("future/method", { awkward });
    // The agent's ids run past the id of the prompt that is open in the other direction.
    for (let n = 0; n < 12; n += 1) await request("_vendor/ask", { n, awkward });
    await request("_vendor/refuse", {});
    const answer = await insert(client, params);
    await client.notify("_vendor/tell", awkward);
    return answer;
  },
};

function prompt(context) {
  const { sessionId } = context.params;
  if (!sessions.has(sessionId)) throw acp.RequestError.sessionNotFound(sessionId);
  return turns[context.params.prompt[0].text.split(" ")[0]](context);
}

async function newSession({ params, client }) {
  const sessionId = params.cwd === "/" ? "session-é" : `session of ${params.cwd}`;
  sessions.add(sessionId);
  await say(client, sessionId, state("idle"));
  await say(client, sessionId, {
    sessionUpdate: "available_commands_update",
    availableCommands: [{ name: "test", description: "runs 🧪" }],
  });
  return { sessionId, configOptions: [option("small"), loud(true)], _meta: { awkward } };
}

const listSessions = () => ({
  sessions: [{ sessionId: "session-é", cwd: "/", title: null, _meta: awkward }],
  nextCursor: "",
});

async function resume({ params, client }) {
  const { sessionId, replayFrom } = params;
  if (replayFrom && replayFrom.type !== "start")
    throw acp.RequestError.invalidParams({ replayFrom }, "unknown cursor");
  sessions.add(sessionId);
  if (replayFrom) {
    await say(client, sessionId, {
      sessionUpdate: "user_message",
      messageId: "u-1",
      content: [text("earlier")],
    });
    await say(client, sessionId, {
      sessionUpdate: "agent_message",
      messageId: "a-1",
      content: [text("reply")],
      _meta: { awkward },
    });
    await say(client, sessionId, { sessionUpdate: "replay_complete" });
  }
  await say(client, sessionId, state("idle", { stopReason: "end_turn" }));
  return { configOptions: [option("large")] };
}

function setOption({ params }) {
  if (params.configId === "model") return { configOptions: [option(params.value), loud(false)] };
  if (params.configId === "loud") return { configOptions: [option("large"), loud(params.value)] };
  throw new acp.RequestError(-32602, "no such option", {
    configId: params.configId,
    known: ["model", "loud"],
  });
}

async function cancel({ params: { sessionId }, client }) {
  released.open({ cancelled: "session" });
  await say(client, sessionId, state("idle", { stopReason: "cancelled" }));
}

const kept =
  argument("history") && (await keepV2(argument("history"), { option, say, state, permission, afterAnswer }));

const app = acp
  .agent({ name: "interop" })
  .onRequest(
    "initialize",
    seen("initialize", () => ({
      protocolVersion: 2,
      info: { name: "interop-ts", version: "1.0.0", title: "Ünïcödé" },
      capabilities: {
        session: { delete: {}, prompt: { image: {} }, futureCapability: awkward },
        _meta: awkward,
      },
      authMethods: [{ methodId: "agent", type: "agent", name: "Log in" }],
      _meta: { awkward },
    })),
  )
  .onRequest("auth/login", seen("auth/login"))
  .onRequest("auth/logout", seen("auth/logout"))
  .onRequest("session/new", seen("session/new", kept?.newSession ?? newSession))
  .onRequest("session/prompt", seen("session/prompt", kept?.prompt ?? prompt))
  .onRequest("session/resume", seen("session/resume", kept?.resumeSession ?? resume))
  .onRequest("session/list", seen("session/list", kept?.listSessions ?? listSessions))
  .onRequest("session/set_config_option", seen("session/set_config_option", kept?.setOption ?? setOption))
  .onRequest(
    "session/close",
    seen("session/close", ({ params }) => {
      sessions.delete(params.sessionId);
      return {};
    }),
  )
  .onRequest(
    "session/delete",
    seen("session/delete", ({ params }) => {
      if (params.sessionId === "gone") throw acp.RequestError.sessionNotFound("gone");
      return {};
    }),
  )
  .onRequest(
    "tool_call/cancel",
    seen("tool_call/cancel", ({ params }) => {
      if (params.toolCallId !== "call-1")
        throw new acp.RequestError(-32602, "not cancellable", { toolCallId: params.toolCallId });
      return {};
    }),
  )
  .onNotification("session/cancel", seen("session/cancel", cancel))
  .onRequest(
    "_vendor/release",
    any,
    seen("_vendor/release", ({ params }) => {
      released.open(params ?? {});
      return {};
    }),
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
