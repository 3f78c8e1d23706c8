"""Runs by POST /v1/run and the calls of RunService, with the real curl."""

import json
import os
import subprocess

IMAGE = "docker.io/library/busybox:latest"


ACCESS = {}


def access_of(platform, token=None):
    """One log-in a user: a User has only so many Sessions."""
    if token not in ACCESS:
        ACCESS[token] = platform.access_token(token)
    return ACCESS[token]


def run(platform, token=None, status=200, access=None, **request):
    """POST /v1/run with the real curl; gives the answer."""
    code, text = platform.curl("/v1/run", json.dumps({"image": IMAGE, **request}),
                               access or access_of(platform, token))
    assert code == status, f"HTTP {code}: {text[:300]}"
    return json.loads(text)


def call(platform, method, access, status=200, **request):
    code, text = platform.curl("/cordium.ext.v1.RunService/" + method, json.dumps(request), access)
    assert code == status, f"HTTP {code}: {text[:300]}"
    return json.loads(text)


def text(result, stream="stdout"):
    return result.get(stream, {}).get("text", "")


def processes_of(run_id):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                if f"CORDIUM_RUN_ID={run_id}".encode() in environ.read():
                    found.append(pid)
        except OSError:
            pass
    return found


def start_curl(platform, access, **request):
    return subprocess.Popen(
        ["curl", "-sS", "--cacert", platform.ca, "--json", json.dumps({"image": IMAGE, **request}), "-H",
         "x-octelium-auth: " + access, f"https://localhost:{platform.port}/v1/run"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def active(platform, access):
    items = call(platform, "ListRuns", access, isActive=True).get("items", [])
    return items[0]["runId"] if items and items[0]["state"] == "RUNNING" else None
