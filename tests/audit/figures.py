"""What the audit log costs, one line a figure: met or missed. None of them fails a run.

    figures.py FOLDER BIN LINES     a running platform, the programs, lines of the log that is asked
"""

import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import fixture  # noqa: E402
from harness import Platform  # noqa: E402

VERIFY_MEGABYTES_PER_SECOND = 200
APPEND_CPU_MICROSECONDS = 30
RUN_SHARE_PERCENT = 5
QUERY_MILLISECONDS = 1000
RUNS = 30


def figure(text, value, unit, target, is_met):
    print(f"figure: {text}: {value:.4g} {unit} (target {target} {unit}): {'met' if is_met else 'missed'}", flush=True)


def output_of(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=300).stdout


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, (pattern, text)
    return float(found[1])


def append_costs(binaries, place):
    """(CPU of an append, of it with the writing, time with the wait for the disk), microseconds a line."""
    folder = os.path.join(place, "figures-append")
    text = output_of(os.path.join(binaries, "audit_log_bench"), folder, "2000", "1")
    for left in (folder, folder + ".key", folder + ".pub"):
        shutil.rmtree(left) if os.path.isdir(left) else os.path.exists(left) and os.unlink(left)
    found = re.search(r"append ([\d.]+) us of CPU a line, ([\d.]+) with the writing, ([\d.]+) us of time", text)
    assert found, text
    return tuple(map(float, found.groups()))


def run_microseconds(platform):
    """The median of short Runs over one connection."""
    access = platform.access_token(fixture.ensure(platform)["worker"])
    connection = http.client.HTTPSConnection("localhost", platform.port, context=platform.ssl_context(), timeout=60)
    headers = {"content-type": "application/json", "x-octelium-auth": access}
    took = []
    for _ in range(RUNS):
        began = time.monotonic()
        connection.request("POST", "/v1/run", json.dumps({"template": fixture.BOX, "argv": ["true"]}), headers)
        answer = connection.getresponse()
        body = answer.read()
        took.append((time.monotonic() - began) * 1e6)
        assert answer.status == 200, body
    return statistics.median(took)


def queries(binaries, place, lines):
    """(MB/s of verification, the slowest median of a page, ms) of a log that was generated."""
    folder = os.path.join(place, f"figures-{lines}")
    shutil.rmtree(folder, ignore_errors=True)
    output_of(os.path.join(binaries, "tests", "tools", "audit_generate"), folder, str(lines))
    text = output_of(os.path.join(binaries, "audit_bench"), folder)
    shutil.rmtree(folder)
    os.unlink(folder + ".pub")
    table = text.split("all of them\n", 1)[1].split("statistics", 1)[0].splitlines()
    medians = {line[:34].strip(): float(line[34:].split()[0]) for line in table}
    assert len(medians) >= 10, text
    slowest = max(medians, key=medians.get)
    return number(r"(\d+) MB/s", text), slowest, medians[slowest]


def main():
    platform, binaries, lines = Platform(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    speed, slowest, milliseconds = queries(binaries, platform.folder, lines)
    cpu, with_writing, with_disk = append_costs(binaries, platform.folder)
    run = run_microseconds(platform)
    figure(f"verification of {lines} lines", speed, "MB/s", f">= {VERIFY_MEGABYTES_PER_SECOND}",
           speed >= VERIFY_MEGABYTES_PER_SECOND)
    figure(f"slowest page of {lines} lines ({slowest})", milliseconds, "ms", f"<= {QUERY_MILLISECONDS}",
           milliseconds <= QUERY_MILLISECONDS)
    figure("append, CPU of the caller a record", cpu, "us", f"<= {APPEND_CPU_MICROSECONDS}",
           cpu <= APPEND_CPU_MICROSECONDS)
    share = 2 * with_writing / run * 100
    figure(f"two records' CPU in a Run of {run / 1000:.1f} ms", share, "%", f"<= {RUN_SHARE_PERCENT}",
           share <= RUN_SHARE_PERCENT)
    share = with_disk / run * 100
    figure(f"wait for the disk ({with_disk:.0f} us) in a Run of {run / 1000:.1f} ms", share, "%",
           f"<= {RUN_SHARE_PERCENT}", share <= RUN_SHARE_PERCENT)
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
