"""Logging in as the SDK does it: refresh, log-out, single-use credentials, OAuth2 clients."""

import json
import subprocess
import time

import fixture
from harness import main, test


def user_with_token_life(platform, name, seconds):
    name, token = fixture.new_user(platform, name)
    spec = ("spec:\n  type: WORKLOAD\n  authorization: {policies: [allow-all]}\n"
            f"  session: {{accessTokenDuration: {{seconds: {seconds}}}}}\n")
    platform.ok("update", "user", name, "-f", "-", stdin=spec)
    return name, token


@test
def the_sdk_refreshes_its_session_by_itself(platform):
    _, token = user_with_token_life(platform, "fresh", 10)
    with platform.sdk(token) as client:
        first = client.access_token()
        time.sleep(8.5)
        client.spaces.list()
        second = client.access_token()
        assert first != second
    status, _ = platform.curl("/octelium.api.main.cordium.v1.MainService/ListSpace", "{}", first)
    assert status == 401, "the replaced token still works"


@test
def a_token_works_only_until_the_session_is_deleted(platform):
    name, token = fixture.new_user(platform, "gone")
    access = platform.access_token(token)
    path = "/octelium.api.main.cordium.v1.MainService/ListSpace"
    assert platform.curl(path, "{}", access)[0] == 200
    sessions = json.loads(platform.ok("get", "sessions", "-o", "json"))["items"]
    mine = [s["metadata"]["name"] for s in sessions if s["status"]["userRef"]["name"] == name]
    platform.ok("delete", "session", *mine)
    assert platform.curl(path, "{}", access)[0] == 401


@test
def a_single_use_credential_opens_one_session(platform):
    name, _ = fixture.new_user(platform, "once")
    spec = "spec:\n  maxAuthentications: 1\n"
    token = platform.ok("create", "credential", name + "-once", "--user", name, "-f", "-", stdin=spec).strip()
    platform.access_token(token)
    done = platform.cli("get", "spaces", token=token)
    assert done.returncode == 1 and "UNAUTHENTICATED" in done.stderr, done


@test
def oauth2_client_credentials_give_an_access_token(platform):
    name, _ = fixture.new_user(platform, "client")
    words = platform.ok("create", "credential", name + "-oauth", "--user", name, "--type", "OAUTH2").split()
    done = subprocess.run(
        ["curl", "-sS", "--http1.1", "--cacert", platform.ca, "-d", "grant_type=client_credentials",
         "-d", "client_id=" + words[0], "-d", "client_secret=" + words[1],
         f"https://localhost:{platform.port}/oauth2/token"],
        capture_output=True, text=True, timeout=20)
    answer = json.loads(done.stdout)
    assert answer["token_type"].lower() == "bearer" and answer["expires_in"] > 0, answer
    assert platform.curl("/octelium.api.main.cordium.v1.MainService/ListSpace", "{}", answer["access_token"])[0] == 200
    done = subprocess.run(
        ["curl", "-sS", "--cacert", platform.ca, "-d", "grant_type=client_credentials", "-d", "client_id=" + words[0],
         "-d", "client_secret=wrong", f"https://localhost:{platform.port}/oauth2/token"],
        capture_output=True, text=True, timeout=20)
    assert json.loads(done.stdout)["error"] == "invalid_client", done.stdout


@test
def a_disabled_user_is_refused_at_once(platform):
    name, token = fixture.new_user(platform, "off")
    access = platform.access_token(token)
    platform.ok("update", "user", name, "-f", "-", stdin="spec:\n  type: WORKLOAD\n  isDisabled: true\n")
    status, text = platform.curl("/octelium.api.main.cordium.v1.MainService/ListSpace", "{}", access)
    assert status in (401, 403), (status, text)


if __name__ == "__main__":
    main()
