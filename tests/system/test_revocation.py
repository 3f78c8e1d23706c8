"""What is open ends with the Session that opened it, through the unmodified SDK and curl."""

import contextlib
import json
import threading
import time

import fixture
import run_client
from cordium import AccessToken, Cordium
from harness import eventually, expect_code, main, test

CORE = "/octelium.api.main.core.v1.MainService/"
LOGOUT = "/octelium.api.main.auth.v1.MainService/Logout"


def admin_call(platform, method, **message):
    if "admin" not in platform.__dict__:
        platform.admin = platform.access_token()
    status, text = platform.curl(CORE + method, json.dumps(message), platform.admin)
    assert status == 200, text
    return json.loads(text)


def new_member(platform, name):
    """A user who may work in the tests' Space; gives (name, token)."""
    fixture.ensure(platform)
    name, token = fixture.new_user(platform, name)
    platform.ok("create", "membership", "--space", fixture.SPACE, "--user", name)
    return name, token


def sessions_of(platform, name):
    """Those that somebody logged in to; a workspace has one of its own."""
    items = admin_call(platform, "ListSession", userRef={"name": name}).get("items", [])
    return [item for item in items if "cordium" not in item["status"].get("ext", {})]


def ends_of(platform, name, method):
    """The END lines of a user's calls of a method."""
    return [
        line["cordium"]
        for line in platform.audit_lines()
        if line.get("cordium", {}).get("event") == "END"
        and line["entry"]["common"].get("userRef", {}).get("name") == name
        and line["entry"]["info"]["grpc"]["method"] == method
    ]


def check_end(platform, name, method, code, reason):
    (end,) = eventually(lambda: ends_of(platform, name, method)) or [None]
    assert end and (end["end"], end["code"], end["endReason"]) == ("WITHDRAWN", code, reason), end
    return end


class Reader(threading.Thread):
    """Reads a stream to its end; how it ended is in `error`."""

    def __init__(self, stream):
        super().__init__(daemon=True)
        self.stream = stream
        self.error = None
        self.start()

    def run(self):
        try:
            for _ in self.stream:
                pass
        except Exception as error:  # the test judges it
            self.error = error

    def code(self):
        self.join(10)
        assert not self.is_alive(), "the stream goes on"
        return getattr(self.error, "code", self.error)


def log_in(platform, token):
    """By curl; gives (access token, refresh token)."""
    path = "/octelium.api.main.auth.v1.MainService/AuthenticateWithAuthenticationToken"
    status, text = platform.curl(path, json.dumps({"authenticationToken": token}))
    assert status == 200, text
    tokens = json.loads(text)
    return tokens["accessToken"], tokens["refreshToken"]


def sdk_with(platform, access):
    return Cordium("localhost", auth=AccessToken(access), host=platform.host, port=platform.port,
                   ssl_context_factory=platform.ssl_context)


@contextlib.contextmanager
def a_box(platform, token):
    """A workspace of the user by the user's one Session so far; gives that Session, its refresh token, and the
    workspace's handle in it and in another Session."""
    access, refresh = log_in(platform, token)
    with sdk_with(platform, access) as client:
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        (session,) = sessions_of(platform, workspace.status.user_ref.name)
        with platform.sdk(token) as other:
            eyes = other.workspaces.get(workspace.name)
            try:
                yield session, refresh, workspace, eyes
            finally:
                eyes.delete()


def sleepers(workspace):
    return int(workspace.exec("ps | grep -c '[s]leep [0-9]'").stdout or "-1")


def check_all_streams_end(platform, name, token, end_session, code, reason):
    with a_box(platform, token) as (session, refresh, workspace, eyes):
        running = workspace.exec_stream("sh -c 'sleep 300' & sleep 300", timeout=60)
        running.ready()
        assert eventually(lambda: sleepers(eyes) == 2)
        watch = workspace.watch(timeout=60)
        logs = workspace.logs(timeout=60)
        terminal = workspace.terminals.create().__enter__()
        readers = [Reader(running), Reader(watch.__enter__()), Reader(logs.__enter__()), Reader(terminal.events)]
        other = eyes.exec_stream("head -n 1", timeout=60)
        other.ready()
        time.sleep(0.7)
        assert all(reader.is_alive() for reader in readers), [reader.error for reader in readers]
        end_session(refresh, session)
        codes = [reader.code() for reader in readers]
        assert codes == [code] * 4, codes
        assert eventually(lambda: sleepers(eyes) == 0), "the program of the exec goes on"
        for method in ("Exec", "WatchWorkspace", "ListenLog", "ListenTerminal"):
            end = [end for end in eventually(lambda: ends_of(platform, name, method)) if "endReason" in end]
            assert [(e["end"], e["code"], e["endReason"]) for e in end] == [("WITHDRAWN", code, reason)], (method, end)
            if method == "Exec":
                assert end[0]["outcome"]["outcome"] == "cancelled", end
        other.write("still there\n")
        assert other.wait().stdout == "still there\n", "another Session of the same user ended, too"


@test
def all_streams_of_a_deleted_session_end(platform):
    name, token = new_member(platform, "revoked")
    check_all_streams_end(
        platform, name, token,
        lambda _, session: admin_call(platform, "DeleteSession", uid=session["metadata"]["uid"]),
        "UNAUTHENTICATED", "SESSION_GONE")


@test
def all_streams_end_with_the_log_out(platform):
    name, token = new_member(platform, "leaving")

    def log_out(refresh, _):
        status, text = platform.curl(LOGOUT, "{}", None, "-H", "x-octelium-refresh-token: " + refresh)
        assert status == 200, text

    check_all_streams_end(platform, name, token, log_out, "UNAUTHENTICATED", "SESSION_GONE")


@test
def all_streams_end_when_the_session_expires(platform):
    name, token = new_member(platform, "brief")

    def expire(_, session):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
        session["spec"]["expiresAt"] = at
        admin_call(platform, "UpdateSession", **session)

    check_all_streams_end(platform, name, token, expire, "UNAUTHENTICATED", "SESSION_EXPIRED")


@contextlib.contextmanager
def a_watch(platform, token):
    """A WatchWorkspace by the SDK, seen open."""
    with platform.sdk(token) as client:
        reader = Reader(client.workspaces.watch(timeout=60).__enter__())
        time.sleep(0.7)
        assert reader.is_alive(), reader.error
        yield reader


def check_change_ends(platform, who, change, code, reason):
    """The stream of a new user ends when change(its name) was made, and its last line says why."""
    name, token = fixture.new_user(platform, who)
    with a_watch(platform, token) as reader:
        change(name)
        assert reader.code() == code, reader.error
    check_end(platform, name, "WatchWorkspace", code, reason)


@test
def the_streams_of_a_disabled_user_end(platform):
    disabled = "spec:\n  type: WORKLOAD\n  isDisabled: true\n"
    check_change_ends(platform, "disabled", lambda name: platform.ok("update", "user", name, "-f", "-", stdin=disabled),
                      "PERMISSION_DENIED", "USER_DEACTIVATED")


@test
def the_streams_of_a_deleted_user_end(platform):
    check_change_ends(platform, "deleted", lambda name: platform.ok("delete", "user", name), "UNAUTHENTICATED", "USER_GONE")


@test
def the_streams_of_a_withdrawn_credential_end(platform):
    check_change_ends(platform, "withdrawn", lambda name: platform.ok("delete", "credential", name),
                      "UNAUTHENTICATED", "SESSION_GONE")


@test
def a_stream_outlives_the_tokens_of_its_session(platform):
    """Refreshed or changed by an administrator, the Session lives on."""
    name, token = fixture.new_user(platform, "refreshed")
    spec = "spec:\n  type: WORKLOAD\n  authorization: {policies: [allow-all]}\n  session: {accessTokenDuration: {seconds: 4}}\n"
    platform.ok("update", "user", name, "-f", "-", stdin=spec)
    with platform.sdk(token) as client:
        reader = Reader(client.workspaces.watch(timeout=60).__enter__())
        first = client.access_token()
        (session,) = sessions_of(platform, name)
        time.sleep(5)
        client.spaces.list()
        assert client.access_token() != first
        session = admin_call(platform, "GetSession", uid=session["metadata"]["uid"])
        session["metadata"]["displayName"] = "changed"
        admin_call(platform, "UpdateSession", **session)
        time.sleep(1.2)
        assert reader.is_alive(), reader.error
        assert len(sessions_of(platform, name)) == 1


@test
def a_change_of_policies_ends_no_exec(platform):
    """The next call is denied; what was allowed to begin goes on while its Session lives."""
    name, token = new_member(platform, "denied")
    spec = "spec:\n  type: WORKLOAD\n  authorization: {policies: [%s]}\n"
    with a_box(platform, token) as (_, _, workspace, _):
        running = workspace.exec_stream("head -n 1", timeout=60)
        running.ready()
        time.sleep(0.5)
        platform.ok("update", "user", name, "-f", "-", stdin=spec % "deny-all")
        expect_code("PERMISSION_DENIED", lambda: workspace.exec("true"))
        time.sleep(1.2)
        running.write("still there\n")
        assert running.wait().stdout == "still there\n"
        platform.ok("update", "user", name, "-f", "-", stdin=spec % "allow-all")


@test
def a_program_ends_though_its_client_does_not_read(platform):
    """The answer cannot leave, for the client's window is full."""
    name, token = new_member(platform, "deaf")
    with a_box(platform, token) as (session, _, workspace, eyes):
        running = workspace.exec_stream("yes & yes; sleep 1000", timeout=60)
        running.ready()
        time.sleep(1)
        assert int(eyes.exec("ps | grep -c '[y]es'").stdout) >= 2
        admin_call(platform, "DeleteSession", uid=session["metadata"]["uid"])
        assert eventually(lambda: int(eyes.exec("ps | grep -c '[y]es'").stdout) == 0, seconds=3)
        (end,) = eventually(lambda: [e for e in ends_of(platform, name, "Exec") if "endReason" in e])
        assert end["endReason"] == "SESSION_GONE" and end["outcome"]["outcome"] == "cancelled", end


@test
def a_run_goes_on_without_the_session_that_began_it(platform):
    """As without its client: the next Session of the user finds its result."""
    name, token = fixture.new_user(platform, "runner")
    access = platform.access_token(token)
    client = run_client.start_curl(platform, access, command="sleep 4; echo done")
    run_id = eventually(lambda: run_client.active(platform, access))
    (session,) = sessions_of(platform, name)
    admin_call(platform, "DeleteSession", uid=session["metadata"]["uid"])
    answer = json.loads(client.communicate(timeout=3)[0])
    assert answer["code"] == "unauthenticated", answer
    later = platform.access_token(token)
    result = eventually(lambda: [r for r in [run_client.call(platform, "GetRun", later, runId=run_id)]
                                 if r.get("outcome") == "exited"])
    assert result and run_client.text(result[0]) == "done\n", result
    end = check_end(platform, name, "Run", "UNAUTHENTICATED", "SESSION_GONE")
    assert end["outcome"]["runId"] == run_id, end


@test
def a_run_that_is_bound_to_its_client_ends_with_the_session(platform):
    name, token = fixture.new_user(platform, "bound")
    access = platform.access_token(token)
    client = run_client.start_curl(platform, access, command="sleep 20; echo done", cancelOnDisconnect=True)
    run_id = eventually(lambda: run_client.active(platform, access))
    (session,) = sessions_of(platform, name)
    admin_call(platform, "DeleteSession", uid=session["metadata"]["uid"])
    assert json.loads(client.communicate(timeout=3)[0])["code"] == "unauthenticated"
    later = platform.access_token(token)
    result = eventually(lambda: [r for r in [run_client.call(platform, "GetRun", later, runId=run_id)]
                                 if r.get("outcome") == "cancelled"], seconds=3)
    assert result and "Session ended" in result[0]["detail"], result


if __name__ == "__main__":
    main()
