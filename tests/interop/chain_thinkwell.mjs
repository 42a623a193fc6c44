// @thinkwell/conductor as a program: the package is a library. All it conducts here is an agent, since its
// proxies speak an older dialect (initialize with _meta.proxy, _proxy/successor/request).
//   node chain_thinkwell.mjs -- COMMAND [ARG…]
import { createInterface } from "node:readline";
import { Conductor, fromConnectors, StdioConnector } from "@thinkwell/conductor";
import { agentCommand } from "./dialogue.mjs";

const [command, ...args] = agentCommand();

/** Our own stdio as the connection to the client. */
const client = {
  send: (message) => process.stdout.write(JSON.stringify(message) + "\n"),
  get messages() {
    const lines = createInterface({ input: process.stdin });
    return (async function* () {
      for await (const line of lines) if (line.trim()) yield JSON.parse(line);
    })();
  },
  close: async () => {},
};

const conductor = new Conductor({
  instantiator: fromConnectors(new StdioConnector({ command, args })),
  mcpBridgeMode: "disabled",
});
await conductor.connect({ connect: async () => client });
