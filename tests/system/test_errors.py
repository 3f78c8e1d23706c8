"""Bad input gets the right status and a text that names the object and the remedy."""

import json

import fixture
from harness import expect_code, main, test

MAIN = "/octelium.api.main.cordium.v1.MainService/"


@test
def a_wrong_token_is_unauthenticated(platform):
    status, text = platform.curl(MAIN + "ListSpace", "{}", "not-a-token")
    assert status == 401 and json.loads(text)["code"] == "unauthenticated", (status, text)
    status, text = platform.curl(MAIN + "ListSpace")
    assert status == 401, (status, text)
    assert "token" in json.loads(text)["message"], text


@test
def curl_json_works_on_the_same_paths(platform):
    token = platform.access_token()
    status, text = platform.curl(MAIN + "ListSpace", "{}", token)
    assert status == 200 and json.loads(text)["kind"] == "SpaceList", (status, text)
    status, text = platform.curl(MAIN + "ListSpace", "{}", token, "--http1.1")
    assert status == 200, (status, text)


@test
def an_unknown_method_is_unimplemented(platform):
    status, text = platform.curl(MAIN + "NoSuchMethod", "{}", platform.access_token())
    assert status in (404, 501) and json.loads(text)["code"] == "unimplemented", (status, text)


@test
def malformed_json_is_an_invalid_argument_with_a_place(platform):
    status, text = platform.curl(MAIN + "ListSpace", '{"common": ', platform.access_token())
    assert status == 400 and json.loads(text)["code"] == "invalid_argument", (status, text)


@test
def an_unknown_template_is_not_found_by_name(platform):
    token = fixture.ensure(platform)["worker"]
    with platform.sdk(token) as client:
        text = expect_code("NOT_FOUND", lambda: client.workspaces.create(template="nothing.tests.cordium"))
    assert "nothing.tests.cordium" in text, text


@test
def a_limit_over_the_maximum_of_the_space_is_refused_with_its_name(platform):
    from cordium import Resources

    token = fixture.ensure(platform)["worker"]
    with platform.sdk(token) as client:
        text = expect_code(
            "INVALID_ARGUMENT",
            lambda: client.workspaces.create(
                template=fixture.BOX, resources=Resources(cpu=500_000, memory=128, storage=128)))
    assert "cpu" in text.lower() and "2000" in text, text


@test
def an_unknown_yaml_field_is_named_with_its_line(platform):
    done = platform.cli("create", "template", "bad.tests.cordium", "-f", "-", stdin="spec:\n  imgae: {}\n")
    assert done.returncode == 1, done
    assert "imgae" in done.stderr and ":2:" in done.stderr and "image" in done.stderr, done.stderr


@test
def names_that_are_no_names_are_refused(platform):
    for name in ("UPPER.tests.cordium", "a.tests.cordium", "x" * 41 + ".tests.cordium", "a--b.tests.cordium"):
        done = platform.cli("create", "template", name)
        assert done.returncode == 1 and "INVALID_ARGUMENT" in done.stderr, (name, done.stderr)


@test
def a_stranger_sees_nothing_of_a_space(platform):
    fixture.ensure(platform)
    _, token = fixture.new_user(platform, "stranger")
    done = platform.cli("get", "template", fixture.BOX, token=token)
    assert done.returncode == 1 and "PERMISSION_DENIED" in done.stderr, done.stderr
    done = platform.cli("get", "users", token=token)
    assert done.returncode == 1 and "PERMISSION_DENIED" in done.stderr, done.stderr


@test
def another_users_workspace_is_out_of_reach(platform):
    token = fixture.ensure(platform)["worker"]
    with platform.sdk(token) as client, platform.sdk() as admin:
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        try:
            for call in (
                lambda: admin.workspaces.get(workspace.name),
                lambda: admin.workspaces.get(workspace.uid),
            ):
                try:
                    call()
                except Exception as error:
                    assert error.code in ("NOT_FOUND", "PERMISSION_DENIED"), error
                else:
                    raise AssertionError("another user's workspace was shown")
        finally:
            workspace.delete()


@test
def the_quota_of_active_workspaces_names_the_remedy(platform):
    config = platform.ok("get", "clusterconfig", "--cordium")
    limit = "spec:\n  workspace:\n    limit:\n      maxActivePerUser: 2\n"
    merged = config.replace("spec:\n", "spec:\n  workspace:\n    limit:\n      maxActivePerUser: 2\n", 1)
    platform.ok("update", "clusterconfig", "--cordium", "-f", "-", stdin=merged if "workspace:" not in config else limit)
    fixture.ensure(platform)
    name, token = fixture.new_user(platform, "greedy")
    platform.ok("create", "membership", "--space", fixture.SPACE, "--user", name)
    made = []
    try:
        with platform.sdk(token) as client:
            for _ in range(2):
                made.append(client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60))
            third = client.workspaces.create(template=fixture.BOX)
            made.append(third)
            text = expect_code("PERMISSION_DENIED", third.start)
            assert "active" in text.lower() and "2" in text, text
            for workspace in made:
                workspace.delete()
    finally:
        platform.ok("update", "clusterconfig", "--cordium", "-f", "-", stdin=config)


if __name__ == "__main__":
    main()
