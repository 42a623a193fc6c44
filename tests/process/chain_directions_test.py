"""What names a request by its id crosses hops that give each request a new one, in either direction."""

import json
import subprocess

from chain import MIXED, keyhop_of, proxies, with_proxies
from client import prompt_params
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

    def answer(self, number):
        """Reads up to the answer to its own request."""
        while (frame := self.read()).get("id") != number or "method" in frame:
            pass
        return frame

    def asked(self, method):
        """Reads up to what it is asked, by the successor if the method is in an envelope; the frame's id, the
        params of the method."""
        while True:
            frame = self.read()
            inner = frame.get("params", {}) if "successor" in frame.get("method", "") else frame
            if inner.get("method") == method:
                return frame.get("id"), inner.get("params")

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


def begin_in_hand(room, chain, version):
    """Nested: the component belongs to a keyhop that is a proxy itself, between two others."""
    component = Component(room)
    first, last = proxies(room, MIXED[:2])
    nested = (first, keyhop_of(room, component.command), last)
    keyhop = room.start(options=with_proxies(*(nested if chain == "nested" else [component.command])))
    number = keyhop.client.request(
        "initialize", {"protocolVersion": version, "info": {"name": "t", "version": "1"}}
    )
    component.open()
    component.initialize()
    keyhop.client.answer(number)
    return keyhop, component


def open_in_hand(client, component):
    """A session of the client's, as a proxy that passes everything on."""
    opening = client.request("session/new", {"cwd": "/w", "mcpServers": []})
    number, params = component.asked("session/new")
    component.successor("session/new", params, "n")
    component.write(id=number, result=component.answer("n")["result"])
    return client.answer(opening)["result"]["sessionId"]


def finish_in_hand(keyhop, component):
    keyhop.client.close_writing()
    expect(component.reads.read() == "", "something came at the end")
    component.close()
    finish(keyhop)


@test(cases=CASES)
def a_proxy_asks_its_predecessor_and_its_successor_under_one_id(room, chain, version):
    """Ids belong to who asks; equal ones of the client's and of the agent's meet on the proxy's link."""
    keyhop, component = begin_in_hand(room, chain, version)
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
    component.answer(6)
    answers = [json.loads(line) for line in room.history().received(b'"the agent"')]
    expect_equal(
        [(answer["id"], answer["result"]) for answer in answers],
        [(0, {"to": "the agent"})],
        "the agent's answer",
    )
    finish_in_hand(keyhop, component)


@test(cases=CASES)
def a_proxy_cancels_its_own_requests_only(room, chain, version):
    keyhop, component = begin_in_hand(room, chain, version)
    client = keyhop.client
    session = open_in_hand(client, component)
    component.successor("session/prompt", prompt_params(session, "[hang]"), "p")
    component.successor("_test/state", {}, "s")
    component.answer("s")
    # In an envelope it is superseded: dropped.
    component.successor("$/cancel_request", {"requestId": "p"})
    component.write(method="$/cancel_request", params={"requestId": "nobody's"})
    component.successor("_test/state", {}, "t")
    component.answer("t")
    expect_equal(room.history().received(b"$/cancel_request"), [], "cancels that the agent read")
    component.write(method="$/cancel_request", params={"requestId": "p"})
    component.answer("p")
    expect_equal(len(room.history().received(b"$/cancel_request")), 1, "cancels that the agent read")
    finish_in_hand(keyhop, component)


@test(cases=CASES)
def a_proxy_asks_the_client_for_a_permission_and_takes_it_back(room, chain, version):
    keyhop, component = begin_in_hand(room, chain, version)
    client = keyhop.client
    session = open_in_hand(client, component)
    question = {
        "sessionId": session,
        "title": "t",
        "options": [{"optionId": "yes"}],
        "_meta": {"of": "a proxy"},
    }
    component.write(id="q", method="session/request_permission", params=question)
    component.write(id=7, method="session/request_permission", params=question)
    asked = [
        client.receive_until(lambda message: "request_permission" in message.get("method", "")) for _ in "qr"
    ]
    expect_equal([message["params"] for message in asked], [question] * 2, "what it asks")
    expect(asked[0]["id"] != asked[1]["id"], "two open requests have one id")
    component.write(method="$/cancel_request", params={"requestId": 7})
    told = client.receive_until(lambda message: message.get("method") == "$/cancel_request")
    expect_equal(told["params"]["requestId"], asked[1]["id"], "what the client was told to cancel")
    client.respond(asked[1]["id"], {"outcome": {"outcome": "cancelled"}})
    client.respond(asked[0]["id"], ALLOW)
    answers = {frame["id"]: frame["result"] for frame in (component.read(), component.read())}
    expect_equal(answers, {7: {"outcome": {"outcome": "cancelled"}}, "q": ALLOW}, "the answers")
    expect_equal(room.history().received(b"cancel_request"), [], "cancels that the agent read")
    finish_in_hand(keyhop, component)


@test(cases=CASES)
def an_elicitation_of_a_proxys_names_the_clients_request(room, chain, version):
    """The proxy has the request that it asks about, and nobody else."""
    keyhop, component = begin_in_hand(room, chain, version)
    client = keyhop.client
    session = open_in_hand(client, component)
    number = client.prompt(session, "x", request_id="the client's")
    held, _ = component.asked("session/prompt")
    component.write(
        id="e", method="elicitation/create", params={"mode": "form", "message": "Who?", "requestId": held}
    )
    asked = client.receive_until(lambda message: message.get("method") == "elicitation/create")
    expect_equal(asked["params"]["requestId"], number, "the request that it belongs to")
    client.respond(asked["id"], {"action": "decline"})
    expect_equal(component.answer("e")["result"], {"action": "decline"}, "its answer")
    client.notify("$/cancel_request", {"requestId": number})
    _, told = component.asked("$/cancel_request")
    expect_equal(told, {"requestId": held}, "what the proxy was told to cancel")
    component.write(id=held, error={"code": -32800, "message": "cancelled"})
    expect_equal(client.answer(number)["error"]["code"], -32800, "the answer")
    expect_equal(room.history().received(b"session/prompt"), [], "prompts that the agent read")
    finish_in_hand(keyhop, component)


@test(cases=CASES)
def an_elicitation_of_the_agents_names_a_proxys_own_request(room, chain, version):
    keyhop, component = begin_in_hand(room, chain, version)
    session = open_in_hand(keyhop.client, component)
    component.successor("session/prompt", prompt_params(session, "[elicit]"), "the proxy's")
    number, params = component.asked("elicitation/create")
    expect_equal(params["requestId"], "the proxy's", "the request that it belongs to")
    component.write(id=number, result={"action": "decline"})
    expect("result" in component.answer("the proxy's"), "no result")
    while version == 2 and component.asked("session/update")[1]["update"].get("state") != "idle":
        pass
    expect(not any(b"elicitation" in line for line in keyhop.client.received), "the client was asked")
    finish_in_hand(keyhop, component)


@test(cases=CASES)
def an_mcp_message_of_a_proxys_keeps_its_ids_in_either_direction(room, chain, version):
    keyhop, component = begin_in_hand(room, chain, version)
    client = keyhop.client
    component.write(id=7, method="mcp/message", params=MCP)
    asked = client.receive_until(lambda message: message.get("method") == "mcp/message")
    expect_equal(asked["params"], MCP, "what the client reads")
    client.respond(asked["id"], {"result": {"requestId": 7}})
    expect_equal(component.answer(7)["result"], {"result": {"requestId": 7}}, "the client's answer")
    component.successor("mcp/message", MCP)
    component.successor("mcp/message", MCP, 8)
    expect("result" in component.answer(8), "no answer of the agent's")
    read = [json.loads(line) for line in room.history().received(b"mcp/message")]
    expect_equal([frame["params"] for frame in read], [MCP] * 2, "what the agent reads")
    expect_equal(["id" in frame for frame in read], [False, True], "which of them asks")
    finish_in_hand(keyhop, component)


@test(cases=CASES)
def what_a_proxy_may_not_do_gets_an_error(room, chain, version):
    keyhop, component = begin_in_hand(room, chain, version)
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
