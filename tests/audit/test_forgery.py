"""Text from outside can't pass for a line of a log, nor for a command of the terminal that shows it."""

import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import audit_files  # noqa: E402
import fixture  # noqa: E402
from harness import eventually, main, test  # noqa: E402

CLIPBOARD = "\x1b]52;c;ZWNobyBvd25lZA==\x07"
FORGED_LINE = '"}\n{"time":"2030-01-01T00:00:00Z","actor":"admin","decision":"allow"}\r\n'
NASTY = "\x1b[2J\x1b[1;1H" + CLIPBOARD + FORGED_LINE + "\u2028\u2029\u202e\u0085\u009b31m\x7fend"
# C0 and C1 controls but for the newline that ends a line, DEL, line and paragraph separators, and what
# turns the direction of text.
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def run(platform, access, **request):
    status, text = platform.curl("/v1/run", json.dumps({"template": fixture.BOX, **request}), access)
    return status, json.loads(text)


def lines_since(platform, count):
    return audit_files.text(platform.audit_folder).split(b"\n")[:-1][count:]


def ask_in_many_ways(platform, token, access):
    """Requests with text that is none of a name; what they answer does not matter here."""
    main_service = "/octelium.api.main.cordium.v1.MainService/"
    script = "printf '%s' \"$1\"; printf '%s' \"$1\" >&2"
    for request in (
        {"argv": ["sh", "-c", script, "sh", NASTY.replace("\0", "")]},
        {"command": "true", "files": [{"path": "a\nb", "text": "x"}]},
        {"command": "true", "env": {"A\nB": "x"}},
        {"command": "true", "env": {"A": NASTY}},
        {"command": "true", "idempotencyKey": NASTY[:100]},
        {"command": "echo x > $'a\\nb'; mkdir -p out; echo y > out/x", "collect": ["out/\x1b[2J*"]},
        {"command": NASTY},
        {"template": NASTY, "command": "true"},
        {"image": NASTY, "command": "true"},
        {"code": NASTY, "language": NASTY},
        {"argv": ["/no\n/such" + CLIPBOARD]},
        {"command": "true", "workingDir": "/no\n/such" + CLIPBOARD},
    ):
        run(platform, access, **request)
    for method, body in (
        ("GetWorkspace", {"name": 'x","decision":"allow","y":"'}), ("GetWorkspace", {"name": NASTY}),
        ("CreateWorkspace", {"metadata": {"displayName": NASTY}, "status": {"templateRef": {"name": NASTY}}}),
        ("CreateTemplate", {"metadata": {"name": NASTY, "description": NASTY}}), (NASTY.replace("\n", ""), {}),
    ):
        quoted = "".join(c if c.isalnum() else "".join(f"%{b:02x}" for b in c.encode()) for c in method)
        platform.curl(main_service + quoted, json.dumps(body), access)
    for header in ("User-Agent: a\x1b[2Jb\x9b31m\u2028", "X-Octelium-Auth: \x1b]0;owned\x07", "X-Request-ID: a\tb"):
        # The edge may end such a stream without an answer.
        subprocess.run(["curl", "-sS", "--http1.1", "--cacert", platform.ca, "--json", "{}", "-H", header,
                        f"https://localhost:{platform.port}{main_service}ListSpace"], capture_output=True, timeout=30)
    with platform.sdk(token) as client:
        box = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        box.exec(f"printf '%s' '{NASTY.replace(chr(39), '')}'", env={"A_B": NASTY}, stdin=NASTY, timeout=30)
        box.delete()


@test
def one_run_gains_two_lines_whatever_it_prints(platform):
    token = fixture.ensure(platform)["worker"]
    access = platform.access_token(token)
    before = len(lines_since(platform, 0))
    status, answer = run(platform, access, argv=["sh", "-c", "printf '%s' \"$1\"", "sh", NASTY])
    assert status == 200 and answer["stdout"]["text"] == NASTY, answer
    assert eventually(lambda: len(lines_since(platform, before)) >= 2)
    events = [json.loads(line)["cordium"]["event"] for line in lines_since(platform, before)]
    assert events == ["DECISION", "END"], events


@test
def no_line_of_a_log_is_forged_and_none_holds_a_control_character(platform):
    token = fixture.ensure(platform)["worker"]
    access = platform.access_token(token)
    before = len(lines_since(platform, 0))
    ask_in_many_ways(platform, token, access)
    lines = lines_since(platform, before)
    for line in lines:
        record = json.loads(line)
        assert record["sequence"] and "decision" not in record and record.get("actor") != "admin", record
        found = UNSAFE.search(line.decode())
        assert not found, (found, line)
    assert len(lines) > 30, len(lines)
    audit_files.check_chain(platform.audit_folder)
    for name in ("gateway.log", "executor.log"):
        with open(os.path.join(platform.folder, name), encoding="utf-8") as file:
            for line in file.read().split("\n"):
                assert not UNSAFE.search(line), (name, line)
                assert not line.startswith('{"time"'), (name, line)


@test
def the_command_line_client_shows_the_log_without_control_characters(platform):
    for words in (("audit", "list", "--all", "-o", "table"), ("audit", "list", "--all", "-o", "json"),
                  ("audit", "list", "--all", "-o", "jsonl"), ("audit", "list", "--all", "-o", "yaml"),
                  ("audit", "stats"), ("runs",)):
        text = platform.ok(*words)
        found = UNSAFE.search(text)
        assert not found, (words, found, text[max(0, found.start() - 100):found.end() + 20])
        assert not any(line.startswith('{"time"') for line in text.split("\n")), words
    for line in map(json.loads, lines_since(platform, 0)):
        if "outcome" in line.get("cordium", {}) and "runId" in line["cordium"]["outcome"]:
            text = platform.ok("audit", "show", line["cordium"]["outcome"]["runId"])
            assert not UNSAFE.search(text), text


if __name__ == "__main__":
    main()
