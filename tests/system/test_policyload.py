"""Policies that change while requests are decided, by several at once, and on a disk that fills."""

import http.client
import json
import os
import sqlite3
import subprocess
import threading

from daemons import Daemons
from fixture import new_user
from harness import eventually, expect_code, main, test

METHOD = "/octelium.api.main.cordium.v1.MainService/ListSpace"

POLICY = """
kind: Policy
metadata: {{name: {name}, description: "{description}"}}
spec:
  rules:
    - name: {rule}
      effect: {effect}
      priority: {priority}
      condition: {{match: ctx.user.metadata.name == "{user}"}}
"""

CLUSTER = """
kind: ClusterConfig
spec:
  authorization:
    policies: [{names}]
"""


def rotation(user, turn, size):
    """A set in which one policy of several allows and all others deny. With a part of this set and a
    part of the set of another turn, none may be left that allows."""
    documents = []
    for i in range(size):
        allows = i == turn % size
        effect, priority = ("ALLOW", -1) if allows else ("DENY", 0)
        documents.append(
            POLICY.format(name=f"turn-{i}", description=turn, rule=f"t{turn % size}", effect=effect, priority=priority, user=user)
        )
    return "---".join(documents)


class Asker(threading.Thread):
    """Asks again and again on one connection until it is told to stop."""

    def __init__(self, platform, token):
        super().__init__()
        self.connection = http.client.HTTPSConnection(
            "localhost", platform.port, context=platform.ssl_context(), timeout=30
        )
        self.headers = {"content-type": "application/json", "x-octelium-auth": token}
        self.stop = threading.Event()
        self.count = 0
        self.refusals = []

    def run(self):
        while not self.stop.is_set():
            self.connection.request("POST", METHOD, "{}", self.headers)
            answer = self.connection.getresponse()
            text = answer.read().decode()
            self.count += 1
            if answer.status != 200:
                self.refusals.append((answer.status, text))
        self.connection.close()


def detach(platform, names=()):
    platform.ok("apply", "-", stdin=CLUSTER.format(names=", ".join(names)))


@test
def no_request_sees_half_of_a_set(platform):
    user, token = new_user(platform, "asker")
    access = platform.access_token(token)
    size, turns = 20, 60
    platform.ok("apply", "-", stdin=rotation(user, 0, size))
    detach(platform, [f"turn-{i}" for i in range(size)])
    askers = [Asker(platform, access) for _ in range(4)]
    try:
        for asker in askers:
            asker.start()
        for turn in range(1, turns):
            platform.ok("apply", "-", stdin=rotation(user, turn, size))
    finally:
        for asker in askers:
            asker.stop.set()
            asker.join()
        detach(platform)
        for i in range(size):
            platform.ok("delete", "policy", f"turn-{i}")
    assert [a.refusals[:1] for a in askers] == [[]] * len(askers), askers[0].refusals[:1]
    asked = sum(a.count for a in askers)
    assert asked > 10 * turns, f"only {asked} requests in {turns} changes"


@test
def a_denial_holds_from_the_moment_that_apply_returns(platform):
    user, token = new_user(platform, "denied")
    access = platform.access_token(token)
    for effect, status in [("DENY", 403), ("ALLOW", 200)] * 5:
        document = POLICY.format(name="at-once", description="", rule="r", effect=effect, priority=-1, user=user)
        platform.ok("apply", "-", stdin=document + "---" + CLUSTER.format(names="at-once"))
        code, text = platform.curl(METHOD, "{}", access)
        assert code == status, (effect, code, text)
    detach(platform)
    platform.ok("delete", "policy", "at-once")


@test
def files_that_are_applied_at_once_take_effect_one_after_the_other(platform):
    names = [f"together-{i}" for i in range(30)]

    def file_of(writer):
        return "---".join(
            POLICY.format(name=n, description=f"by {writer}", rule="r", effect="DENY", priority=0, user="nobody")
            for n in names
        )

    done = []
    writers = [
        threading.Thread(target=lambda w=w: done.append(platform.cli("apply", "-", stdin=file_of(w)))) for w in range(8)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [d.returncode for d in done] == [0] * 8, [d.stderr for d in done]
    found = json.loads(platform.ok("get", "policies", "-o", "json"))["items"]
    last = {p["metadata"]["description"] for p in found if p["metadata"]["name"] in names}
    assert len(last) == 1, last
    for n in names:
        platform.ok("delete", "policy", n)


def mount_small(platform, daemons, room_kibibytes):
    """The store on a file system with little room; the audit log stays where it is."""
    gateway = os.path.join(platform.folder, "gateway")
    kept = os.path.join(platform.folder, "audit-kept")
    copy = os.path.join(platform.folder, "gateway-kept")
    os.makedirs(kept, exist_ok=True)
    # Without the free pages that other tests leave in the file.
    store = sqlite3.connect(os.path.join(gateway, "store.db"))
    store.execute("VACUUM")
    store.close()
    subprocess.run(f"chown {daemons.uid}:{daemons.uid} {gateway}/store.db*", shell=True, check=True)
    subprocess.run(["mount", "--bind", os.path.join(gateway, "audit"), kept], check=True)
    subprocess.run(["cp", "-a", gateway, copy], check=True)
    used = int(subprocess.run(["du", "-sk", "--exclude=audit", copy], capture_output=True, text=True, check=True).stdout.split()[0])
    options = f"size={used + room_kibibytes}k,mode=700,uid={daemons.uid},gid={daemons.uid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "small", gateway], check=True)
    subprocess.run(f"rm -rf {copy}/audit && cp -a {copy}/* {gateway}/ && mkdir {gateway}/audit", shell=True, check=True)
    subprocess.run(["mount", "--bind", kept, os.path.join(gateway, "audit")], check=True)


def unmount_small(platform):
    gateway = os.path.join(platform.folder, "gateway")
    kept = os.path.join(platform.folder, "audit-kept")
    back = os.path.join(platform.folder, "gateway-back")
    subprocess.run(["umount", os.path.join(gateway, "audit")], check=True)
    subprocess.run(["cp", "-a", gateway, back], check=True)
    subprocess.run(["umount", gateway], check=True)
    subprocess.run(["umount", kept], check=True)
    subprocess.run(f"rm -f {gateway}/store.db* && cp -a {back}/store.db* {gateway}/", shell=True, check=True)
    subprocess.run(["rm", "-rf", back, os.path.join(platform.folder, "gateway-kept"), kept], check=True)


def large_file():
    rule = "    - {{name: r{0}, effect: DENY, condition: {{match: 'ctx.user.metadata.name == \"{1}-{0}\"'}}}}\n"
    head = "kind: Policy\nmetadata: {{name: large-{0}}}\nspec:\n  rules:\n"
    return "---\n".join(
        head.format(i) + "".join(rule.format(k, "x" * 500) for k in range(100)) for i in range(60)
    )


@test
def a_full_disk_leaves_the_set_as_it_was(platform):
    daemons = Daemons(platform)
    gateway = os.path.join(platform.folder, "gateway")
    daemons.stop("gateway")
    mount_small(platform, daemons, 1024)
    try:
        daemons.up()
        before = json.loads(platform.ok("policy", "versions", "-o", "json"))["items"]
        policies = platform.ok("get", "policies")
        done = platform.cli("apply", "-", stdin=large_file())
        assert done.returncode == 1 and "disk" in done.stderr, done.stderr
        assert "created" not in done.stdout, done.stdout
        assert json.loads(platform.ok("policy", "versions", "-o", "json"))["items"] == before
        assert platform.ok("get", "policies") == policies
        subprocess.run(["mount", "-o", "remount,size=128m", gateway], check=True)
        small = POLICY.format(name="small-one", description="", rule="r", effect="DENY", priority=0, user="nobody")
        assert "1 created" in platform.ok("apply", "-", stdin=small)
        platform.ok("delete", "policy", "small-one")
    finally:
        if daemons.alive("gateway"):
            daemons.stop("gateway")
        unmount_small(platform)
        daemons.up()
    assert eventually(lambda: platform.cli("policy", "versions").returncode == 0)


if __name__ == "__main__":
    main()
