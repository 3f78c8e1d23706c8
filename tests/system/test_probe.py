"""What a program inside a workspace can see and do, compared line by line with an approved list."""

import os
import re

import fixture
from harness import main, test

HERE = os.path.dirname(os.path.abspath(__file__))
APPROVED = os.path.join(HERE, "..", "..", "testdata", "probe", "approved.txt")


def probe(platform, root):
    token = fixture.ensure(platform)["worker"]
    with open(os.path.join(platform.bin, "tests", "tools", "probe"), "rb") as file:
        program = file.read()
    with platform.sdk(token) as client:
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        try:
            workspace.files.write_bytes("/workspace/probe", program)
            workspace.exec("chmod +x probe", cwd="/workspace", check=True)
            result = workspace.exec("exec ./probe", cwd="/workspace", root=root, timeout=60)
            assert result.exit_code == 0, result.stderr
            return result.stdout
        finally:
            workspace.delete()


def normalise(text):
    """Takes out what differs from host to host and means nothing: ids, file systems, its limits."""
    text = re.sub(r"(uid_map|gid_map): 0 \d+ 65536", r"\1: 0 BASE 65536", text)
    text = re.sub(r"^(mount: \S+) (btrfs|ext4|xfs|overlay|erofs) ", r"\1 DISK ", text, flags=re.M)
    text = re.sub(r"^limit (memlock|msgqueue): .*$", r"limit \1: HOST", text, flags=re.M)
    text = re.sub(r"^limit nofile: (\d+) \d+$", r"limit nofile: \1 HOST", text, flags=re.M)
    return [line.rstrip() for line in text.splitlines()]


def compare(platform, root, section):
    with open(APPROVED) as file:
        sections = re.split(r"^== (\w+)\n", file.read(), flags=re.M)
    approved = dict(zip(sections[1::2], sections[2::2]))[section].splitlines()
    seen = normalise(probe(platform, root))
    more = [line for line in seen if line not in approved]
    less = [line for line in approved if line not in seen]
    assert not more and not less, "\n".join(["seen, not approved:", *more, "approved, not seen:", *less])


@test
def a_program_of_the_workspace_user_sees_what_is_approved(platform):
    compare(platform, False, "user")


@test
def a_program_of_the_workspaces_root_sees_what_is_approved(platform):
    compare(platform, True, "root")


if __name__ == "__main__":
    main()
