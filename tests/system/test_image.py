#!/usr/bin/env python3
"""Image work in a real build sandbox: an executor and a registry of the test's own, cordium-image as
a run. usage: test_image.py PROGRAMS-DIRECTORY (build/release). Needs root and build/base."""
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release"))
UID = 57944
PORT = 5079


class Platform:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="cordium-image-", dir=os.path.join(ROOT, "build"))
        os.chmod(self.folder, 0o755)
        for name in ("state", "run", "tools", "tools/bin"):
            os.mkdir(os.path.join(self.folder, name))
        shutil.copy(os.path.join(PROGRAMS, "cordium-image"), os.path.join(self.folder, "tools/bin"))
        # Anything listens on another port of the loopback: builds must not reach it.
        self.other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        threading.Thread(target=self.other.serve_forever, daemon=True).start()
        self.executor = None
        self.registry("start")
        try:
            self.start()
        except BaseException:
            self.close()  # what was started must not outlive a start that failed
            raise

    def start(self):
        self.registry("push")
        config = os.path.join(self.folder, "executor.conf")
        with open(config, "w") as f:
            f.write(f"state_dir = {self.folder}/state\nruntime_dir = {self.folder}/run\n"
                    f"tools_dir = {self.folder}/tools\ninstance = image-test\ngateway_uid = {UID}\n"
                    f"build_loopback_ports = {PORT}\npool_mebibytes = 16384\npool_size = 1\n")
        os.chmod(config, 0o644)
        self.log = open(os.path.join(self.folder, "executor.log"), "w")
        self.executor = subprocess.Popen([os.path.join(PROGRAMS, "cordium-executor"), "--config", config],
                                         stdout=self.log, stderr=self.log)
        self.socket = os.path.join(self.folder, "run/executor.sock")
        for _ in range(200):
            if os.path.exists(self.socket) or self.executor.poll() is not None:
                break
            time.sleep(0.1)
        if not os.path.exists(self.socket):
            sys.exit("the executor did not start: " + open(self.log.name).read())

    def registry(self, action):
        env = dict(os.environ, REGISTRY_PORT=str(PORT), BASE_DIRECTORY=os.path.join(ROOT, "build/base"))
        subprocess.run([os.path.join(ROOT, "tests/demo/registry.sh"), action,
                        os.path.join(self.folder, "registry")], env=env, check=True,
                       stdout=subprocess.DEVNULL)

    def run(self, argv, stdin=""):
        """(text of standard output, of standard error); the probe adds a line of its own."""
        done = subprocess.run(
            ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups",
             os.path.join(PROGRAMS, "executor_probe"), self.socket, "build", "--", *argv],
            input=stdin, capture_output=True, text=True, timeout=180)
        return done.stdout, done.stderr

    def image(self, *arguments, dockerfile=""):
        out, err = self.run(["/opt/cordium/bin/cordium-image", arguments[0], "--mirror",
                             f"docker.io=host.cordium.internal:{PORT},insecure", *arguments[1:]], dockerfile)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        assert len(lines) == 1, f"standard output: {out}\nstandard error: {err}"
        return json.loads(lines[0]), err

    def close(self):
        if self.executor:
            self.executor.terminate()
            self.executor.wait(30)
        self.registry("stop")
        self.other.shutdown()
        shutil.rmtree(self.folder)


def test_build_gives_user_env_and_numbered_steps(p):
    result, log = p.image("build", dockerfile="FROM busybox\nENV A=1\nRUN echo hello from the step\n")
    assert result["user"] == "octelium" and result["uid"] == 1000, result
    assert result["env"] == ["PATH=/bin", "A=1"] and result["cmd"] == ["sh"], result
    assert result["execShell"] == "/bin/sh" and result["digest"].startswith("sha256:"), result
    assert "STEP 3/3: RUN echo hello from the step\nhello from the step\n" in log, log


def test_failing_step_is_named_with_its_exit_code_and_last_lines(p):
    result, log = p.image("build", dockerfile="FROM busybox\nRUN true\nRUN echo last words; exit 7\nRUN true\n")
    error = result["error"]
    assert (error["step"], error["steps"], error["exitCode"]) == (3, 4, 7), error
    assert error["command"] == "RUN echo last words; exit 7" and "last words" in error["lastLines"], error
    assert "step 3/4 failed with exit code 7" in log, log


def test_wrong_dockerfiles_and_references_are_told_apart(p):
    result, _ = p.image("build", dockerfile="RUN true\n")
    assert result["error"]["status"] == "INVALID_ARGUMENT", result
    result, _ = p.image("build", dockerfile="FROM busybox\nFOO bar\n")
    assert "Unknown instruction" in result["error"]["message"], result
    result, _ = p.image("pull", "no such reference")
    assert "invalid reference" in result["error"]["message"], result
    result, _ = p.image("pull", "dir:/etc")
    assert "invalid reference" in result["error"]["message"], result


def test_build_variables_reach_steps_and_not_the_image(p):
    result, log = p.image("build", "--build-env", "SECRET_INDEX=http://x y/", "--ca-bundle",
                          "/etc/ssl/certs/ca-certificates.crt",
                          dockerfile='FROM busybox\nRUN echo "[$SECRET_INDEX] $SSL_CERT_FILE"; '
                                     'head -n 1 "$SSL_CERT_FILE"\n')
    assert "[http://x y/] /run/cordium-build/ca.crt\n-----BEGIN CERTIFICATE-----\n" in log, log
    assert result["env"] == ["PATH=/bin"], result


def test_steps_are_not_the_hosts_root_and_see_nothing_of_it(p):
    _, log = p.image("build", dockerfile="FROM busybox\nRUN cat /proc/self/uid_map; "
                     "mknod /x b 8 0 && echo MADE A DISK; ls /proc/1/root/root /proc/1/root/home; true\n")
    ids = [line.split() for line in log.splitlines() if line.split()[:1] == ["0"]]
    assert ids and int(ids[0][1]) >= 65536, log
    assert "MADE A DISK" not in log.splitlines(), log
    out, err = p.run(["/bin/sh", "-c", "cat /etc/shadow; ls /home /work; id -u; echo x >/usr/x; "
                      "echo x >/etc/x; echo x >/opt/cordium/x"])
    assert "root:" not in out and out.splitlines()[-1:] != [] and "0" in out.split(), (out, err)
    assert not os.path.exists("/usr/x"), "a build wrote to the host"


def test_steps_reach_the_listed_loopback_port_only(p):
    other = p.other.server_address[1]
    _, log = p.image("build", dockerfile=f"FROM busybox\nRUN wget -q -O - http://host.cordium.internal:{PORT}/v2/"
                     f" && echo REACHED; start=$(date +%s); wget -T 5 -q -O - http://host.cordium.internal:{other}/"
                     " || echo REFUSED after $(($(date +%s) - start)) s\n")
    assert "REACHED" in log, log
    assert "REFUSED after 0 s" in log or "REFUSED after 1 s" in log, log


def test_image_whose_etc_is_a_link_is_refused(p):
    result, _ = p.image("build", dockerfile="FROM busybox AS a\nRUN mkdir /r && ln -s /tmp /r/etc && cp -a /bin /r/\n"
                        "FROM scratch\nCOPY --from=a /r /\n")
    assert result["error"]["status"] == "FAILED_PRECONDITION", result
    assert "/etc" in result["error"]["message"], result


def test_image_with_links_for_mount_points_is_put_right(p):
    result, _ = p.image("build", dockerfile="FROM busybox AS a\nRUN mkdir -p /r/var && ln -s ../../.. /r/dev && "
                        "ln -s /etc /r/tmp && ln -s /proc/1/root /r/workspace && ln -s / /r/var/run && cp -a /bin /r/\n"
                        "FROM scratch\nCOPY --from=a /r /\n")
    assert result.get("user") == "octelium", result


def test_pull_takes_an_image_as_it_is(p):
    result, log = p.image("pull", "busybox:latest")
    assert result["cmd"] == ["sh"] and result["sizeBytes"] > 500000, result
    assert "PREPARED" in log, log


def main():
    if os.geteuid() != 0:
        print("build sandboxes need root\n0 passed, 0 failed, 1 skipped")
        return 1 if os.environ.get("MUST_WORK") else 0
    p = Platform()
    passed = failed = 0
    try:
        for name, test in list(globals().items()):
            if not name.startswith("test_"):
                continue
            start = time.monotonic()
            try:
                test(p)
                passed += 1
                print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as e:
                failed += 1
                print(f"FAILED {name}: {e}", flush=True)
    finally:
        p.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
