"""`cordium doctor`: what works, what does not, and the remedy."""

import json
import os
import shutil
import subprocess
import tempfile

from daemons import Daemons
from harness import eventually, main, test


def config_of(platform):
    return os.path.join(platform.folder, "executor.conf")


def doctor(platform, *options, **settings):
    """Gives (exit code, {subject: [(state, text)...]}) of the findings as JSON."""
    done = platform.cli("doctor", "-o", "json", "-f", config_of(platform), *options, **settings)
    told = json.loads(done.stdout)
    subjects = {}
    for finding in told["findings"]:
        subjects.setdefault(finding["subject"], []).append((finding["state"], finding["text"]))
    assert told["problems"] == sum(f["state"] == "problem" for f in told["findings"]), told
    assert done.returncode == (1 if told["problems"] else 0), done
    return done.returncode, subjects


@test
def a_whole_platform_has_no_problem(platform):
    code, told = doctor(platform)
    assert code == 0, told
    for subject in ("client", "server", "executor link", "session", "kernel", "cgroups", "disk limits", "trial start"):
        assert told[subject][0][0] == "ok", (subject, told.get(subject))
    assert "CA file" in told["server"][0][1] and "domain localhost" in told["session"][0][1], told


@test
def each_layer_of_the_attacked_sandbox_is_told(platform):
    _, told = doctor(platform)
    held = {text for state, text in told["layer"] if state == "ok"}
    assert len(told["layer"]) >= 25 and {"pid namespace", "memory limit", "system call filter"} <= held, told["layer"]


@test
def text_and_yaml_say_the_same(platform):
    lines = platform.ok("doctor", "-f", config_of(platform)).splitlines()
    assert any(line.startswith("ok       server ") for line in lines), lines
    assert lines[-1].startswith("ok       trial start"), lines[-1]
    yaml = platform.ok("doctor", "-f", config_of(platform), "-o", "yaml")
    assert "  - state: ok\n    subject: trial start\n" in yaml and yaml.rstrip().endswith("problems: 0"), yaml


@test
def an_unreachable_server_and_a_wrong_token_are_problems_with_a_remedy(platform):
    code, told = doctor(platform, "--server", "127.0.0.1:1")
    assert code == 1 and told["server"][0][0] == "problem" and "remedy" in told["server"][0][1], told
    assert "session" not in told and told["trial start"][0][0] == "ok", told
    code, told = doctor(platform, "--ca-file", "/etc/hostname")
    assert code == 1 and told["server"][0][0] == "problem" and "--ca-file" in told["server"][0][1], told
    code, told = doctor(platform, token="wrong" * 8)
    assert code == 1 and told["server"][0][0] == "ok" and told["session"][0][0] == "problem", told


@test
def without_rights_it_tells_what_anybody_can_read(platform):
    env = dict(platform.cli_env(), OCTELIUM_HOME="mem", HOME="/nonexistent")
    done = subprocess.run(
        ["setpriv", "--reuid=57943", "--regid=57943", "--clear-groups", "--",
         os.path.join(platform.bin, "cordium"), "doctor", "-f", config_of(platform)],
        env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert any(line.startswith("ok       kernel ") for line in lines), lines
    assert lines[-1].startswith("note     trial start") and "only root" in lines[-1], lines


@test
def an_executor_of_another_build_and_none_at_all_are_told(platform):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(platform.bin, "cordium"), folder)

        def told():
            done = subprocess.run([folder + "/cordium", "doctor", "-o", "json"], env=platform.cli_env(),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            return [f for f in json.loads(done.stdout)["findings"] if f["subject"] == "host"]

        if not any(os.path.exists(path + "/cordium-executor")
                   for path in ("/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin")):
            assert [f["state"] for f in told()] == ["note"], told()
        for output in ("old words", '{"findings": {}}', '{"findings": [{"state": "ok", "subject": 3}]}', ""):
            with open(folder + "/cordium-executor", "w") as file:
                file.write(f"#!/bin/sh\nprintf '%s' '{output}'\n")
            os.chmod(folder + "/cordium-executor", 0o755)
            assert [f["state"] for f in told()] == ["problem"] and "one build" in told()[0]["text"], (output, told())


@test
def a_gateway_without_its_executor_says_so(platform):
    daemons = Daemons(platform)
    daemons.stop("executor", 30)
    try:
        found = {}

        def is_told():
            found.update(doctor(platform)[1])
            return found["executor link"][0][0] == "problem"

        assert eventually(is_told, 10), found
        assert "remedy" in found["executor link"][0][1] and found["server"][0][0] == "ok", found
    finally:
        daemons.up()
    assert eventually(lambda: doctor(platform)[0] == 0, 10)


if __name__ == "__main__":
    main()
