"""What the system tests share: a list of tests, a platform to run them on, the real clients.

    python3 test_x.py FOLDER     FOLDER is a running platform (tests/demo/platform.sh up FOLDER)

Each file prints one line a test and ends with "N passed, N failed".
"""

import json
import os
import shlex
import ssl
import subprocess
import sys
import time
import traceback

import audit_files

TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Platform:
    """A running platform: its folder, its settings, clients for it."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.env = {}
        with open(os.path.join(self.folder, "env")) as lines:
            for line in lines:
                for word in shlex.split(line)[1:]:
                    name, _, value = word.partition("=")
                    self.env[name] = value
        host, _, port = self.env["CORDIUM_SERVER"].partition(":")
        self.host, self.port = host, int(port)
        self.ca = self.env["CORDIUM_CA_FILE"]
        self.bin = self.env["PATH"].split(":")[0]

    def cli_env(self, token=None, home=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OCTELIUM_", "CORDIUM_"))}
        env.update({k: v for k, v in self.env.items() if k != "PATH"})
        if token:
            env["OCTELIUM_AUTH_TOKEN"] = token
            env["OCTELIUM_HOME"] = home or os.path.join(self.folder, "home-" + token[-12:])
        return env

    def cli(self, *words, token=None, stdin=None, timeout=120, program="cordium"):
        """Runs our command line client; gives the CompletedProcess with text output."""
        return subprocess.run(
            [os.path.join(self.bin, program), *words],
            env=self.cli_env(token),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def ok(self, *words, **options):
        """The same, but it must succeed; gives standard output."""
        done = self.cli(*words, **options)
        assert done.returncode == 0, f"cordium {' '.join(words)}: {done.returncode}: {done.stderr}"
        return done.stdout

    def ssl_context(self):
        return ssl.create_default_context(cafile=self.ca)

    def sdk(self, token=None):
        from cordium import AuthenticationToken, Cordium

        return Cordium(
            "localhost",
            auth=AuthenticationToken(token or self.env["OCTELIUM_AUTH_TOKEN"]),
            host=self.host,
            port=self.port,
            ssl_context_factory=self.ssl_context,
        )

    def access_token(self, token=None):
        with self.sdk(token) as client:
            return client.access_token()

    def curl(self, path, body="{}", token=None, *options):
        """POSTs JSON with the real curl; gives (HTTP status, body text)."""
        words = ["curl", "-sS", "--cacert", self.ca, "-w", "\n%{http_code}", "--json", body, *options]
        if token:
            words += ["-H", "x-octelium-auth: " + token]
        done = subprocess.run(
            words + [f"https://localhost:{self.port}{path}"], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        text, _, code = done.stdout.rpartition("\n")
        return int(code), text

    def end_admin_sessions(self):
        """A person may have 16 Sessions: those that a file's tests began as the administrator end with it. That of the
        client, which it keeps, stays."""
        done = self.cli("get", "sessions", "-o", "json", "--items-per-page=1000")
        sessions = json.loads(done.stdout)["items"] if done.returncode == 0 else []
        names = [
            session["metadata"]["name"]
            for session in sessions
            if session["status"]["userRef"]["name"] == "admin"
            and session["status"]["authentication"]["info"]["downstream"].get("userAgent") != "octelium-cli/1"
        ]
        if names:
            self.cli("delete", "session", *names)

    @property
    def audit_folder(self):
        return os.path.join(self.folder, "gateway", "audit")

    def audit_lines(self):
        """Records of the audit log, but for those about the log itself."""
        return audit_files.records(self.audit_folder)


def eventually(check, seconds=10, pause=0.05):
    """Waits until check() gives something true; gives it."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value or time.monotonic() > end:
            return value
        time.sleep(pause)


def expect_code(code, function):
    """The call must fail with that gRPC status; gives the error's text."""
    from cordium import CordiumError

    try:
        function()
    except CordiumError as error:
        assert error.code == code, f"expected {code}, got {error.code}: {error}"
        return str(error)
    raise AssertionError(f"expected {code}, but the call succeeded")


def main(only=None):
    platform = Platform(sys.argv[1])
    only = sys.argv[2:] or only
    passed = failed = 0
    for function in TESTS:
        if only and function.__name__ not in only:
            continue
        began = time.monotonic()
        try:
            function(platform)
            passed += 1
            print(f"ok    {function.__name__} ({(time.monotonic() - began) * 1000:.0f} ms)", flush=True)
        except Exception:  # a test may fail in any way; the others still run
            failed += 1
            print(f"FAIL  {function.__name__}", flush=True)
            traceback.print_exc(file=sys.stdout)
    platform.end_admin_sessions()
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)
