"""The released agents: how each is started so that it knows no model but the stand-in, and keeps its sessions
in the test's own directory. None of them is given anything of the caller's environment but PATH and the like.
"""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "process"))
import processes  # noqa: E402
from harness import expect_equal  # noqa: E402
from instance import Instance  # noqa: E402

KEPT = ("LANG", "PATH", "TMPDIR")
NO_KEY = "stand-in"  # where an API key is wanted


class Codex:
    """codex-acp starts OpenAI's codex, which streams from a provider of our own."""

    name = "codex-acp"
    node_major_min = 20
    answers_after_saving = True
    own_words = ()  # user messages that the agent itself adds to a conversation

    def prepare(self, home, model):
        """Writes its settings; what its environment needs beside the common part."""
        store = os.path.join(home, "codex")
        os.makedirs(store)
        with open(os.path.join(store, "config.toml"), "w", encoding="utf-8") as file:
            file.write(
                'model = "stand-in"\n'
                'model_provider = "stand-in"\n'
                "check_for_update_on_startup = false\n"
                "[analytics]\nenabled = false\n"
                '[model_providers.stand-in]\nname = "stand-in"\nwire_api = "responses"\n'
                f'base_url = "{model.address}/v1"\n'
            )
        return {"CODEX_HOME": store, "NO_BROWSER": "1"}


class Claude:
    """claude-agent-acp starts the Claude Agent SDK's own program, which saves a prompt after it was answered,
    or at about the same time."""

    name = "claude-agent-acp"
    node_major_min = 22
    answers_after_saving = False
    own_words = ("[Request interrupted by user]",)

    def prepare(self, home, model):
        store = os.path.join(home, "claude")
        os.makedirs(store)
        return {
            "ANTHROPIC_API_KEY": NO_KEY,
            "ANTHROPIC_BASE_URL": model.address,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CONFIG_DIR": store,
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "NO_BROWSER": "1",
        }


AGENTS = {agent.name: agent for agent in (Codex(), Claude())}


class Scene:
    """One agent, its model and its directories, within a test's Room."""

    def __init__(self, room, model):
        self._room = room
        self.agent = AGENTS[os.path.basename(room.agent)]
        self.model = model
        self.cwd = room.path("project")
        self.home = room.path("home")
        os.makedirs(self.cwd)
        os.makedirs(self.home)
        own = {name: os.environ[name] for name in KEPT if name in os.environ}
        # Beside the agent lies the Node that it needs.
        own["PATH"] = os.path.dirname(room.agent) + os.pathsep + own["PATH"]
        own |= {"HOME": self.home, processes.MARK: room.mark}
        self._environment = own | model.environment() | self.agent.prepare(self.home, model)

    def direct(self):
        """Starts the agent without keyhop."""
        return self._start([self.agent.name])

    def keyhop(self, *options):
        """Starts keyhop in front of the agent."""
        ledger = ["--ledger", self._room.path("ledger.db")]
        return self._start([self._room.keyhop, *ledger, *options, "--", self.agent.name])

    def _start(self, command):
        instances = self._room.instances
        instance = Instance(command, self._environment, self._room.path(f"stderr-{len(instances)}"))
        instances.append(instance)
        return instance

    def transcript(self, session):
        """The file in which the agent keeps the session; both kinds name it after the session."""
        found = [path for path in Path(self.home).rglob(f"*{session}.jsonl") if path.is_file()]
        expect_equal(len(found), 1, "how many transcripts the session has")
        return found[0]
