"""The two daemons themselves: what they refuse to be, and what they have given up while they serve."""

import os
import subprocess

from harness import main, test


def pid_of(platform, name):
    with open(os.path.join(platform.folder, name + ".pid")) as file:
        return int(file.read())


def status_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


@test
def the_gateway_refuses_to_be_root(platform):
    done = subprocess.run(
        [os.path.join(platform.bin, "cordium-gateway"), "--config", os.path.join(platform.folder, "gateway.yaml")],
        capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and "root" in done.stderr and "setpriv" in done.stderr, done


@test
def the_gateway_refuses_capabilities(platform):
    done = subprocess.run(
        ["setpriv", "--reuid=57943", "--regid=57943", "--clear-groups", "--inh-caps=+net_raw", "--ambient-caps=+net_raw",
         os.path.join(platform.bin, "cordium-gateway"), "--config", os.path.join(platform.folder, "gateway.yaml")],
        capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and "capabilities" in done.stderr, done


@test
def the_running_gateway_has_no_rights_and_a_filter(platform):
    status = status_of(pid_of(platform, "gateway"))
    assert "0" not in status["Uid"].split(), status["Uid"]
    assert int(status["CapEff"], 16) == 0 and int(status["CapPrm"], 16) == 0, status
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status


@test
def the_executor_keeps_only_the_capabilities_that_it_needs(platform):
    status = status_of(pid_of(platform, "executor"))
    needed = {"SETUID", "SETGID", "SYS_ADMIN"}
    names = subprocess.run(["capsh", "--decode=" + status["CapEff"]], capture_output=True, text=True)
    if names.returncode == 0:
        have = {name.upper().replace("CAP_", "") for name in names.stdout.strip().split("=")[1].split(",")}
        never = {"SYS_MODULE", "SYS_RAWIO", "SYS_BOOT", "SYS_TIME", "SYSLOG", "BPF", "PERFMON", "MAC_ADMIN"}
        assert needed <= have and not have & never, have
    assert status["Uid"].split()[0] == "0"


@test
def the_executors_socket_is_the_gateways_alone(platform):
    stat = os.stat(os.path.join(platform.folder, "run", "executor.sock"))
    assert stat.st_mode & 0o077 == 0 and stat.st_uid == 57943, oct(stat.st_mode)


@test
def a_second_executor_and_a_second_gateway_refuse_to_start(platform):
    done = subprocess.run(
        [os.path.join(platform.bin, "cordium-executor"), "--config", os.path.join(platform.folder, "executor.conf")],
        capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "another executor" in done.stderr, done
    done = subprocess.run(
        ["setpriv", "--reuid=57943", "--regid=57943", "--clear-groups",
         os.path.join(platform.bin, "cordium-gateway"), "--config", os.path.join(platform.folder, "gateway.yaml")],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.strip(), done


@test
def an_unknown_setting_is_named_with_its_line(platform):
    path = os.path.join(platform.folder, "bad.yaml")
    with open(path, "w") as file:
        file.write("domain: localhost\nstateDri: /x\n")
    done = subprocess.run([os.path.join(platform.bin, "cordium-gateway"), "check", "--config", path],
                          capture_output=True, text=True, timeout=20)
    os.unlink(path)
    assert done.returncode == 1 and ":2:" in done.stderr and "stateDri" in done.stderr, done


@test
def the_health_page_answers_without_a_session(platform):
    done = subprocess.run(
        ["curl", "-sS", "--cacert", platform.ca, f"https://localhost:{platform.port}/healthz"],
        capture_output=True, text=True, timeout=20)
    assert done.stdout == "ok\n", done


if __name__ == "__main__":
    main()
