"""Runs every program of a folder through the product, each by its header, and says what came of it.

    run_cases.py PLATFORM-FOLDER CASES-FOLDER [NAME-PART...]

A program is sent as it is with POST /v1/run: .py and .sh as code, .c is compiled by one run (gcc of
the image, with the same kind of limits) and its binary executed by the next. `ok` means that every
expectation that could be checked held. Behind it stand the expectations that this product means
otherwise on purpose, and those that are said in words that the runner does not understand.
"""

import base64
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(sys.path[0], "..", "system"))
from client import Client, Failed, read_env  # noqa: E402
from expect import Judge, header, limits  # noqa: E402
from special import NOTES, SPECIAL  # noqa: E402

TEMPLATE = "box.cases.admin"


class Bench:
    """One program and the ways to run it."""

    def __init__(self, client, folder, path):
        self.client, self.folder, self.path = client, folder, path
        self.name = os.path.basename(path)
        self.fields = header(path)
        self.limits, self.other_limits = limits(self.fields.get("limits", ""))
        with open(path, "rb") as source:
            self.source = source.read()

    def request(self, **more):
        request = {"template": TEMPLATE, "limits": dict(self.limits)}
        if self.name.endswith(".c"):
            request["files"] = [{"path": "program", "data": self.binary(), "isExecutable": True}]
            request["argv"] = ["./program"]
        else:
            request["language"] = "python" if self.name.endswith(".py") else "sh"
            request["codeBytes"] = base64.b64encode(self.source).decode()
        for key, value in more.items():
            if key in ("limits", "files"):
                request[key] = {**request.get(key, {}), **value} if key == "limits" else request.get(key, []) + value
            else:
                request[key] = value
        return request

    def compile(self, **more):
        bounds = {"wallMs": 20000, "memoryMegabytes": 512, "pids": 64, "cpuMillicores": 1000, "diskMegabytes": 64}
        if "compile:" in self.fields.get("limits", ""):
            bounds = self.limits
        return self.client.run(template=TEMPLATE, limits=bounds, collect=["program"],
                               command="gcc -O1 -o program main.c -lpthread",
                               files=[{"path": "main.c", "data": base64.b64encode(self.source).decode()}], **more)

    def binary(self):
        if not hasattr(self, "compiled"):
            result = self.compile()
            if result.get("exitCode") != 0:
                raise AssertionError(f"gcc: {result.get('outcome')} {result['stderr'].get('text', '')[:200]}")
            self.compiled = result["files"][0]["data"]
        return self.compiled

    def run(self, **more):
        """The result and how long the caller waited."""
        request = self.request(**more)
        began = time.monotonic()
        result = self.client.run(**request)
        return result, time.monotonic() - began


def judge(bench):
    """(failures, notes)"""
    special = SPECIAL.get(bench.name)
    stage = "stage=compile" in bench.fields.get("expect", "")
    if special and special.replaces:
        return special.function(bench) or [], []
    more = special.prepare(bench) if special and special.prepare else {}
    began = time.monotonic()
    result, seconds = (bench.compile(), 0) if stage else bench.run(**more)
    seconds = seconds or time.monotonic() - began
    verdict = Judge(result, seconds)
    verdict.expectation(bench.fields.get("expect", "outcome=exited exit_code=0"))
    notes = [f"not checked: {text}" for text in verdict.unchecked]
    failures = verdict.failures
    if special:
        failures = [f for f in failures if not any(f.startswith(s) for s in special.own_meaning)]
        notes = []  # its function knows what the words mean
        failures += special.function(bench, result, seconds) or []
    return failures, notes


def main():
    folder, cases, parts = sys.argv[1], sys.argv[2], sys.argv[3:]
    client = Client(read_env(folder))
    names = sorted(n for n in os.listdir(cases) if n.endswith((".py", ".sh", ".c")))
    passed = failed = 0
    for name in names:
        if parts and not any(p in name for p in parts):
            continue
        bench = Bench(client, folder, os.path.join(cases, name))
        began = time.monotonic()
        try:
            failures, notes = judge(bench)
        except (AssertionError, Failed, OSError, KeyError, IndexError) as error:
            failures, notes = [f"{type(error).__name__}: {error}"], []
        ms = (time.monotonic() - began) * 1000
        passed, failed = passed + (not failures), failed + bool(failures)
        print(f"{'FAIL' if failures else 'ok':5} {name:34} {ms:7.0f} ms  "
              f"{' '.join('; '.join(failures).split()) or NOTES.get(name, '') or '; '.join(notes)}", flush=True)
    client.logout()
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
