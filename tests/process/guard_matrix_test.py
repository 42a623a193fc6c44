"""Agents of every character, losses at every point, whoever restarts: one key is inserted at most once.

Counted in the agent's own history. A retry is answered with the right messageId, or with an error that says
that the outcome is unknown, never with a wrong id; and for an agent that shows its history the answer is
never "unknown".
"""

import os
import signal

import processes
from client import is_idle
from guard import INSERTED, World, submit
from harness import expect, expect_equal, main, test, wait_for

PERSONALITIES = {
    "honours keys": ("--keys", "honour"),
    "ignores keys": (),
    "echoes late": ("--echo", "late"),
    "echoes first, in chunks": ("--echo", "before", "--chunked-echo"),
    "forgets unsaved prompts": ("--forget-unsaved", "--turn", "100"),
    "cannot replay": ("--no-replay",),
    "rewrites content": ("--rewrite-content",),
    "marks the replay's end, string ids": ("--replay-complete", "--string-ids"),
}
LOSSES = ("none", "before insert", "after insert", "answer unread")
RESTARTED = ("agent", "keyhop", "client", "all")
ORDERS = (("same", "other", "new"), ("other", "new", "same"), ("new", "same", "other"))

# What is sent where the agent ends itself, and where it waits for somebody else's end.
FATAL = {
    "none": "work",
    "before insert": "[die before_insert] work",
    "after insert": "[die after_insert] work",
    "answer unread": "[die mid_answer 20] work",
}
WAITING = {
    "none": "work",
    "before insert": "[hang] work",
    "after insert": "[no_answer] work",
    "answer unread": "[early wait 60] work",
}
KEY, NEW_KEY = "key-1", "key-2"


def allowed(personality, loss, restarted, has_earlier):
    """What the retry of the same prompt may be told."""
    if personality == "forgets unsaved prompts" and not has_earlier:
        return {"id", "unknown"}  # it shows nothing again of what keyhop has seen, which proves nothing
    if loss == "none" or (loss == "answer unread" and restarted == "client"):
        return {"id"}  # keyhop has read the answer
    # A stopped keyhop has read the answer or not.
    read_maybe = {"id", "unknown"} if loss == "answer unread" and restarted != "agent" else {"unknown"}
    if personality == "cannot replay":
        return read_maybe
    if personality == "rewrites content" and loss != "before insert":
        return read_maybe
    return {"id"}


class Cell:
    def __init__(self, room, name, personality, loss, restarted, has_earlier):
        self.world = World(room, name, PERSONALITIES[personality])
        self.loss = loss
        self.restarted = restarted
        self.allowed = allowed(personality, loss, restarted, has_earlier)
        self.text = (FATAL if restarted == "agent" else WAITING)[loss]
        self.keyhop = self.world.begin()
        self.session = self.keyhop.client.open()
        self.earlier = int(has_earlier)
        if has_earlier:
            self.keyhop.client.turn(self.session, "earlier")
        # Answered, and lost all the same if its turn does not end.
        self.saves_late = personality == "forgets unsaved prompts"

    def lose(self):
        """Sends the prompt and brings it to its loss point; then everything is there again."""
        client = self.keyhop.client
        number = client.prompt(self.session, self.text, KEY)
        if self.restarted == "agent":
            return self.lose_agent(number)
        if self.loss == "none":
            self.read_first(number)
        elif self.loss in ("before insert", "after insert"):
            wait_for(self.world.has_obeyed)
        else:
            if self.restarted != "client":
                wait_for(lambda: self.world.has_received(b'"%s"' % KEY.encode()))
                self.keyhop.signal(signal.SIGSTOP)
            wait_for(lambda: self.world.has_sent(b'"id":%d,' % number, b'"result"'))
        self.end_keyhop()
        self.keyhop = self.world.back(self.session)

    def read_first(self, number):
        word = self.world.word_for(self.keyhop.client.answer(number), KEY, self.text)
        expect_equal(word, "id", "the first answer")
        # Kills between the answer and the ledger's update are another test's.
        wait_for(lambda: self.world.rows() == {(self.session, INSERTED): 1})

    def lose_agent(self, number):
        """keyhop settles it by itself."""
        if self.loss == "none":
            self.read_first(number)
            pid = self.world.history.epochs()[-1]
            os.kill(pid, signal.SIGKILL)
            processes.wait_gone(pid)
            self.keyhop.client.call("session/status", {"sessionId": self.session})  # restored
            return
        word = self.world.word_for(self.keyhop.client.answer(number), KEY, self.text)
        expect(word in self.allowed, f"the lost prompt was answered {word!r}")

    def end_keyhop(self):
        keyhop = self.keyhop
        if self.restarted == "client":
            keyhop.client.close_writing()
            if self.loss == "answer unread":
                keyhop.client.close_reading()
            else:
                keyhop.client.read_to_end()
            expect_equal(keyhop.wait(), 0, "exit status")
        else:
            if self.restarted == "all":
                os.kill(self.world.history.epochs()[-1], signal.SIGKILL)
            keyhop.kill()

    def retry(self, order):
        is_others = False  # the key was free, and is another prompt's now
        for attempt in order:
            client = self.keyhop.client
            if attempt == "same":
                word = self.world.word_for(submit(client, self.session, self.text, KEY), KEY, self.text)
                wanted = {"other text"} if is_others else self.allowed
                expect(word in wanted, f"the retry was told {word!r}")
            elif attempt == "other":
                word = self.world.word_for(submit(client, self.session, "other", KEY), KEY, "other")
                expect(word in ("id", "other text"), f"another text was told {word!r}")
                is_others = word == "id"
            else:
                before = len(self.world.insertions())
                answer = submit(client, self.session, self.text, NEW_KEY)
                expect_equal(self.world.word_for(answer, NEW_KEY, self.text), "id", "a new key")
                expect_equal(len(self.world.insertions()), before + 1, "insertions after a new key")

    def count(self):
        client = self.keyhop.client
        submit(client, self.session, "last")  # whatever came before has ended and is stored now
        client.receive_until(is_idle)
        expect_equal(self.keyhop.close(), 0, "exit status")
        known = len(self.world.retained(KEY))
        expect(known <= 1, f"{known} messages of one key")
        expect(known == 1 or "unknown" in self.allowed, "no message")
        expect_equal(len(self.world.retained(NEW_KEY)), 1, "messages of the new key")
        expect_equal(len(self.world.retained()), self.earlier + known + 2, "messages in all")
        if not self.saves_late:
            expect_equal(len(self.world.insertions(KEY)), known, "insertions of the key")


@test(
    cases={
        f"{personality}, {loss}, {restarted}": (personality, loss, restarted)
        for personality in PERSONALITIES
        for loss in LOSSES
        for restarted in RESTARTED
    }
)
def one_insertion(room, personality, loss, restarted):
    for number, order in enumerate(ORDERS):
        for has_earlier in (True, False):
            cell = Cell(room, f"world-{number}-{has_earlier}", personality, loss, restarted, has_earlier)
            try:
                cell.lose()
                cell.retry(order)
                cell.count()
            except Exception as error:
                error.args = (f"{' '.join(order)}, {'' if has_earlier else 'no '}earlier prompt: {error}",)
                raise
    room.expect_nothing_left(adopted=None)


if __name__ == "__main__":
    main(__doc__)
