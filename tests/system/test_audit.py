"""The audit log: one line before each effect, allowed or not, chained, without secrets."""

import hashlib
import json
import os
import re
import socket
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


def refused_by_curl(platform, path, *options):
    status, text = platform.curl(path, "{}", None, "-i", *options)
    return status, re.findall(r"(?im)^x-request-id: (.*?)\r?$", text)


def refused_by_socket(platform, head):
    with socket.create_connection(("localhost", platform.port), 10) as plain:
        with platform.ssl_context().wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(head)
            text = b""
            while piece := connection.recv(65536):
                text += piece
    text = text.decode()
    return int(text.split()[1]), re.findall(r"(?m)^x-request-id: (.*)\r$", text)


@test
def what_the_edge_refuses_is_found_by_the_id_in_its_answer(platform):
    path = "/octelium.api.main.cordium.v1.MainService/ListSpace"
    chunk = "HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
    cases = [
        ("METHOD_NOT_ALLOWED", 405, path, ["-X", "PUT"]),
        ("METHOD_NOT_ALLOWED", 405, "/oauth2/token", ["-X", "PUT"]),
        ("UNKNOWN_CONTENT_TYPE", 415, path, ["-H", "content-type: text/plain"]),
        ("HEADERS_TOO_LARGE", 431, path, ["-H", "x-large: " + "a" * 17000]),
        ("UNKNOWN_COMPRESSION", 501, path, ["-H", "content-encoding: br"]),
        ("BAD_TIMEOUT", 400, path, ["-H", "connect-timeout-ms: soon"]),
        ("NOT_FOUND", 404, "/no/such/place", []),
        ("NOT_FOUND", 404, "/no/such/place", ["-H", "x-request-id: " + "1" * 32]),
        ("UNAUTHENTICATED", 401, path, []),
        ("MALFORMED", 400, "GET /a b HTTP/1.1\r\nhost: x\r\n\r\n", None),
        ("MALFORMED", 400, "POST /oauth2/token " + chunk, None),
        (None, 400, f"POST {path} " + chunk, None),
    ]
    seen = {"1" * 32}  # what the client sends is not taken for an id
    for reason, code, what, options in cases:
        status, ids = refused_by_socket(platform, what.encode()) if options is None \
            else refused_by_curl(platform, what, *options)
        assert status == code and len(ids) == 1 and ids[0] not in seen, (reason, what, status, ids)
        seen.add(ids[0])
        assert eventually(lambda own=ids[0]: lines_of(platform, own)), (reason, what)
        (line,) = lines_of(platform, ids[0])
        common = line["entry"]["common"]
        assert common["status"] == "DENIED" and reason in (None, common["reason"]["type"]), line
        shown = json.loads(platform.ok("audit", "list", "--request", ids[0]))
        assert shown["sequence"] == line["sequence"], shown
    assert lines_of(platform, "1" * 32) == []


def lines_of(platform, request):
    return [line for line in platform.audit_lines() if line.get("cordium", {}).get("requestID") == request]


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


def ends_since(platform, before, method):
    def method_of(line):
        return line.get("entry", {}).get("info", {}).get("grpc", {}).get("method")

    return [line["cordium"] for line in platform.audit_lines()[before:]
            if method_of(line) == method and line["cordium"]["event"] == "END"]


@test
def a_change_of_who_may_do_what_leaves_its_diff(platform):
    """However it is made: by a file, or one resource at a time."""
    before = len(platform.audit_lines())
    policy = {"metadata": {"name": "audited"},
              "spec": {"rules": [{"effect": "DENY", "condition": {"match": "ctx.user.metadata.name == 'nobody'"}}]}}
    user = {"metadata": {"name": "audited"}, "spec": {"type": "WORKLOAD"}}
    service = "/octelium.api.main.core.v1.MainService/"
    token = platform.access_token()
    calls = [("CreatePolicy", policy, "+      effect: DENY"),
             ("CreateUser", user, "+  type: WORKLOAD"),
             ("CreateGroup", {"metadata": {"name": "audited"}, "spec": {}}, "+kind: Group")]
    for method, body, _ in calls:
        status, text = platform.curl(service + method, json.dumps(body), token)[:2]
        assert status == 200, (method, text)
    user["spec"]["authorization"] = {"policies": ["audited"]}
    assert platform.curl(service + "UpdateUser", json.dumps(user), token)[0] == 200
    user["spec"].pop("authorization")
    assert platform.curl(service + "UpdateUser", json.dumps(user), token)[0] == 200
    for kind in ("User", "Group", "Policy"):
        status, text = platform.curl(service + "Delete" + kind, '{"name": "audited"}', token)[:2]
        assert status == 200, (kind, text)
    calls += [("UpdateUser", None, "+      - audited"), ("UpdateUser", None, "-      - audited"),
              ("DeletePolicy", None, "-      effect: DENY"), ("DeleteUser", None, "-  type: WORKLOAD"),
              ("DeleteGroup", None, "-kind: Group")]
    for method, _, change in calls:
        assert eventually(lambda: any(change in end.get("outcome", {}).get("diff", "")
                                      for end in ends_since(platform, before, method))), \
            (method, change, ends_since(platform, before, method))


@test
def who_was_let_into_a_space_and_who_may_log_in_is_told(platform):
    name, token = fixture.new_user(platform, "member")
    before = len(platform.audit_lines())
    platform.ok("create", "membership", "--space", fixture.SPACE, "--user", name)
    secret = platform.ok("create", "credential", name + "-b", "--user", name).strip()
    platform.ok("delete", "credential", name + "-b")
    platform.ok("create", "space", name + ".cordium")
    platform.ok("delete", "space", name + ".cordium")
    for method, kind, change in (("CreateMembership", "Membership", "+  role: USER"),
                                 ("CreateCredential", "Credential", f"+  user: {name}"),
                                 ("DeleteCredential", "Credential", f"-  user: {name}"),
                                 ("CreateSpace", "Space", "+  role: OWNER"),
                                 ("DeleteSpace", "Space", "-  role: OWNER")):
        assert eventually(lambda: ends_since(platform, before, method)), method
        (line,) = [line for line in platform.audit_lines()[before:]
                   if line.get("entry", {}).get("info", {}).get("grpc", {}).get("method") == method
                   and line["cordium"]["event"] == "END"]
        target = line["metadata"]["targetRef"]
        assert target["kind"] == kind and name in target["name"], target
        assert change in line["cordium"]["outcome"]["diff"], (method, line)
    text = audit_files.text(platform.audit_folder)
    assert secret.encode() not in text and token.encode() not in text


@test
def daemons_are_recorded_with_their_settings(platform):
    events = {(line["cordium"].get("daemon"), line["cordium"]["event"]): line["cordium"]
              for line in platform.audit_lines() if line["kind"] == "DaemonLog"}
    with open(os.path.join(platform.folder, "executor.conf"), "rb") as file:
        settings = hashlib.sha256(file.read()).hexdigest()
    assert ("gateway", "START") in events and events[("executor", "CONNECTED")]["configSHA256"] == settings, events


def workspace_logs(platform, before):
    return [line["cordium"] for line in platform.audit_lines()[before:] if line["kind"] == "WorkspaceLog"]


@test
def an_end_that_no_request_waits_for_has_a_line(platform):
    """A workspace that is stopped, one whose start fails, and a build."""
    fixture.ensure(platform)
    before = len(platform.audit_lines())
    with platform.sdk() as client:
        workspace = client.workspaces.run(template=fixture.BOX, timeout=60)
        workspace.stop()
        name = workspace.name
        assert eventually(lambda: len(workspace_logs(platform, before)) == 2), platform.audit_lines()[before:]
        running, end = workspace_logs(platform, before)
        layers = {layer["name"]: layer for layer in running["isolation"]}
        assert running["event"] == "WORKSPACE_RUNNING" and len(running["image"]) == 64, running
        assert layers["seccomp"]["setBy"] == "DEFAULT" and layers["network"]["detail"], layers
        assert running["workspaceRef"] and end["event"] == "WORKSPACE_END" and end["stopReason"] == "API", end
        assert end["workspaceRef"]["name"] == name and end["userRef"]["name"] == "admin", end
        assert end["spaceRef"]["name"] == fixture.SPACE and "failure" not in end, end
        workspace.delete()
    before = len(platform.audit_lines())
    platform.ok("create", "template", "nowhere." + fixture.SPACE, "--image", "docker.io/library/none:1")
    try:
        assert platform.cli("run", "--template", "nowhere." + fixture.SPACE, "--", "true").returncode != 0
        assert eventually(lambda: workspace_logs(platform, before), 30), platform.audit_lines()[before:]
        end = workspace_logs(platform, before)[0]
        assert end["stopReason"] == "ERROR" and end["failure"]["type"] == "image_pull", end
        before = len(platform.audit_lines())
        platform.cli("build", "nowhere." + fixture.SPACE)
        assert eventually(lambda: workspace_logs(platform, before), 30), platform.audit_lines()[before:]
        end = workspace_logs(platform, before)[-1]
        assert end["event"] == "BUILD_END" and end["stopReason"] == "FAILED" and end["buildID"], end
    finally:
        for workspace in json.loads(platform.ok("get", "workspaces", "-o", "json"))["items"]:
            if workspace["status"].get("templateRef", {}).get("name", "").startswith("nowhere."):
                platform.cli("delete", "workspace", workspace["metadata"]["name"])
        platform.ok("delete", "template", "nowhere." + fixture.SPACE)


@test
def a_run_tells_its_limits_and_who_set_them(platform):
    fixture.ensure(platform)
    before = len(platform.audit_lines())
    platform.ok("run-code", "--template", fixture.BOX, "--timeout", "7", "--language", "sh", "-f", "-", stdin="echo hi")
    lines = [line["cordium"] for line in platform.audit_lines()[before:]]
    decision = next(line for line in lines if line["event"] == "DECISION" and "run" in line)
    assert decision["run"]["limits"]["wallMs"] == {"value": 7000, "setBy": "CALLER"}, decision
    assert decision["run"]["limits"]["pids"]["setBy"] != "CALLER", decision

    def ended():
        return [line for line in (x["cordium"] for x in platform.audit_lines()[before:])
                if "seccomp" in line.get("outcome", {}).get("isolation", [])]

    assert eventually(ended), lines


@test
def a_workspace_that_is_made_is_named_with_its_limits_and_who_set_them(platform):
    token = fixture.ensure(platform)["worker"]
    before = len(platform.audit_lines())
    with platform.sdk(token) as client:
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        workspace.delete()

    for method in ("CreateWorkspace", "StartWorkspace"):
        assert eventually(lambda: ends_since(platform, before, method))
        (end,) = ends_since(platform, before, method)
        assert end["workspaceRef"]["uid"] and end["bytesIn"] > 0, end
        limits = end["outcome"]["workspaceLimits"]
        assert limits["memoryMegabytes"] == {"value": 256, "setBy": "SPACE"}, limits
    asked = {"metadata": {"name": ""}, "spec": {"isEphemeral": True, "limit": {"memory": {"megabytes": 100}}},
             "status": {"templateRef": {"name": fixture.BOX}}}
    status, text = platform.curl("/octelium.api.main.cordium.v1.MainService/CreateWorkspace", json.dumps(asked),
                                 platform.access_token(token))
    assert status == 200, text
    assert eventually(lambda: len(ends_since(platform, before, "CreateWorkspace")) == 2)
    end = ends_since(platform, before, "CreateWorkspace")[1]
    assert end["outcome"]["workspaceLimits"]["memoryMegabytes"] == {"asked": 100, "value": 100, "setBy": "CALLER"}, end
    platform.ok("delete", "workspace", end["workspaceRef"]["name"], token=token)


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
            assert end["outcome"]["usage"]["wallUs"] >= 200000 and end["peer"], end
        workspace.delete()


@test
def every_line_of_a_request_says_which(platform):
    """Whatever the tests before this asked for."""
    nameless = [line for line in platform.audit_lines()
                if line["kind"] == "AccessLog" and len(line["cordium"].get("requestID", "")) != 32]
    assert nameless == [], nameless[:3]


if __name__ == "__main__":
    main()
