"""Runs at their edges: many clients of one, daemons that die, odd names, lines on a terminal."""

import glob
import json
import os
import pty
import random
import select
import socket
import struct
import subprocess
import tempfile
import threading
import time

import fixture
from daemons import Daemons
from harness import eventually, main, test
from run_client import IMAGE, access_of, active, call, processes_of, run, start_curl, text

UUID = "cat /proc/sys/kernel/random/uuid"


USER = {}


def own_token(platform):
    """Of one user for all of these tests: a User has only so many Sessions."""
    if "token" not in USER:
        USER["token"] = fixture.new_user(platform, "run-edges")[1]
    return USER["token"]


def own_access(platform):
    return access_of(platform, own_token(platform))


def new_access(platform, name):
    return access_of(platform, fixture.new_user(platform, name)[1])


def at_once(count, function):
    threads = [threading.Thread(target=function) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def new_key():
    return f"key-{time.time_ns()}"


# --- keys ---


@test
def fifty_clients_with_one_key_run_it_once(platform):
    key, access, answers = new_key(), own_access(platform), []
    at_once(50, lambda: answers.append(run(platform, access=access, command=UUID + "; sleep 0.5", idempotencyKey=key)))
    assert len(answers) == 50 and len({a["runId"] for a in answers}) == 1 and len({text(a) for a in answers}) == 1
    assert sum(bool(a.get("isRepeated")) for a in answers) == 49


@test
def a_key_is_for_the_request_whatever_the_order_of_its_variables(platform):
    key, access = new_key(), own_access(platform)
    first = run(platform, access=access, argv=["true"], env={"A": "1", "B": "2"}, idempotencyKey=key)
    second = run(platform, access=access, argv=["true"], env={"B": "2", "A": "1"}, idempotencyKey=key)
    assert second["runId"] == first["runId"] and second["isRepeated"], second
    assert run(platform, access=access, status=409, argv=["true"], env={"A": "2", "B": "2"},
               idempotencyKey=key)["code"] == "already_exists"


@test
def json_that_is_none_is_told_by_its_place(platform):
    for body, place in (('{"argv": ["true"],\n "limits": {"wallMs": }}', "(line 2, column 23)"),
                        ('{"argv": ["true"],\n\n  "limits": {"wallMs": -1}}', "(line 3, column 24)")):
        code, answer = platform.curl("/v1/run", body, own_access(platform))
        assert code == 400 and json.loads(answer)["message"].endswith(place), answer


@test
def a_key_belongs_to_its_user(platform):
    key = new_key()
    first = run(platform, access=own_access(platform), command=UUID, idempotencyKey=key)
    other = run(platform, access=new_access(platform, "run-key"), command=UUID, idempotencyKey=key)
    assert other["runId"] != first["runId"] and text(other) != text(first) and not other.get("isRepeated"), other


@test
def a_run_that_could_not_start_leaves_its_key_free(platform):
    key, access = new_key(), own_access(platform)
    clash = [{"path": "a", "text": "1"}, {"path": "a/b", "text": "2"}]
    refused = run(platform, access=access, status=400, argv=["true"], files=clash, idempotencyKey=key)
    assert "a/b" in refused["message"], refused
    assert run(platform, access=access, argv=["true"], idempotencyKey=key)["outcome"] == "exited"


@test
def who_joins_a_stream_late_gets_all_of_it(platform):
    words = ["run-code", "--image", IMAGE, "--key", new_key(), "--", "sh", "-c", "echo one; echo two >&2; sleep 1.5; echo three"]
    first = subprocess.Popen([os.path.join(platform.bin, "cordium"), *words], env=platform.cli_env(own_token(platform)), text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert eventually(lambda: active(platform, own_access(platform)))
    time.sleep(0.3)
    second = platform.cli(*words, token=own_token(platform))
    out, err = first.communicate(timeout=30)
    assert (out, err) == ("one\nthree\n", "two\n"), (out, err)
    assert (second.stdout, second.stderr) == ("one\nthree\n", "two\n"), second


@test
def a_client_that_stayed_for_itself_alone_does_not_take_the_run_of_another(platform):
    access, key = new_access(platform, "run-both"), new_key()
    request = {"command": "sleep 2; echo done", "idempotencyKey": key}
    goes = start_curl(platform, access, cancelOnDisconnect=True, **request)
    run_id = eventually(lambda: active(platform, access))
    leaves = start_curl(platform, access, **request)
    time.sleep(0.5)
    for client in (goes, leaves):
        client.kill()
        client.wait()
    result = eventually(lambda: (r := call(platform, "GetRun", access, runId=run_id))["state"] == "ENDED" and r)
    assert result["outcome"] == "exited" and text(result) == "done\n", result


# --- daemons that die ---


@test
def a_run_whose_executor_dies_is_lost(platform):
    daemons, access = Daemons(platform), new_access(platform, "run-lost")
    client = start_curl(platform, access, command="echo began; sleep 30")
    run_id = eventually(lambda: active(platform, access))
    time.sleep(0.3)
    try:
        daemons.kill("executor")
        result = json.loads(client.communicate(timeout=10)[0])
    finally:
        daemons.up()
    assert (result["outcome"], text(result)) == ("lost", "began\n") and "exitCode" not in result, result
    assert "executor" in result["detail"], result
    assert call(platform, "GetRun", access, runId=run_id)["outcome"] == "lost"
    assert eventually(lambda: not processes_of(run_id))
    assert eventually(lambda: platform.curl("/v1/run", json.dumps({"image": IMAGE, "argv": ["true"]}), access)[0] == 200)


@test
def a_key_of_a_killed_gateway_tells_that_its_run_was_lost(platform):
    daemons, access, key = Daemons(platform), new_access(platform, "run-dead"), new_key()
    client = start_curl(platform, access, command="sleep 30", idempotencyKey=key)
    run_id = eventually(lambda: active(platform, access))
    try:
        daemons.kill("gateway")
        client.wait()
    finally:
        daemons.up()
    again = run(platform, access=access, command="sleep 30", idempotencyKey=key)
    assert (again["runId"], again["outcome"], again.get("isRepeated")) == (run_id, "lost", True), again
    assert eventually(lambda: not processes_of(run_id))


@test
def a_name_that_is_cut_within_a_character_spoils_neither_answer_nor_start(platform):
    daemons, access = Daemons(platform), new_access(platform, "run-cut")
    long = "/" + "\u00e9" * 150
    run_id = run(platform, access=access, argv=["true"], workingDir=long)["runId"]
    run(platform, access=access, argv=[long])
    try:
        daemons.stop("gateway")
    finally:
        daemons.up()
    with tempfile.NamedTemporaryFile() as request:
        request.write(b"\n$" + run_id.encode())
        request.flush()
        answer = subprocess.run(
            ["curl", "-sS", "--cacert", platform.ca, "--data-binary", "@" + request.name, "-H",
             "content-type: application/proto", "-H", "x-octelium-auth: " + access,
             f"https://localhost:{platform.port}/cordium.ext.v1.RunService/GetRun"],
            capture_output=True, timeout=30).stdout
    detail = answer[answer.index(b"cannot change"):answer.index(b": File name too long")]
    assert "\u00e9\u00e9" in detail.decode(), answer


# --- causes that race ---


@test
def an_end_at_the_very_limit_is_told_one_way_or_the_other(platform):
    access, results = own_access(platform), []

    def go():
        for _ in range(8):
            results.append(run(platform, access=access, command="sleep 0.3", limits={"wallMs": 300}))

    at_once(3, go)
    for r in results:
        wall_ms = int(r["usage"]["wallMs"])
        fits = r["outcome"] == "exited" and r["exitCode"] == 0 and not r.get("signal") or \
            r["outcome"] == "timed_out" and "exitCode" not in r and wall_ms >= 299
        assert fits, r


@test
def a_cancel_that_races_with_a_kill_for_memory_is_told_one_way_or_the_other(platform):
    access = new_access(platform, "run-race")
    seen = set()
    for _ in range(12):
        client = start_curl(platform, access, command="exec dd if=/dev/zero of=/dev/null bs=200M count=1",
                            limits={"memoryMegabytes": 128})
        run_id = eventually(lambda: active(platform, access), 1, 0)
        time.sleep(random.uniform(0, 0.1))
        if run_id:
            call(platform, "CancelRun", access, runId=run_id)
        result = json.loads(client.communicate(timeout=20)[0])
        facts = result["facts"]
        fits = {"oom_killed": facts.get("oomKills", 0) > 0 and not facts.get("killedBy"),
                "cancelled": facts.get("killedBy") == "cancel" or "before the program" in result["detail"]}
        assert fits.get(result["outcome"]) and "exitCode" not in result, result
        seen.add(result["outcome"])
    assert seen, seen


@test
def clients_that_go_away_at_any_byte_leave_nothing(platform):
    access = new_access(platform, "run-gone")
    body = json.dumps({"image": IMAGE, "command": "sleep 30", "cancelOnDisconnect": True,
                       "files": [{"path": "f", "text": "x" * 100000}]}).encode()
    head = (f"POST /v1/run HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"x-octelium-auth: {access}\r\ncontent-length: {len(body)}\r\n\r\n").encode()
    for share in (0.001, 0.1, 0.9, 1, 1, 1, 1, 1, 1):
        with platform.ssl_context().wrap_socket(socket.create_connection(("127.0.0.1", platform.port)),
                                                server_hostname="localhost") as client:
            client.sendall((head + body)[:int(len(head + body) * share)])
            time.sleep(random.uniform(0, 0.05))
    assert eventually(lambda: not call(platform, "ListRuns", access, isActive=True).get("items"), 5)
    outcomes = {item["outcome"] for item in call(platform, "ListRuns", access).get("items", [])}
    assert outcomes <= {"cancelled"}, outcomes


# --- files ---


@test
def no_pattern_takes_long_and_no_name_spoils_the_others(platform):
    command = ("mkdir -p " + "a/" * 25 + "; echo x > " + "a/" * 25 + "b; echo fine > fine;"
               "echo 1 > \"$(printf '\\300\\200')\"; echo 2 > \"$(printf 'n\\nl')\"")
    began = time.monotonic()
    result = run(platform, command=command, collect=["**/" * 30 + "c", "*a" * 40 + "x", "*"])
    assert time.monotonic() - began < 5, result
    assert {f["path"] for f in result["files"]} == {"fine", "n\nl"} and result["filesLeftOut"] == 1, result
    result = run(platform, command=command, collect=["**/a/**/b", "**/fine"])
    assert {f["path"] for f in result["files"]} == {"a/" * 25 + "b", "fine"}, result


@test
def what_lies_beside_the_pattern_is_neither_counted_nor_in_the_way(platform):
    command = ("mkdir closed deep others; echo x > closed/x; chmod 000 closed; echo x > \"$(printf 'bad\\377')\";"
               "mkdir -p " + "deep/" * 70 + "; i=0; while [ $i -lt 60000 ]; do : > others/$i; i=$((i+1)); done;"
               "for n in 1 2 3; do cp -r others others$n; done; echo found > out.txt")
    result = run(platform, command=command, collect=["out.txt"], limits={"diskMegabytes": 4000, "memoryMegabytes": 2000})
    assert [f["path"] for f in result["files"]] == ["out.txt"], result
    assert "filesLeftOut" not in result, result


@test
def a_pattern_may_begin_with_a_dot_and_a_folder_named_by_one_is_told(platform):
    result = run(platform, command="mkdir -p a/b empty; echo 1 > out.txt; echo 2 > a/b/c.txt",
                 collect=["./out.txt", "a/./b/*.txt", "empty", "a/*"])
    assert {f["path"]: f.get("skipped") for f in result["files"]} == \
        {"out.txt": None, "a/b/c.txt": None, "empty": "directory"}, result


@test
def run_code_says_why_files_did_not_come_back(platform):
    done = platform.cli("run-code", "--image", IMAGE, "--collect", "*", "--", "chmod", "000", "/workspace")
    assert done.returncode == 0 and "files could not be read" in done.stderr, done


@test
def run_code_does_not_write_the_program_over_a_file_of_the_user(platform):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("main.sh", "mine"), ("job.sh", "echo result > out.txt")):
            with open(os.path.join(folder, name), "w") as file:
                file.write(content)
        done = platform.cli("run-code", "--image", IMAGE, "--file", os.path.join(folder, "job.sh"), "--collect", "*",
                            "--into", folder)
        assert done.returncode == 0, done
        with open(os.path.join(folder, "main.sh")) as file:
            assert file.read() == "mine"
        assert sorted(os.listdir(folder)) == ["job.sh", "main.sh", "out.txt"], os.listdir(folder)


@test
def one_file_that_cannot_be_written_here_does_not_keep_the_others_away(platform):
    with tempfile.TemporaryDirectory() as folder:
        words = ["run-code", "--image", IMAGE, "--collect", "*", "--into"]
        done = platform.cli(*words, folder + "/nowhere", "--", "sleep", "30", timeout=20)
        assert done.returncode == 1 and "nowhere" in done.stderr, done
        os.mkdir(os.path.join(folder, "a"))
        done = platform.cli(*words, folder, "--", "touch", "a", "b")
        assert done.returncode == 1 and "'a'" in done.stderr, done
        assert sorted(os.listdir(folder)) == ["a", "b"], os.listdir(folder)


@test
def a_script_without_its_interpreter_is_told_apart_from_no_script(platform):
    script = {"path": "tool", "text": "#!/no/such/sh\r\n", "isExecutable": True}
    result = run(platform, argv=["./tool"], files=[script])
    assert result["exitCode"] == 127 and "interpreter" in result["detail"], result
    assert "interpreter" not in run(platform, argv=["nosuch"])["detail"]


# --- what an exec tells ---


def exec_by_connect(platform, token, workspace, command):
    """The end of the stream, where the trailers are."""
    body = json.dumps({"request": {"workspaceRef": {"uid": workspace}, "command": command}}).encode()
    with tempfile.NamedTemporaryFile() as file:
        file.write(struct.pack(">BI", 0, len(body)) + body)
        file.flush()
        done = subprocess.run(
            ["curl", "-sS", "--http2", "--cacert", platform.ca, "--data-binary", "@" + file.name, "-H",
             "content-type: application/connect+json", "-H", "x-octelium-auth: " + token,
             f"https://localhost:{platform.port}/octelium.api.main.cordium.v1.WorkspaceService/Exec"],
            capture_output=True, timeout=60)
    data, code = done.stdout, None
    while data:
        flags, length = struct.unpack(">BI", data[:5])
        message, data = json.loads(data[5:5 + length]), data[5 + length:]
        code = message["exit"].get("code", 0) if "exit" in message else code
    return code, message.get("metadata", {})


@test
def an_exec_tells_its_outcome_in_trailers_and_in_the_audit_log(platform):
    token = fixture.ensure(platform)["worker"]
    hog = "dd if=/dev/zero of=/dev/null bs=400M count=1 2>/dev/null"
    cases = [
        ("exit 137", 137, "exited", {}),
        ("kill -9 $$", -1, "signaled", {"signal": 9}),
        ("exec " + hog, -1, "oom_killed", {"signal": 9, "oomKills": 1}),
        (hog + "; exit 1", 1, "exited", {"oomKills": 1}),
        (hog + "; sleep 1; kill -9 $$", -1, "signaled", {"oomKills": 1}),
    ]
    with platform.sdk(token) as client:
        access = client.access_token()
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        try:
            for command, code, outcome, expected in cases:
                got, trailers = exec_by_connect(platform, access, workspace.uid, command)
                facts = json.loads(trailers["cordium-facts"][0])
                assert (got, trailers["cordium-outcome"]) == (code, [outcome]), (command, got, trailers)
                assert {k: facts.get(k) for k in expected} == expected and facts["usage"]["wallUs"] > 0, facts
                assert eventually(lambda: any(
                    l.get("cordium", {}).get("outcome") == facts for l in platform.audit_lines())), facts
        finally:
            workspace.delete()


# --- on a terminal ---


def on_terminal(platform, *words, **variables):
    """What a person would see, and the exit code."""
    main_fd, terminal = pty.openpty()
    process = subprocess.Popen([os.path.join(platform.bin, "cordium"), *words], stdin=terminal, stdout=terminal,
                               stderr=terminal, env={**platform.cli_env(own_token(platform)), "TERM": "xterm", **variables})
    os.close(terminal)
    seen = b""
    try:
        while select.select([main_fd], [], [], 60)[0] and (piece := os.read(main_fd, 65536)):
            seen += piece
    except OSError:
        pass  # EIO: the other end is closed
    os.close(main_fd)
    return seen.decode().replace("\r\n", "\n"), process.wait()


@test
def a_terminal_shows_the_fate_on_a_line_of_its_own_in_a_colour(platform):
    code = ["run-code", "--image", IMAGE, "--no-stdin", "--"]
    seen, status = on_terminal(platform, *code, "sh", "-c", "printf 'no end'")
    assert seen.startswith("no end\n\033[0mcordium: \033[32mexited with 0\033[0m; ") and status == 0, seen
    seen, status = on_terminal(platform, *code, "sh", "-c", "kill -9 $$")
    assert "cordium: \033[31mended by SIGKILL\033[0m" in seen and status == 255, seen
    seen, _ = on_terminal(platform, *code, "sh", "-c", "exit 3", NO_COLOR="1")
    assert seen.startswith("cordium: exited with 3; "), seen


@test
def names_from_elsewhere_are_not_obeyed_by_the_terminal(platform):
    seen, status = on_terminal(platform, "run-code", "--image", IMAGE, "--no-stdin", "--", "\033[2Jno\ncordium: exited with 0")
    assert "\033[2J" not in seen and "\n" not in seen[:-1] and "\\u001b[2Jno\\u000acordium" in seen and status == 127, seen
    with tempfile.TemporaryDirectory() as into:
        seen, _ = on_terminal(platform, "run-code", "--image", IMAGE, "--no-stdin", "--collect", "*", "--into", into,
                              "--", "sh", "-c", "mkfifo \"$(printf 'a\\033[31mb\\nc')\"")
        assert "file 'a\\u001b[31mb\\u000ac' left out (named pipe)" in seen and "\033[31m" not in seen, seen
        assert not glob.glob(into + "/*")


if __name__ == "__main__":
    main()
