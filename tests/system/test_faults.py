"""Daemons that die, disks that fill, clients that misbehave: what must still hold."""

import os
import random
import signal
import subprocess
import threading
import time

import fixture
import run_client
from audit_files import check_chain
from cordium import AccessToken, Cordium, CordiumError
from daemons import (
    Daemons,
    check_decisions,
    processes,
    tell,
)
from h2.exceptions import ProtocolError
from harness import eventually, expect_code, main, test
from octelium.api.main.cordium import v1 as p

RESTARTED = "The gateway was restarted while the workspace was running"
EXECUTOR_RESTARTED = "The executor was restarted"
POOLED_CGROUPS_MAX = 1 + 64 * (1 + 4)  # sandboxes' groups that wait for the next, with their runs'
CLIENT_ERRORS = (CordiumError, OSError, EOFError, ProtocolError)


_access = {}


def worker(platform):
    """A client with a session that all share: a User may have 128 of them."""
    if not _access:
        _access["token"] = platform.access_token(fixture.ensure(platform)["worker"])
    return Cordium(
        "localhost",
        auth=AccessToken(_access["token"]),
        host=platform.host,
        port=platform.port,
        ssl_context_factory=platform.ssl_context,
    )


def settle(daemons, before, what):
    """Waits until as many cgroups, storages and fds are there as before."""
    now = {}

    def same():
        now.update(what(daemons))
        return all(now[k] <= before[k] for k in before)

    assert eventually(same, 20, 0.2), f"before {before}, now {now}"


def holdings(daemons):
    return {
        "inhabited cgroups": len(daemons.inhabited()),
        "storages": len(daemons.storages()),
        "fds of the executor": daemons.fds("executor"),
        "surplus of cgroups": max(0, len(daemons.cgroups()) - POOLED_CGROUPS_MAX),
    }


def delete_all(client):
    for workspace in list(client.workspaces.all()):
        try:
            workspace.delete()
        except CordiumError as error:
            assert error.code == "NOT_FOUND", error


# --- load ---


class Load:
    """Clients that start, use and delete workspaces until they are told to stop."""

    def __init__(self, platform, threads=4):
        self.platform = platform
        self.is_over = threading.Event()
        self.execs = self.starts = 0
        self.wrong = []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(threads)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a client hangs"

    def work(self, number):
        while not self.is_over.is_set():
            try:
                with worker(self.platform) as client:
                    while not self.is_over.is_set():
                        self.round(client, number)
            except CLIENT_ERRORS:
                time.sleep(0.02)
            except Exception as error:  # anything else is a fault of ours or of the SDK
                self.wrong.append(repr(error))
                return

    def round(self, client, number):
        workspace = client.workspaces.run(
            template=fixture.BOX, ephemeral=number % 2 == 0, timeout=20, poll_interval=0.05
        )
        with self.lock:
            self.starts += 1
        for i in range(3):
            result = workspace.exec(f"echo {number}-{i}", timeout=10)
            if result.exit_code == 0 and result.stdout != f"{number}-{i}\n":
                self.wrong.append(f"asked for {number}-{i}, got {result}")
            with self.lock:
                self.execs += 1
        workspace.files.write_bytes("/workspace/upload", os.urandom(300_000), timeout=20)
        workspace.delete()


@test
def a_gateway_that_is_killed_under_load_leaves_nothing_wrong(platform):
    daemons = Daemons(platform)
    with worker(platform) as client:
        delete_all(client)
    before = holdings(daemons)
    execs = starts = 0
    for _ in range(4):
        with Load(platform) as load:
            time.sleep(random.uniform(0.5, 2))
            daemons.kill("gateway")
            load.is_over.set()
        assert not load.wrong, load.wrong
        execs, starts = execs + load.execs, starts + load.starts
        daemons.up()
        with worker(platform) as client:
            for workspace in client.workspaces.all():
                assert workspace.is_stopped, (workspace.name, workspace.state)
                failure = workspace.failure
                message = failure.message if failure else ""
                assert message in ("", RESTARTED), message
            delete_all(client)
        settle(daemons, before, holdings)
    assert starts > 0 and execs > 0, (starts, execs)
    tell(f"{starts} starts, {execs} execs between four kills")
    records = check_chain(platform.audit_folder)
    decisions = check_decisions(records).values()
    allowed = [d["entry"]["info"] for d in decisions if d["entry"]["common"]["status"] == "ALLOWED"]
    methods = [i["grpc"].get("method") for i in allowed if "grpc" in i]
    assert methods.count("StartWorkspace") >= starts
    assert methods.count("Exec") >= execs


@test
def an_executor_that_is_killed_is_reported_and_found_again(platform):
    daemons = Daemons(platform)
    with worker(platform) as client:
        delete_all(client)
        before = holdings(daemons)
        boxes = [
            client.workspaces.run(template=fixture.BOX, ephemeral=i == 0, timeout=30)
            for i in range(3)
        ]
        marker = str(random.randrange(10**6, 10**7))
        lines_before = len(platform.audit_lines())
        sessions = [b.exec_stream(f"sleep {marker}", timeout=30) for b in boxes]
        assert eventually(lambda: len(processes(marker)) == 3), processes(marker)
        daemons.kill("executor")
        for session in sessions:
            result = session.wait()
            assert result.exit_code == -1, result
            assert "executor" in result.stderr, result
        text = expect_code("UNAVAILABLE", lambda: client.workspaces.run(template=fixture.BOX))
        assert "cordium-executor" in text, text
        assert client.workspaces.get(boxes[1].name).name == boxes[1].name
        daemons.up()
        for box in boxes:
            assert eventually(lambda b=box: b.refresh().is_stopped, 15), box.refresh().state
            assert EXECUTOR_RESTARTED in box.failure.message, box.failure
        assert processes(marker) == []
        own = [line["cordium"] for line in platform.audit_lines()[lines_before:] if "cordium" in line]
        ends = {e["workspaceRef"]["uid"]: e for e in own if e["event"] == "WORKSPACE_END"}
        assert set(ends) == {box.uid for box in boxes} and len(ends) == sum(e["event"] == "WORKSPACE_END" for e in own), own
        assert all(e["stopReason"] == "ERROR" and EXECUTOR_RESTARTED in e["failure"]["message"] for e in ends.values()), ends
        assert sum(e["event"] == "END" and e.get("outcome", {}).get("outcome") == "lost" for e in own) == 3, own
        again = boxes[1].start()
        again.wait_until_running(timeout=30, poll_interval=0.1)
        assert again.exec("echo back").stdout == "back\n"
        delete_all(client)
        settle(daemons, before, holdings)


@test
def an_executor_that_is_killed_under_load_leaves_nothing_wrong(platform):
    daemons = Daemons(platform)
    before = holdings(daemons)
    for _ in range(3):
        with Load(platform) as load:
            time.sleep(random.uniform(0.5, 1.5))
            daemons.kill("executor")
            time.sleep(0.3)
            daemons.up()
            assert eventually(lambda n=load.starts: load.starts > n + 2, 30), "no start after it"
        assert not load.wrong, load.wrong
        with worker(platform) as client:
            delete_all(client)
        settle(daemons, before, holdings)


def ends_of(records, workspace, request, run):
    """Of what a killed gateway left: how often the log tells the end of each."""
    own = [r["cordium"] for r in records if "cordium" in r]
    return {
        "workspace": [o for o in own if o["event"] == "WORKSPACE_END" and o["workspaceRef"]["uid"] == workspace],
        "exec": [o for o in own if o["event"] == "END" and o.get("requestID") == request],
        "run": [o for o in own if o["event"] == "RUN_END" and o["outcome"]["runId"] == run],
    }


@test
def what_a_killed_gateway_left_open_has_one_end_after_however_many_kills(platform):
    """The next gateway tells it; one that is killed while it does leaves the rest to the one after it."""
    daemons = Daemons(platform)
    for round, pauses in enumerate(((), (0.5, 0.5), (0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.17))):
        before = len(platform.audit_lines())
        with worker(platform) as client:
            box = client.workspaces.run(template=fixture.BOX, timeout=30)
            name, uid = box.name, box.uid
            box.exec_stream("sleep 600", timeout=900)
            access = platform.access_token(fixture.ensure(platform)["worker"])
            curl = run_client.start_curl(platform, access, argv=["sleep", "600"], idempotencyKey=f"left-{round}-{time.monotonic_ns()}")
            assert eventually(lambda: run_client.active(platform, access), 20)
            run = run_client.active(platform, access)
            lines = platform.audit_lines()[before:]
            [request] = [x["cordium"]["requestID"] for x in lines if x.get("cordium", {}).get("event") == "DECISION"
                         and x["entry"]["info"].get("grpc", {}).get("method") == "Exec"]
            daemons.kill("gateway")
            for pause in pauses:
                process = daemons.start_gateway_alone()
                time.sleep(pause)
                process.kill()
                process.wait(10)
            daemons.up()
            curl.wait(10)
        assert eventually(lambda: ends_of(platform.audit_lines()[before:], uid, request, run)["exec"], 10), "no end of the exec"
        daemons.stop("gateway")  # and a start that has nothing to tell
        daemons.up()
        records = check_chain(platform.audit_folder)
        check_decisions(records)
        ends = ends_of(records[before:], uid, request, run)
        assert {what: len(found) for what, found in ends.items()} == {"workspace": 1, "exec": 1, "run": 1}, (round, ends)
        end = ends["workspace"][0]
        assert (end["stopReason"], end["failure"]["message"]) == ("ERROR", RESTARTED), end
        assert end["workspaceRef"]["name"] == name and end["spaceRef"]["name"] == fixture.SPACE, end
        end = ends["exec"][0]
        assert end["end"] == "LOST" and end["outcome"]["outcome"] == "lost" and "code" not in end, end
        assert end["workspaceRef"]["uid"] == uid and len(end["run"]["commandSHA256"]) == 64, end
        end = ends["run"][0]
        assert end["outcome"]["outcome"] == "lost" and "gateway ended" in end["outcome"]["detail"], end
        check_story(platform, records[before:], uid, request)
        with worker(platform) as client:
            delete_all(client)


def check_story(platform, records, uid, request):
    """A reviewer who asks by any line of it sees how it ended."""
    story = platform.ok("audit", "show", request)
    assert "ended (LOST): the gateway was killed" in story and "lost" in story, story
    lines = {r["cordium"]["event"]: str(r["sequence"]) for r in records
             if r["kind"] == "WorkspaceLog" and r["cordium"]["workspaceRef"]["uid"] == uid}
    stories = {event: platform.ok("audit", "show", line) for event, line in lines.items()}
    assert set(stories) == {"WORKSPACE_RUNNING", "WORKSPACE_END"} and len(set(stories.values())) == 1, stories
    story = stories["WORKSPACE_END"]
    assert "StartWorkspace" in story and "the workspace runs" in story, story
    assert f"the workspace ended: ERROR, {RESTARTED}" in story, story


@test
def a_build_that_a_killed_gateway_left_has_one_end(platform):
    daemons = Daemons(platform)
    with platform.sdk() as client:
        task = p.WorkspaceSpecRuntimeTask(name="wait", run="sleep 600", type=p.WorkspaceSpecRuntimeTaskType.ON_CREATE)
        image = p.WorkspaceSpecImage(registry=p.WorkspaceSpecImageRegistry(url="docker.io/library/busybox:latest"))
        spec = p.TemplateSpec(image=image, runtime=p.WorkspaceSpecRuntime(tasks=[task]))
        name = client.templates.create(f"left-{time.monotonic_ns()}", spec=spec).metadata.name
        build = client.templates.build(name).status.build_info.current_running_build_id
        before = len(platform.audit_lines())
        time.sleep(0.5)
        daemons.kill("gateway")
        process = daemons.start_gateway_alone()
        time.sleep(0.3)
        process.kill()
        process.wait(10)
        daemons.up()
    with platform.sdk() as client:
        assert eventually(lambda: not client.templates.get(name).status.build_info.current_running_build_id, 10)
        client.templates.delete(name)
    own = [line["cordium"] for line in platform.audit_lines()[before:] if "cordium" in line]
    [end] = [e for e in own if e["event"] == "BUILD_END"]
    assert (end["buildID"], end["stopReason"], end["templateRef"]["name"]) == (build, "FAILED", name), end
    assert "restarted during the build" in end["failure"]["message"], end


@test
def a_gateway_serves_without_an_executor_and_finds_it_later(platform):
    daemons = Daemons(platform)
    daemons.stop("gateway")
    daemons.stop("executor")
    process = daemons.start_gateway_alone()
    try:
        with worker(platform) as client:
            assert eventually(lambda: can_list(client), 10)
            text = expect_code("UNAVAILABLE", lambda: client.workspaces.run(template=fixture.BOX))
            assert "The executor is not connected" in text, text
            for item in client.workspaces.all():
                assert item.is_stopped
    finally:
        daemons.stop("gateway")
        process.wait(10)
        daemons.up()
    with worker(platform) as client:
        delete_all(client)
        client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=30).delete()


def can_list(client):
    try:
        client.workspaces.list()
        return True
    except CLIENT_ERRORS:
        return False


# --- the audit log ---


@test
def without_room_for_the_audit_log_nothing_is_done(platform):
    daemons = Daemons(platform)
    folder, saved = platform.audit_folder, platform.audit_folder + ".saved"
    with worker(platform) as client:
        delete_all(client)
        workspace_name = client.workspaces.create(template=fixture.BOX).name
    daemons.stop("gateway")
    os.rename(folder, saved)
    os.mkdir(folder)
    log_kilobytes = sum(e.stat().st_size // 1024 + 8 for e in os.scandir(saved))
    options = f"size={log_kilobytes + 128}k,mode=700,uid={daemons.uid},gid={daemons.uid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "audit", folder], check=True)
    try:
        subprocess.run(["cp", "-a", saved + "/.", folder], check=True)
        daemons.up()
        with worker(platform) as client:
            error = fill_audit_log(client)
            assert error.code == "UNAVAILABLE" and "audit log" in str(error), error
            for _ in range(5):
                text = expect_code("UNAVAILABLE", lambda: client.workspaces.create(template=fixture.BOX))
                assert "nothing is done" in text, text
                expect_code("UNAVAILABLE", lambda: client.workspaces.get(workspace_name))
            larger = f"remount,size={log_kilobytes + 16384}k"
            subprocess.run(["mount", "-o", larger, folder], check=True)
            assert {w.name for w in client.workspaces.all()} == {workspace_name}
            assert client.workspaces.get(workspace_name).is_stopped
        check_decisions(check_chain(platform.audit_folder))
    finally:
        daemons.stop("gateway")
        # The log goes on from here: without its newest lines the gateway would refuse to start.
        subprocess.run(["cp", "-a", folder + "/.", saved], check=True)
        subprocess.run(["umount", folder], check=True)
        os.rmdir(folder)
        os.rename(saved, folder)
        daemons.up()
    with worker(platform) as client:
        client.workspaces.get(workspace_name).delete()
    check_chain(platform.audit_folder)


def fill_audit_log(client):
    for _ in range(1000):
        try:
            client.workspaces.list()
        except CordiumError as error:
            return error
    raise AssertionError("the disk is not full after 1000 lines")


@test
def what_the_edge_refuses_is_in_the_audit_log(platform):
    path = "/octelium.api.main.cordium.v1.MainService/ListSpace"
    cases = [
        ("METHOD_NOT_ALLOWED", 405, path, ["-X", "PUT"]),
        ("UNKNOWN_CONTENT_TYPE", 415, path, ["-H", "content-type: text/plain"]),
        ("HEADERS_TOO_LARGE", 431, path, ["-H", "x-large: " + "a" * 17000]),
        ("UNKNOWN_COMPRESSION", 501, path, ["-H", "content-encoding: br"]),
        ("BAD_TIMEOUT", 400, path, ["-H", "connect-timeout-ms: soon"]),
        ("NOT_FOUND", 404, "/no/such/place", []),
        ("METHOD_NOT_ALLOWED", 405, "/oauth2/token", ["-X", "PUT"]),
        ("HEADERS_TOO_LARGE", 431, path, ["--http1.1", "-H", "x-large: " + "a" * 17000]),
        ("MALFORMED", 400, path, ["--http1.1", "-H", "transfer-encoding: gzip"]),
    ]
    for reason, code, place, options in cases:
        count = len(platform.audit_lines())
        status, text = platform.curl(place, "{}", None, *options)
        assert status == code, (reason, status, text)
        assert eventually(lambda n=count: len(platform.audit_lines()) == n + 1), reason
        line = platform.audit_lines()[-1]
        common = line["entry"]["common"]
        assert (common["status"], common["reason"]["type"]) == ("DENIED", reason), line
        assert line["entry"]["info"]["http"]["response"]["code"] == code, line
        assert line["cordium"]["peer"].startswith("127.0.0.1:"), line


# --- stopping ---


@test
def sigterm_lets_running_calls_end(platform):
    daemons = Daemons(platform)
    with worker(platform) as client:
        box = client.workspaces.run(template=fixture.BOX, timeout=30)
        name = box.name
        short = box.exec_stream("sleep 1; echo done", timeout=30)
        long = box.exec_stream("sleep 60", timeout=30)
        began = time.monotonic()
        daemons.signal("gateway", signal.SIGTERM)
        assert short.wait().stdout == "done\n"
        assert daemons.alive("gateway"), "it went before the long call's time was up"
        try:
            code = long.wait().exit_code
            assert code == -1, code
        except CordiumError as error:
            assert error.code in ("UNAVAILABLE", "CANCELLED", "INTERNAL"), error
        assert eventually(lambda: not daemons.alive("gateway"), 10)
        assert 2 < time.monotonic() - began < 9, time.monotonic() - began
    assert check_chain(platform.audit_folder)[-1]["cordium"]["event"] == "STOP"
    daemons.up()
    with worker(platform) as client:
        assert client.workspaces.get(name).failure.message == RESTARTED
        delete_all(client)


# --- storage ---


@test
def a_deleted_template_takes_the_snapshot_of_its_build_along(platform):
    daemons = Daemons(platform)
    snapshots = lambda: [s for s in daemons.storages() if s.startswith("snapshots/")]  # noqa: E731
    with platform.sdk() as client:
        before = snapshots()
        task = p.WorkspaceSpecRuntimeTask(
            name="prepare", run="echo x > /workspace/x", type=p.WorkspaceSpecRuntimeTaskType.ON_CREATE
        )
        spec = p.TemplateSpec(
            image=p.WorkspaceSpecImage(
                registry=p.WorkspaceSpecImageRegistry(url="docker.io/library/busybox:latest")
            ),
            runtime=p.WorkspaceSpecRuntime(tasks=[task]),
        )
        name = client.templates.create(f"gone-{time.monotonic_ns()}", spec=spec).metadata.name
        for _ in range(2):  # the second takes the place of the first
            build = client.templates.build(name).status.build_info.current_running_build_id
            client.templates.wait_for_build(name, build, timeout=120, poll_interval=0.1)
            assert eventually(lambda: len(snapshots()) == len(before) + 1), (before, snapshots())
        client.templates.delete(name)
        assert eventually(lambda: snapshots() == before), (before, snapshots())


# --- clients ---


class Box:
    """One workspace for a test, and the growth of both daemons meanwhile."""

    def __init__(self, platform):
        self.platform = platform
        self.daemons = Daemons(platform)

    def __enter__(self):
        self.client = worker(self.platform).__enter__()
        self.box = self.client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=30)
        self.box.exec("true")
        self.fds = {name: self.daemons.fds(name) for name in ("gateway", "executor")}
        self.kilobytes = self.memory()
        return self

    def __exit__(self, *_):
        # Not by the same connection: grpclib never opens the window again for what was not read.
        with worker(self.platform) as client:
            client.workspaces.get(self.box.name).delete()
        self.client.__exit__(None, None, None)

    def memory(self):
        return {n: self.daemons.resident_kilobytes(n) for n in ("gateway", "executor")}

    def check_growth(self, name, most_kilobytes):
        """What a burst took goes back to the system a few seconds after it."""

        def grown():
            return self.daemons.resident_kilobytes(name) - self.kilobytes[name]

        within = self.daemons.keeps_freed or eventually(lambda: grown() < most_kilobytes, 15, 0.2)
        assert within, f"{name} grew by {grown()} kB"

    def check_others(self):
        """By a connection of their own: the window of this one may be shut by what is not read."""
        with worker(self.platform) as client:
            assert client.workspaces.get(self.box.name).exec("echo hi", timeout=10).stdout == "hi\n"

    def check_fds(self, slack=4):
        def same():
            return all(self.daemons.fds(n) <= self.fds[n] + slack for n in self.fds)

        if not eventually(same, 20, 0.2):
            raise AssertionError((self.fds, {n: self.daemons.fds(n) for n in self.fds}))


@test
def output_that_nobody_reads_waits_in_the_program(platform):
    with Box(platform) as own:
        sessions = [
            own.box.exec_stream("cat /dev/zero", timeout=60, max_buffer_bytes=1) for _ in range(20)
        ]
        time.sleep(3)
        own.check_growth("gateway", 20 * 1024)
        own.check_others()
        for session in sessions:
            session.close()
        own.check_fds()


@test
def input_that_nobody_reads_waits_in_the_client(platform):
    with Box(platform) as own:
        session = own.box.exec_stream("sleep 60", timeout=60)
        writer = threading.Thread(target=flood, args=(session,), daemon=True)
        writer.start()
        time.sleep(3)
        assert writer.is_alive(), "64 MiB went somewhere"
        own.check_growth("gateway", 20 * 1024)
        own.check_others()
        session.close()
        writer.join(10)
        own.check_fds()


def flood(session):
    try:
        for _ in range(64):
            session.write(bytes(1 << 20))
    except Exception:  # closed under our hands, as planned
        pass


@test
def two_hundred_commands_at_once(platform):
    with Box(platform) as own:
        results = {}

        def run(i):
            results[i] = own.box.exec(f"sleep 0.5; echo {i}; exit {i % 100}", timeout=60)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
        for i in range(200):
            assert i in results, f"command {i} failed"
            assert (results[i].exit_code, results[i].stdout) == (i % 100, f"{i}\n"), results[i]
        own.check_fds()


@test
def a_thousand_cancelled_commands_leave_nothing(platform):
    marker = str(random.randrange(10**6, 10**7))
    first = len(platform.audit_lines())
    with Box(platform) as own:
        cancel_many(own.box, marker, 100)  # buffers and pools find their size
        assert eventually(lambda: processes(marker) == [], 20), processes(marker)
        own.kilobytes = own.memory()
        cancel_many(own.box, marker, 1000)
        assert eventually(lambda: processes(marker) == [], 20), processes(marker)
        own.check_fds()
        for name in ("gateway", "executor"):
            own.check_growth(name, 4096)
        assert own.box.exec("echo alive").stdout == "alive\n"
    assert eventually(lambda: without_end(platform, first) == []), without_end(platform, first)[:3]


def without_end(platform, first):
    """Commands that were allowed since that line of the log and of which no end is told."""
    own = [line["cordium"] for line in platform.audit_lines()[first:] if is_exec(line)]
    ended = {o["requestID"] for o in own if o["event"] == "END"}
    return [o for o in own if o["requestID"] not in ended]


def is_exec(line):
    entry = line.get("entry", {})
    method = entry.get("info", {}).get("grpc", {}).get("method")
    return method == "Exec" and entry["common"]["status"] == "ALLOWED"


def cancel_many(box, marker, count):
    failures = []

    def cancel():
        try:
            for _ in range(count // 20):
                box.exec_stream(f"sleep {marker}", timeout=60).close()
        except Exception as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=cancel) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures, failures[:3]


@test
def fifty_workspaces_at_once_by_five_clients(platform):
    daemons = Daemons(platform)
    fixture.ensure(platform)
    before = holdings(daemons)
    tokens = []
    for i in range(5):
        name, token = fixture.new_user(platform, f"crowd{i}")
        platform.ok("create", "membership", "--space", fixture.SPACE, "--user", name)
        tokens.append(token)
    outcomes, lock = [], threading.Lock()

    def life(client, number):
        try:
            box = client.workspaces.run(template=fixture.BOX, ephemeral=number % 2 == 0, timeout=90)
            said = box.exec(f"echo {number}", timeout=60).stdout
            box.delete(timeout=60)
            outcome = "" if said == f"{number}\n" else said
        except Exception as error:
            outcome = repr(error)
        with lock:
            outcomes.append(outcome)

    clients = [platform.sdk(token).__enter__() for token in tokens]
    threads = [
        threading.Thread(target=life, args=(client, 100 * i + k))
        for i, client in enumerate(clients)
        for k in range(10)
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    tell(f"50 workspaces in {time.monotonic() - began:.1f} s")
    assert len(outcomes) == 50 and not any(outcomes), [o for o in outcomes if o][:3]
    for client in clients:
        client.__exit__(None, None, None)
    settle(daemons, before, holdings)


if __name__ == "__main__":
    main()
