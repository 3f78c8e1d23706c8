"""What network rules refuse is told: in the audit log, in a Run's result, in the metrics. Nothing here reaches
anything: each destination is refused on this machine, and those outside are of documentation's ranges."""

import json
import threading
import time

import fixture
from harness import eventually, main, test

TEMPLATE = "network.tests.cordium"
TEMPLATE_YAML = """
spec:
  image:
    registry:
      url: docker.io/library/python:3.13-slim
  runtime:
    network:
      egress:
        rules:
        - {cidrs: [203.0.113.2/32], action: DENY, ports: [80]}
        - {cidrs: [203.0.113.1/32], action: ALLOW, ports: [9]}
        - {cidrs: [203.0.113.2/32], action: ALLOW, ports: [80]}
        defaultAction: DENY
"""

CONNECT = """
import socket, sys
for word in sys.argv[1:]:
    host, port, protocol = word.split(":")
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM)
    s.settimeout(5)
    try:
        s.connect((host, int(port)))
        if protocol == "UDP":
            s.send(b"x")
            s.recv(1)
        print("reached", word)
    except OSError as error:
        print(error.errno, word)
"""

SCAN = """
import socket
refused = 0
for port in range(1, 10001):
    s = socket.socket()
    s.settimeout(5)
    refused += s.connect_ex(("198.51.100.7", port)) == 111
    s.close()
print(refused)
"""


def ensure(platform):
    token = fixture.ensure(platform)["worker"]
    if platform.cli("get", "template", TEMPLATE).returncode != 0:
        platform.ok("create", "template", TEMPLATE, "-f", "-", stdin=TEMPLATE_YAML)
        platform.ok("build", TEMPLATE, timeout=300)
    return token


def denials(platform, matches):
    """The NetworkLog lines whose member "cordium" matches."""
    return [line["cordium"] for line in platform.audit_lines()
            if line["kind"] == "NetworkLog" and matches(line["cordium"])]


def destinations(lines):
    """{(address, port, protocol, reason): packets}"""
    found = {}
    for line in lines:
        for d in line["destinations"]:
            key = (d["address"], d["port"], d["protocol"], d["reason"])
            found[key] = found.get(key, 0) + d["packets"]
    return found


def of_workspace(platform, uid):
    return denials(platform, lambda c: c.get("workspaceRef", {}).get("uid") == uid)


EXPECTED = {("203.0.113.2", 80, "TCP", "DENY_RULE"): 2,
            ("198.51.100.7", 4444, "TCP", "NO_ALLOW_RULE"): 1,
            ("198.51.100.7", 53, "UDP", "NO_ALLOW_RULE"): 1,
            ("169.254.169.254", 80, "TCP", "PROTECTED_RANGE"): 1}
WORDS = [f"{address}:{port}:{protocol}" for (address, port, protocol, _), n in EXPECTED.items() for _ in range(n)]


@test
def a_stopped_workspace_leaves_what_it_was_refused(platform):
    token = ensure(platform)
    with platform.sdk(token) as client:
        workspace = client.workspaces.run(template=TEMPLATE, ephemeral=True, timeout=60)
        said = workspace.exec(["python3", "-c", CONNECT, *WORDS])
        assert sorted(said.stdout.split("\n")[:-1]) == sorted(
            ("113 " if word.endswith("UDP") else "111 ") + word for word in WORDS), said.stdout
        uid = workspace.uid
        workspace.delete()
    lines = eventually(lambda: of_workspace(platform, uid))
    assert destinations(lines) == EXPECTED, lines
    for line in lines:
        assert line["event"] == "NETWORK_DENIED" and line["others"] == 0, line
        assert line["templateRef"]["name"] == TEMPLATE and line["spaceRef"]["name"] == fixture.SPACE, line
        assert line["userRef"]["name"] == "worker" and line["userUID"] == line["userRef"]["uid"], line
        assert "runId" not in line, line


@test
def a_running_workspace_is_told_of_within_half_a_minute(platform):
    token = ensure(platform)
    with platform.sdk(token) as client:
        workspace = client.workspaces.run(template=TEMPLATE, ephemeral=True, timeout=60)
        uid = workspace.uid
        workspace.exec(["python3", "-c", CONNECT, "198.51.100.7:4444:TCP"])
        lines = eventually(lambda: of_workspace(platform, uid), seconds=35, pause=0.5)
        assert destinations(lines) == {("198.51.100.7", 4444, "TCP", "NO_ALLOW_RULE"): 1}, lines
        workspace.delete()
    time.sleep(0.2)
    assert of_workspace(platform, uid) == lines, "what was told is told again"


@test
def a_run_tells_what_it_was_refused(platform):
    token = ensure(platform)
    code, text = platform.curl("/v1/run", json.dumps({
        "template": TEMPLATE, "argv": ["python3", "-c", CONNECT, *WORDS]}), platform.access_token(token))
    assert code == 200, text
    result = json.loads(text)
    facts = result["facts"]
    assert facts["networkDenied"] == str(sum(EXPECTED.values())), facts
    assert {(d["address"], d["port"], d["protocol"], d["reason"]): int(d["packets"])
            for d in facts["deniedDestinations"]} == EXPECTED, facts
    lines = eventually(lambda: denials(platform, lambda c: c.get("runId") == result["runId"]))
    assert destinations(lines) == EXPECTED and "workspaceRef" not in lines[0], lines
    assert lines[0]["userRef"]["name"] == "worker" and lines[0]["templateRef"]["name"] == TEMPLATE, lines
    for condition in (("--run", result["runId"]), ("--user", "worker")):
        found = platform.ok("audit", "list", "--kind", "NetworkLog", *condition)
        assert result["runId"] in found, (condition, found)
    story = platform.ok("audit", "show", result["runId"])
    assert "refused 198.51.100.7:4444 TCP" in story, story


@test
def a_run_that_was_refused_nothing_says_nothing(platform):
    token = ensure(platform)
    code, text = platform.curl("/v1/run", json.dumps({"template": TEMPLATE, "argv": ["true"]}),
                               platform.access_token(token))
    result = json.loads(text)
    assert code == 200 and "networkDenied" not in result["facts"], text
    assert not denials(platform, lambda c: c.get("runId") == result["runId"])


@test
def run_code_shows_it_to_a_person(platform):
    token = ensure(platform)
    done = platform.cli("run-code", "--template", TEMPLATE, "--", "python3", "-c", CONNECT + "sys.exit(3)",
                        "198.51.100.7:4444:TCP", token=token)
    assert done.returncode == 3, done.stderr
    assert "network: refused 198.51.100.7:4444/TCP (NO_ALLOW_RULE)\n" in done.stderr, done.stderr


@test
def a_scan_of_ten_thousand_ports_is_bounded_and_crowds_out_nobody(platform):
    token = ensure(platform)
    quiet = {}

    def scan():
        code, text = platform.curl("/v1/run", json.dumps({
            "template": TEMPLATE, "argv": ["python3", "-c", SCAN]}), access)
        quiet["scan"] = (code, json.loads(text))

    access = platform.access_token(token)
    thread = threading.Thread(target=scan)
    thread.start()
    time.sleep(0.5)
    code, text = platform.curl("/v1/run", json.dumps({
        "template": TEMPLATE, "argv": ["python3", "-c", CONNECT, "198.51.100.7:4444:TCP"]}), access)
    other = json.loads(text)
    thread.join()
    code, result = quiet["scan"]
    assert code == 200 and result["stdout"]["text"] == "10000\n", result
    facts = result["facts"]
    assert facts["networkDenied"] == "10000", facts["networkDenied"]
    assert len(facts["deniedDestinations"]) == 64, len(facts["deniedDestinations"])
    lines = eventually(lambda: denials(platform, lambda c: c.get("runId") == result["runId"]))
    assert all(len(line["destinations"]) <= 64 for line in lines), lines
    assert sum(destinations(lines).values()) + sum(line["others"] for line in lines) == 10000, lines
    assert [d["port"] for d in other["facts"]["deniedDestinations"]] == [4444], other["facts"]


if __name__ == "__main__":
    main()
