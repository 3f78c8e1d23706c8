"""Exec, files and the life of a workspace, through the unmodified SDK."""

import hashlib
import os
import threading
import time

import fixture
from cordium.workspaces import State
from harness import eventually, expect_code, main, test

_shared = {}

# The number of sleeping processes; the base image has no pgrep.
COUNT = "ps | grep -c '[s]leep [0-9]'"


def sleepers(platform):
    return int(box(platform).exec(COUNT).stdout or "-1")


def end_sleepers(platform):
    """Ends every process of the workspace's user, this one too."""
    box(platform).exec("kill -9 -1")
    assert eventually(lambda: sleepers(platform) == 0)


def box(platform):
    """One workspace that tests share when they leave nothing behind."""
    if "box" not in _shared:
        token = fixture.ensure(platform)["worker"]
        client = platform.sdk(token).__enter__()
        _shared["client"] = client
        _shared["box"] = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
    return _shared["box"]


@test
def a_workspace_starts_in_well_under_a_second(platform):
    workspace = box(platform)
    began = time.monotonic()
    second = _shared["client"].workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
    took = time.monotonic() - began
    try:
        assert second.is_running, second.state
        assert second.hostname.endswith(".cordium.localhost"), second.hostname
        assert second.status.session_ref.name
    finally:
        second.delete()
    assert took < 5, took
    assert workspace.is_running


@test
def exit_codes_and_both_streams_come_back(platform):
    result = box(platform).exec("echo out; echo err >&2; exit 7")
    assert (result.exit_code, result.stdout, result.stderr) == (7, "out\n", "err\n")


@test
def death_by_signal_is_minus_one(platform):
    assert box(platform).exec("kill -9 $$").exit_code == -1


@test
def exit_137_is_not_a_signal(platform):
    assert box(platform).exec("exit 137").exit_code == 137


@test
def without_stdin_a_reader_sees_the_end_at_once(platform):
    began = time.monotonic()
    result = box(platform).exec("cat; echo done")
    assert result.stdout == "done\n"
    assert time.monotonic() - began < 3


@test
def a_bad_working_directory_is_126_with_a_reason(platform):
    result = box(platform).exec("true", cwd="/no/such/folder")
    assert result.exit_code == 126, result
    assert "/no/such/folder" in result.stderr, result.stderr


@test
def an_unknown_command_is_127(platform):
    assert box(platform).exec("no-such-program").exit_code == 127


@test
def environment_and_working_directory_reach_the_program(platform):
    result = box(platform).exec("echo $A-$PWD", env={"A": "x y"}, cwd="/tmp")
    assert result.stdout == "x y-/tmp\n"


@test
def a_background_child_that_holds_stdout_does_not_hold_the_exec(platform):
    began = time.monotonic()
    result = box(platform).exec("sleep 30 & echo done")
    assert result.stdout == "done\n"
    assert time.monotonic() - began < 5
    end_sleepers(platform)


@test
def kill_ends_the_whole_tree(platform):
    with box(platform).exec_stream("sh -c 'sleep 300' & sleep 300", timeout=60) as session:
        session.ready()
        assert eventually(lambda: sleepers(platform) == 2)
        session.kill()
        result = session.wait()
    assert result.exit_code == -1, result
    assert eventually(lambda: sleepers(platform) == 0)


@test
def a_client_that_goes_away_ends_the_tree(platform):
    session = box(platform).exec_stream("sh -c 'sleep 300' & sleep 300", timeout=60)
    session.ready()
    assert eventually(lambda: sleepers(platform) == 2)
    session.close()
    assert eventually(lambda: sleepers(platform) == 0)


@test
def stdin_reaches_the_program_piece_by_piece(platform):
    with box(platform).exec_stream("head -n 2", timeout=30) as session:
        session.write("one\n")
        session.write("two\n")
        result = session.wait()
    assert result.stdout == "one\ntwo\n", result


@test
def output_of_many_megabytes_is_whole_and_in_pieces(platform):
    total = 0
    largest = 0
    digest = hashlib.sha256()
    with box(platform).exec_stream("head -c 33554432 /dev/zero", timeout=60) as session:
        for piece in session:
            total += len(piece.data)
            largest = max(largest, len(piece.data))
            digest.update(piece.data)
        assert session.wait().exit_code == 0
    assert total == 33554432
    assert largest <= 32768, largest
    assert digest.digest() == hashlib.sha256(bytes(33554432)).digest()


@test
def a_64_mib_file_comes_back_byte_for_byte(platform):
    files = box(platform).files
    data = os.urandom(1 << 20) * 64
    box(platform).exec("rm -f /workspace/*")
    files.write_bytes("/workspace/big", data, timeout=120)
    back = files.read_bytes("/workspace/big", max_bytes=len(data), timeout=120)
    assert back == data
    files.remove("/workspace/big")


@test
def file_helpers_of_the_sdk_work(platform):
    files = box(platform).files
    files.mkdir("/workspace/a/b")
    files.write_text("/workspace/a/b/c.txt", "caf\u00e9\n")
    assert files.read_text("/workspace/a/b/c.txt") == "caf\u00e9\n"
    files.remove("/workspace/a", recursive=True)
    assert box(platform).exec("ls /workspace").stdout == ""


@test
def a_command_of_several_hundred_kilobytes_runs(platform):
    text = "x" * 400_000
    result = box(platform).exec(f"printf %s '{text}' | wc -c", max_capture_bytes=1 << 20)
    assert result.stdout.strip() == "400000", result


@test
def writable_places_are_writable_and_the_root_is_not(platform):
    for path in ("/workspace", "/tmp", "/var/tmp", "/dev/shm", "$HOME"):
        result = box(platform).exec(f"echo x > {path}/probe && rm {path}/probe")
        assert result.exit_code == 0, (path, result.stderr)
    for path in ("/", "/etc", "/bin", "/usr", "/opt/cordium"):
        result = box(platform).exec(f"echo x > {path}/probe")
        assert result.exit_code != 0, path


@test
def memory_limit_holds_and_spares_the_workspace(platform):
    result = box(platform).exec("head -c 400000000 /dev/zero | tail -c 1 >/dev/null; echo after")
    assert "after" in result.stdout, result
    assert box(platform).exec("echo alive").stdout == "alive\n"


@test
def storage_limit_holds(platform):
    result = box(platform).exec("dd if=/dev/zero of=/workspace/f bs=1M count=400; rm -f /workspace/f")
    assert "Disk quota exceeded" in result.stderr or "No space left" in result.stderr, result.stderr


@test
def a_fork_bomb_meets_the_pids_limit(platform):
    script = "i=0; while [ $i -lt 6000 ]; do sleep 20 & i=$((i+1)); done 2>/dev/null; true"
    box(platform).exec(script, timeout=90)
    end_sleepers(platform)
    assert box(platform).exec("echo alive").stdout == "alive\n"


@test
def there_is_no_network_but_loopback(platform):
    result = box(platform).exec("ip -o link | cut -d: -f2 | tr -d ' '")
    assert result.stdout.split() == ["lo"], result.stdout
    began = time.monotonic()
    assert box(platform).exec("nc -w 3 192.0.2.1 80 </dev/null").exit_code != 0
    assert time.monotonic() - began < 3


@test
def run_as_root_has_no_power_over_its_walls(platform):
    result = box(platform).exec("id -u; mount -t tmpfs x /mnt; hostname y; cat /proc/self/uid_map", root=True)
    assert result.stdout.splitlines()[0] == "0"
    assert result.stdout.split()[-2] != "0"
    assert "Permission denied" in result.stderr or "not permitted" in result.stderr, result.stderr


@test
def exec_in_a_stopped_workspace_is_refused_with_its_name(platform):
    client = _shared["client"]
    workspace = client.workspaces.create(template=fixture.BOX)
    try:
        text = expect_code("INVALID_ARGUMENT", lambda: workspace.exec("true"))
        assert workspace.name in text, text
    finally:
        workspace.delete()


@test
def persistent_storage_survives_a_stop_and_ephemeral_does_not(platform):
    client = _shared["client"]
    for ephemeral in (False, True):
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=ephemeral, timeout=60)
        try:
            workspace.exec("echo kept > /workspace/marker; echo kept > $HOME/marker")
            workspace.stop()
            workspace.wait_until_stopped(timeout=30, poll_interval=0.1)
            assert workspace.refresh().status.successful_runs == 1
            workspace.start()
            workspace.wait_until_running(timeout=30, poll_interval=0.1)
            out = workspace.exec("cat /workspace/marker $HOME/marker 2>/dev/null").stdout
            assert out == ("" if ephemeral else "kept\nkept\n"), (ephemeral, out)
        finally:
            workspace.delete()


@test
def deleting_a_running_workspace_removes_it_and_its_storage(platform):
    client = _shared["client"]
    workspace = client.workspaces.run(template=fixture.BOX, timeout=60)
    workspace.exec("echo x > /workspace/x")
    workspace.delete()
    text = expect_code("NOT_FOUND", lambda: client.workspaces.get(workspace.name))
    assert workspace.name in text, text


@test
def a_start_twice_is_no_error_and_a_stop_when_stopped_is(platform):
    client = _shared["client"]
    workspace = client.workspaces.run(template=fixture.BOX, timeout=60)
    try:
        workspace.start()
        workspace.stop()
        workspace.wait_until_stopped(timeout=30, poll_interval=0.1)
        expect_code("INVALID_ARGUMENT", workspace.stop)
    finally:
        workspace.delete()


@test
def a_watcher_sees_the_states_in_order(platform):
    client = _shared["client"]
    order = ["INIT_REQUEST", "INITIALIZING", "PULLING_IMAGE", "BUILDING_IMAGE", "STARTING_RUNTIME",
             "PREPARING", "RUNNING", "STOPPING_REQUEST", "STOPPING", "STOPPED"]
    workspace = client.workspaces.create(template=fixture.BOX)
    seen = []
    with workspace.watch(timeout=30) as events:
        reader = threading.Thread(
            target=lambda: [seen.append(event.workspace.status.state) for event in events], daemon=True)
        reader.start()
        time.sleep(0.2)
        workspace.start()
        workspace.wait_until_running(timeout=30, poll_interval=0.1)
        workspace.stop()
        workspace.wait_until_stopped(timeout=30, poll_interval=0.1)
        assert eventually(lambda: seen and State(seen[-1]).name == "STOPPED")
    names = [State(state).name for state in seen]
    ranks = [order.index(name) for name in names if name in order]
    distinct = [r for i, r in enumerate(ranks) if i == 0 or r != ranks[i - 1]]
    assert distinct == sorted(distinct) and len(set(distinct)) == len(distinct), names
    assert "RUNNING" in names and "STOPPED" in names, names
    workspace.delete()


@test
def tasks_run_in_their_order_and_a_failure_stops_the_start(platform):
    from cordium import Task

    client = _shared["client"]
    workspace = client.workspaces.create(
        template=fixture.BOX,
        tasks=[
            Task(name="first", command="echo create >> /workspace/log", on="create"),
            Task(name="second", command="echo start >> /workspace/log", on="start"),
        ],
    )
    try:
        for expected in ("create\nstart\n", "create\nstart\nstart\n"):
            workspace.start()
            workspace.wait_until_running(timeout=30, poll_interval=0.1)
            assert workspace.exec("cat /workspace/log").stdout == expected
            workspace.stop()
            workspace.wait_until_stopped(timeout=30, poll_interval=0.1)
    finally:
        workspace.delete()


@test
def terminals_work(platform):
    workspace = box(platform)
    seen = bytearray()
    with workspace.terminals.create(cols=100, rows=30) as terminal:
        terminal.write("stty size; echo marker-$((40+2))\n")
        for event in terminal.events:
            seen += event.data
            if b"marker-42" in seen and b"30 100" in seen:
                break
        terminal.remove()
    assert b"30 100" in seen, bytes(seen)


@test
def zz_the_shared_workspace_goes(platform):
    _shared["box"].delete()
    _shared["client"].__exit__(None, None, None)


if __name__ == "__main__":
    main()
