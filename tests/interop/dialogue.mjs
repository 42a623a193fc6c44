// The client's side of a dialogue, made so that its log has one possible order.
//
// The SDK resolves an answer at once but walks a notification through awaited handlers. Which of the two
// the application sees first when both arrive together therefore depends on how the bytes were cut into
// reads, with or without a proxy. So every step says how many callbacks belong to it and is logged only
// when its answer *and* those callbacks are there. The wire order is compared separately, byte by byte.
//
// Likewise two messages of different methods that arrive together reach their handlers in the order in which
// the handlers were registered. So a peer that sends two such messages with no answer between them sends
// them in that order: session/update, _vendor/tell, future/notification, elicitation/complete, requests.
import { spawn } from "node:child_process";
import { describe } from "./trace.mjs";

// Only ends a run that is broken anyway (a callback was lost): the log then says what was missing.
const patience_ms = 10000;

export class Dialogue {
  #trace;
  #seen = 0;
  #watchers = [];

  constructor(trace) {
    this.#trace = trace;
  }

  /** Logs a callback from the agent. */
  callback(name, value) {
    this.#trace.log({ callback: name, value });
    this.#seen += 1;
    this.#watchers = this.#watchers.filter((look) => !look());
  }

  /** Resolves once `count` callbacks in all were logged; false if they did not come. */
  #until(count) {
    if (this.#seen >= count) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), patience_ms);
      this.#watchers.push(() => {
        if (this.#seen < count) return false;
        clearTimeout(timer);
        resolve(true);
        return true;
      });
    });
  }

  /**
   * One request and the callbacks that come with it. `midway` is run after the first `midway_after` of
   * them, while the request is open.
   */
  async step(name, callbacks, request, { midway, midway_after = 1 } = {}) {
    const before = this.#seen;
    const outcome = Promise.resolve()
      .then(request)
      .then(
        (result) => ({ result }),
        (error) => ({ error: describe(error) }),
      );
    if (midway) {
      await this.#until(before + midway_after);
      await midway();
    }
    const settled = await outcome;
    if (!(await this.#until(before + callbacks))) {
      this.#trace.log({ step: name, missing: before + callbacks - this.#seen });
    }
    this.#trace.log({ step: name, ...settled });
    return settled.result;
  }

  /** Logs one of several requests that are open at the same time, when its answer arrives. */
  async aside(name, request) {
    await request.then(
      (result) => this.#trace.log({ aside: name, result }),
      (error) => this.#trace.log({ aside: name, error: describe(error) }),
    );
  }
}

/** Starts the command as an editor starts its agent. */
export function startAgent(command) {
  const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  // A failed write rejects in the stream that wrote; the emitter must not end the process as well.
  child.stdin.on("error", () => {});
  return child;
}

/** Closes the agent's stdin and logs how it ended. */
export async function endAgent(child, trace) {
  const ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
  child.stdin.end();
  trace.log({ agentEnded: await ended });
}

/** Everything after `--` on the command line: the agent, or keyhop in front of it. */
export function agentCommand() {
  return process.argv.slice(process.argv.indexOf("--") + 1);
}
