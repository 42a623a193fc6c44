// An ACP v2 client on the official TypeScript SDK: one dialogue with agent_v2.mjs.
//   node client_v2.mjs --trace DIR -- COMMAND [ARG…]
import { connect } from "./peer_v2.mjs";
import { awkward, bigText } from "./samples.mjs";

const answers = { permission: "yes" };
const { agent, dialogue, step, request, initialize, end } = connect(answers);

await step("initialize", 0, initialize);
// v2 allows a repeat before the first other request.
await step("initialize again", 0, initialize);
await step("login", 0, request("auth/login", { methodId: "agent" }));
const { sessionId } = await step(
  "new",
  2,
  request("session/new", { cwd: "/", mcpServers: [], _meta: { awkward } }),
);

let keys = 0;
/** A prompt as a v2 client sends it: every submission with a key of its own. */
function prompt(words, options, more = {}) {
  keys += 1;
  const idempotencyKey = `7f0c5a52-0d0b-4a44-9a8e-${String(keys).padStart(12, "0")}`;
  return request(
    "session/prompt",
    { sessionId, prompt: [{ type: "text", text: words }], idempotencyKey, ...more },
    options,
  );
}

await step("updates", 13, prompt("updates", {}, { _meta: awkward, vendorMember: null }));
answers.permission = "no";
await step("rejected permission", 13, prompt("updates again"));
await step("without a key", 13, prompt("updates", {}, { idempotencyKey: undefined }));
await step("with a null key", 13, prompt("updates", {}, { idempotencyKey: null }));
await step("big", 2, prompt("big " + bigText));
await step("fail", 0, prompt("fail"));
await step("busy", 2, prompt("busy"));
await step("held, then session/cancel", 2, prompt("hold"), {
  midway: () => agent.notify("session/cancel", { sessionId }),
});
const withdrawal = new AbortController();
await step("held, then $/cancel_request", 1, prompt("hold", { cancellationSignal: withdrawal.signal }), {
  midway: () => withdrawal.abort(),
});
await step("held, then released", 2, prompt("hold"), { midway: () => agent.request("_vendor/release", {}) });
answers.permission = "when withdrawn";
await step("withdraw", 2, prompt("withdraw"));
await step("tools", 19, prompt("tools"));
await step("cancel a tool call", 0, request("tool_call/cancel", { sessionId, toolCallId: "call-1" }));
await step(
  "cancel an unknown tool call",
  0,
  request("tool_call/cancel", { sessionId, toolCallId: "call-2" }),
);
await step("cancel a terminal", 0, request("terminal/cancel", { sessionId, terminalId: "term-1" }));
await step(
  "set_config_option",
  0,
  request("session/set_config_option", { sessionId, configId: "model", type: "id", value: "large" }),
);
await step(
  "set_config_option, boolean",
  0,
  request("session/set_config_option", { sessionId, configId: "loud", type: "boolean", value: false }),
);
await step(
  "set_config_option, unknown",
  0,
  request("session/set_config_option", { sessionId, configId: "colour", type: "id", value: "red" }),
);
await step("list", 0, request("session/list", { cursor: "", cwd: null }));
await step("resume", 1, request("session/resume", { sessionId, cwd: "/" }));
await step(
  "resume with replay",
  4,
  request("session/resume", { sessionId, cwd: "/", replayFrom: { type: "start" } }),
);
await step(
  "resume with an unknown cursor",
  0,
  request("session/resume", { sessionId, cwd: "/", replayFrom: { type: "_vendor", awkward } }),
);
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
await step("close", 0, request("session/close", { sessionId }));
await step("prompt after close", 0, prompt("updates"));
await step("delete", 0, request("session/delete", { sessionId }));
await step("delete of a missing session", 0, request("session/delete", { sessionId: "gone" }));
await step("logout", 0, request("auth/logout", {}));
await end();
