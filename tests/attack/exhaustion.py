"""Row 45: using up what a host has. Each is refused or bounded, and everything is gone afterwards."""

import re
import subprocess
import time

from cordium.spec import Resources
from report import attack

# Memory and disk of the sandboxes in which it is tried, in megabytes.
MEMORY, DISK = 256, 200
ANSWER_S = 15
# How many there were when the kernel killed what counted them.
UNKNOWN = 1000

# Attempt, who, what ends it there (the words may vary with the host), and where the host has more.
BOMBS = [
    ("forks", "EAGAIN"),
    ("stopped-orphans", "EDQUOT"),
    ("inodes", "EDQUOT ENOSPC time"),
    ("dentries", "time"),
    ("page-cache", "EDQUOT ENOSPC"),
    ("memory", "ENOMEM oom_killed"),
    ("shared-memory", "ENOMEM ENOSPC oom_killed"),
    ("pipes", "EMFILE ENOMEM ENFILE oom_killed"),
    ("sockets", "EMFILE ENOMEM ENFILE oom_killed ENOBUFS"),
    ("terminals", "ENOSPC"),
    ("inotify", "EMFILE"),
    ("keys", "EPERM"),
    ("sparse", "time EFBIG"),
    ("waiters", "time"),
]
# What the host itself does not give more of, or what was not refused, and why that is no gap.
NO_CONTROL = {
    "dentries": "nothing is refused: the names are memory of the group, which is reclaimed",
    "inotify": "the host's own limit is the same, and counted for each sandbox apart",
    "stopped-orphans": "40 are made and stopped outside, too",
    "sparse": "the file takes no blocks outside either",
    "waiters": "they wait outside, too",
}


def reached(text):
    found = re.search(r"^reached (\d+) (\S+)$", text, re.M)
    return (int(found.group(1)), found.group(2)) if found else None


def explode(world, attempt, root, ends):
    """Starts it in a sandbox of its own, sees where it ends, deletes the workspace while it stays, and
    waits until nothing is left. Gives a text."""
    box = world.workspace(resources=Resources(cpu=1000, memory=MEMORY, storage=DISK))
    prints = world.footprint(box)
    words = [world.programs + "/cordium", "exec", "--no-stdin", *(["--root"] if root else []), box.name, "--", "/attempts", attempt]
    began = time.monotonic()
    client = subprocess.Popen(words, env=world.platform.cli_env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        text = first_words(client, began)
        took = time.monotonic() - began
        asked = time.monotonic()
        box.delete()
        answered = time.monotonic() - asked
        world.wait_until_gone(prints)
        gone = time.monotonic() - asked
    finally:
        client.kill()
        client.communicate()
    found = reached(text)
    word = found[1] if found else "oom_killed" if "oom_killed" in text else text.strip()[-60:]
    assert word in ends.split(), f"{attempt}: ended with {text.strip()!r}, not {ends}"
    assert answered < 10, f"{attempt}: the delete took {answered:.1f} s"
    assert took < ANSWER_S + 1, f"{attempt}: took {took:.1f} s"
    count = found[0] if found else UNKNOWN
    return count, word, f"{found[0] if found else ''} {word}, gone {gone:.1f} s after".strip()


def first_words(client, began):
    """What it prints until it says how far it came, or ends."""
    text = ""
    while time.monotonic() < began + ANSWER_S:
        line = client.stdout.readline()
        text += line
        if not line or reached(text):
            return text
    return text


def control(world, attempt, count, words):
    """As much and more works outside, where nothing limits it but the number of descriptors."""
    if attempt in NO_CONTROL:
        return NO_CONTROL[attempt]
    more = count if "EMFILE" in words else count + count // 10 + 20
    outcome = world.outside(f"{attempt}={more}")[0]
    assert outcome.text == "succeeded", f"the control does not work outside: {outcome}"
    return f"{more} outside"


def add(attempt, ends):
    @attack(45, attempt.replace("-", " "))
    def bomb(world):
        told, most, words = [], 0, set()
        for root in (False, True):
            count, word, text = explode(world, attempt, root, ends)
            most = max(most, count)
            words.add(word)
            told.append(f"{'root' if root else 'user'} {text}")
        return told, control(world, attempt, most, words)


for bomb_attempt, bomb_ends in BOMBS:
    add(bomb_attempt, bomb_ends)


@attack(45, "mounts and processes of a build")
def build_bombs(world):
    outcome = world.attempt_in_builder("mounts")[0]
    assert outcome.word in ("ENOSPC", "ENOMEM", "EPERM") or outcome.text == "succeeded", outcome
    began = time.monotonic()
    text = world.builder("(/build/attempts forks &) ; (/build/attempts stopped-orphans &) ; sleep 4; cat /proc/self/uid_map", timeout=40)
    took = time.monotonic() - began
    base = re.search(r"^\s+0\s+(\d+)\s+65536$", text, re.M)
    assert reached(text) and base, text
    world.wait_until_gone({"base": int(base.group(1)), "groups": [], "storages": [], "name": "build"})
    return [f"build: {outcome.note.strip()}", f"build: {reached(text)[0]} processes, all gone, {took:.1f} s"], \
        "the kernel's limit of a mount namespace holds outside, too (fs.mount-max)"
