// The handlers of agent_v2.mjs when it is run with --history, the counterpart of kept_v1.mjs.
import * as acp from "@agentclientprotocol/sdk/experimental/v2";
import { forever, Kept, textOf } from "./kept.mjs";

export async function keepV2(directory, { option, say, state, permission, afterAnswer }) {
  const kept = new Kept(directory, () => ({ model: "small" }));
  await kept.stall("start");

  const settings = ({ model }) => ({ configOptions: [option(model)] });
  const message = ({ messageId, content }) => ({ sessionUpdate: "user_message", messageId, content });

  function active({ sessionId }) {
    if (!kept.settings(sessionId)) throw acp.RequestError.sessionNotFound(sessionId);
  }

  async function work(client, sessionId, kind, number) {
    await say(client, sessionId, state("running"));
    await say(client, sessionId, {
      sessionUpdate: "agent_message_chunk",
      messageId: kept.freshId("agent"),
      content: { type: "text", text: `reply ${number}` },
    });
    if (kind === "stay" || kind === "mute") return;
    if (kind === "asks") {
      await say(client, sessionId, state("requires_action"));
      await client.request("session/request_permission", permission(sessionId));
    }
    await say(client, sessionId, state("idle", { stopReason: "end_turn" }));
  }

  return {
    async newSession({ params, client }) {
      const sessionId = kept.newSession(params);
      await say(client, sessionId, state("idle"));
      return { sessionId, ...settings(kept.settings(sessionId)) };
    },
    async resumeSession({ params: { sessionId, replayFrom }, client }) {
      await kept.stall("restore");
      const found = kept.reopen(sessionId);
      if (!found) throw acp.RequestError.sessionNotFound(sessionId);
      if (replayFrom) {
        for (const stored of kept.messages(sessionId)) await say(client, sessionId, message(stored));
        await say(client, sessionId, { sessionUpdate: "replay_complete" });
      }
      await say(client, sessionId, state("idle"));
      return settings(found);
    },
    listSessions: () => ({ sessions: kept.sessions() }),
    setOption({ params }) {
      active(params);
      kept.set(params, "session/set_config_option", "model", params.value);
      return { configOptions: [option(params.value)] };
    },
    async prompt({ params, client }) {
      active(params);
      const { sessionId, prompt } = params;
      const [kind, number] = textOf(prompt).split(" ");
      if (kind === "hang") await forever();
      const messageId = kept.insert(params);
      await say(client, sessionId, message({ messageId, content: prompt }));
      if (kind === "mute") {
        await work(client, sessionId, kind, number);
        await forever();
      }
      afterAnswer(() => work(client, sessionId, kind, number));
      return { messageId };
    },
  };
}
