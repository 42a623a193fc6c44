// The agent process that is killed, known by its own history (kept.mjs, keyhop-test-agent --history): which
// process is the current one, what it has done so far.
import { linesOf } from "./kept.mjs";

export class Victim {
  #directory;
  #trace;
  kills = 0;

  constructor(directory, trace) {
    this.#directory = directory;
    this.#trace = trace;
  }

  #rows(name) {
    return linesOf(`${this.#directory}/${name}`).map((line) => JSON.parse(line));
  }

  // Files tell nobody that they grew, so they are read until they say it; run.py's limit ends a broken run.
  async #until(condition) {
    while (!condition()) await new Promise((again) => setTimeout(again, 2));
  }

  /** SIGKILL to the agent's current process, which has started if every earlier one was killed here. */
  async kill(when) {
    const rows = () => this.#rows("epochs.jsonl");
    await this.#until(() => rows().length > this.kills);
    const { pid } = rows()[this.kills];
    this.kills += 1;
    process.kill(pid, "SIGKILL");
    this.#trace.log({ killed: pid, when });
    return pid;
  }

  /** The same, and its end: nothing that is sent from now on reaches that process. */
  async killAndWait(when) {
    const pid = await this.kill(when);
    await this.#until(() => {
      try {
        return !process.kill(pid, 0);
      } catch (error) {
        return error.code === "ESRCH";
      }
    });
  }

  /** The agent's history shows that it inserted this prompt. */
  inserted(text) {
    return this.#until(() =>
      this.#rows("acted.jsonl").some((row) => row.effect === "insert" && row.prompt?.[0].text === text),
    );
  }

  /** The agent's processes have stalled as often as that, as their command line told them. */
  stalled(times) {
    return this.#until(() => linesOf(`${this.#directory}/faults`).length >= times);
  }
}
