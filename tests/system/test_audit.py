"""The audit log: one line before each effect, allowed or not, chained, without secrets."""

import hashlib
import os
import time

import audit_files
import fixture
from harness import eventually, main, test


@test
def every_kind_of_request_leaves_a_line(platform):
    before = len(platform.audit_lines())
    token = fixture.ensure(platform)["worker"]
    platform.curl("/octelium.api.main.cordium.v1.MainService/ListSpace")
    platform.curl("/octelium.api.main.cordium.v1.MainService/Nothing")
    platform.curl("/octelium.api.main.cordium.v1.MainService/ListSpace", "{", platform.access_token())
    with platform.sdk(token) as client:
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        workspace.exec("echo hello")
        workspace.delete()

    def enough():
        lines = platform.audit_lines()[before:]
        reasons = {line.get("entry", {}).get("common", {}).get("reason", {}).get("type") for line in lines}
        return {"UNAUTHENTICATED", "METHOD_UNKNOWN", "MALFORMED", "POLICY_MATCH"} <= reasons

    assert eventually(enough), platform.audit_lines()[before:]


@test
def the_lines_form_a_chain(platform):
    assert audit_files.check_chain(platform.audit_folder)


@test
def the_log_is_nobodys_to_read(platform):
    folder = os.path.join(platform.folder, "gateway", "audit")
    assert os.stat(folder).st_mode & 0o077 == 0
    assert os.stat(os.path.join(folder, "audit.jsonl")).st_mode & 0o077 == 0


@test
def no_secret_appears_anywhere(platform):
    token = fixture.ensure(platform)["worker"]
    sentinels = ["sentinel-env-value-7f3", "sentinel-stdin-7f3", "sentinel-command-7f3", "sentinel-secret-7f3"]
    platform.ok("create", "secret", "hush.tests.cordium", "--value", sentinels[3])
    with platform.sdk(token) as client:
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        workspace.exec(f"head -c 5; echo {sentinels[2]}", env={"SECRET": sentinels[0]}, stdin=sentinels[1])
        access = client.access_token()
        workspace.delete()
    platform.ok("delete", "secret", "hush.tests.cordium")
    texts = {"the audit log": audit_files.text(platform.audit_folder)}
    for name in ("gateway.log", "executor.log"):
        with open(os.path.join(platform.folder, name), "rb") as file:
            texts[name] = file.read()
    for name, text in texts.items():
        for secret in [*sentinels, access, token, platform.env["OCTELIUM_AUTH_TOKEN"]]:
            assert secret.encode() not in text, f"{name} holds a secret that begins with {secret[:12]}"


@test
def what_became_of_a_cancelled_command_is_in_its_end_line(platform):
    """Whether its output flows, waits for a client that does not read, or is not there at all."""
    token = fixture.ensure(platform)["worker"]
    with platform.sdk(token) as client:
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        for command in ("sleep 300", "yes", "while :; do :; done & sleep 300"):
            before = len(platform.audit_lines())
            session = workspace.exec_stream(command, timeout=60)
            session.ready()
            time.sleep(0.3)
            session.close()

            def ends():
                lines = [line.get("cordium", {}) for line in platform.audit_lines()[before:]]
                return [line for line in lines if line.get("event") == "END" and line.get("end") == "CANCELLED"]

            assert eventually(ends), (command, platform.audit_lines()[before:])
            (end,) = ends()
            assert end["outcome"]["outcome"] == "cancelled" and end["code"] == "CANCELLED", end
            assert end["outcome"]["usage"]["wallUs"] >= 300000 and end["peer"], end
        workspace.delete()


if __name__ == "__main__":
    main()
