// What both v2 clients are made of: the callbacks, the connection, the requests.
import * as acp from "@agentclientprotocol/sdk/experimental/v2";
import { agentCommand, Dialogue, endAgent, startAgent } from "./dialogue.mjs";
import { argument, errorWithUnknownMember, Trace } from "./trace.mjs";
import { awkward } from "./samples.mjs";

/** Connects to the agent; `answers.permission` decides how a permission request is answered. */
export function connect(answers) {
  const trace = new Trace(argument("trace"), "client");
  const dialogue = new Dialogue(trace);
  const any = (params) => params;

  /** Logs a callback, then answers it. */
  const seen =
    (name, answer = () => ({})) =>
    (context) => {
      dialogue.callback(name, context.params);
      return answer(context);
    };

  async function permission({ signal }) {
    if (answers.permission !== "when withdrawn") {
      return {
        outcome: { outcome: "selected", optionId: answers.permission, _meta: { awkward } },
        vendorMember: [null],
      };
    }
    if (!signal.aborted) await new Promise((done) => signal.addEventListener("abort", done));
    return { outcome: { outcome: "cancelled" } };
  }

  // The order of registration matters, see dialogue.mjs.
  const app = acp
    .client({ name: "interop" })
    .onNotification("session/update", seen("session/update"))
    .onNotification("_vendor/tell", any, seen("_vendor/tell"))
    .onNotification("future/notification", any, seen("future/notification"))
    .onNotification("elicitation/complete", seen("elicitation/complete"))
    .onRequest("session/request_permission", seen("session/request_permission", permission))
    .onRequest(
      "elicitation/create",
      seen("elicitation/create", () => ({ action: "accept", content: { name: "ü" } })),
    )
    .onRequest(
      "_vendor/ask",
      any,
      seen("_vendor/ask", ({ params }) => ({ n: params.n, awkward })),
    )
    .onRequest(
      "_vendor/refuse",
      any,
      seen("_vendor/refuse", () => {
        throw errorWithUnknownMember(acp.RequestError, -31998, "no", { awkward });
      }),
    );

  const child = startAgent(agentCommand());
  const connection = app.connect(acp.ndJsonStream(trace.writing(child.stdin), trace.reading(child.stdout)));
  const agent = connection.agent;
  return {
    agent,
    dialogue,
    step: (...all) => dialogue.step(...all),
    request: (method, params, options) => () => agent.request(method, params, options),
    initialize: () =>
      agent.request("initialize", {
        protocolVersion: 2,
        info: { name: "interop-ts", title: "Ünïcödé", version: "1.0.0" },
        capabilities: { elicitation: { form: {}, url: {} }, futureCapability: awkward },
        _meta: { awkward },
      }),
    async end() {
      await endAgent(child, trace);
      connection.close();
      trace.log({ end: "dialogue" });
    },
  };
}
