"""The command line client: what people and scripts see of it."""

import json
import os
import re
import signal
import subprocess
import tempfile

import fixture
from harness import eventually, main, test


def worker(platform):
    return fixture.ensure(platform)["worker"]


@test
def every_command_explains_itself(platform):
    names = [line.split()[0] for line in platform.ok("--help").splitlines() if line.startswith("  ")]
    assert len(names) >= 15, names
    for name in names:
        out = platform.ok(name, "--help")
        assert out.startswith("Usage: cordium " + name), out


@test
def run_passes_the_exit_code_on_and_leaves_nothing(platform):
    before = platform.ok("get", "workspaces", token=worker(platform))
    done = platform.cli("run", "--template", fixture.BOX, "--ephemeral", "--rm", "--", "sh", "-c",
                        "echo it\\'s $0; exit 3", "a b", token=worker(platform))
    assert (done.returncode, done.stdout) == (3, "it's a b\n"), done
    assert platform.ok("get", "workspaces", token=worker(platform)) == before


@test
def an_interrupted_run_with_rm_takes_its_workspace_along(platform):
    before = platform.ok("get", "workspaces", token=worker(platform))
    process = subprocess.Popen(
        [os.path.join(platform.bin, "cordium"), "run", "--template", fixture.BOX, "--ephemeral", "--rm", "--", "sh", "-c",
         "echo started; sleep 60"],
        env=platform.cli_env(worker(platform)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) != 0
    process.stdout.close()
    assert platform.ok("get", "workspaces", token=worker(platform)) == before


@test
def exec_reads_standard_input_to_its_end(platform):
    name = platform.ok("run", "--template", fixture.BOX, token=worker(platform)).strip()
    try:
        out = platform.ok("exec", name, "wc", "-c", token=worker(platform), stdin="x" * 200_000)
        assert out.strip() == "200000", out
        done = platform.cli("exec", "-w", "/nowhere", name, "true", token=worker(platform))
        assert done.returncode == 126 and "/nowhere" in done.stderr, done
        done = platform.cli("exec", name, "--", "sh", "-c", "kill -9 $$", token=worker(platform))
        assert done.returncode == 255, done
    finally:
        platform.ok("delete", "workspace", name, token=worker(platform))


@test
def cp_brings_files_and_folders_there_and_back(platform):
    name = platform.ok("run", "--template", fixture.BOX, token=worker(platform)).strip()
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(folder + "/tree/deep")
            data = os.urandom(300_000)
            for path in ("/one", "/tree/two", "/tree/deep/three"):
                with open(folder + path, "wb") as file:
                    file.write(data)
            platform.ok("cp", folder + "/one", name + ":/workspace", token=worker(platform))
            platform.ok("cp", name + ":/workspace/one", folder + "/back", token=worker(platform))
            platform.ok("cp", "-r", folder + "/tree", name + ":/workspace/tree", token=worker(platform))
            platform.ok("cp", "-r", name + ":/workspace/tree", folder + "/tree-back", token=worker(platform))
            for path in ("/back", "/tree-back/two", "/tree-back/deep/three"):
                with open(folder + path, "rb") as file:
                    assert file.read() == data, path
            done = platform.cli("cp", name + ":/workspace/nothing", folder + "/x", token=worker(platform))
            assert done.returncode == 1 and not os.path.exists(folder + "/x"), done
            assert "No such file" in done.stderr, done
            done = platform.cli("cp", "-r", folder + "/one", name + ":/workspace/x", token=worker(platform))
            assert done.returncode == 1 and "leave -r out" in done.stderr, done
    finally:
        platform.ok("delete", "workspace", name, token=worker(platform))


@test
def cp_leaves_pipes_out_wherever_they_lie(platform):
    name = platform.ok("run", "--template", fixture.BOX, token=worker(platform)).strip()
    try:
        platform.ok("exec", name, "--", "sh", "-c", "mkdir -p tree/a/b; cd tree; mkfifo p a/p a/b/p; echo x > a/b/file; chmod 555 a/b",
                    token=worker(platform))
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):  # also into what is there
                done = platform.cli("cp", "-r", name + ":/workspace/tree", folder + "/tree", token=worker(platform))
                assert done.returncode == 0 and "left out" in done.stderr, done
                found = {os.path.join(path, n) for path, _, names in os.walk(folder + "/tree") for n in names}
                assert found == {folder + "/tree/a/b/file"}, found
                assert os.stat(folder + "/tree/a/b").st_mode & 0o777 == 0o555
    finally:
        platform.ok("delete", "workspace", name, token=worker(platform))


@test
def an_interrupted_cp_leaves_nothing_half_here(platform):
    name = platform.ok("run", "--template", fixture.BOX, token=worker(platform)).strip()
    try:
        platform.ok("exec", name, "--", "sh", "-c", "mkdir d; truncate -s 900G d/huge", token=worker(platform))
        for words in (["cp", name + ":/workspace/d/huge"], ["cp", "-r", name + ":/workspace/d"]):
            with tempfile.TemporaryDirectory() as folder:
                client = subprocess.Popen([os.path.join(platform.bin, "cordium"), *words, folder + "/copy"],
                                          env=platform.cli_env(worker(platform)), stderr=subprocess.DEVNULL)
                assert eventually(lambda: any(names for _, _, names in os.walk(folder)), 10)
                client.send_signal(signal.SIGINT)
                assert client.wait(20) != 0
                left = [names for _, _, names in os.walk(folder) if names]
                assert not left, left
    finally:
        platform.ok("delete", "workspace", name, token=worker(platform))


@test
def lists_are_tables_json_or_yaml(platform):
    worker(platform)
    table = platform.ok("get", "spaces")
    assert table.split()[:2] == ["Name", "Created"] and fixture.SPACE in table, table
    items = json.loads(platform.ok("get", "spaces", "-o", "json"))["items"]
    assert fixture.SPACE in [item["metadata"]["name"] for item in items], items
    assert fixture.SPACE in platform.ok("get", "spaces", "-o", "yaml")
    assert "disableSSH: true" in platform.ok("get", "space", fixture.SPACE)


@test
def update_replaces_the_spec(platform):
    worker(platform)
    before = platform.ok("get", "space", fixture.SPACE)
    platform.ok("update", "space", fixture.SPACE, "--display-name", "Tests", "-f", "-", stdin=fixture.SPACE_YAML)
    after = platform.ok("get", "space", fixture.SPACE)
    assert "displayName: Tests" in after and "resourceVersion" in after, after
    assert before != after


@test
def a_server_that_is_not_there_is_said_plainly(platform):
    done = platform.cli("get", "spaces", "--server", "127.0.0.1:1")
    assert done.returncode == 1 and "127.0.0.1:1" in done.stderr and "UNAVAILABLE" in done.stderr, done


@test
def a_call_that_is_refused_early_ends_at_once(platform):
    """Before the server has read all of it: it depends on the moment whether libcurl then hangs."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**platform.cli_env(worker(platform)), "OCTELIUM_HOME": home}
        command = [os.path.join(platform.bin, "cordium"), "create", "user", "nobody", "--type", "WORKLOAD"]
        for attempt in range(60):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=10,
                                  stdin=subprocess.DEVNULL)
            assert done.returncode == 1, done
            if attempt == 0:  # what it keeps of its log-in is good no more
                path = os.path.join(home, "cordium-session.yaml")
                with open(path) as file:
                    kept = re.sub(r'accessToken: "[^"]*"', 'accessToken: "nothing"', file.read())
                with open(path, "w") as file:
                    file.write(kept)
            else:
                assert "UNAUTHENTICATED" in done.stderr, done


@test
def octeliumctl_is_the_same_program(platform):
    assert "admin" in platform.ok("get", "users", program="octeliumctl")


@test
def the_client_in_the_workspace_needs_nothing_of_the_image(platform):
    done = subprocess.run(["ldd", os.path.join(platform.bin, "sandbox-tools", "bin", "cordium")],
                          capture_output=True, text=True, timeout=20)
    needed = [line.split()[0] for line in done.stdout.splitlines() if "linux-vdso" not in line]
    have = os.listdir(os.path.join(platform.bin, "sandbox-tools", "lib"))
    for library in needed:
        name = os.path.basename(library)
        assert name in have or "ld" in name, (name, have)


if __name__ == "__main__":
    main()
