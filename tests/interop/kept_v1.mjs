// The handlers of agent_v1.mjs when it is run with --history: sessions and prompts that outlive the process.
// The first word of a prompt says how its turn goes, the second one is its number (see client_kills.mjs).
import * as acp from "@agentclientprotocol/sdk";
import { forever, Kept, textOf } from "./kept.mjs";

/** `modes` and `option(value)` are the agent's own, `say` sends an update. */
export async function keepV1(directory, { modes, option, say, permission }) {
  const kept = new Kept(directory, () => ({ mode: modes.currentModeId, model: "small" }));
  await kept.stall("start");

  const settings = ({ mode, model }) => ({
    modes: { ...modes, currentModeId: mode },
    configOptions: [option(model)],
  });
  const chunk = (sessionUpdate, text) => ({ sessionUpdate, content: { type: "text", text } });

  function active({ sessionId }) {
    if (!kept.settings(sessionId)) throw acp.RequestError.sessionNotFound(sessionId);
  }

  async function reopen({ sessionId }) {
    await kept.stall("restore");
    const found = kept.reopen(sessionId);
    if (!found) throw acp.RequestError.sessionNotFound(sessionId);
    return found;
  }

  return {
    newSession({ params }) {
      const sessionId = kept.newSession(params);
      return { sessionId, ...settings(kept.settings(sessionId)) };
    },
    async loadSession({ params, client }) {
      const found = await reopen(params);
      for (const { content } of kept.messages(params.sessionId))
        await say(client, params.sessionId, chunk("user_message_chunk", textOf(content)));
      return settings(found);
    },
    resumeSession: async ({ params }) => settings(await reopen(params)),
    listSessions: () => ({ sessions: kept.sessions() }),
    async setMode({ params, client }) {
      active(params);
      kept.set(params, "session/set_mode", "mode", params.modeId);
      await say(client, params.sessionId, {
        sessionUpdate: "current_mode_update",
        currentModeId: params.modeId,
      });
      return {};
    },
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
      kept.insert(params);
      await say(client, sessionId, chunk("agent_message_chunk", `reply ${number}`));
      if (kind === "stay") await forever();
      if (kind === "asks") await client.request("session/request_permission", permission(sessionId));
      return { stopReason: "end_turn" };
    },
  };
}
