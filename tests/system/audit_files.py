"""The files of the audit log, read as README says: by names, lines and hashes alone."""

import glob
import hashlib
import json
import os
import subprocess


def names(folder):
    """All files in the order of their lines. Of a file that is there twice the plain one counts."""
    finished = {}
    for path in sorted(glob.glob(os.path.join(folder, "audit-*.jsonl*")), reverse=True):
        if path.endswith((".jsonl", ".zst")):
            finished[path.removesuffix(".zst")] = path
    return [finished[base] for base in sorted(finished)] + [os.path.join(folder, "audit.jsonl")]


def read(path):
    if path.endswith(".zst"):
        return subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout
    with open(path, "rb") as file:
        return file.read()


def text(folder):
    """All whole lines; a file that is renamed or compressed meanwhile is looked for again."""
    for _ in range(20):
        try:
            found = names(folder)
            parts = [read(path) for path in found]
        except (FileNotFoundError, subprocess.CalledProcessError):
            continue
        if names(folder) == found:
            whole = b"".join(parts)
            return whole[: whole.rfind(b"\n") + 1]
    raise AssertionError("the files of the audit log do not settle")


def is_own(record):
    """The log's lines about itself."""
    return record.get("kind", "").startswith("Audit")


def is_torn(line):
    """What a crash left of a line; an AuditGap behind it accounts for it."""
    return not line.endswith(b"}")


def records(folder):
    """What was asked and done, and what the daemons tell of themselves."""
    lines = (line for line in text(folder).split(b"\n")[:-1] if not is_torn(line))
    return [r for r in map(json.loads, lines) if not is_own(r)]


def chain(folder):
    """Verifies the chain from the first line that there is; yields its records, but for those about the
    log itself. Torn lines take numbers and are followed by an AuditGap that tells how many."""
    torn, previous, sequence = [], "0" * 64, 0
    for line in text(folder).split(b"\n")[:-1]:
        sequence += 1
        before, previous = previous, hashlib.sha256(line).hexdigest()
        try:
            record = json.loads(line)
        except ValueError:
            torn.append(line)
            continue
        if record.get("kind") == "AuditErased":
            previous = record["sha256"]  # of what stood there
        assert record["sequence"] == sequence, (record["sequence"], sequence)
        assert record["prev"] == before, f"the chain breaks at {sequence}"
        if torn:
            assert record["kind"] == "AuditGap", record
            assert record["gap"]["lines"] == len(torn), (record, torn)
            whole = b"".join(part + b"\n" for part in torn)
            assert record["gap"]["sha256"] == hashlib.sha256(whole).hexdigest(), record
            torn = []
        if not is_own(record):
            yield record
    assert not torn, torn


def check_chain(folder):
    """The same, all of them at once."""
    return list(chain(folder))
