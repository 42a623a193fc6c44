// What a TypeScript peer saw: an ordered event log, and the raw bytes of both pipe ends.
//
// Files in the trace directory, all append-only:
//   <who>.log   one JSON object a line: callbacks and results in the order the application saw them
//   <who>.in    the bytes read from the peer     <who>.out   the bytes written to it
// Bytes are recorded in the process that reads or writes them, before the SDK sees them, so nothing stands
// between the SDK and the pipe.
import { mkdirSync, openSync, writeSync } from "node:fs";
import { Readable } from "node:stream";

/** The value after `--name` on the command line. */
export function argument(name) {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? undefined : process.argv[at + 1];
}

export class Trace {
  constructor(directory, who) {
    mkdirSync(directory, { recursive: true });
    const open = (suffix) => openSync(`${directory}/${who}.${suffix}`, "a");
    this.files = { log: open("log"), in: open("in"), out: open("out") };
  }

  /** Appends one event. Values are logged as the SDK handed them over. */
  log(event) {
    writeSync(this.files.log, JSON.stringify(event) + "\n");
  }

  /** A Node stream as the web stream the SDK wants, its bytes recorded. */
  reading(node) {
    const file = this.files.in;
    return Readable.toWeb(node).pipeThrough(
      new TransformStream({
        transform(chunk, controller) {
          writeSync(file, chunk);
          controller.enqueue(chunk);
        },
      }),
    );
  }

  writing(node) {
    const file = this.files.out;
    return new WritableStream({
      write(chunk) {
        writeSync(file, chunk);
        return new Promise((done, fail) => node.write(chunk, (error) => (error ? fail(error) : done())));
      },
    });
  }
}

/** An error as the application sees it; an SDK error carries code and data, a local one only its text. */
export function describe(error) {
  return { code: error.code, message: error.message, data: error.data };
}

// An error object may carry members that this version of the protocol does not know. The SDK has no way to
// send one, so this class adds it where the SDK serialises.
export function errorWithUnknownMember(RequestError, code, message, data) {
  const error = new RequestError(code, message, data);
  error.toResult = () => ({
    error: { code, message, data, _vendorHint: { retry: false, zähler: [1, 2.5, null] } },
  });
  return error;
}

/** A gate that one side of a dialogue waits at and the other opens; usable again after it was opened. */
export class Gate {
  #waiting = [];

  wait() {
    return new Promise((open) => this.#waiting.push(open));
  }

  open(value) {
    for (const open of this.#waiting.splice(0)) open(value);
  }
}
