"""Images and builds of Templates, through the unmodified SDK."""

import time

from cordium.workspaces import State
from harness import eventually, expect_code, main, test
from octelium.api.main.cordium import v1 as p

DENY = p.WorkspaceSpecRuntimeNetwork(
    egress=p.WorkspaceSpecRuntimeNetworkEgress(
        default_action=p.WorkspaceSpecRuntimeNetworkEgressDefaultAction.DENY
    )
)


def image(text):
    return p.WorkspaceSpecImage(dockerfile=p.WorkspaceSpecImageDockerfile(inline=text))


def template(client, text, tasks=()):
    """A Template of its own for each call; gives its full name."""
    spec = p.TemplateSpec(
        image=image(text), runtime=p.WorkspaceSpecRuntime(network=DENY, tasks=list(tasks))
    )
    name = f"build-{time.monotonic_ns() % 10**10}"
    return client.templates.create(name, spec=spec).metadata.name


def build(client, name):
    started = client.templates.build(name)
    return started.status.build_info.current_running_build_id


def wait(client, name, build_id):
    return client.templates.wait_for_build(name, build_id, timeout=120, poll_interval=0.1)


@test
def a_built_image_is_what_workspaces_run(platform):
    with platform.sdk() as client:
        name = template(client, "FROM busybox\nRUN echo built > /etc/proof\n")
        done = wait(client, name, build(client, name))
        assert done.status.build_info.builds[0].tags == ["latest"]
        workspace = client.workspaces.run(template=name, ephemeral=True, timeout=30)
        try:
            assert workspace.exec("cat /etc/proof").stdout == "built\n"
            assert workspace.exec("id -u").stdout == "1000\n"
        finally:
            workspace.delete()


@test
def a_failing_step_shows_its_number_command_code_and_last_lines(platform):
    with platform.sdk() as client:
        name = template(client, "FROM busybox\nRUN true\nRUN echo almost; exit 9\n")
        build_id = build(client, name)
        text = expect_code("BUILD_FAILED", lambda: wait(client, name, build_id))
        for part in ("Step 3/3", "RUN echo almost; exit 9", "exit code 9", "\n    almost"):
            assert part in str(text), text
        assert client.templates.get(name).status.build_info.current_ready_build_id == ""


@test
def what_a_builds_tasks_leave_is_there_in_each_workspace(platform):
    with platform.sdk() as client:
        task = p.WorkspaceSpecRuntimeTask(
            name="prepare",
            run="echo prepared > /workspace/a; echo home > ~/b",
            type=p.WorkspaceSpecRuntimeTaskType.ON_CREATE,
        )
        name = template(client, "FROM busybox\n", [task])
        wait(client, name, build(client, name))
        for _ in range(2):
            workspace = client.workspaces.run(template=name, ephemeral=True, timeout=30)
            try:
                assert workspace.exec("cat /workspace/a ~/b").stdout == "prepared\nhome\n"
                workspace.exec("echo more >> /workspace/a")
            finally:
                workspace.delete()


@test
def a_canceled_build_is_failed_and_said_to_be_canceled(platform):
    with platform.sdk() as client:
        name = template(client, "FROM busybox\nRUN sleep 300\n")
        build_id = build(client, name)
        time.sleep(1)
        info = client.templates.cancel_build(name).status.build_info
        assert info.builds[0].id == build_id and info.builds[0].is_canceled
        assert info.current_running_build_id == ""
        assert client.templates.cancel_build(name).metadata.name == name


@test
def a_workspace_may_be_stopped_while_its_image_is_built(platform):
    with platform.sdk() as client:
        workspace = client.workspaces.create(
            image=image(f"FROM busybox\nRUN sleep 300 # {time.time()}\n"), ephemeral=True
        )
        workspace.start()
        assert eventually(lambda: workspace.refresh().state == State.BUILDING_IMAGE)
        workspace.stop()
        workspace.wait_until_stopped(timeout=10, poll_interval=0.1)
        assert workspace.failure is None
        assert workspace.status.successful_runs == 0
        workspace.delete()


@test
def several_who_want_one_image_get_one_build(platform):
    with platform.sdk() as client:
        text = f"FROM busybox\nRUN cat /proc/sys/kernel/random/uuid > /etc/once # {time.time()}\n"
        boxes = [
            client.workspaces.create(image=image(text), ephemeral=True) for _ in range(3)
        ]
        try:
            for box in boxes:
                box.start()
            for box in boxes:
                box.wait_until_running(timeout=60, poll_interval=0.1)
            assert len({box.exec("cat /etc/once").stdout for box in boxes}) == 1
        finally:
            for box in boxes:
                box.delete()


@test
def an_image_that_does_not_exist_is_a_failure_with_its_name(platform):
    with platform.sdk() as client:
        workspace = client.workspaces.create(image="docker.io/library/nonesuch:1", ephemeral=True)
        workspace.start()
        expect_code(
            "WORKSPACE_FAILED",
            lambda: workspace.wait_until_running(timeout=60, poll_interval=0.1),
        )
        assert "nonesuch" in workspace.refresh().failure.message
        said = b"".join(entry.data for entry in workspace.logs(timeout=10))
        assert b"nonesuch" in said, said
        workspace.delete()


@test
def a_workspace_without_any_image_says_what_to_set(platform):
    with platform.sdk() as client:
        workspace = client.workspaces.create(ephemeral=True)
        workspace.start()
        expect_code(
            "WORKSPACE_FAILED", lambda: workspace.wait_until_running(timeout=10, poll_interval=0.1)
        )
        assert "spec.image" in workspace.refresh().failure.message
        workspace.delete()


if __name__ == "__main__":
    main()
