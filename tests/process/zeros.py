"""What has to be zero after a dialogue in which somebody may have died."""

import collections
import json

from harness import expect, expect_equal


def expect_three_zeros(talk, history):
    """No effect twice, every answer once, no success without its effect, no error where none is due."""
    expect_equal(talk.client.unsettled(), {}, "requests without exactly one answer")
    acts = collections.Counter(row["params"]["n"] for row in history.acts("_test/act"))
    inserted = collections.Counter(row["hash"] for row in history.insertions())
    tools = collections.Counter(row["tool"] for row in history.effects("tool"))
    for what, counts in (("acts", acts), ("insertions", inserted), ("tools", tools)):
        twice = [name for name, count in counts.items() if count > 1]
        expect_equal(twice, [], f"{what} more than once")
    texts = {json.loads(row["sent"])[0]["text"] for row in history.user_messages()}
    for number, asked in talk.asked.items():
        (answer,) = talk.client.answers(number)
        if "error" in answer:
            expect(not talk.usable or talk.may_fail(asked, answer["error"]), f"{asked}: {answer}")
        elif asked.method == "_test/act":
            expect(asked.params["n"] in acts, f"{asked} was answered and is not done")
        elif asked.method == "session/prompt" and not asked.cancelled:
            expect(asked.params["prompt"][0]["text"] in texts, f"{asked} was answered and is not there")
    for group in talk.joined:
        results = {json.dumps(talk.client.answers(number)[0].get("result")) for number in group}
        expect_equal(len(results), 1, "different answers of one prompt")
