"""The document's policy: a workspace's own Session, the deny-sandboxes rule, who else is spared."""

import json

import fixture
from harness import eventually, expect_code, main, test

POLICY = """
kind: Policy
metadata:
  name: deny-tests
spec:
  rules:
    - effect: DENY
      condition:
        all:
          of:
            - match: '"ext" in ctx.session.status && "cordium" in ctx.session.status.ext'
            - match: ctx.session.status.ext.cordium.spaceRef.name == "tests.cordium"
---
kind: ClusterConfig
spec:
  authorization:
    policies: ["deny-tests"]
"""

NO_POLICY = """
kind: ClusterConfig
spec:
  authorization:
    policies: []
"""


def in_box(platform, command):
    token = fixture.ensure(platform)["worker"]
    with platform.sdk(token) as client:
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        try:
            return workspace.name, workspace.exec(command, timeout=30)
        finally:
            workspace.delete()


@test
def inside_a_workspace_the_cli_is_its_owner_without_any_network(platform):
    name, result = in_box(platform, "cordium get workspaces -o json")
    assert result.exit_code == 0, result.stderr
    assert name in [item["metadata"]["name"] for item in json.loads(result.stdout)["items"]]


@test
def a_token_sent_from_inside_changes_nothing(platform):
    admin = platform.access_token()
    command = f"OCTELIUM_ACCESS_TOKEN={admin} cordium status -o json"
    _, result = in_box(platform, command)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["user"]["metadata"]["name"] == "worker", result.stdout


@test
def the_documents_policy_denies_sandboxes_by_name_and_spares_their_owner(platform):
    platform.ok("apply", "-", stdin=POLICY, program="octeliumctl")
    try:
        _, result = in_box(platform, "cordium get workspaces")
        assert result.exit_code == 1, result
        assert "deny-tests" in result.stderr and "PERMISSION_DENIED" in result.stderr, result.stderr
        platform.ok("get", "workspaces", token=fixture.ensure(platform)["worker"])
    finally:
        platform.ok("apply", "-", stdin=NO_POLICY, program="octeliumctl")


@test
def a_policy_takes_effect_for_a_workspace_that_runs_already(platform):
    token = fixture.ensure(platform)["worker"]
    with platform.sdk(token) as client:
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        try:
            assert workspace.exec("cordium get workspaces").exit_code == 0
            platform.ok("apply", "-", stdin=POLICY)
            assert workspace.exec("cordium get workspaces").exit_code == 1
        finally:
            platform.ok("apply", "-", stdin=NO_POLICY)
            workspace.delete()


@test
def a_bad_file_changes_nothing_and_names_the_place(platform):
    bad = POLICY.replace("ctx.session.status.ext.cordium.spaceRef.name ==", "ctx.session.status.ext.cordium.spaceRef.name ===")
    done = platform.cli("apply", "-", stdin=bad)
    assert done.returncode == 1 and "INVALID_ARGUMENT" in done.stderr, done.stderr
    assert "deny-tests" in done.stderr, done.stderr
    unknown = POLICY.replace("effect: DENY", "efect: DENY")
    done = platform.cli("apply", "-", stdin=unknown)
    assert done.returncode == 1 and "efect" in done.stderr and "7" in done.stderr, done.stderr
    missing = POLICY.replace('policies: ["deny-tests"]', 'policies: ["no-such-policy"]')
    done = platform.cli("apply", "-", stdin=missing)
    assert done.returncode == 1 and "no-such-policy" in done.stderr, done.stderr


@test
def dry_run_shows_the_difference_and_does_nothing(platform):
    out = platform.ok("apply", "--dry-run", "-", stdin=POLICY.replace("deny-tests", "dry-tests"))
    assert "dry run" in out and "dry-tests" in out, out
    assert platform.cli("get", "policy", "dry-tests").returncode == 1


@test
def denials_and_allowances_are_in_the_audit_log_with_their_rule(platform):
    platform.ok("apply", "-", stdin=POLICY)
    try:
        in_box(platform, "cordium get workspaces")
    finally:
        platform.ok("apply", "-", stdin=NO_POLICY)

    def denied():
        for line in reversed(platform.audit_lines()):
            common = line.get("entry", {}).get("common", {})
            if common.get("status") == "DENIED":
                match = common["reason"].get("details", {}).get("policyMatch", {})
                return match.get("policy", {}).get("policyRef", {}).get("name")

    assert eventually(denied) == "deny-tests"


if __name__ == "__main__":
    main()
