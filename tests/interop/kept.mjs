// What makes an SDK agent outlive its process: a directory in the test agent's own form, all JSON lines.
//
//   epochs.jsonl  {"epoch","pid"}, one line a start
//   faults        one line each time a process stalled
//   acted.jsonl   {"effect":"new"|"insert"|"set", …}: what this agent did
// Sessions and the user's messages are read back from acted.jsonl. Settings are not: like many an agent, this one starts
// with its defaults again, whoever sits in front of it has to set them.
import { appendFileSync, mkdirSync, readFileSync } from "node:fs";
import { argument } from "./trace.mjs";

export const textOf = (content) => content.map((block) => block.text).join("");

/** Whole JSON lines of a file; none if there is no such file yet. */
export function linesOf(file) {
  try {
    return readFileSync(file, "utf8").split("\n").slice(0, -1);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
    return [];
  }
}

/** Never resolves, and does not keep the process alive. */
export const forever = () => new Promise(() => {});

export class Kept {
  #directory;
  #stalls = (argument("stall") ?? "").split(",");
  #count = 0;
  #live = new Map();

  /** Counts this start. `defaults()` gives the settings of a session that nobody has set anything in. */
  constructor(directory, defaults) {
    mkdirSync(directory, { recursive: true });
    this.#directory = directory;
    this.defaults = defaults;
    this.epoch = linesOf(`${directory}/epochs.jsonl`).length + 1;
    this.#append("epochs.jsonl", JSON.stringify({ epoch: this.epoch, pid: process.pid }));
  }

  #append(name, line) {
    appendFileSync(`${this.#directory}/${name}`, line + "\n");
  }

  #acted(effect, sessionId) {
    return linesOf(`${this.#directory}/acted.jsonl`)
      .map((line) => JSON.parse(line))
      .filter((row) => row.effect === effect && (sessionId === undefined || row.sessionId === sessionId));
  }

  act(effect, method, more) {
    this.#append(
      "acted.jsonl",
      JSON.stringify({ effect, method, ...more, pid: process.pid, epoch: this.epoch }),
    );
  }

  /** Comes back at once, unless the command line says `--stall POINT@EPOCH[,…]`: then never. */
  async stall(point) {
    const name = `${point}@${this.epoch}`;
    if (!this.#stalls.includes(name)) return;
    this.#append("faults", name);
    setInterval(() => {}, 2 ** 30);
    await forever();
  }

  freshId(prefix) {
    this.#count += 1;
    return `${prefix}-${this.epoch}-${this.#count}`;
  }

  newSession({ cwd }) {
    const sessionId = this.freshId("session");
    this.act("new", "session/new", { sessionId, cwd });
    this.#live.set(sessionId, this.defaults());
    return sessionId;
  }

  sessions() {
    return this.#acted("new").map(({ sessionId, cwd }) => ({ sessionId, cwd }));
  }

  /** The settings of a session that is active here; undefined if it is not. */
  settings(sessionId) {
    return this.#live.get(sessionId);
  }

  /** Makes a session of the record active; undefined if there is none. */
  reopen(sessionId) {
    if (!this.#acted("new", sessionId).length) return undefined;
    if (!this.#live.has(sessionId)) this.#live.set(sessionId, this.defaults());
    return this.#live.get(sessionId);
  }

  set(params, method, name, value) {
    this.#live.get(params.sessionId)[name] = value;
    this.act("set", method, params);
  }

  /** Inserts a prompt: the one thing that must never happen twice. */
  insert({ sessionId, prompt }) {
    const messageId = this.freshId("user");
    this.act("insert", "session/prompt", { sessionId, messageId, prompt });
    return messageId;
  }

  /** The user's messages of a session, in order. */
  messages(sessionId) {
    return this.#acted("insert", sessionId).map((row) => ({ messageId: row.messageId, content: row.prompt }));
  }
}
