"""Runs again: what a Run was asked is kept when the configuration says so, and can be run once more. And the audit
log's index, over the gateway's restarts and with a damaged file."""

import json
import os
import time

import fixture
from daemons import Daemons
from harness import main, test

RUNS = "/cordium.ext.v1.RunService/"
tokens = {}


def token_of(platform, name="admin", token=None):
    if name not in tokens:
        tokens[name] = platform.access_token(token)
    return tokens[name]


def configure(platform, text):
    daemons = Daemons(platform)
    if daemons.alive("gateway"):
        daemons.stop("gateway")
    path = os.path.join(platform.folder, "gateway.more.yaml")
    if text:
        with open(path, "w") as file:
            file.write(text)
    elif os.path.exists(path):
        os.unlink(path)
    daemons.up()


def call(platform, method, message, token=None):
    status, text = platform.curl(RUNS + method, json.dumps(message), token or token_of(platform))
    return status, json.loads(text)


def run(platform, token=None, **message):
    status, reply = call(platform, "Run", {"template": fixture.BOX, **message}, token)
    assert status == 200, reply
    return reply


@test
def a_run_whose_inputs_were_not_kept_is_not_run_again(platform):
    fixture.ensure(platform)
    first = run(platform, argv=["echo", "hello"])
    status, reply = call(platform, "Replay", {"runId": first["runId"]})
    assert status == 400 and reply["code"] == "failed_precondition" and "runs.keepInputs" in reply["message"], reply


@test
def the_same_program_gives_the_same_result(platform):
    configure(platform, "runs:\n  keepInputs: true\n")
    first = run(platform, command="cat; echo $WHO; cat in.txt >out.txt; exit 3", stdin="from stdin\n", env={"WHO": "me"},
                files=[{"path": "in.txt", "text": "a file"}], collect=["out.txt"])
    status, reply = call(platform, "Replay", {"runId": first["runId"]})
    assert status == 200, reply
    result = reply["result"]
    assert reply["isSame"] and not reply.get("differences"), reply
    assert result["stdout"]["text"] == "from stdin\nme\n" and result["exitCode"] == 3, result
    assert result["runId"] != first["runId"] and reply["replayedRunId"] == first["runId"], reply
    assert "inputs" not in result and "inputs" not in first
    status, kept = call(platform, "GetRun", {"runId": result["runId"]})
    assert status == 200 and "inputs" not in kept, kept


@test
def what_differs_is_told(platform):
    first = run(platform, command="cat /proc/sys/kernel/random/uuid | tee when; false", collect=["when"])
    status, reply = call(platform, "Replay", {"runId": first["runId"]})
    assert status == 200 and not reply.get("isSame"), reply
    what = [d["what"] for d in reply["differences"]]
    assert what == ["stdout", "files/when"], reply["differences"]
    assert all(d["before"].startswith("sha256 ") and d["before"] != d["after"] for d in reply["differences"]), reply


@test
def only_the_owner_or_an_administrator_runs_it_again(platform):
    name, secret = fixture.new_user(platform, "replay")
    platform.ok("create", "membership", "--space", fixture.SPACE, "--user", name)
    other = token_of(platform, name, secret)
    mine = run(platform, argv=["true"])
    status, reply = call(platform, "Replay", {"runId": mine["runId"]}, other)
    assert status == 404, reply
    theirs = run(platform, other, argv=["true"])
    assert call(platform, "Replay", {"runId": theirs["runId"]})[0] == 200
    assert call(platform, "Replay", {"runId": theirs["runId"]}, other)[0] == 200


@test
def a_denial_of_run_holds_for_replay(platform):
    name, secret = fixture.new_user(platform, "norun")
    platform.ok("create", "membership", "--space", fixture.SPACE, "--user", name)
    token = token_of(platform, name, secret)
    theirs = run(platform, token, argv=["true"])
    policy = f"no-run-{name}"
    text = f"""kind: Policy
metadata: {{name: {policy}}}
spec:
  rules:
    - name: no runs
      effect: DENY
      condition: {{match: ctx.request.grpc.method == "Run"}}
---
kind: User
metadata: {{name: {name}}}
spec: {{type: WORKLOAD, authorization: {{policies: [allow-all, {policy}]}}}}
"""
    platform.ok("apply", "-", stdin=text, program="octeliumctl")
    status, reply = call(platform, "Replay", {"runId": theirs["runId"]}, token)
    assert status == 403 and policy in reply["message"], reply


@test
def the_log_is_found_after_a_restart_and_after_its_index_was_damaged(platform):
    def count():
        status, text = platform.curl("/cordium.ext.v1.AuditService/Stats", json.dumps(
            {"filter": {"to": until}, "by": ["KIND"]}), token_of(platform))
        assert status == 200, text
        return int(json.loads(text)["lines"])

    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lines = count()
    assert lines > 0
    daemons = Daemons(platform)
    index = os.path.join(platform.audit_folder, "index.db")
    for damage in (None, "removed", "garbage"):
        daemons.kill("gateway")
        if damage == "removed":
            os.unlink(index)
        elif damage == "garbage":
            with open(index, "r+b") as file:
                file.write(b"no database" * 1000)
        daemons.up()
        assert count() == lines, damage


@test
def the_configuration_is_as_before(platform):
    """Last: leaves the platform as the other tests expect it."""
    configure(platform, None)
    with open(os.path.join(platform.folder, "gateway.yaml")) as file:
        assert "keepInputs" not in file.read()


if __name__ == "__main__":
    main()
