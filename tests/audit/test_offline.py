"""A copy of the log, verified by the gateway's program and by the script of standard tools, which share no code."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system"))

from daemons import tell  # noqa: E402
from harness import main, test  # noqa: E402


class Copy:
    """Of the log and its public key, in a folder that goes away."""

    def __init__(self, platform):
        self.platform = platform

    def __enter__(self):
        self.top = tempfile.mkdtemp(dir=self.platform.folder)
        self.log = shutil.copytree(self.platform.audit_folder, os.path.join(self.top, "audit"))
        self.key = shutil.copy(os.path.join(self.platform.folder, "gateway", "audit.pub"), self.top)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top)

    def program(self):
        began = time.monotonic()
        done = subprocess.run([os.path.join(self.platform.bin, "cordium-gateway"), "audit", "verify", "--dir", self.log,
                               "--public-key", self.key, "-o", "json"], capture_output=True, text=True, timeout=300)
        assert done.returncode in (0, 2), done.stderr
        return done.returncode, json.loads(done.stdout), time.monotonic() - began

    def script(self):
        began = time.monotonic()
        done = subprocess.run([os.path.join(HERE, "verify-offline.sh"), self.log, self.key],
                              capture_output=True, text=True, timeout=500)
        assert done.returncode in (0, 2), done.stdout + done.stderr
        return done.returncode, done.stdout, time.monotonic() - began


@test
def both_verifiers_find_the_log_intact_and_of_one_length(platform):
    with Copy(platform) as copy:
        code, report, seconds = copy.program()
        assert code == 0 and report["intact"], report
        script_code, text, script_seconds = copy.script()
        assert script_code == 0 and "intact" in text, text
        assert f"{report['lines']} lines in {report['files']} files" in text, (report, text)
        tell(f"{report['lines']} lines, {report['bytes'] / 1e6:.0f} MB: {seconds:.2f} s by the program",
             f"({report['bytes'] / 1e6 / seconds:.0f} MB/s with its start), {script_seconds:.1f} s by the script")


@test
def both_verifiers_find_one_changed_character(platform):
    with Copy(platform) as copy:
        path = os.path.join(copy.log, "audit.jsonl")
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
        number = len(lines) // 2
        assert b'"createdAt":"2' in lines[number], lines[number]
        lines[number] = lines[number].replace(b'"createdAt":"2', b'"createdAt":"3', 1)
        with open(path, "wb") as file:
            file.write(b"\n".join(lines))
        code, report, _ = copy.program()
        script_code, text, _ = copy.script()
        assert code == 2 and not report["intact"] and script_code == 2, (report, text)


if __name__ == "__main__":
    main()
