"""Spaces, Templates and users that several system tests use; made once a platform."""

import json
import os
import time

SPACE = "tests.cordium"
BOX = "box.tests.cordium"

SPACE_YAML = """
spec:
  limit:
    defaultLimit:
      cpu: {millicores: 1000}
      memory: {megabytes: 256}
      storage: {megabytes: 200}
    maxLimit:
      cpu: {millicores: 2000}
      memory: {megabytes: 1024}
      storage: {megabytes: 1000}
  authorization:
    disableSSH: true
"""

BOX_YAML = """
spec:
  image:
    registry:
      url: docker.io/library/busybox:latest
  runtime:
    filesystem:
      readOnly: true
    network:
      egress:
        defaultAction: DENY
"""


def new_user(platform, name):
    """A WORKLOAD user with a name of its own for each run of a test; gives (name, token)."""
    name = f"{name}-{int(time.time() * 1000) % 10**9}"
    platform.ok("create", "user", name, "--type", "WORKLOAD")
    return name, platform.ok("create", "credential", name, "--user", name).strip()


def ensure(platform):
    """Gives {"worker": token} of a WORKLOAD user that is a member of the Space."""
    path = os.path.join(platform.folder, "fixture.json")
    if os.path.exists(path):
        with open(path) as file:
            return json.load(file)
    platform.ok("create", "space", SPACE, "-f", "-", stdin=SPACE_YAML)
    platform.ok("create", "template", BOX, "-f", "-", stdin=BOX_YAML)
    platform.ok("build", BOX, timeout=300)
    platform.ok("create", "user", "worker", "--type", "WORKLOAD")
    platform.ok("create", "membership", "--space", SPACE, "--user", "worker")
    token = platform.ok("create", "credential", "worker-token", "--user", "worker").strip()
    tokens = {"worker": token}
    with open(path, "w") as file:
        json.dump(tokens, file)
    return tokens
