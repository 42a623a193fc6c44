// An ACP v2 client that sends its prompts more than once: what run.py's checks named keys-… read. Only keyhop
// can pass them, the agent alone inserts every duplicate.
//   node client_keys_v2.mjs --trace DIR -- COMMAND [ARG…]
import { connect } from "./peer_v2.mjs";

const { agent, dialogue, step, request, initialize, end } = connect({ permission: "yes" });
await step("initialize", 0, initialize);
const first = (await step("new", 2, request("session/new", { cwd: "/", mcpServers: [] }))).sessionId;
const second = (await step("new", 2, request("session/new", { cwd: "/tmp", mcpServers: [] }))).sessionId;

const prompt = (idempotencyKey, words, { sessionId = first, ...options } = {}) =>
  agent.request(
    "session/prompt",
    { sessionId, prompt: [{ type: "text", text: words }], idempotencyKey },
    options,
  );

const release = (params = {}) => agent.request("_vendor/release", params);

/** Prompts that are open together; `midway` is run when all were sent and read. */
async function together(prompts, midway = release) {
  const all = Object.entries(prompts).map(([name, answer]) => dialogue.aside(name, answer));
  // Requests leave one after another and are read in order: an answer to this one means that those before
  // it were read. It also lets the agent reach its own waiting before it is released.
  await agent.request("_vendor/echo", { after: Object.keys(prompts) });
  await midway();
  await Promise.all(all);
}

/** The same prompt three times at once, the second one with these options. */
const thrice = (name, key, words, options) => ({
  [`${name} 1`]: prompt(key, words),
  [`${name} 2`]: prompt(key, words, options),
  [`${name} 3`]: prompt(key, words),
});

await together(thrice("join", "key-join", "hold join"));
await together({ again: prompt("key-join", "hold join") });
await together({ changed: prompt("key-join", "hold changed") });
await together({
  pending: prompt("key-pending", "hold pending"),
  "changed while pending": prompt("key-pending", "hold other"),
});
await together(thrice("error", "key-error", "hold error"), () => release({ fail: true }));
await together({ "after the error": prompt("key-error", "hold error") });
const withdrawal = new AbortController();
await together(
  thrice("cancel", "key-cancel", "hold cancel", { cancellationSignal: withdrawal.signal }),
  () => {
    withdrawal.abort();
    return release();
  },
);
await together({ "empty key": prompt("", "hold empty") });
await together({ "long key": prompt("k".repeat(256), "hold long") });
await together({ "numeric key": prompt(7, "hold numeric") });
await together({ "longest key": prompt("😀".repeat(255), "hold longest") });
await together({ "null key 1": prompt(null, "hold null"), "null key 2": prompt(null, "hold null") });
await together({ "other session": prompt("key-join", "hold elsewhere", { sessionId: second }) });
await end();
