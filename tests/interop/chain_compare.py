"""What two runs of one dialogue through a chain left behind, made comparable.

The conductors here parse every frame and write it anew, with ids of their own, and let an answer and a
notification pass each other. So frames are compared as values, without ids, requests and notifications in
their order, and each answer by the request that it belongs to. Nothing else is loose.
"""

import json

import compare

# Each end of a run, and the file that holds the requests which the frames of that file answer.
FILES = {
    "client.out": "client.in",
    "client.in": "client.out",
    "agent.out": "agent.in",
    "agent.in": "agent.out",
}


def frames(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]


def labels(requests):
    """The requests of one file by id: which one of its method each is."""
    found, counts = {}, {}
    for frame in requests:
        if "method" in frame and "id" in frame:
            counts[frame["method"]] = number = counts.get(frame["method"], 0) + 1
            found[json.dumps(frame["id"])] = f"{frame['method']} {number}"
    return found


def without_ids(frame, own):
    """A request or notification without its id; what it cancels by its label."""
    frame = {name: value for name, value in frame.items() if name != "id"}
    params = frame.get("params")
    if isinstance(params, dict) and "requestId" in params:
        if frame["method"] == "$/cancel_request":
            named = own.get(json.dumps(params["requestId"]), "nothing")
        else:
            # An elicitation names a request of the other side. The conductors pass that id on as it is, so
            # what arrives is an id of another hop, or the right one if every hop translated it.
            named = "a request" if frame["method"] == "elicitation/create" else params["requestId"]
        frame["params"] = {**params, "requestId": named}
    return without_null(frame, "params")


def without_null(value, name):
    """Absent and null are the same for params and what an agent echoes: SDKs write one for the other."""
    return {key: member for key, member in value.items() if key != name or member is not None}


def without_echo(answer):
    result = answer.get("result")
    return {**answer, "result": without_null(result, "echo")} if isinstance(result, dict) else answer


def wire(run):
    """Both ends' frames: by file, the requests and notifications in order, and the answers by request."""
    read = {name: frames(run / name) for name in FILES}
    seen = {}
    for name, asked_in in FILES.items():
        own, asked = labels(read[name]), labels(read[asked_in])
        seen[name] = [without_ids(frame, own) for frame in read[name] if "method" in frame]
        seen[f"{name}, answers"] = answers = {}
        for frame in read[name]:
            if "method" not in frame:
                label = asked.get(json.dumps(frame.get("id")), f"unasked {frame.get('id')}")
                answers.setdefault(label, []).append(without_echo({**frame, "id": None}))
    return seen


def log(run, who):
    """What the application saw. A conductor may kill an agent before it logs the end of its stdin."""
    events = [event for event in frames(run / f"{who}.log") if event.get("end") != "stdin closed"]
    events = [without_echo(without_null(event, "params")) for event in events]
    for event in events:
        value = event.get("value")
        if event.get("callback") == "elicitation/create" and "requestId" in value:
            value["requestId"] = "a request"
    return events


def complete(run, version):
    """What is missing from one run: files, its end, callbacks that never came, methods never used."""
    missing = [name for name in ("client.log", "agent.log", *FILES) if not (run / name).exists()]
    if missing:
        return [f"no {name}" for name in missing]
    events = log(run, "client")
    problems = [f"client.log: {event}" for event in events if "missing" in event]
    if not events or events[-1].get("end") != "dialogue":
        problems.append("client.log stops before the end of the dialogue")
    for who in ("client", "agent"):
        used = {frame.get("method") for frame in frames(run / f"{who}.out")}
        wanted = compare.METHODS[version][who].split()
        unused = [name for name in wanted if name not in used]
        problems += [f"{who} never sent {', '.join(unused)}"] if unused else []
    return problems


def answered_once(run):
    """Requests of either end that were not answered exactly once at that end."""
    problems = []
    seen = wire(run)
    for who in ("client", "agent"):
        asked = labels(frames(run / f"{who}.out")).values()
        answers = seen[f"{who}.in, answers"]
        problems += [f"{who}'s {label}: {len(answers.get(label, []))} answers" for label in asked]
        problems += [f"{who} got an answer to {label}" for label in answers if label.startswith("unasked")]
    return [problem for problem in problems if not problem.endswith(": 1 answers")]


def _text(value):
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _difference(name, one, other):
    """None if both are equal, else the first place where they part, short enough to read."""
    if _text(one) == _text(other):
        return None
    if isinstance(one, dict):
        keys = [key for key in {**one, **other} if _text(one.get(key)) != _text(other.get(key))]
        return _difference(f"{name} of {keys[0]}", [one.get(keys[0])], [other.get(keys[0])])
    for number, (ours, theirs) in enumerate(zip(one, other), 1):
        if _text(ours) != _text(theirs):
            ours, theirs = _text(ours), _text(theirs)
            shorter = min(len(ours), len(theirs))
            at = next((at for at in range(shorter) if ours[at] != theirs[at]), shorter)
            begin = max(0, at - 60)
            return "\n".join(
                [f"{name}, entry {number}:"]
                + [
                    f"  {who:7} {text[begin : at + 90]}"
                    for who, text in (("direct", ours), ("through", theirs))
                ]
            )
    return f"{name}: {len(one)} entries direct, {len(other)} through"


def differences(direct, through):
    """Where the two runs differ: what the applications saw, and the frames at all four pipe ends."""
    found = [_difference(f"{who}.log", log(direct, who), log(through, who)) for who in ("client", "agent")]
    ours, theirs = wire(direct), wire(through)
    found += [_difference(name, ours[name], theirs[name]) for name in ours]
    return [difference for difference in found if difference]
