"""What names a request by its id crosses hops that give each request a new one, in either direction."""

import json
import subprocess

from chain import keyhop_of, proxies, with_proxies
from harness import expect, expect_equal, main, test
from restart import finish

CHAINS = ("plain", "nested")
CASES = {f"{chain} v{version}": (chain, version) for chain in CHAINS for version in (1, 2)}
ALLOW = {"outcome": {"outcome": "selected", "optionId": "yes"}}


def begin(room, chain, version):
    """keyhop before the chain, its proxies, and a session. Nested: the proxies in the middle are a keyhop's,
    beside one that is none but a proxy itself."""
    links = proxies(room)
    inner = [links[0], keyhop_of(room, links[1], keyhop_of(room)), links[2]]
    keyhop = room.start(options=with_proxies(*(links if chain == "plain" else inner)))
    return keyhop, links, keyhop.client.open(version)


def ids(lines, method):
    return [json.loads(line)["id"] for line in lines if json.loads(line).get("method") == method]


@test(cases=CASES)
def a_cancel_of_the_clients_names_the_agents_id(room, chain, version):
    keyhop, links, session = begin(room, chain, version)
    client = keyhop.client
    other = client.request("session/list", {})
    client.answer(other)
    number = client.prompt(session, "[hang]")
    client.call("_test/state")
    client.notify("$/cancel_request", {"requestId": number})
    answer = client.answer(number)
    expect_equal(answer.get("error", {}).get("code", -32800), -32800, "the answer")
    (asked,) = ids(room.history().received(), "session/prompt")
    cancels = [
        json.loads(line)["params"]["requestId"] for line in room.history().received(b"$/cancel_request")
    ]
    expect_equal(cancels, [asked], "what the agent was told to cancel")
    for proxy in links:
        wrapped = proxy.read(b"successor", b"$/cancel_request")
        expect_equal(wrapped, [], f"cancels in an envelope to {proxy.name}")
    finish(keyhop)


@test(cases=CASES)
def a_cancel_of_nothing_is_not_passed_on(room, chain, version):
    keyhop, links, _ = begin(room, chain, version)
    client = keyhop.client
    number = client.request("session/list", {})
    client.answer(number)
    client.notify("$/cancel_request", {"requestId": number})
    client.notify("$/cancel_request", {"requestId": "nobody's"})
    client.call("session/list", {})
    expect_equal(room.history().received(b"$/cancel_request"), [], "what the agent was told to cancel")
    finish(keyhop)


@test(cases=CASES)
def a_cancel_of_the_agents_names_the_clients_id(room, chain, version):
    """The client is asked, does not answer, and is told that it need not."""
    keyhop, links, session = begin(room, chain, version)
    client = keyhop.client
    client.prompt(session, "[permission]")
    asked = client.receive_until(lambda message: message.get("method") == "session/request_permission")
    (own,) = ids(room.history().sent(), "session/request_permission")
    client.emit(json.dumps({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": own}}))
    lines = [json.loads(line) for line in client.received if b"$/cancel_request" in line]
    expect_equal(
        [line["params"]["requestId"] for line in lines], [asked["id"]], "what the client was told to cancel"
    )
    client.respond(asked["id"], ALLOW)
    client.call("session/list", {})
    finish(keyhop)


@test(cases=CASES)
def a_permission_is_asked_and_given(room, chain, version):
    keyhop, links, session = begin(room, chain, version)
    client = keyhop.client
    client.prompt(session, "[permission]")
    asked = client.receive_until(lambda message: message.get("method") == "session/request_permission")
    client.respond(asked["id"], ALLOW)
    while not room.history().effects("tool"):
        client.call("session/list", {})
    sent = [json.loads(line) for line in room.history().sent(b"session/request_permission")]
    expect_equal(asked["params"], sent[0]["params"], "what it asks")
    answers = [json.loads(line) for line in room.history().received(b'"optionId"')]
    expect_equal(
        [(answer["id"], answer["result"]) for answer in answers], [(sent[0]["id"], ALLOW)], "its answer"
    )
    finish(keyhop)


@test(cases=CASES)
def an_elicitation_names_the_clients_request(room, chain, version):
    keyhop, links, session = begin(room, chain, version)
    client = keyhop.client
    client.call("session/list", {})
    number = client.prompt(session, "[elicit]")
    asked = client.receive_until(lambda message: message.get("method") == "elicitation/create")
    expect_equal(asked["params"]["requestId"], number, "the request that it belongs to")
    (sent,) = [json.loads(line) for line in room.history().sent(b"elicitation/create")]
    (prompt,) = ids(room.history().received(), "session/prompt")
    expect_equal(sent["params"]["requestId"], prompt, "the request as the agent names it")
    client.respond(asked["id"], {"action": "decline"})
    client.answer(number)
    finish(keyhop)


MCP = {
    "serverId": "s",
    "requestId": 7,
    "method": "tools/call",
    "params": {"requestId": 100, "id": 0},
    "_meta": {},
}


@test(cases=CASES)
def an_mcp_message_of_the_agents_keeps_its_ids(room, chain, version):
    keyhop, links, _ = begin(room, chain, version)
    client = keyhop.client
    frame = {"jsonrpc": "2.0", "id": "of the agent", "method": "mcp/message", "params": MCP}
    number = client.request("_test/emit", {"line": json.dumps(frame)})
    asked = client.receive_until(lambda message: message.get("method") == "mcp/message")
    expect_equal(asked["params"], MCP, "its params")
    client.respond(asked["id"], {"result": {"requestId": 7}})
    client.call("session/list", {})
    answers = [json.loads(line) for line in room.history().received(b'"of the agent"')]
    expect_equal([answer["result"] for answer in answers], [{"result": {"requestId": 7}}], "its answer")
    finish(keyhop)


@test(cases=CASES)
def an_mcp_message_of_the_clients_keeps_its_ids(room, chain, version):
    keyhop, links, _ = begin(room, chain, version)
    client = keyhop.client
    client.call("mcp/message", MCP)
    (read,) = [json.loads(line) for line in room.history().received(b"mcp/message")]
    expect_equal(read["params"], MCP, "its params")
    finish(keyhop)


class Component:
    """A proxy's place in the test's own hand: keyhop starts `cat` twice, over two fifos."""

    def __init__(self, room, spelling="proxy"):
        self.spelling = spelling
        self.paths = [room.path("from-keyhop"), room.path("to-keyhop")]
        for path in self.paths:
            subprocess.run(["mkfifo", path], check=True)
        self.command = ["sh", "-c", 'exec 3<&0; cat <&3 >"$0" & exec cat <"$1"', *self.paths]

    def open(self):
        self.reads = open(self.paths[0], encoding="utf-8")
        self.writes = open(self.paths[1], "w", encoding="utf-8")

    def read(self):
        line = self.reads.readline()
        expect(line, "keyhop closed the component's stdin")
        return json.loads(line)

    def write(self, **frame):
        self.writes.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
        self.writes.flush()

    def successor(self, method, params, number=None):
        frame = {} if number is None else {"id": number}
        envelope = {"method": method, "params": params, "_meta": {"of": "this hop"}}
        self.write(**frame, method=f"{self.spelling}/successor", params=envelope)

    def initialize(self):
        asked = self.read()
        expect_equal(asked["method"], f"{self.spelling}/initialize", "how it is asked")
        self.successor("initialize", asked["params"], "i")
        self.write(id=asked["id"], result=self.read()["result"])

    def close(self):
        self.writes.close()
        self.reads.close()


def begin_in_hand(room, version=2):
    component = Component(room)
    keyhop = room.start(options=with_proxies(component.command))
    number = keyhop.client.request(
        "initialize", {"protocolVersion": version, "info": {"name": "t", "version": "1"}}
    )
    component.open()
    component.initialize()
    keyhop.client.answer(number)
    return keyhop, component


def finish_in_hand(keyhop, component):
    keyhop.client.close_writing()
    expect(component.reads.read() == "", "something came at the end")
    component.close()
    finish(keyhop)


@test()
def a_proxy_asks_its_predecessor_and_its_successor_under_one_id(room):
    """Ids belong to who asks; equal ones of the client's and of the agent's meet on the proxy's link."""
    keyhop, component = begin_in_hand(room)
    client = keyhop.client
    client.request("_x/upwards", {"n": 1}, request_id=0)
    asked = component.read()
    expect_equal((asked["method"], asked["params"]), ("_x/upwards", {"n": 1}), "what the client asks")
    component.successor(
        "_test/emit", {"line": '{"jsonrpc":"2.0","id":0,"method":"_x/down","params":{"n":2}}'}, 5
    )
    down = component.read()
    if "method" not in down:
        down = component.read()
    expect_equal(
        (down["method"], down["params"]),
        ("proxy/successor", {"method": "_x/down", "params": {"n": 2}}),
        "the agent's",
    )
    expect(down["id"] != asked["id"], "two open requests have one id on the link")
    component.write(id=asked["id"], result={"to": "the client"})
    component.write(id=down["id"], result={"to": "the agent"})
    expect_equal(client.answer(0)["result"], {"to": "the client"}, "the client's answer")
    component.successor("_test/state", {}, 6)
    while component.read().get("id") != 6:
        pass
    answers = [json.loads(line) for line in room.history().received(b'"the agent"')]
    expect_equal(
        [(answer["id"], answer["result"]) for answer in answers],
        [(0, {"to": "the agent"})],
        "the agent's answer",
    )
    finish_in_hand(keyhop, component)


@test()
def a_proxy_cancels_its_own_requests_only(room):
    keyhop, component = begin_in_hand(room)
    client = keyhop.client
    opening = client.request("session/new", {"cwd": "/w", "mcpServers": []})
    asked = component.read()
    component.successor(asked["method"], asked["params"], "n")
    opened = component.read()
    component.write(id=asked["id"], result=opened["result"])
    session = client.answer(opening)["result"]["sessionId"]
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "[hang]"}]}
    component.successor("session/prompt", prompt, "p")
    component.successor("_test/state", {}, "s")
    while component.read().get("id") != "s":
        pass
    # In an envelope it is superseded: dropped.
    component.successor("$/cancel_request", {"requestId": "p"})
    component.write(method="$/cancel_request", params={"requestId": "nobody's"})
    component.successor("_test/state", {}, "t")
    while component.read().get("id") != "t":
        pass
    expect_equal(room.history().received(b"$/cancel_request"), [], "cancels that the agent read")
    component.write(method="$/cancel_request", params={"requestId": "p"})
    while component.read().get("id") != "p":
        pass
    expect_equal(len(room.history().received(b"$/cancel_request")), 1, "cancels that the agent read")
    finish_in_hand(keyhop, component)


@test()
def what_a_proxy_may_not_do_gets_an_error(room):
    keyhop, component = begin_in_hand(room)
    component.write(id=1, method="proxy/initialize", params={"protocolVersion": 2})
    expect_equal(component.read()["error"]["code"], -32600, "a proxy that initializes its conductor")
    component.successor("proxy/initialize", {"protocolVersion": 2}, 2)
    expect_equal(
        component.read()["error"]["code"], -32600, "a proxy that initializes its successor as a proxy"
    )
    component.write(id=3, method="proxy/successor", params={"params": {}})
    expect_equal(component.read()["error"]["code"], -32602, "an envelope without a method")
    component.write(id=4, method="proxy/successor", params={"method": "m", "params": 7})
    expect_equal(component.read()["error"]["code"], -32602, "params that are none")
    finish_in_hand(keyhop, component)


if __name__ == "__main__":
    main(__doc__)
