#!/usr/bin/env python3
"""A released agent that ignores keys, behind keyhop: at most one message for a key, whoever is killed when.

What was inserted is not asked of keyhop: at the end of each test the agent is started without it, resumes
the session, and replays its own messages. --agent is one of agents.py, with the Node that it needs beside it.
"""

import collections
import contextlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # before our own modules: the source tree stays as it is
sys.path.append(str(Path(__file__).resolve().parent.parent / "process"))

import harness  # noqa: E402
import processes  # noqa: E402
from agents import Scene  # noqa: E402
from client import is_idle, is_update  # noqa: E402
from harness import expect, expect_equal, test, wait_for  # noqa: E402
from model import HOLD, Model  # noqa: E402

INVALID_PARAMS = -32602
FIRST = "Good morning."
OFTEN = ("--restart-limit", "1000/60")


@contextlib.contextmanager
def scene(room):
    model = Model()
    try:
        yield Scene(room, model)
    finally:
        model.close()


# ---- the client's side ----


def begin(stage, instance):
    """initialize, session/new and one whole turn; the session's id."""
    instance.client.initialize(2)
    new = instance.client.call("session/new", {"cwd": stage.cwd, "mcpServers": []})
    expect("result" in new, f"session/new failed: {new}")
    session = new["result"]["sessionId"]
    whole_turn(instance.client, session, FIRST)
    return session


def whole_turn(client, session, text):
    """A prompt without a key; returns when the session is idle after it. The agent inserts it after the work
    that it is at, so that this also waits for the end of that."""
    answered_id(client, client.prompt(session, text))
    client.receive_until(is_idle)


def resume(stage, client, session, replay=False):
    params = {"sessionId": session, "cwd": stage.cwd, "mcpServers": []}
    if replay:
        params["replayFrom"] = {"type": "start"}
    answer = client.call("session/resume", params)
    expect("result" in answer, f"session/resume failed: {answer}")


def come_back(stage, session, replay=False):
    """A new keyhop with the same ledger, and a client that takes its session up again."""
    instance = stage.keyhop(*OFTEN)
    instance.client.initialize(2)
    resume(stage, instance.client, session, replay)
    return instance


def answered_id(client, request):
    answer = client.answer(request)
    expect("result" in answer, f"a prompt was not inserted: {answer}")
    return answer["result"]["messageId"]


def keyed(client, session, text, key):
    """Sends a keyed prompt and waits; the id that it is answered with."""
    return answered_id(client, client.prompt(session, text, key))


def keyed_or_unknown(stage, client, request):
    """The id that a held prompt was answered with. None if keyhop said that it does not know, which it may
    where the agent adds messages of its own: see expect_once."""
    answer = client.answer(request)
    if "error" in answer and stage.agent.own_words:
        data = answer["error"].get("data", {})
        expect_equal((data.get("source"), data.get("outcome")), ("keyhop", "unknown"), "the error's data")
        return None
    expect("result" in answer, f"a prompt was not inserted: {answer}")
    return answer["result"]["messageId"]


def expect_refused(client, session, text, key):
    answer = client.answer(client.prompt(session, text, key))
    expect("error" in answer, f"a prompt that must be refused was answered: {answer}")
    expect_equal(answer["error"]["code"], INVALID_PARAMS, "the error's code")


# ---- the agent's side ----


def user_messages(stage, session):
    """The user's messages as the agent itself replays them: pairs of id and text, in order."""
    instance = stage.direct()
    client = instance.client
    client.initialize(2)
    resume(stage, client, session, replay=True)
    texts = {}
    for message in map(json.loads, client.received):
        if is_update(message, "user_message"):
            update = message["params"]["update"]
            texts[update["messageId"]] = "".join(part["text"] for part in update["content"])
        elif is_update(message, "user_message_chunk"):
            update = message["params"]["update"]
            texts[update["messageId"]] = texts.get(update["messageId"], "") + update["content"]["text"]
    end_agent(instance)
    return list(texts.items())


def end_agent(instance):
    """Ends an agent without keyhop, and what it leaves."""
    expect_equal(instance.close(), 0, "the agent's exit status")
    processes.kill_all()


def expect_once(stage, session, ids, others=()):
    """The agent holds one message of each text, under the id that keyhop gave, and nothing that was not
    sent. An id of None: keyhop said that it does not know, so there is one message or none, and the reason
    is there: words of the agent's own. `others`: texts without a key, each once."""
    messages = user_messages(stage, session)
    for text, wanted in ids.items():
        found = [name for name, of in messages if of == text]
        if wanted is None:
            expect(len(found) <= 1, f"the messages {text!r}: {found}")
        else:
            expect_equal(found, [wanted], f"the messages {text!r}")
    texts = collections.Counter(text for _, text in messages)
    if None in ids.values():
        expect(any(words in texts for words in stage.agent.own_words), "keyhop knew not, and why?")
    for text in (*stage.agent.own_words, *(text for text, wanted in ids.items() if wanted is None)):
        texts.pop(text, None)
    sent = [FIRST, *(text for text, wanted in ids.items() if wanted is not None), *others]
    expect_equal(texts, collections.Counter(sent), "the session's messages")


def first_process(instance):
    """The pid of what keyhop started, None while there is none."""
    watchdog = instance.watchdog()
    found = processes.children(watchdog) if watchdog else []
    return found[0] if found else None


def kill_agent(first, whole=False, number=signal.SIGKILL):
    """Kills the agent's first process, or all that is below it too; returns when all of that has ended, by
    itself or by keyhop's hand."""
    everything = [first, *processes.descendants(first)]
    for pid in everything if whole else everything[:1]:
        with contextlib.suppress(ProcessLookupError):  # what ended meanwhile need not be killed
            os.kill(pid, number)
    for pid in everything:
        processes.wait_gone(pid)


def end(room, instance, adopted=0):
    """keyhop ends as it should, and leaves nothing behind. `adopted`: see expect_nothing_left."""
    expect_equal(instance.close(), 0, "keyhop's exit status")
    expect_equal(instance.client.unsettled(), {}, "requests without exactly one answer")
    room.expect_nothing_left(adopted)


# ---- the tests ----


@test(seconds=180)
def without_keyhop_a_key_sent_twice_is_inserted_twice(room):
    """What the other tests stand on: the agent does not know keys, and its replay shows it."""
    with scene(room) as stage:
        instance = stage.direct()
        session = begin(stage, instance)
        client = instance.client
        for _ in range(2):
            keyed(client, session, "once, please", "key")
            client.receive_until(is_idle)
        keyed(client, session, "too long a key", "k" * 300)
        client.receive_until(is_idle)
        end_agent(instance)
        texts = [text for _, text in user_messages(stage, session)]
        expect_equal(texts, [FIRST, "once, please", "once, please", "too long a key"], "the messages")


@test(seconds=180)
def a_key_sent_twice_is_inserted_once(room):
    with scene(room) as stage:
        instance = stage.keyhop()
        session = begin(stage, instance)
        client = instance.client
        together = [client.prompt(session, "together", "first key") for _ in range(2)]
        ids = {"together": answered_id(client, together[0])}
        expect_equal(answered_id(client, together[1]), ids["together"], "the second answer")
        whole_turn(client, session, "between")
        ids["apart"] = keyed(client, session, "apart", "second key")
        client.receive_until(is_idle)
        for _ in range(2):
            expect_equal(keyed(client, session, "apart", "second key"), ids["apart"], "a later answer")
            expect_equal(keyed(client, session, "together", "first key"), ids["together"], "a later answer")
        expect_refused(client, session, "another text", "second key")
        end(room, instance)
        expect_once(stage, session, ids, ["between"])


@test(seconds=180)
def a_malformed_key_is_refused_and_not_inserted(room):
    with scene(room) as stage:
        instance = stage.keyhop()
        session = begin(stage, instance)
        for key in ("k" * 300, "", 7):
            expect_refused(instance.client, session, "refused", key)
        ids = {"long": keyed(instance.client, session, "long", "k" * 255)}
        end(room, instance)
        expect_once(stage, session, ids)


def work_and_hold(stage, instance, session):
    """One keyed prompt inserted, saved and worked at, one held behind it; the first one's id and the second
    one's request. The agent has read both."""
    client = instance.client
    working = keyed(client, session, f"{HOLD} work", "working")
    await_moment(AS_SAVED, client, None, stage.transcript(session), f"{HOLD} work")
    held = client.prompt(session, "held", "held")
    client.call("session/list", {})
    expect(not client.answers(held), "the agent did not hold a prompt during its work")
    return working, held


def say_fate_of_held(stage, message_id):
    """All are right, and the agent's choice: one that saves what it holds has it in its history."""
    was_sent = any(text.endswith("held") for text in stage.model.turns)
    fate = "unknown" if message_id is None else "sent again" if was_sent else "found in the history"
    print(f"     the held prompt: {fate}", flush=True)


@test(seconds=180, cases={"": False, "all of it": True})
def the_agent_is_killed_at_work(room, whole):
    """kill -9 with a prompt inserted and one held."""
    with scene(room) as stage:
        instance = stage.keyhop()
        session = begin(stage, instance)
        client = instance.client
        working, held = work_and_hold(stage, instance, session)
        kill_agent(first_process(instance), whole)
        stage.model.release()
        ids = {f"{HOLD} work": working, "held": keyed_or_unknown(stage, client, held)}
        expect_equal(keyed(client, session, f"{HOLD} work", "working"), working, "the answer to a retry")
        again = keyed_or_unknown(stage, client, client.prompt(session, "held", "held"))
        expect_equal(again, ids["held"], "the answer to a retry")
        whole_turn(client, session, "at last")
        say_fate_of_held(stage, ids["held"])
        end(room, instance)
        expect_once(stage, session, ids, ["at last"])


@test(seconds=180)
def the_agent_is_asked_to_end_at_work(room):
    """SIGTERM, upon which an agent may do and write more than after a kill: it may refuse what it holds, or
    add a message of its own, so that nobody can tell any more what became of the held prompt."""
    with scene(room) as stage:
        instance = stage.keyhop()
        session = begin(stage, instance)
        client = instance.client
        working, held = work_and_hold(stage, instance, session)
        kill_agent(first_process(instance), number=signal.SIGTERM)
        stage.model.release()
        answers = [client.answer(held)]
        answers += [client.answer(client.prompt(session, "held", "held")) for _ in range(2)]
        given = [answer["result"]["messageId"] if "result" in answer else None for answer in answers]
        for answer in answers:
            if answer.get("error", {}).get("data", {}).get("source") == "keyhop":
                expect_equal(answer["error"]["data"]["outcome"], "unknown", "keyhop's own error")
        expect(len({*given} - {None}) <= 1 and given == sorted(given, key=bool), f"the answers: {given}")
        expect(given[-1] or stage.agent.own_words, f"the retries were in vain: {answers}")
        ids = {f"{HOLD} work": working, "held": given[-1]}
        expect_equal(keyed(client, session, f"{HOLD} work", "working"), working, "the answer to a retry")
        whole_turn(client, session, "at last")
        say_fate_of_held(stage, given[-1])
        end(room, instance)
        expect_once(stage, session, ids, ["at last"])


@test(seconds=180, cases={"": False, "with a replay": True})
def keyhop_is_killed_at_work(room, replay):
    """kill -9 of keyhop with a prompt inserted, one held and one answered long ago; a new keyhop, and the
    client resumes and sends all again."""
    with scene(room) as stage:
        before = stage.keyhop()
        session = begin(stage, before)
        early = keyed(before.client, session, "early", "early")
        before.client.receive_until(is_idle)
        working, _ = work_and_hold(stage, before, session)
        before.kill()
        stage.model.release()
        instance = come_back(stage, session, replay)
        client = instance.client
        held = keyed_or_unknown(stage, client, client.prompt(session, "held", "held"))
        ids = {"early": early, f"{HOLD} work": working, "held": held}
        expect_equal(keyed(client, session, f"{HOLD} work", "working"), working, "the answer to a retry")
        expect_equal(keyed(client, session, "early", "early"), early, "the answer to a retry")
        again = keyed_or_unknown(stage, client, client.prompt(session, "held", "held"))
        expect_equal(again, held, "the answer to a retry")
        whole_turn(client, session, "at last")
        say_fate_of_held(stage, ids["held"])
        end(room, instance, None)
        expect_once(stage, session, ids, ["at last"])


@test(seconds=180)
def a_prompt_that_was_answered_and_not_saved_is_inserted_again(room):
    """The whole agent is killed when it has answered, so that nothing of it can save the prompt any more; an
    agent that answers first has lost it then. A retry at once comes before the history was read again."""
    with scene(room) as stage:
        instance = stage.keyhop()
        session = begin(stage, instance)
        client = instance.client
        first = first_process(instance)
        keyed(client, session, "answered", "key")
        kill_agent(first, whole=True)
        was_saved = b"answered" in stage.transcript(session).read_bytes()
        ids = {"answered": keyed(client, session, "answered", "key")}
        whole_turn(client, session, "after")
        expect_equal(keyed(client, session, "answered", "key"), ids["answered"], "the answer to a retry")
        whole_turn(client, session, "at last")
        print(f"     it was {'saved' if was_saved else 'lost'}", flush=True)
        end(room, instance)
        expect_once(stage, session, ids, ["after", "at last"])


# When to kill: milliseconds after sending; before the agent (it is stopped) reads the prompt; as soon as it
# has saved or answered it. With an agent that answers what it has saved, the last one is repeated until a
# prompt was met that is inserted and not answered, however fast or slow the machine is.
UNREAD, AS_SAVED, AS_ANSWERED = "unread", "as saved", "as answered"
MOMENTS = (0, UNREAD, AS_SAVED, 15, AS_ANSWERED, 30, AS_SAVED)
MOMENTS_MAX = 14
INSERTED, ABSENT = "inserted", "absent"


def read_what_is_there(client):
    """Receives whatever can be read without waiting."""
    poller = select.poll()
    poller.register(client.output, select.POLLIN)
    while client.lines or poller.poll(0):
        if client.receive() is None:
            return


def final_id(client, request):
    """The id that a prompt was answered with, also if the answer was received already."""
    known = client.answers(request)
    return known[0]["result"]["messageId"] if known else answered_id(client, request)


def await_moment(moment, client, request, transcript, text):
    if moment is AS_SAVED:
        wait_for(lambda: text.encode() in transcript.read_bytes())
    elif moment is AS_ANSWERED:
        client.answer(request)
    elif moment is not UNREAD:
        time.sleep(moment / 1000)  # nothing is waited for: that the agent is where it is then is the test


def fate(client, request, transcript, text):
    """What became of a prompt whose agent has ended and has no successor yet that could do anything."""
    saved = text.encode() in transcript.read_bytes()
    read_what_is_there(client)
    return ("answered, " if client.answers(request) else "") + (INSERTED if saved else ABSENT)


@test(seconds=180, cases={"of the agent": True, "of keyhop": False})
def a_kill_at_any_moment_after_sending(room, only_the_agent):
    with scene(room) as stage:
        instance = stage.keyhop(*OFTEN)
        session = begin(stage, instance)
        transcript = stage.transcript(session)
        ids, others, fates = {}, [], []
        moments = collections.deque(MOMENTS * (5 if room.long else 1))
        while moments:
            client, text, moment = instance.client, f"prompt {len(ids)}", moments.popleft()
            first = wait_for(lambda: first_process(instance))
            if moment is UNREAD:
                os.kill(first, signal.SIGSTOP)
            request = client.prompt(session, text, text)
            await_moment(moment, client, request, transcript, text)
            if only_the_agent:
                kill_agent(first)
            else:
                kill_keyhop(instance, first)
            fates.append((moment, fate(client, request, transcript, text)))
            if only_the_agent:
                final_id(client, request)
            else:
                instance = come_back(stage, session)
                client = instance.client
            ids[text] = keyed(client, session, text, text)
            expect_equal(keyed(client, session, text, text), ids[text], "the answer to another retry")
            others.append(f"after {text}")
            whole_turn(client, session, others[-1])
            met = any(found == INSERTED for _, found in fates)
            if not moments and stage.agent.answers_after_saving and not met and len(ids) < MOMENTS_MAX:
                moments.append(AS_SAVED)
        end(room, instance, 0 if only_the_agent else None)
        print("     killed " + "; ".join(f"{moment}: {found}" for moment, found in fates), flush=True)
        expect_once(stage, session, ids, others)
        expect(any(found == ABSENT for _, found in fates), "no prompt was lost before it was inserted")
        expect(met or not stage.agent.answers_after_saving, "no prompt was inserted without an answer")


def kill_keyhop(instance, first):
    """Kills keyhop; returns when its agent has ended."""
    everything = [first, *processes.descendants(first)]
    instance.kill()
    for pid in everything:
        processes.wait_gone(pid)


if __name__ == "__main__":
    harness.main(__doc__.split("\n")[0])
