// An ACP v1 client on the official TypeScript SDK: one dialogue with agent_v1.mjs or agent_v1.py.
//   node client_v1.mjs --trace DIR -- COMMAND [ARG…]
import * as acp from "@agentclientprotocol/sdk";
import { agentCommand, Dialogue, endAgent, startAgent } from "./dialogue.mjs";
import { argument, errorWithUnknownMember, Gate, Trace } from "./trace.mjs";
import { awkward, bigText } from "./samples.mjs";

const trace = new Trace(argument("trace"), "client");
const dialogue = new Dialogue(trace);
const stopping = new Gate();
const any = (params) => params;
let permissionAnswer = "yes";

/** Logs a callback, then answers it. */
const seen =
  (name, answer = () => ({})) =>
  (context) => {
    dialogue.callback(name, context.params);
    return answer(context);
  };

async function permission({ signal }) {
  if (permissionAnswer === "when withdrawn") {
    if (!signal.aborted) await new Promise((done) => signal.addEventListener("abort", done));
    return { outcome: { outcome: "cancelled" } };
  }
  // An answer must not share a read with the session/cancel before it: the SDK would handle it first.
  if (permissionAnswer === "when stopping") {
    await stopping.wait();
    return { outcome: { outcome: "cancelled" }, _meta: { awkward } };
  }
  return {
    outcome: { outcome: "selected", optionId: permissionAnswer, _meta: { awkward } },
    vendorMember: [null],
  };
}

const refuse = (message) => () => {
  throw errorWithUnknownMember(acp.RequestError, -31998, message, { awkward });
};

// The order of registration matters, see dialogue.mjs.
const app = acp
  .client({ name: "interop" })
  .onNotification(
    "session/update",
    seen("session/update", ({ params }) => {
      if (params.update.content?.text === "stopping") stopping.open();
    }),
  )
  .onNotification("_vendor/tell", any, seen("_vendor/tell"))
  .onNotification("future/notification", any, seen("future/notification"))
  .onRequest("session/request_permission", seen("session/request_permission", permission))
  .onRequest(
    "fs/read_text_file",
    seen("fs/read_text_file", () => ({ content: awkward.emoji, _meta: awkward })),
  )
  .onRequest("fs/write_text_file", seen("fs/write_text_file", refuse("read-only 🔒")))
  .onRequest(
    "terminal/create",
    seen("terminal/create", () => ({ terminalId: "term-1" })),
  )
  .onRequest(
    "terminal/output",
    seen("terminal/output", () => ({ output: "ok\r\n\u001b[0m", truncated: false, exitStatus: null })),
  )
  .onRequest(
    "terminal/wait_for_exit",
    seen("terminal/wait_for_exit", () => ({ exitCode: 0, signal: null })),
  )
  .onRequest("terminal/kill", seen("terminal/kill"))
  .onRequest("terminal/release", seen("terminal/release"))
  .onRequest(
    "elicitation/create",
    seen("elicitation/create", () => ({ action: "accept", content: { name: "ü" } })),
  )
  .onRequest(
    "_vendor/ask",
    any,
    seen("_vendor/ask", ({ params }) => ({ n: params.n, awkward })),
  )
  .onRequest("_vendor/refuse", any, seen("_vendor/refuse", refuse("no")));

const child = startAgent(agentCommand());
const connection = app.connect(acp.ndJsonStream(trace.writing(child.stdin), trace.reading(child.stdout)));
const agent = connection.agent;
const step = (...all) => dialogue.step(...all);
const request = (method, params, options) => () => agent.request(method, params, options);

const initialized = await step(
  "initialize",
  0,
  request("initialize", {
    protocolVersion: 1,
    clientInfo: { name: "interop-ts", title: "Ünïcödé", version: "1.0.0" },
    clientCapabilities: {
      fs: { readTextFile: true, writeTextFile: true },
      terminal: true,
      elicitation: { form: {} },
      _meta: awkward,
    },
    vendorMember: awkward,
  }),
);
const { sessionId } = await step(
  "new",
  1,
  request("session/new", { cwd: "/", mcpServers: [], _meta: { awkward } }),
);
const prompt = (words, options, more = {}) =>
  request("session/prompt", { sessionId, prompt: [{ type: "text", text: words }], ...more }, options);

await step("updates", 9, prompt("updates", {}, { _meta: awkward, vendorMember: null }));
await step("rejected permission", 9, () => {
  permissionAnswer = "no";
  return prompt("updates again")();
});
await step("big", 1, prompt("big " + bigText));
await step("fail", 0, prompt("fail"));

permissionAnswer = "when stopping";
await step("cancel", 3, prompt("cancel"), {
  midway: () => agent.notify("session/cancel", { sessionId }),
  midway_after: 2,
});

if (initialized._meta.cancelsRequests) {
  const withdrawal = new AbortController();
  await step("hold", 1, prompt("hold", { cancellationSignal: withdrawal.signal }), {
    midway: () => withdrawal.abort(),
  });
  permissionAnswer = "when withdrawn";
  await step("withdraw", 1, prompt("withdraw"));
}

await step("tools", 22, prompt("tools"));
await step("set_mode", 1, request("session/set_mode", { sessionId, modeId: "code" }));
await step(
  "set_config_option",
  0,
  request("session/set_config_option", { sessionId, configId: "model", value: "large" }),
);
await step(
  "set_config_option, unknown",
  0,
  request("session/set_config_option", { sessionId, configId: "colour", value: "red" }),
);
await step("list", 0, request("session/list", { cursor: "", cwd: null }));
await step("load", 2, request("session/load", { sessionId, cwd: "/", mcpServers: [] }));
await step("echo", 0, request("_vendor/echo", awkward));
await step("echo without params", 0, request("_vendor/echo"));
await step("null result", 0, request("_vendor/null", null));
await step("ordinary error", 0, request("_vendor/throw", {}));
await step("unknown method", 0, request("future/method", { awkward }));
await step("bad params", 0, request("session/prompt", { sessionId, prompt: "not a list" }));
await step("note", 1, () => agent.notify("_vendor/note", { awkward }));
await Promise.all(
  [1, 2, 3].map((n) => dialogue.aside(`reverse ${n}`, agent.request("_vendor/reverse", { n }))),
);
if (initialized.agentCapabilities.sessionCapabilities?.resume)
  await step("resume", 0, request("session/resume", { sessionId, cwd: "/" }));
if (initialized.agentCapabilities.sessionCapabilities?.close)
  await step("close", 0, request("session/close", { sessionId }));
if (initialized.agentCapabilities.sessionCapabilities?.delete) {
  await step("delete", 0, request("session/delete", { sessionId }));
  await step("delete of a missing session", 0, request("session/delete", { sessionId: "gone" }));
}
await endAgent(child, trace);
connection.close();
trace.log({ end: "dialogue" });
