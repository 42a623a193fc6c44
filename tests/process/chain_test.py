"""keyhop as the conductor of a chain, as a proxy in it, and both."""

import json
import signal

import processes
from chain import MIXED, keyhop_of, proxies, with_proxies
from client import is_idle, is_update, prompt_params
from harness import expect, expect_equal, expect_own_error, main, test, wait_for
from restart import expect_settled, finish, kill_agent, synchronize

EIGHT = (
    ("proxy", "fresh"),
    ("_proxy", "keep"),
    ("proxy", "text"),
    ("_proxy", "fresh", "--wrong-spelling", "exit"),
    ("proxy", "keep"),
    ("_proxy", "text", "--wrong-spelling", "pass"),
    ("_proxy", "fresh", "--cancels", "wrapped"),
    ("proxy", "fresh"),
)
TWICE = ("--restart-limit", "1/60")


def start_chain(room, chain, *agent_options, options=(), **more):
    return room.start(*agent_options, options=(*options, *with_proxies(*chain)), **more)


def params_of(line):
    """The raw params of a line that a pass-through proxy or a client wrote."""
    return line.partition(b'"params":')[2].rstrip(b"}")


def expect_starts(chain, *counts):
    expect_equal([len(proxy.pids()) for proxy in chain], list(counts), "starts of the proxies")


def finish_spent(keyhop):
    expect_equal(keyhop.close(), 75, "exit status")
    expect_settled(keyhop)


def living(room, chain):
    """The pids of all components that serve at the moment."""
    return [proxy.pids()[-1] for proxy in chain] + room.history().epochs()[-1:]


# ---- bytes, order, keys ----

AWKWARD = '{"n":1.50e1,"big":123456789012345678901234567890,"s":"\\u0041\\/\\ud83d\\ude00","m":[null,{}]'


@test(cases={"v1": 1, "v2": 2})
def eight_hops_keep_order_and_bytes(room, version):
    chain = proxies(room, EIGHT)
    keyhop = start_chain(room, chain)
    client = keyhop.client
    session = client.open(version)
    numbers = []
    for count in range(50):
        params = f'{AWKWARD},"count":{count}}}'
        client.send(
            f'{{"jsonrpc":"2.0","id":{1000 + count},"method":"_test/echo","params":{params}}}'.encode()
        )
        numbers.append(1000 + count)
    for number in numbers:
        client.answer(number)
    answers = [line for line in client.received if b'"id":10' in line and b'"count":' in line]
    for count, line in enumerate(answers):
        expect(f'{AWKWARD},"count":{count}}}'.encode() in line, f"answer {count} is another one: {line}")
    expect_equal(len(answers), 50, "answers")
    read = room.history().received(b"_test/echo")
    expect_equal(
        [params_of(line) for line in read],
        [params_of(line) for line in client.sent if b"_test/echo" in line],
        "what the agent read",
    )
    keys = [f"key-{count} ü \\" for count in range(5)]
    for key in keys if version == 2 else ():
        client.answer(client.prompt(session, key, key))
    got = [
        json.loads(line)["params"].get("idempotencyKey")
        for line in room.history().received(b"session/prompt")
    ]
    expect_equal(got, keys if version == 2 else [], "the keys that the agent read")
    client.answer(client.prompt(session, "[updates 200 100]"))
    if version == 2:
        client.receive_until(is_idle)
    sent = [params_of(line) for line in room.history().sent(b"session/update")]
    seen = [params_of(line) for line in client.received if b"session/update" in line]
    expect_equal(seen, sent, "the updates")
    finish(keyhop)


@test(
    cases={
        f"{keys}, {chain}": (keys, chain == "nested")
        for keys in ("guard", "forward")
        for chain in ("plain", "nested")
    }
)
def a_thousand_duplicates_reach_the_agent_once(room, keys, is_nested):
    links = nested(room, "--keys", keys)[1] if is_nested else proxies(room)
    care = "ignore" if keys == "guard" else "honour"
    keyhop = start_chain(room, links, "--keys", care, options=("--keys", keys))
    client = keyhop.client
    session = client.open()
    params = prompt_params(session, "[early hold] [say x]", "k")
    numbers = {client.request("session/prompt", params) for _ in range(1000)}
    client.request("_test/order", {"text": "[release]", "sessionId": session})
    results = {}
    while len(results) < len(numbers):
        message = client.receive_message()
        if message.get("id") in numbers:
            results[message["id"]] = json.dumps(message["result"])
    expect_equal(len(set(results.values())), 1, "different answers")
    expect_equal(len(room.history().received(b"session/prompt")), 1, "prompts that the agent read")
    expect_equal(len(room.history().insertions()), 1, "insertions")
    finish(keyhop)


def nested(room, *options):
    """Two keyhops between two others' proxies; each remembers keys, all in one ledger."""
    chain = proxies(room)
    inner = keyhop_of(room, chain[1], keyhop_of(room, options=options), options=options)
    return chain, (chain[0], inner, chain[2])


@test(cases={"v1": 1, "v2": 2})
def keys_are_equal_through_two_conductors(room, version):
    chain, links = nested(room)
    keyhop = start_chain(room, links)
    client = keyhop.client
    session = client.open(version)
    for count in range(3):
        client.answer(client.prompt(session, f"text {count}", f"k{count}"))
    read = [json.loads(line)["params"] for line in room.history().received(b"session/prompt")]
    expect_equal([params["idempotencyKey"] for params in read], ["k0", "k1", "k2"], "keys")
    again = client.answer(client.prompt(session, "text 1", "k1"))
    expect("result" in again, f"{again}")
    expect_equal(len(room.history().insertions()), 3 if version == 2 else 4, "insertions")
    finish(keyhop)


@test()
def keyhops_on_top_of_each_other(room):
    command = [room.keyhop, "--", room.keyhop, "--", *room.agent_command()]
    keyhop = room.start(command=command)
    client = keyhop.client
    session = client.open()
    results = [client.answer(client.prompt(session, "text", "k"))["result"] for _ in range(3)]
    expect_equal(len({json.dumps(result) for result in results}), 1, "different answers")
    expect_equal(len(room.history().insertions()), 1, "insertions")
    finish(keyhop)


# ---- deaths ----


@test(cases={"v1": 1, "v2": 2})
def a_proxy_is_restarted_alone(room, version):
    chain = proxies(room)
    keyhop = start_chain(room, chain)
    client = keyhop.client
    session = client.open(version)
    client.answer(client.prompt(session, "before"))
    starts = [len(proxy.pids()) for proxy in chain]
    for victim in chain:
        before = living(room, chain)
        gone = victim.kill()
        client.call("session/list", {})
        number = client.prompt(session, f"after {victim.name}")
        expect("result" in client.answer(number), "the session is not usable")
        changed = [old for old, new in zip(before, living(room, chain), strict=True) if old != new]
        expect_equal(changed, [gone], "who was restarted")
    expect_starts(chain, *[count + 1 for count in starts])
    expect_equal(len(room.history().received(b'"initialize"')), 1, "initialize that the agent read")
    expect_equal(len(room.history().insertions()), 4, "insertions")
    finish(keyhop)


@test(cases={"v1": 1, "v2": 2})
def a_proxy_that_dies_while_the_agent_starts_is_restarted_alone(room, version):
    """The agent is at its initialize still, and is not asked twice: real ones take one only."""
    chain = proxies(room, MIXED[:2])
    keyhop = start_chain(room, chain, "--slow-start", "200")
    client = keyhop.client
    params = {"protocolVersion": version, "info": {"name": "tests", "version": "1"}, "capabilities": {}}
    number = client.request("initialize", params)
    wait_for(lambda: room.history().epochs() and chain[1].written(b'"initialize"'))
    before = living(room, chain)
    chain[0].kill()
    expect("result" in client.answer(number), "the client's initialize failed")
    expect("result" in client.answer(client.prompt(client.new_session(), "x")), "the session is not usable")
    expect_equal(living(room, chain)[1:], before[1:], "who lives")
    expect_equal(len(room.history().received(b'"initialize"')), 1, "initialize that the agent read")
    finish(keyhop)


@test(cases={"v1": 1, "v2": 2})
def an_agent_is_restarted_behind_its_proxies(room, version):
    chain = proxies(room)
    keyhop = start_chain(room, chain)
    client = keyhop.client
    session = client.open(version)
    client.answer(client.prompt(session, "[say x]", "k"))
    if version == 2:
        client.receive_until(is_idle)
    before = living(room, chain)
    seen = [len(proxy.read()) for proxy in chain]
    gone = kill_agent(room)
    wait_for(lambda: len(room.history().epochs()) == 2)
    # In v1 a key is none, and the second prompt another one.
    retry = client.prompt(session, "[say x]", "k") if version == 2 else None
    again = client.answer(retry or client.request("session/status", {"sessionId": session}))
    expect("result" in again, f"{again}")
    changed = [old for old, new in zip(before, living(room, chain), strict=True) if old != new]
    expect_equal(changed, [gone], "who was restarted")
    for proxy, count in zip(chain, seen, strict=True):
        messages = [json.loads(line) for line in proxy.read()[count:]]
        strangers = [message for message in messages if not is_of_restore(message)]
        expect_equal(strangers, [], f"what {proxy.name} saw of the restart")
    expect_equal(len(room.history().insertions()), 1, "insertions")
    finish(keyhop)


def is_of_restore(message):
    """The request that shows its end, its answer, and updates of state."""
    inner = message.get("params", {})
    inner = inner if "method" in inner else message
    if inner.get("method") in (None, "session/prompt", "session/status"):
        return True
    return is_update(inner, "state_update")


@test()
def errors_of_a_spent_proxy_name_it(room):
    chain = proxies(room)
    keyhop = start_chain(room, chain, options=TWICE)
    client = keyhop.client
    session = client.open()
    client.answer(client.prompt(session, "[hold]"))
    chain[1].kill()
    client.call("session/list", {})
    before = living(room, chain)
    chain[1].kill()
    error = expect_own_error(client.answer(client.request("session/list", {})), -32603)
    expect("keyhop-test-proxy" in error["message"], f"it is not named: {error['message']}")
    expect_own_error(client.answer(client.prompt(session, "x")), -32603)
    expect_equal(living(room, chain), before, "who lives")
    for pid in (chain[0].pids()[-1], chain[2].pids()[-1], *room.history().epochs()):
        expect(processes.state_of(pid) not in ("", "Z"), f"{pid} has ended, too")
    finish_spent(keyhop)


@test()
def what_the_agent_asks_through_a_spent_proxy_fails(room):
    """It does not wait until the proxy may be started again."""
    chain = proxies(room)
    keyhop = start_chain(room, chain, options=TWICE)
    client = keyhop.client
    session = client.open()
    client.answer(client.prompt(session, "[wait 500] [permission]"))
    for _ in range(2):
        chain[0].kill()
        client.answer(client.request("session/list", {}))
    wait_for(lambda: room.history().received(b'"client_lost"'))
    expect_equal(len(room.history().sent(b"session/request_permission")), 1, "what the agent asked")
    finish_spent(keyhop)


# ---- bypass ----


def configuration(room, *tables, limit="5/60"):
    path = room.path("keyhop.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'restart-limit = "{limit}"\n')
        for table in tables:
            file.write(
                "[[proxy]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())
            )
    return ("--config", path)


def table_of(command, **more):
    return {
        "command": command[0],
        "args": command[1:],
        **{name.replace("_", "-"): value for name, value in more.items()},
    }


@test()
def a_proxy_of_the_file_has_its_environment(room):
    (proxy,) = proxies(room, MIXED[:1])
    path = room.path("keyhop.toml")
    with open(path, "w", encoding="utf-8") as file:
        command, *arguments = proxy.command
        file.write(f"[[proxy]]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n")
        file.write('env = { GREETING = "hello there", PATH = "/nowhere" }\n')
    keyhop = room.start(options=("--config", path))
    keyhop.client.open()
    environment = processes.environment(proxy.pids()[-1])
    expect("GREETING=hello there" in environment, "the variable is not there")
    expect_equal([entry for entry in environment if entry.startswith("PATH=")], ["PATH=/nowhere"], "PATH")
    agents = processes.environment(room.history().epochs()[-1])
    expect(not any(entry.startswith("GREETING=") for entry in agents), "the agent has it, too")
    finish(keyhop)


USELESS = {
    "cannot be started": ["/nonexistent/proxy"],
    "ends at once": ["/bin/false"],
    "ends without a word": ["/bin/true"],
}


@test(cases={name: (name, version) for name in (*USELESS, "is no proxy") for version in (2,)})
def the_chain_goes_on_without_a_proxy_that(room, name, version):
    useless = USELESS.get(name) or [room.agent]
    first, last = proxies(room, MIXED[:2])
    tables = (table_of(first.command), table_of(useless, on_failure="bypass"), table_of(last.command))
    keyhop = room.start(options=configuration(room, *tables))
    client = keyhop.client
    session = client.open(version)
    expect("result" in client.answer(client.prompt(session, "x", "k")), "no answer")
    first.kill()
    expect("result" in client.answer(client.prompt(session, "y", "l")), "no answer after a restart before it")
    last.kill()
    expect("result" in client.answer(client.prompt(session, "z", "m")), "no answer after a restart behind it")
    expect_equal(len(room.history().insertions()), 3, "insertions")
    finish(keyhop)


@test()
def nothing_is_lost_when_a_spent_proxy_is_bypassed(room):
    first, last = proxies(room, MIXED[:2])
    tables = (table_of(first.command, on_failure="bypass"), table_of(last.command))
    keyhop = room.start(options=configuration(room, *tables, limit="1/60"))
    client = keyhop.client
    session = client.open()
    keyhop.client.answer(client.prompt(session, "a", "a"))
    for text in ("b", "c"):
        keyhop.signal(signal.SIGSTOP)
        first.kill()
        number = client.prompt(session, text, text)
        keyhop.signal(signal.SIGCONT)
        expect("result" in client.answer(number), f"{text} was lost")
    agent = room.history().epochs()
    expect("result" in client.answer(client.prompt(session, "[permission]", "d")), "d was lost")
    asked = client.receive_until(lambda message: message.get("method") == "session/request_permission")
    client.respond(asked["id"], {"outcome": {"outcome": "selected", "optionId": "yes"}})
    client.receive_until(is_idle)
    expect_equal(room.history().epochs(), agent, "starts of the agent")
    expect_equal(len(room.history().insertions()), 4, "insertions")
    expect_equal(len(first.pids()), 2, "starts of the proxy")
    finish(keyhop)


# ---- spellings ----


@test(cases={how: how for how in ("refuse", "pass", "exit")})
def a_proxy_of_the_old_spelling_is_started_afresh(room, how):
    (proxy,) = proxies(room, (("_proxy", "fresh", "--wrong-spelling", how),))
    keyhop = start_chain(room, [proxy])
    client = keyhop.client
    session = client.open()
    expect("result" in client.answer(client.prompt(session, "x", "k")), "no answer")
    expect_equal(len(proxy.pids()), 2, "starts")
    proxy.kill()
    expect("result" in client.answer(client.prompt(session, "y", "l")), "no answer after its death")
    expect_equal(len(proxy.pids()), 3, "starts, once its spelling is known")
    asked = [line for line in proxy.read(b"/initialize")]
    expect_equal([b'"_proxy/initialize"' in line for line in asked], [False, True, True], "how it was asked")
    expect_equal(len(room.history().received(b'"initialize"')), 1, "initialize that the agent read")
    finish(keyhop)


@test()
def an_agent_in_a_proxys_place_is_named(room):
    keyhop = room.start(options=with_proxies([room.agent]))
    answer = keyhop.client.call("initialize", {"protocolVersion": 2, "capabilities": {}})
    expect_equal(answer["error"]["code"], -32600, "its own error")
    expect(b"neither proxy/initialize nor _proxy/initialize" in keyhop.stderr(), "nobody says so")
    keyhop.close()


# ---- what is told ----


@test()
def a_client_before_a_keyhop_without_an_agent_is_told(room):
    keyhop = room.run([room.keyhop])
    answer = keyhop.client.call("initialize", {"protocolVersion": 1})
    error = expect_own_error(answer, -32600, "not_sent")
    expect("keyhop -- AGENT" in error["message"], "no word of what to do")
    synchronize(keyhop.client)
    expect_equal(keyhop.close(), 0, "exit status")


@test()
def a_report_has_a_line_for_each_component(room):
    chain = proxies(room)
    keyhop = start_chain(room, chain)
    keyhop.client.open()
    keyhop.signal(signal.SIGUSR1)
    wait_for(lambda: keyhop.stderr().count(b"keyhop: chain: ") == 4)
    finish(keyhop)


if __name__ == "__main__":
    main(__doc__)
