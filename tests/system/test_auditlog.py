"""The audit log's files on a running platform: signed, rotated, verified, cut, erased."""

import json
import os
import subprocess
import time

import audit_files
import fixture
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


@test
def a_large_log_is_rotated_and_compressed_while_it_serves(platform):
    folder = platform.audit_folder
    with OtherSettings(platform, "audit:\n  rotateMebibytes: 1\n  checkpointLines: 100\n"):
        before = len(audit_files.names(folder))
        began = time.monotonic()
        while len(audit_files.names(folder)) < before + 2 and time.monotonic() < began + 120:
            for _ in range(50):  # long lines, so that fewer will do
                platform.curl("/" + "x" * 1000, "{}", None, "-A", "y" * 1000)
        names = audit_files.names(folder)
        assert len(names) >= before + 2, names
        done = lambda: all(n.endswith(".zst") for n in audit_files.names(folder)[:-1])  # noqa: E731
        assert eventually(done, 30), audit_files.names(folder)
        for name in audit_files.names(folder)[:-1]:
            last = audit_files.read(name).splitlines()[-1]
            assert json.loads(last)["kind"] == "AuditCheckpoint", (name, last)
            assert os.stat(name).st_mode & 0o077 == 0
        assert audit_files.check_chain(folder)
        report = expect_intact(platform)
        assert report["files"] == len(audit_files.names(folder)), report
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
