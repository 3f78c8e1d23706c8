#!/usr/bin/env python3
"""The policy engine beside other people's, in turn in one run, and with many policies.

    bench_policy.py PROGRAMS_FOLDER      ROUNDS=9 in the environment: rounds of each measurement

Prints tables, then a line `met|missed NAME VALUE GOAL` for each goal, and last `N met, N missed`.
Figures are medians of CPU time (user and system, of the whole process) per call, which the load of
the machine disturbs least; wall time stands beside them. Peers are fetched and built below
build/bench/ when they are not there; one that cannot be had is named.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "../../.."))
BUILD = os.path.join(ROOT, "build/bench")
DATA = os.path.join(ROOT, "testdata/bench")
RULES = os.path.join(DATA, "rules.json")
CTX = os.path.join(DATA, "ctx.json")
ROUNDS = int(os.environ.get("ROUNDS", "9"))
ROUND_NS = 20_000_000  # CPU time that one engine spends in one round, about
BUILD_SECONDS_MAX = 1800


class OutOfReach(Exception):
    pass


def build(what, command, folder, **environment):
    log = os.path.join(BUILD, what + ".log")
    try:
        with open(log, "wb") as out:
            subprocess.run(command, cwd=folder, stdout=out, stderr=out, check=True,
                           timeout=BUILD_SECONDS_MAX, env={**os.environ, **environment})
    except (OSError, subprocess.SubprocessError) as error:
        raise OutOfReach(f"{type(error).__name__}; see build/bench/{what}.log") from error


def copied(name):
    """A copy of a driver's sources, so that nothing is written beside them."""
    target = os.path.join(BUILD, "policy-" + name)
    shutil.copytree(os.path.join(HERE, name), target, dirs_exist_ok=True)
    return target


def rust(program):
    build("rust", ["cargo", "build", "--release"], copied("rust"),
          CARGO_TARGET_DIR=os.path.join(BUILD, "rust"))
    return [os.path.join(BUILD, "rust/release", program), RULES, CTX]


def cel_go(*options):
    folder = copied("cel-go")
    build("cel-go", ["go", "build", "-o", "cel-go", "."], folder)
    return [os.path.join(folder, "cel-go"), RULES, CTX, *options]


def javascript(engine):
    folder = copied("js")
    build("js", ["npm", "install", "--no-audit", "--no-fund"], folder)
    return ["node", os.path.join(folder, "driver.mjs"), engine, RULES, CTX]


# Name, how to start it, whether it counts for the goals.
PEERS = [
    ("cel-go", cel_go, True),
    ("cel-go, limits of Octelium", lambda: cel_go("octelium"), False),
    ("cel-rust", lambda: rust("cel_rust"), True),
    ("cedar-policy", lambda: rust("cedar"), True),
    ("@marcbachmann/cel-js", lambda: javascript("cel-js"), True),
    ("@bufbuild/cel", lambda: javascript("bufbuild"), True),
]


class Driver:
    """A program that answers each line with one line."""

    def __init__(self, name, command, counts=True):
        self.name = name
        self.counts = counts
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        ready = self.process.stdout.readline().strip()
        if ready != "ready":
            self.process.kill()
            self.process.wait()
            raise OutOfReach(f"said {ready!r} instead of 'ready'")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            raise OutOfReach("ended")
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def start_peers():
    drivers = []
    for name, command, counts in PEERS:
        try:
            drivers.append(Driver(name, command(), counts))
        except OutOfReach as error:
            print(f"out of reach: {name}: {error}")
    return drivers


def load_line():
    with open("/proc/loadavg", encoding="ascii") as f:
        return "load " + " ".join(f.read().split()[:3])


def calls_for(driver, rule, mode):
    """Warms up, and gives how many calls take about ROUND_NS."""
    count = 2000
    for _ in range(3):
        cpu = max(int(driver.ask(f"{rule} {mode} {count}")[2]), 1)
        count = max(100, min(2_000_000, int(count * ROUND_NS / cpu)))
    return count


def measure(drivers, rule, mode, expected):
    """Medians per call, in rounds A B C … A B C …: {name: (cpu, wall, allocations)}."""
    counts = {d: calls_for(d, rule, mode) for d in drivers}
    samples = {d: [] for d in drivers}
    for _ in range(ROUNDS):
        for d in drivers:
            answer = d.ask(f"{rule} {mode} {counts[d]}")
            if answer[0] != expected:
                sys.exit(f"{d.name}: rule {rule} gave {answer[0]}, not {expected}")
            allocations = int(answer[3]) if len(answer) > 3 else 0
            samples[d].append((int(answer[2]) / counts[d], int(answer[1]) / counts[d],
                               allocations))
    return {d.name: tuple(statistics.median(s[i] for s in samples[d]) for i in range(3))
            for d in drivers}


def compare(goals):
    with open(RULES, encoding="utf-8") as f:
        rules = json.load(f)
    program = os.path.join(sys.argv[1], "cordium_side")
    ours = Driver("cordium", [program, RULES, CTX])
    drivers = [ours] + start_peers()
    counted = [d.name for d in drivers[1:] if d.counts]
    for index, rule in enumerate(rules):
        for mode in ("bare", "ctx"):
            figures = measure(drivers, index, mode, str(rule["expected"]).lower())
            base = figures["cordium"][0]
            title = "ctx ready" if mode == "bare" else "ctx made each time"
            print(f"\n{rule['name']}, {title} ({load_line()})")
            print(f"  {'':28} {'cpu ns':>10} {'wall ns':>10} {'ratio':>8}")
            for name, (cpu, wall, _) in figures.items():
                print(f"  {name:28} {cpu:10.1f} {wall:10.1f} {cpu / base:8.1f}")
            if counted:
                fastest = min(counted, key=lambda n: figures[n][0])
                goals.append((f"{rule['name']}-{mode}-times-faster-than-{fastest}",
                              figures[fastest][0] / base, ">=", 5))
            goals.append((f"{rule['name']}-{mode}-allocations", figures["cordium"][2], "<=", 0))
    for d in drivers:
        d.close()


def scale(goals):
    driver = Driver("scale", [os.path.join(sys.argv[1], "scale_bench"),
                              os.path.join(BUILD, "policies-1000"), CTX])
    sizes = [("decide", 10), ("decide", 1000), ("plain", 10), ("plain", 1000)]
    counts = {("decide", 10): 3000, ("decide", 1000): 3000, ("plain", 10): 300, ("plain", 1000): 5}
    samples = {s: [] for s in sizes}
    loads = []
    for _ in range(ROUNDS):
        for s in sizes:
            wall, cpu, allocations = map(int, driver.ask(f"{s[0]} {s[1]} {counts[s]}"))
            samples[s].append((cpu / counts[s], wall / counts[s], allocations))
        loads.append([int(x) / 1e9 for x in driver.ask("load")[:2]])
    medians = {s: [statistics.median(x[i] for x in samples[s]) for i in range(3)] for s in sizes}
    print(f"\ndecisions, 5 rules a policy, none matches, 10 points of attachment ({load_line()})")
    print(f"  {'':28} {'cpu ns':>10} {'wall ns':>10}")
    for (what, size), (cpu, wall, _) in medians.items():
        label = f"{size} policies" + (", no index" if what == "plain" else "")
        print(f"  {label:28} {cpu:10.0f} {wall:10.0f}")
    wall, cpu = (statistics.median(x[i] for x in loads) for i in range(2))
    print(f"  load and check 1000 files: {wall:.3f} s wall, {cpu:.3f} s cpu")
    goals.append(("decision-1000-to-10-policies",
                  medians["decide", 1000][0] / medians["decide", 10][0], "<=", 3))
    goals.append(("decision-1000-allocations", medians["decide", 1000][2], "<=", 0))
    goals.append(("load-and-check-1000-files-cpu-s", cpu, "<=", 1))
    goals.append(("load-and-check-1000-files-wall-s", wall, "<=", 1))
    driver.close()


def main():
    os.makedirs(BUILD, exist_ok=True)
    goals = []
    compare(goals)
    scale(goals)
    print()
    met = 0
    for name, value, sign, goal in goals:
        good = value >= goal if sign == ">=" else value <= goal
        met += good
        print(f"{'met' if good else 'missed'} {name} {value:.3g} {sign}{goal}")
    print(f"{met} met, {len(goals) - met} missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
