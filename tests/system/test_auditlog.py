"""The audit log's files on a running platform: signed, rotated, verified, cut, erased."""

import json
import os
import subprocess
import time
import urllib.request

import audit_files
import fixture
import receivers
from daemons import Daemons, OtherSettings
from harness import eventually, main, test


def gateway_binary(platform):
    return os.path.join(platform.bin, "cordium-gateway")


def audit(platform, *words):
    """`cordium-gateway audit …` as the gateway's user; gives (exit status, output)."""
    uid = Daemons(platform).uid
    done = subprocess.run(
        ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
        + [os.path.realpath(gateway_binary(platform)), "audit", *words]
        + ["--config", os.path.join(platform.folder, "gateway.yaml")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def verify(platform, *words):
    code, text = audit(platform, "verify", "-o", "json", *words)
    return code, json.loads(text)


def expect_intact(platform, *words):
    code, report = verify(platform, *words)
    assert code == 0 and report["intact"], report
    return report


def leave_a_line(platform):
    platform.curl("/octelium.api.main.cordium.v1.MainService/ListSpace")


def restart(platform):
    """After this the log's newest checkpoint is of what was before."""
    daemons = Daemons(platform)
    daemons.stop("gateway")
    daemons.up()


@test
def a_live_log_verifies_and_its_anchor_is_kept(platform):
    fixture.ensure(platform)
    restart(platform)
    anchor = expect_intact(platform)["anchor"]
    leave_a_line(platform)
    assert expect_intact(platform, "--anchor", anchor)["lines"] > 0
    forged = anchor[:-1] + ("0" if anchor[-1] != "0" else "1")
    code, report = verify(platform, "--anchor", forged)
    assert code == 2 and report["fault"]["type"] == "ANCHOR", report


@test
def a_checkpoint_is_verified_with_jq_and_openssl_alone(platform):
    restart(platform)
    state = os.path.join(platform.folder, "gateway")
    done = subprocess.run(
        ["bash", "-euc", """
            work=$(mktemp -d)
            trap 'rm -rf "$work"' EXIT
            grep -h '"kind":"AuditCheckpoint"' audit/audit.jsonl | tail -n 1 > "$work/line"
            { echo cordium-audit-checkpoint-v1; jq -r '.sequence, .prev, .metadata.createdAt' "$work/line"; } > "$work/text"
            jq -r .checkpoint.signature "$work/line" | base64 -d > "$work/signature"
            openssl pkeyutl -verify -pubin -inkey audit.pub -rawin -in "$work/text" -sigfile "$work/signature"
            [ "$(openssl pkey -pubin -in audit.pub -outform DER | sha256sum | cut -c1-64)" = "$(jq -r .checkpoint.keyID "$work/line")" ]
        """],
        cwd=state, capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 0 and "Verified Successfully" in done.stdout, done
    assert os.stat(os.path.join(state, "audit.key")).st_mode & 0o077 == 0


def fill_two_files(platform, folder):
    """With rotateMebibytes: 1. Waits until all finished files are compressed."""
    before = len(audit_files.names(folder))
    began = time.monotonic()
    while len(audit_files.names(folder)) < before + 2 and time.monotonic() < began + 120:
        for _ in range(50):  # long lines, so that fewer will do
            platform.curl("/" + "x" * 1000, "{}", None, "-A", "y" * 1000)
    names = audit_files.names(folder)
    assert len(names) >= before + 2, names
    done = lambda: all(n.endswith(".zst") for n in audit_files.names(folder)[:-1])  # noqa: E731
    assert eventually(done, 30), audit_files.names(folder)


@test
def a_large_log_is_rotated_and_compressed_while_it_serves(platform):
    folder = platform.audit_folder
    with OtherSettings(platform, "audit:\n  rotateMebibytes: 1\n  checkpointLines: 100\n"):
        fill_two_files(platform, folder)
        for name in audit_files.names(folder)[:-1]:
            last = audit_files.read(name).splitlines()[-1]
            assert json.loads(last)["kind"] == "AuditCheckpoint", (name, last)
            assert os.stat(name).st_mode & 0o077 == 0
        assert audit_files.check_chain(folder)
        report = expect_intact(platform)
        assert report["files"] == len(audit_files.names(folder)), report
    expect_intact(platform)


def metric(port, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        [value] = [line.split()[1] for line in answer.read().decode().splitlines() if line.startswith(name + " ")]
    return float(value)


def change_a_bit(path):
    """In the same file. Gives what was there."""
    with open(path, "r+b") as file:
        good = file.read()
        os.pwrite(file.fileno(), bytes([good[len(good) // 2] ^ 1]), len(good) // 2)
    return good


@test
def an_answer_says_which_damaged_file_it_is_without_until_that_is_put_back(platform):
    folder = platform.audit_folder
    port = receivers.free_port()
    settings = f"audit:\n  rotateMebibytes: 1\n  checkpointLines: 100\ntelemetry:\n  metricsListen: 127.0.0.1:{port}\n"
    with OtherSettings(platform, settings):
        fill_two_files(platform, folder)
        # The newest finished one is what the gateway goes on from: without it, it does not start.
        path = [n for n in audit_files.names(folder) if n.endswith(".zst")][-2]
        lines = [json.loads(line) for line in audit_files.read(path).splitlines()]
        first, last = lines[0]["sequence"], lines[-1]["sequence"]
        warning = f"without lines {first} to {last}: {os.path.basename(path)} cannot be read"
        assert metric(port, "cordium_audit_unread_files") == 0
        good = change_a_bit(path)
        try:
            # The index had its lines: the first who reads one notices.
            assert eventually(lambda: warning in platform.cli("audit", "list", "--all").stderr, 20, 0.3)
            done = platform.cli("audit", "list", "--all", "-o", "jsonl")
            found = {json.loads(line)["sequence"] for line in done.stdout.splitlines()}
            assert done.returncode == 0 and done.stderr.count(warning) == 1, done.stderr
            assert found and not found & set(range(first, last + 1)) and last < max(found), len(found)
            done = platform.cli("audit", "stats")
            assert done.returncode == 0 and warning in done.stderr, done
            done = platform.cli("audit", "show", str(first + 1))
            assert done.returncode != 0 and "damaged: Verify names it" in done.stderr, done
            assert metric(port, "cordium_audit_unread_files") == 1
            # Who asks about another time does without the warning.
            others = [("list", "-n", "5"), ("list", "--since", "now")]
            # Of the log's first file nothing tells when it began.
            others += [("stats", "--until", lines[0]["metadata"]["createdAt"])] if first > 1 else []
            for words in others:
                done = platform.cli("audit", *words)
                assert done.returncode == 0 and warning not in done.stderr, (words, done)
            done = platform.cli("audit", "verify")
            assert done.returncode == 2 and os.path.basename(path) in done.stdout, done
            restart(platform)
            assert eventually(lambda: warning in platform.cli("audit", "stats").stderr, 20, 0.3)
        finally:
            with open(path, "r+b") as file:
                file.write(good)
        assert eventually(lambda: warning not in platform.cli("audit", "stats").stderr, 20, 0.3)
        assert json.loads(platform.ok("audit", "show", str(first), "-o", "jsonl"))["sequence"] == first
        assert metric(port, "cordium_audit_unread_files") == 0
        platform.ok("audit", "verify")
    expect_intact(platform)


@test
def a_log_whose_end_was_cut_off_is_refused_until_the_loss_is_accepted(platform):
    daemons = Daemons(platform)
    path = os.path.join(platform.audit_folder, "audit.jsonl")
    leave_a_line(platform)
    daemons.stop("gateway")
    with open(path, "rb") as file:
        whole = file.read()
    try:
        with open(path, "r+b") as file:
            file.truncate(whole[:-1].rfind(b"\n") + 1)
        process = daemons.start_gateway_alone()
        assert process.wait(20) == 1
        with open(os.path.join(platform.folder, "gateway.log")) as file:
            assert "audit accept-loss" in file.read()
        assert audit(platform, "accept-loss")[0] == 0
        daemons.up()
        leave_a_line(platform)
        daemons.stop("gateway")
        assert expect_intact(platform)["acceptedLosses"] >= 1
        gaps = [r for r in map(json.loads, audit_files.text(platform.audit_folder).splitlines())
                if r["kind"] == "AuditGap"]
        assert gaps[-1]["gap"]["reason"] == "TAIL_MISSING", gaps
        assert gaps[-1]["gap"]["expectedSequence"] == json.loads(whole.splitlines()[-1])["sequence"]
    finally:
        daemons.up()


@test
def one_persons_records_are_erased_and_the_log_still_verifies(platform):
    daemons = Daemons(platform)
    name, token = fixture.new_user(platform, "erased")
    uid = json.loads(platform.ok("get", "user", name, "-o", "json"))["metadata"]["uid"]
    access = platform.access_token(token)
    for _ in range(5):
        platform.curl("/octelium.api.main.cordium.v1.MainService/ListSpace", "{}", access)

    def own():
        lines = map(json.loads, audit_files.text(platform.audit_folder).splitlines())
        users = [r.get("entry", {}).get("common", {}).get("userRef", {}) for r in lines]
        return [u for u in users if u.get("uid") == uid]

    assert eventually(lambda: len(own()) >= 6), own()
    code, text = audit(platform, "erase", "--user", name)
    assert code == 1 and "another process" in text or "locked" in text, text  # it runs
    count, before = len(own()), expect_intact(platform)["erasedLines"]
    daemons.stop("gateway")
    code, text = audit(platform, "erase", "--user", name)
    daemons.up()
    assert code == 0 and text.startswith(f"{count} lines"), text
    assert own() == []
    report = expect_intact(platform)
    assert report["erasedLines"] == before + count, report
    kinds = [json.loads(l)["kind"] for l in audit_files.text(platform.audit_folder).splitlines()]
    assert kinds.count("AuditErased") == before + count and "AuditTombstone" in kinds


if __name__ == "__main__":
    main()
