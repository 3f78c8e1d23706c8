"""Programs run once: outcomes, limits, files, keys, cancel, who may see what."""

import base64
import json
import os
import signal
import threading
import time

import fixture
from daemons import Daemons
from harness import eventually, main, test
from run_client import IMAGE, access_of, active, call, processes_of, run, start_curl, text

# --- outcomes: each alone, and with another cause beside it ---


def memory_hog(megabytes):
    """In a shell with nothing but busybox: dd holds one block of that size."""
    return f"dd if=/dev/zero of=/dev/null bs={megabytes}M count=1 2>/dev/null"


def many_sleepers(then):
    """More than fit; a shell of busybox ends when it cannot fork, and so it is asked by another."""
    return f"sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.2 & done' 2>/dev/null; sleep 0.3; {then}"


OUTCOMES = [
    # name, command, request, outcome, exit code, signal, facts
    ("exit 0", "exit 0", {}, "exited", 0, 0, {}),
    ("exit 137", "exit 137", {}, "exited", 137, 0, {}),
    ("SIGKILL by itself", "kill -9 $$", {}, "signaled", None, 9, {}),
    ("SIGSEGV", "kill -11 $$", {}, "signaled", None, 11, {}),
    ("time-out", "sleep 9", {"limits": {"wallMs": 300}}, "timed_out", None, 15, {}),
    ("time-out, TERM ignored", "trap '' TERM; while :; do sleep 9; done", {"limits": {"wallMs": 300, "graceMs": 200}},
     "timed_out", None, 9, {"killedBy": "deadline"}),
    ("time-out, exits with 0 on TERM", "trap 'exit 0' TERM; while :; do sleep 0.05; done",
     {"limits": {"wallMs": 300}}, "timed_out", None, 0, {}),
    ("time-out while stopped", "trap '' TERM; kill -STOP $$", {"limits": {"wallMs": 300}}, "timed_out", None, 0, {}),
    ("CPU limit", "while :; do :; done", {"limits": {"cpuMs": 200}}, "cpu_limit", None, 9, {"killedBy": "cpu limit"}),
    ("OOM of the main process", "exec " + memory_hog(100), {"limits": {"memoryMegabytes": 32}}, "oom_killed", None, 9,
     {"oomKills": 1}),
    ("OOM inside, exit 1", memory_hog(100) + "; exit 1", {"limits": {"memoryMegabytes": 32}}, "exited", 1, 0,
     {"oomKills": 1}),
    ("OOM inside, then time-out", memory_hog(100) + "; sleep 9", {"limits": {"memoryMegabytes": 32, "wallMs": 2000}},
     "timed_out", None, 15, {"oomKills": 1}),
    ("output limit", "yes", {"killOnOutputLimit": True, "limits": {"stdoutBytes": 1000}}, "output_limit", None, 9,
     {"killedBy": "output limit"}),
    ("output over its limit is no outcome", "head -c 500000 /dev/zero", {"limits": {"stdoutBytes": 1000}}, "exited", 0, 0, {}),
    ("exit 124, 143: as others tell time-outs", "exit 143", {"limits": {"wallMs": 5000}}, "exited", 143, 0, {}),
    ("SIGTERM by itself", "kill -15 $$", {}, "signaled", None, 15, {}),
    ("a child's SIGKILL as an exit status", "sh -c 'kill -9 $$'; exit $?", {}, "exited", 137, 0, {"oomKills": None}),
    ("OOM of the main process, which has little CPU to die", "exec " + memory_hog(100),
     {"limits": {"memoryMegabytes": 32, "cpuMillicores": 20}}, "oom_killed", None, 9, {"oomKills": 1}),
    ("OOM inside, then of the main process", memory_hog(100) + "; sleep 1; exec " + memory_hog(100),
     {"limits": {"memoryMegabytes": 32}}, "oom_killed", None, 9, {"oomKills": 2}),
    ("OOM inside, then SIGKILL by itself", memory_hog(100) + "; sleep 2; kill -9 $$", {"limits": {"memoryMegabytes": 32}},
     "signaled", None, 9, {"oomKills": 1}),
    ("OOM inside, then time-out, TERM ignored", f"trap '' TERM; {memory_hog(100)}; sleep 9; sleep 9",
     {"limits": {"memoryMegabytes": 32, "wallMs": 2000, "graceMs": 200}}, "timed_out", None, 9,
     {"oomKills": 1, "killedBy": "deadline"}),
    ("OOM inside, then CPU limit", memory_hog(100) + "; while :; do :; done",
     {"limits": {"memoryMegabytes": 32, "cpuMs": 800}}, "cpu_limit", None, 9, {"oomKills": 1, "killedBy": "cpu limit"}),
    ("OOM inside, then output limit", memory_hog(100) + "; exec yes",
     {"killOnOutputLimit": True, "limits": {"memoryMegabytes": 32, "stdoutBytes": 1000}}, "output_limit", None, 9,
     {"oomKills": 1, "killedBy": "output limit"}),
    ("full disk, then SIGKILL by itself", "dd if=/dev/zero of=full bs=1M 2>/dev/null; sync; sleep 0.3; kill -9 $$",
     {"limits": {"diskMegabytes": 16}}, "signaled", None, 9, {"diskFull": True}),
    ("full disk, then time-out", "dd if=/dev/zero of=full bs=1M 2>/dev/null; sync; sleep 30",
     {"limits": {"diskMegabytes": 16, "wallMs": 2000}}, "timed_out", None, 15, {"diskFull": True}),
    ("pids denied, then SIGKILL by itself", many_sleepers("kill -9 $$"), {"limits": {"pids": 8}}, "signaled", None, 9,
     {"pidsDenied": 1}),
    ("pids denied, then time-out", many_sleepers("sleep 0.1; while :; do :; done"),
     {"limits": {"pids": 8, "wallMs": 1000}}, "timed_out", None, 15, {"pidsDenied": 1}),
    ("output over its limit, then time-out", "head -c 500000 /dev/zero; sleep 9",
     {"limits": {"stdoutBytes": 1000, "wallMs": 700}}, "timed_out", None, 15, {}),
    ("a disk of 1 MiB that is nearly empty", "true", {"limits": {"diskMegabytes": 1}}, "exited", 0, 0, {"diskFull": None}),
    ("no such program", None, {"argv": ["nothing-here"]}, "exited", 127, 0, {}),
    ("no such folder", "true", {"workingDir": "/nowhere"}, "exited", 126, 0, {}),
]


@test
def every_outcome_is_told_from_kernel_facts(platform):
    access = access_of(platform)
    wrong = []
    for name, command, request, outcome, code, number, facts in OUTCOMES:
        result = run(platform, access=access, **({"command": command} if command else {}), **request)
        got = (result["outcome"], result.get("exitCode"), result.get("signal", 0))
        if got != (outcome, code, number):
            wrong.append(f"{name}: {got}")
        for key, value in facts.items():
            found = result["facts"].get(key)
            if found != value and not (isinstance(value, int) and found and found >= value):
                wrong.append(f"{name}: {key} is {result['facts'].get(key)}")
    assert not wrong, wrong


@test
def pids_that_were_denied_are_a_fact(platform):
    command = "i=0; while [ $i -lt 60 ]; do sleep 0.3 & i=$((i+1)); done; exit 0"
    result = run(platform, command=command, limits={"pids": 16})
    assert result["facts"].get("pidsDenied", 0) > 0, result


@test
def what_a_kill_lets_not_fork_is_no_fact_about_the_limit(platform):
    command = "(while :; do sleep 0.001; done) & (while :; do true | true; done) & sleep 0.02; echo main"
    for _ in range(20):
        assert run(platform, command=command, limits={"pids": 100})["facts"] == {}


@test
def a_full_disk_is_a_fact(platform):
    result = run(platform, command="dd if=/dev/zero of=full bs=1M; exit 5", limits={"diskMegabytes": 16})
    assert result["outcome"] == "exited" and result["exitCode"] == 5, result
    assert result["facts"].get("diskFull"), result


@test
def usage_counts_the_whole_tree(platform):
    command = "for i in 1 2; do (i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done) & done; wait"
    usage = run(platform, command=command)["usage"]
    assert int(usage["cpuUserUs"]) > 10000 and int(usage["memoryPeakBytes"]) > 0 and int(usage["wallMs"]) > 0, usage


@test
def usage_tells_the_peak_of_processes_and_the_block_io(platform):
    command = "for i in 1 2 3 4 5 6; do sleep 0.3 & done; dd if=/dev/urandom of=x bs=1M count=4 conv=fsync; wait"
    usage = run(platform, command=command)["usage"]
    release = tuple(int(n) for n in os.uname().release.split(".")[:2])
    assert "pidsPeak" in usage or release < (6, 11), usage
    assert 7 <= int(usage.get("pidsPeak", 7)) <= 9, usage
    # Unset, not 0, where the kernel has no controller that tells.
    if "ioWriteBytes" in usage:
        assert 4 << 20 <= int(usage["ioWriteBytes"]) < 8 << 20 and int(usage["ioWrites"]) > 0, usage
    else:
        assert not {"ioReadBytes", "ioReads", "ioWrites"} & set(usage), usage


@test
def disk_in_use_counts_what_is_not_written_yet(platform):
    fill = "dd if=/dev/zero of=f bs=1M count=40 2>/dev/null"
    limits = {"diskMegabytes": 44, "memoryMegabytes": 200}
    for wait in ("", "; sleep 0.3", "; sync"):
        result = run(platform, command=fill + wait, limits=limits)
        assert 40 << 20 <= int(result["usage"]["diskBytes"]) <= 41 << 20, (wait, result["usage"], result["facts"])
    result = run(platform, command=fill + "; rm f", limits=limits)
    assert int(result["usage"]["diskBytes"]) < 1 << 20, result["usage"]


@test
def nothing_of_a_run_outlives_its_answer(platform):
    began = time.monotonic()
    result = run(platform, command="sleep 30 & setsid sleep 30 & (setsid sh -c 'sleep 30' &) ; echo done")
    assert text(result) == "done\n" and time.monotonic() - began < 5, result
    assert not processes_of(result["runId"])


# --- what goes in and comes out ---


@test
def code_files_input_and_environment_reach_the_program(platform):
    result = run(platform, code='cat "$1" given.txt -; echo "$A"', language="sh", argv=["sub/deep.txt"], stdin="in\n",
                 env={"A": "a b"}, files=[{"path": "given.txt", "text": "given\n"},
                                          {"path": "sub/deep.txt", "data": base64.b64encode(b"deep\n").decode()}])
    assert text(result) == "deep\ngiven\nin\na b\n", result


@test
def a_program_that_runs_as_root_has_its_code_and_files(platform):
    result = run(platform, code="id -u; cat given.txt", language="sh", runAsRoot=True,
                 files=[{"path": "given.txt", "text": "given\n"}])
    assert (result["outcome"], text(result)) == ("exited", "0\ngiven\n"), result


@test
def a_program_may_open_its_streams_by_name(platform):
    command = "cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr; cat < /proc/self/fd/1; echo x > /proc/self/fd/0"
    for root in (False, True):
        result = run(platform, command=command, stdin="in\n", runAsRoot=root)
        assert text(result) == "in\nout\n" and text(result, "stderr").startswith("err\n"), result
        # Not the gateway's ends of them.
        assert text(result, "stderr").count("Permission denied") == 2, result


@test
def files_come_back_by_pattern_and_links_are_not_followed(platform):
    command = ("mkdir -p out/deep; echo a > out/a.txt; echo b > out/deep/b.txt; echo c > c.log; printf '\\377\\0' > out/bytes;"
               "ln -s /etc/passwd out/link; mkfifo out/pipe; head -c 3000000 /dev/zero > out/large")
    result = run(platform, command=command, collect=["out/**"])
    files = {f["path"]: f for f in result["files"]}
    assert set(files) == {"out/a.txt", "out/deep/b.txt", "out/bytes", "out/link", "out/pipe", "out/large"}, files
    assert files["out/deep/b.txt"]["text"] == "b\n"
    assert base64.b64decode(files["out/bytes"]["data"]) == b"\377\0"
    assert [files[f"out/{n}"].get("skipped") for n in ("link", "pipe", "large")] == \
        ["symbolic link", "named pipe", "too large"], files


@test
def long_output_keeps_both_ends_and_counts(platform):
    result = run(platform, command="i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo answer >&2",
                 limits={"stdoutBytes": 100})
    out = result["stdout"]
    assert out["isTruncated"] and out["text"].startswith("line 0\n") and out["tailText"].endswith("line 1999\n"), out
    assert int(out["droppedBytes"]) == int(out["totalBytes"]) - len(out["text"]) - len(out["tailText"])
    assert text(result, "stderr") == "answer\n" and not result["stderr"].get("isTruncated")


@test
def merged_output_is_in_order(platform):
    result = run(platform, command="echo 1; sleep 0.05; echo 2 >&2; sleep 0.05; echo 3", mergeOutput=True)
    assert [(c["stream"], c["text"]) for c in result["merged"]] == \
        [("STDOUT", "1\n"), ("STDERR", "2\n"), ("STDOUT", "3\n")], result["merged"]


@test
def limits_in_force_are_told_with_who_set_them(platform):
    users = fixture.ensure(platform)
    result = run(platform, users["worker"], image="", template=fixture.BOX, argv=["true"], limits={"memoryMegabytes": 64})
    limits = {l["name"]: l for l in result["limits"]}
    assert limits["memoryMegabytes"]["setBy"] == "CALLER" and limits["memoryMegabytes"]["maximum"] == "1024", limits
    assert limits["cpuMillicores"] == {"name": "cpuMillicores", "value": "1000", "setBy": "SPACE", "maximum": "2000"}, limits
    layers = {l["name"]: l for l in result["isolation"]}
    assert layers["network"]["detail"] == "loopback only" and layers["network"]["setBy"] == "TEMPLATE", layers
    refused = run(platform, users["worker"], status=400, image="", template=fixture.BOX, argv=["true"],
                  limits={"memoryMegabytes": 2000})
    assert "limits.memoryMegabytes is 2000, over the maximum of 1024" in refused["message"], refused


@test
def a_mistyped_limit_is_refused_and_not_ignored(platform):
    refused = run(platform, status=400, argv=["true"], limits={"memoryMegabyte": 64})
    assert "memoryMegabyte" in refused["message"] and "did you mean 'memoryMegabytes'?" in refused["message"], refused


# --- who may, and what is written down ---


@test
def dev_shm_is_as_large_as_asked_and_inodes_are_limited_or_refused(platform):
    command = "dd if=/dev/zero of=/dev/shm/x bs=64k count=64 2>/dev/null; stat -c %s /dev/shm/x"
    result = run(platform, command=command, limits={"shmMegabytes": 2, "memoryMegabytes": 64})
    assert text(result) == "2097152\n", result
    code, answer = platform.curl("/v1/run", json.dumps({
        "image": IMAGE, "limits": {"inodes": 200},
        "command": "i=0; while [ $i -lt 500 ] && : 2>/dev/null >f$i; do i=$((i+1)); done; echo $i"}),
        access_of(platform))
    answer = json.loads(answer)
    if code == 200:  # project quota
        assert 150 < int(text(answer)) <= 200 and answer["facts"]["inodesFull"], answer
    else:
        assert answer["code"] == "failed_precondition" and "limits.inodes" in answer["message"], answer


@test
def policy_sees_a_run_and_audit_has_its_outcome(platform):
    name, token = fixture.new_user(platform, "run-policy")
    policy = os.path.join(platform.folder, "run-policy.yaml")
    with open(policy, "w") as file:
        file.write(f"""kind: Policy
metadata:
  name: no-nc-{name}
spec:
  rules:
    - effect: DENY
      condition:
        match: '"run" in ctx && ctx.run.command.contains("nc ") && ctx.run.limits.memory.megabytes > 0'
---
kind: User
metadata:
  name: {name}
spec:
  type: WORKLOAD
  authorization:
    policies: ["allow-all", "no-nc-{name}"]
""")
    platform.ok("apply", policy)
    denied = run(platform, token, status=403, command="nc 10.0.0.1 80")
    allowed = run(platform, token, command="echo fine; exit 4")
    assert text(allowed) == "fine\n" and denied["code"] == "permission_denied"
    ends = [l for l in platform.audit_lines() if allowed["runId"] in json.dumps(l)]
    assert any(l.get("entry", l).get("cordium", l.get("cordium", {})).get("outcome", {}).get("exitCode") == 4
               or '"exitCode": 4' in json.dumps(l) for l in ends), ends
    assert not any("echo fine" in json.dumps(l) for l in platform.audit_lines())


@test
def runs_are_their_owners_alone(platform):
    result = run(platform, argv=["true"])
    access = access_of(platform)
    _, token = fixture.new_user(platform, "run-other")
    other = access_of(platform, token)
    assert call(platform, "GetRun", access, runId=result["runId"])["outcome"] == "exited"
    call(platform, "GetRun", other, status=404, runId=result["runId"])
    call(platform, "CancelRun", other, status=404, runId=result["runId"])
    assert result["runId"] not in json.dumps(call(platform, "ListRuns", other))
    assert result["runId"] in json.dumps(call(platform, "ListRuns", access))
    code, _ = platform.curl("/v1/run", json.dumps({"image": IMAGE, "argv": ["true"]}))
    assert code == 401, code


@test
def a_list_over_its_maximum_is_refused(platform):
    refused = call(platform, "ListRuns", access_of(platform), status=400, countMax=1001)
    assert "countMax is 1001, over the maximum of 1000" in refused["message"], refused


# --- keys, cancel ---


@test
def one_key_runs_once_for_two_clients(platform):
    key = f"key-{time.time_ns()}"
    access = access_of(platform)
    answers = []

    def go():
        answers.append(run(platform, access=access, command="sleep 0.6; cat /proc/sys/kernel/random/uuid", idempotencyKey=key))

    threads = [threading.Thread(target=go) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    later = run(platform, access=access, command="sleep 0.6; cat /proc/sys/kernel/random/uuid", idempotencyKey=key)
    assert len({a["runId"] for a in answers + [later]}) == 1 and len({text(a) for a in answers + [later]}) == 1, answers
    assert later["isRepeated"] and sum(bool(a.get("isRepeated")) for a in answers) == 1
    conflict = run(platform, access=access, status=409, command="echo other", idempotencyKey=key)
    assert conflict["code"] == "already_exists" and later["runId"] in conflict["message"], conflict


@test
def a_client_that_goes_away_cancels_when_it_asked_for_that(platform):
    user, token = fixture.new_user(platform, "run-cancel")
    access = access_of(platform, token)
    client = start_curl(platform, access, command="echo tick; sleep 30", cancelOnDisconnect=True)
    run_id = eventually(lambda: active(platform, access))
    time.sleep(0.2)
    client.send_signal(signal.SIGKILL)
    client.wait()
    began = time.monotonic()
    result = eventually(lambda: (r := call(platform, "GetRun", access, runId=run_id))["state"] == "ENDED" and r, 3)
    assert result and time.monotonic() - began < 1, result
    assert result["outcome"] == "cancelled" and text(result) == "tick\n" and "went away" in result["detail"], result
    assert not processes_of(run_id)
    assert eventually(lambda: any(l.get("kind") == "RunLog" and run_id in json.dumps(l) for l in platform.audit_lines()))
    conditions = ("--kind", "RunLog", "--user", user, "--space", "default." + user)
    assert eventually(lambda: run_id in platform.ok("audit", "list", *conditions))


@test
def a_client_that_goes_away_otherwise_leaves_its_run(platform):
    _, token = fixture.new_user(platform, "run-leave")
    access = access_of(platform, token)
    client = start_curl(platform, access, command="sleep 1; echo done")
    run_id = eventually(lambda: active(platform, access))
    client.kill()
    client.wait()
    result = eventually(lambda: (r := call(platform, "GetRun", access, runId=run_id))["state"] == "ENDED" and r)
    assert result["outcome"] == "exited" and text(result) == "done\n", result


@test
def cancel_by_call_ends_the_run_for_who_waits(platform):
    _, token = fixture.new_user(platform, "run-stop")
    access = access_of(platform, token)
    client = start_curl(platform, access, command="sleep 30 & sleep 30")
    run_id = eventually(lambda: active(platform, access))
    assert call(platform, "CancelRun", access, runId=run_id).get("isCancelled")
    out, _ = client.communicate(timeout=10)
    result = json.loads(out)
    assert result["outcome"] == "cancelled" and result["facts"]["killedBy"] == "cancel", result
    assert not call(platform, "CancelRun", access, runId=run_id).get("isCancelled")


# --- from a terminal ---


@test
def run_code_prints_output_fate_and_passes_the_code_on(platform):
    path = os.path.join(platform.folder, "program.sh")
    with open(path, "w") as file:
        file.write("echo out; echo err >&2; echo $1 > result.txt; exit 7\n")
    into = os.path.join(platform.folder, "into")
    os.makedirs(into, exist_ok=True)
    done = platform.cli("run-code", "-f", path, "--image", IMAGE, "--collect", "*.txt", "--into", into, "--", "word")
    assert done.returncode == 7 and done.stdout == "out\n", done
    assert done.stderr.startswith("err\n") and "cordium: exited with 7" in done.stderr, done.stderr
    with open(os.path.join(into, "result.txt")) as file:
        assert file.read() == "word\n"
    late = platform.cli("run-code", "--image", IMAGE, "--timeout", "1", "--", "sleep", "9")
    assert late.returncode == 255 and "timed out" in late.stderr, late
    listed = platform.ok("runs")
    assert "timed_out" in listed and "sleep" in listed, listed


@test
def results_are_kept_as_long_as_the_configuration_says(platform):
    daemons = Daemons(platform)
    access = access_of(platform)
    old = run(platform, command="echo old")["runId"]
    daemons.stop("gateway")
    with open(os.path.join(platform.folder, "gateway.yaml")) as file:
        lines = [f"  port: {platform.port}\n" if line.strip().startswith("port:") else line for line in file]
    with open(os.path.join(platform.folder, "gateway.yaml"), "w") as file:
        file.writelines(lines + ["runs:\n", "  retentionSeconds: 2\n", "  resultsKept: 2\n"])
    daemons.start_gateway_alone()
    try:
        assert eventually(lambda: platform.cli("runs").returncode == 0)
        assert call(platform, "ListRuns", access)["retentionSeconds"] == 2
        ids = [run(platform, command=f"echo {n}")["runId"] for n in range(3)]
        call(platform, "GetRun", access, status=404, runId=old)
        call(platform, "GetRun", access, status=404, runId=ids[0])
        assert text(call(platform, "GetRun", access, runId=ids[2])) == "2\n"
        keyed = run(platform, command="echo key", idempotencyKey="kept")
        time.sleep(2.1)
        assert run(platform, command="echo free again", idempotencyKey="kept")["runId"] != keyed["runId"]
        call(platform, "GetRun", access, status=404, runId=ids[2])
        time.sleep(2.1)
        assert not call(platform, "ListRuns", access).get("items")
    finally:
        daemons.stop("gateway")
        daemons.up()


if __name__ == "__main__":
    main()
