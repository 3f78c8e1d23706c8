"""What an administrator does with policies: check, test, explain, versions, rollback, dry runs."""

import json
import os
import tempfile
import time

import fixture
from harness import eventually, main, test

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
POLICIES = os.path.join(ROOT, "testdata", "policies")

NO_LISTS = """
kind: Policy
metadata:
  name: no-lists
spec:
  rules:
    - name: lists
      effect: DENY
      condition:
        match: ctx.request.grpc.method == "ListTemplate" && ctx.user.spec.type == "WORKLOAD"
---
kind: ClusterConfig
spec:
  authorization:
    policies: ["no-lists"]
"""

NOTHING = """
kind: ClusterConfig
spec:
  authorization:
    policies: []
"""


def versions(platform):
    return json.loads(platform.ok("policy", "versions", "-o", "json"))["items"]


@test
def files_are_checked_without_a_server(platform):
    done = platform.cli("policy", "check", "--strict", POLICIES)
    assert done.returncode == 0, done.stdout + done.stderr
    done = platform.cli("policy", "check", "-", stdin=NO_LISTS.replace("ctx.user", "ctx.usr"))
    assert done.returncode == 1, done.stdout
    assert "-:10:61: error: ctx.usr does not exist; did you mean ctx.user? [ctx-unknown]" in done.stdout, done.stdout
    caret = done.stdout.splitlines()[2]
    source = done.stdout.splitlines()[1]
    assert caret.index("^") == source.index("ctx.usr"), done.stdout


@test
def a_folder_without_policies_is_no_good_folder(platform):
    with tempfile.TemporaryDirectory() as folder:
        for words in (["policy", "check"], ["policy", "fmt"], ["apply"]):
            done = platform.cli(*words, folder)
            assert done.returncode == 1, (words, done)
            assert "ends in .yaml" in done.stdout + done.stderr, (words, done)
        name = os.path.join(folder, "a\x1b[31m.yaml")
        with open(os.path.join(folder, "real.txt"), "w") as file:
            file.write(NO_LISTS.replace("ctx.user", "ctx.usr"))
        os.symlink("real.txt", name)  # as Kubernetes mounts them
        done = platform.cli("policy", "check", folder)
        assert done.returncode == 1 and "ctx.usr does not exist" in done.stdout, done
        assert "\x1b" not in done.stdout, done.stdout
        os.symlink("nowhere", os.path.join(folder, "b.yaml"))
        done = platform.cli("policy", "check", folder)
        assert done.returncode == 1 and "b.yaml" in done.stdout and "No such file" in done.stdout, done


@test
def findings_come_as_json_and_sarif(platform):
    bad = NO_LISTS.replace("ListTemplate\" &&", "ListTemplate\" && !has(ctx.run.x) &&")
    done = platform.cli("policy", "check", "-o", "sarif", "-", stdin=bad)
    run = json.loads(done.stdout)["runs"][0]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert run["results"] and all(result["ruleId"] in rules for result in run["results"]), done.stdout
    done = platform.cli("policy", "check", "-o", "json", "-", stdin=bad)
    assert json.loads(done.stdout)["diagnostics"][0]["line"] == 10, done.stdout


@test
def tests_of_policies_run_without_a_server(platform):
    done = platform.cli("policy", "test", "--strict", os.path.join(POLICIES, "tests"))
    assert done.returncode == 0, done.stdout + done.stderr
    done = platform.cli("policy", "explain", "--all", "--test", "too much memory",
                        os.path.join(POLICIES, "tests", "cases.yaml"))
    assert done.returncode == 0 and "attrs.memoryMegabytes = 4096.0" in done.stdout, done.stdout


@test
def a_file_is_formatted_once_and_for_all(platform):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.yaml")
        with open(path, "w") as out:
            out.write("# kept\n" + NO_LISTS.lstrip())
        assert platform.cli("policy", "fmt", "--dry-run", path).returncode == 1
        platform.ok("policy", "fmt", path)
        assert platform.cli("policy", "fmt", "--dry-run", path).returncode == 0
        with open(path) as text:
            assert text.readline() == "# kept\n"


@test
def wrong_use_is_told_by_its_exit_code(platform):
    assert platform.cli("policy").returncode == 64
    assert platform.cli("policy", "chek", "x").returncode == 64
    assert platform.cli("policy", "check").returncode == 64
    assert platform.cli("policy", "explain").returncode == 64
    assert platform.cli("policy", "--help").returncode == 0
    assert platform.cli("policy", "check", "/no/such/file").returncode == 1


@test
def versions_are_kept_and_put_back(platform):
    before = versions(platform)[0]["version"]
    platform.ok("apply", "-", stdin=NO_LISTS)
    worker = fixture.ensure(platform)["worker"]
    try:
        done = platform.cli("get", "templates", "--space", "tests.cordium", token=worker)
        assert done.returncode == 1 and "no-lists" in done.stderr, done.stderr
        assert "no-lists" in platform.ok("policy", "rollback", "--dry-run", before)
        platform.ok("policy", "rollback", before)
        platform.ok("get", "templates", "--space", "tests.cordium", token=worker)
    finally:
        platform.ok("apply", "-", stdin=NOTHING)
    assert any(item["reason"] == f"rollback to {before}" for item in versions(platform)[:2])
    assert platform.cli("policy", "rollback", "987654").returncode == 1


@test
def a_thousand_policies_come_and_go_in_a_moment(platform):
    rule = "{effect: DENY, condition: {match: ctx.user.metadata.name == 'u%d' && ctx.user.spec.type == 'HUMAN'}}"
    many = "".join(f"---\nkind: Policy\nmetadata: {{name: bulk-{i}}}\nspec: {{rules: [{rule % i}]}}\n" for i in range(1000))
    before = versions(platform)[0]["version"]
    took = {}
    for name, words, stdin in (("dry run", ("apply", "--dry-run", "-"), many), ("apply", ("apply", "-"), many),
                               ("rollback", ("policy", "rollback", before), None)):
        began = time.monotonic()
        platform.ok(*words, stdin=stdin)
        took[name] = time.monotonic() - began
    print("      " + ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in took.items()))
    assert not [v for v in versions(platform)[:1] if v["policies"] > 900]
    assert max(took.values()) < 1.5, took


@test
def live_requests_and_audit_lines_are_explained(platform):
    worker = fixture.ensure(platform)["worker"]
    platform.ok("apply", "-", stdin=NO_LISTS)
    try:
        out = platform.ok("policy", "explain", "--method", "ListTemplate", "--user", "worker", "--all")
        assert "DENIED (POLICY_MATCH) by policy 'no-lists' rule 'lists'" in out, out
        assert 'ctx.request.grpc.method = "ListTemplate"' in out, out
        assert "ALLOWED" in platform.ok("policy", "explain", "--method", "ListTemplate")
        own = platform.ok("policy", "explain", "--method", "ListTemplate", token=worker)
        assert "no-lists" in own and "match" not in own, own
        refused = platform.cli("policy", "explain", "--method", "ListTemplate", "--user", "admin", token=worker)
        assert refused.returncode == 1 and "PERMISSION_DENIED" in refused.stderr, refused.stderr
        platform.cli("get", "templates", "--space", "tests.cordium", token=worker)

        def denied():
            for line in reversed(platform.audit_lines()):
                if line.get("cordium", {}).get("event") == "DECISION" and line["entry"]["common"]["status"] == "DENIED":
                    return line["metadata"]["id"]

        out = platform.ok("policy", "explain", "--audit", eventually(denied))
        assert "DENIED (POLICY_MATCH) by policy 'no-lists'" in out and "it was denied" in out, out
    finally:
        platform.ok("apply", "-", stdin=NOTHING)


@test
def a_dry_run_tells_what_would_have_become_of_requests(platform):
    worker = fixture.ensure(platform)["worker"]
    platform.ok("get", "templates", "--space", "tests.cordium", token=worker)
    out = platform.ok("apply", "--dry-run", "--audit-lines", "50", "-", stdin=NO_LISTS.replace("no-lists", "dry-lists"))
    assert "worker" in out and "would be denied by dry-lists/lists" in out, out
    assert "decided again" in out, out
    platform.ok("get", "templates", "--space", "tests.cordium", token=worker)
    assert platform.cli("apply", "--audit-lines", "5", "-", stdin=NOTHING).returncode == 1


if __name__ == "__main__":
    main()
