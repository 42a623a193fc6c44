// A client on the official TypeScript SDK, v1 or v2, whose agent is killed 20 times in one conversation. It
// has no code to recover: it sends what a user would send and waits for its promises. What became of it is
// read by kills.py from its log and wire, and from the agent's history.
//   node client_kills.mjs --trace DIR --history DIR --protocol 1|2 -- COMMAND [ARG…]
//
// A prompt's first word says how its turn goes, its second one is its number; the brackets say the same to
// keyhop-test-agent. The agent inserts every prompt but `hang` and says `reply NUMBER` to it. The agent's
// second process stalls at its start and the third one in its restore: the plan begins with those.
import { fstatSync } from "node:fs";
import { agentCommand, endAgent, startAgent } from "./dialogue.mjs";
import { argument, describe, Trace } from "./trace.mjs";
import { Victim } from "./victim.mjs";

const v2 = argument("protocol") === "2";
const acp = await import(v2 ? "@agentclientprotocol/sdk/experimental/v2" : "@agentclientprotocol/sdk");
const trace = new Trace(argument("trace"), "client");
const victim = new Victim(argument("history"), trace);
const orders = {
  chat: (reply) => `[say ${reply}]`,
  stay: (reply) => `[say ${reply}] [hold]`, // does not come to an end
  asks: (reply) => `[say ${reply}] [permission]`,
  hang: () => "[hang]", // is read and not inserted
  mute: (reply) => `[say ${reply}] [no_answer]`, // v2: is inserted, works, and is not answered
};
const settings = new Map(); // by session: what was set last and confirmed
let asked = 0;
let prompts = 0;
let ended = false;

/** What came from the agent without being asked for, to wait for. */
const seen = [];
let watchers = [];
function see(event) {
  seen.push(event);
  watchers = watchers.filter((look) => !look());
}
/** Resolves with the place behind the first event from `from` on that fits. */
function after(from, fits) {
  return new Promise((resolve) => {
    const look = () => {
      const at = seen.findIndex((event, place) => place >= from && fits(event));
      if (at >= 0) resolve(at + 1);
      return at >= 0;
    };
    if (!look()) watchers.push(look);
  });
}
const isReply = (number) => (event) => event.update?.content?.text === `reply ${number}`;
const isIdle = (sessionId) => (event) => event.sessionId === sessionId && event.update?.state === "idle";

async function permission({ params: { sessionId }, signal }) {
  trace.log({ permission: sessionId });
  see({ permission: sessionId });
  // The user does not decide: only an agent that is gone takes its question back.
  if (!signal.aborted) await new Promise((done) => signal.addEventListener("abort", done));
  trace.log({ withdrawn: sessionId });
  return { outcome: { outcome: "cancelled" } };
}

const child = startAgent(agentCommand());
const connection = acp
  .client({ name: "interop" })
  .onNotification("session/update", ({ params }) => see(params))
  .onRequest("session/request_permission", permission)
  .connect(acp.ndJsonStream(trace.writing(child.stdin), trace.reading(child.stdout)));
const agent = connection.agent;
// Closed too early: all that is left to do is to say so. What was asked is rejected by then.
connection.closed.then(() => {
  trace.log({ closed: asked });
  setImmediate(() => ended || process.exit(1));
});

/** One request and what became of it. `expect`: result, unknown (keyhop's error), or either of them. */
async function ask(method, params, expect = "result") {
  const number = (asked += 1);
  // What was read before it was asked is no answer to it: kills.py looks there for replays.
  trace.log({ ask: number, method, params, expect, read: fstatSync(trace.files.in).size });
  const outcome = await agent.request(method, params).then(
    (result) => ({ result }),
    (error) => ({ error: describe(error) }),
  );
  trace.log({ settled: number, ...outcome });
  return outcome.result;
}

/** A prompt of this kind; `answer` is its promise. */
function prompt(kind, sessionId, expect, { keyed = false } = {}) {
  const number = (prompts += 1);
  const text = `${kind} ${number} ${orders[kind](`reply ${number}`)}`;
  const key = v2 && keyed ? { idempotencyKey: `key-${number}` } : {};
  const params = { sessionId, prompt: [{ type: "text", text }], ...key };
  const from = seen.length;
  return { number, text, params, from, answer: ask("session/prompt", params, expect) };
}

/** A whole turn: answered, replied to, and in v2 idle again. */
async function finish(sent) {
  await sent.answer;
  const replied = await after(sent.from, isReply(sent.number));
  if (v2) await after(replied, isIdle(sent.params.sessionId));
  return sent;
}
const chat = (sessionId, options) => finish(prompt("chat", sessionId, "result", options));

/** What a session's settings are in the result of new, load or resume. */
const settingsIn = ({ modes, configOptions }) => ({
  mode: modes?.currentModeId,
  model: configOptions.find((option) => [option.id, option.configId].includes("model")).currentValue,
});

async function open(cwd) {
  const result = await ask("session/new", { cwd, mcpServers: [] });
  settings.set(result.sessionId, settingsIn(result));
  return result;
}

async function setMode(sessionId, modeId) {
  if (v2) return;
  await ask("session/set_mode", { sessionId, modeId });
  settings.get(sessionId).mode = modeId;
}

async function setModel(sessionId, value) {
  await ask("session/set_config_option", {
    sessionId,
    configId: "model",
    ...(v2 ? { type: "id" } : {}),
    value,
  });
  settings.get(sessionId).model = value;
}

/** Opens a session again as a user does, its history shown, and notes what its settings are. */
async function reopen(sessionId, cwd) {
  const [method, more] = v2
    ? ["session/resume", { replayFrom: { type: "start" } }]
    : ["session/load", { mcpServers: [] }];
  const result = await ask(method, { sessionId, cwd, ...more });
  trace.log({ settings: sessionId, wanted: settings.get(sessionId), found: settingsIn(result) });
}

const list = () => ask("session/list", {});

// ---- The conversation ----

const initialized = await ask(
  "initialize",
  v2
    ? { protocolVersion: 2, info: { name: "interop", version: "1" }, capabilities: {} }
    : { protocolVersion: 1, clientInfo: { name: "interop", version: "1" }, clientCapabilities: {} },
);
const resumes = v2 || initialized.agentCapabilities.sessionCapabilities?.resume;
const first = await open("/one");
const [a, b, c] = [first.sessionId, (await open("/two")).sessionId, (await open("/three")).sessionId];
const modes = first.modes?.availableModes.map((mode) => mode.id) ?? [];
const models = first.configOptions
  .find((option) => [option.id, option.configId].includes("model"))
  .options.map((option) => option.value);
await setMode(a, modes[1]);
await setModel(a, models[1]);
await setModel(b, models[1]);
const remembered = await chat(a, { keyed: true });
await chat(b);
await chat(c);

await victim.killAndWait("between turns");
const early = prompt("chat", a, "result", { keyed: true });
await victim.stalled(1);
await victim.kill("while it starts");
await victim.stalled(2);
await victim.kill("in its restore");
await finish(early);

/** Turns of both sessions, killed when the client saw both at work. In v2 they were answered before. */
async function killedAtWork(sessions, keyed) {
  const sent = sessions.map((session) => prompt("stay", session, v2 ? "result" : "unknown", { keyed }));
  await Promise.all(sent.map(({ from, number }) => after(from, isReply(number))));
  if (v2) await Promise.all(sent.map(({ answer }) => answer));
  const from = seen.length;
  await victim.kill(`in the middle of ${sessions.length} turns`);
  await Promise.all(sent.map(({ answer }) => answer));
  if (v2) await Promise.all(sessions.map((session) => after(from, isIdle(session))));
}

async function killedWithAPromptUnanswered(kind, session, keyed) {
  const sent = prompt(kind, session, v2 && kind === "mute" ? "either" : "unknown", { keyed });
  // A session's requests are read in order: when this one is answered, the prompt was read.
  await setModel(session, settings.get(session).model);
  if (kind === "mute") await victim.inserted(sent.text);
  await victim.kill(`while a prompt is unanswered (${kind})`);
  await sent.answer;
}

async function killedAtAQuestion(session) {
  const sent = prompt("asks", session, v2 ? "result" : "unknown");
  await after(sent.from, (event) => event.permission === session);
  if (v2) await sent.answer;
  await victim.kill("while a permission request is open");
  await sent.answer;
}

/** The rest of the methods, each asked in the moment of the death. */
async function killedWhileAsked(model, mode, cwd) {
  const set = [setModel(b, model), setMode(a, mode)];
  await victim.kill("while settings are set");
  await Promise.all(set);
  const both = [list(), open(cwd)];
  await victim.kill("while sessions are listed and made");
  await Promise.all(both);
  const opened = (await both[1]).sessionId;
  await chat(opened, { keyed: true });
  const again = resumes
    ? ask("session/resume", { sessionId: c, cwd: "/three", mcpServers: [] })
    : ask("session/load", { sessionId: c, cwd: "/three", mcpServers: [] }, "either");
  await victim.kill("while a session is opened again");
  await again;
  return opened;
}

const made = [];
for (const round of [0, 1]) {
  await victim.killAndWait("between turns");
  await Promise.all([chat(a), chat(b, { keyed: true })]);
  await killedAtWork([a], round === 0);
  await killedAtWork([a, b], round === 1);
  // Without a key: with one the history proves that it was not taken in, and it would be sent again.
  await killedWithAPromptUnanswered("hang", b, false);
  await killedAtAQuestion(a);
  made.push(await killedWhileAsked(models[round], modes[round], `/made ${round}`));
}
// A key that was answered before all this is still known: the same message, nothing inserted.
if (v2) await ask("session/prompt", remembered.params);
if (v2) await killedWithAPromptUnanswered("mute", c, true);
else {
  const sent = prompt("chat", c, "either");
  await victim.kill("in the moment of a prompt");
  await sent.answer;
}

// ---- What is there in the end ----

await list();
await Promise.all([a, b, c, ...made].map((session) => chat(session)));
await reopen(a, "/one");
await reopen(b, "/two");
await reopen(c, "/three");
for (const [round, session] of made.entries()) await reopen(session, `/made ${round}`);
trace.log({ kills: victim.kills });
trace.log({ end: "dialogue" });
ended = true;
await endAgent(child, trace);
connection.close();
