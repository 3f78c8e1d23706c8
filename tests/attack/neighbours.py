"""How much a quiet workspace, and the gateway, notice of hostile neighbours.

    neighbours.py FOLDER PROGRAM     FOLDER is a running platform, PROGRAM tests/attack/neighbours.c, static

20 workspaces fork, fill memory and disk, make files, flood output, spin, and take terminals, inotify
instances and keys, all at once, each within its own limits. Meanwhile a quiet one runs short commands, a
program is run once in a sandbox of its own, and the gateway answers small calls. The same is measured with
the hostile ones silent, in turns, so that whatever else the machine does meets both alike.

What must hold: each command of the quiet one succeeds, each call is answered, and nothing is left of any
of it. Times depend on the machine; they are printed with the goals, met or missed, and fail nothing.

The one who measures stands for a client on another machine: it has a priority of its own, and the clients
of the hostile ones come last.
"""

import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system"))

import fixture  # noqa: E402
from cordium import AccessToken, Cordium  # noqa: E402
from daemons import Daemons, processes  # noqa: E402
from harness import eventually, main, test  # noqa: E402

KINDS = os.environ.get("KINDS", "spin fork memory disk inodes output pty inotify keys spin").split()
HOSTILE = int(os.environ.get("HOSTILE", "20"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
EXECS, CALLS, RUNS = 30, 20, 10  # a round and state
PAUSE_SECONDS = 0.2  # who asks without a pause is no quiet neighbour
FACTOR_MAX = 2.0  # of alone
CALL_MILLISECONDS_MAX = 50
PLACE = "/tmp/neighbours"

MEASURED = {"exec": ("alone", "hostile"), "call": ("alone", "hostile"), "run": ("alone", "hostile")}


class Samples:
    """Milliseconds by what was measured and by state."""

    def __init__(self):
        self.of = {(what, state): [] for what, states in MEASURED.items() for state in states}
        self.failures = []

    def take(self, what, state, count, action):
        for _ in range(count):
            time.sleep(PAUSE_SECONDS)
            began = time.perf_counter()
            try:
                wrong = action()
            except Exception as error:  # whatever it is: it was not answered
                wrong = repr(error)
            self.of[what, state].append((time.perf_counter() - began) * 1000)
            if wrong:
                self.failures.append(f"{what} {state}: {wrong}")

    def quantile(self, what, state, q):
        values = sorted(self.of[what, state])
        return values[min(len(values) - 1, int(q * len(values)))]


class Hostiles:
    def __init__(self, platform, daemons, client, program):
        self.platform = platform
        self.daemons = daemons
        self.workspaces = []
        with open(program, "rb") as file:
            content = file.read()
        for _ in range(HOSTILE):
            workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
            self.workspaces.append(workspace)
            result = workspace.exec(f"head -c {len(content)} >{PLACE} && chmod 755 {PLACE}", stdin=content)
            assert result.exit_code == 0, result
        self.clients = []
        # Counted by their groups: to look at each process of a fork bomb takes longer than it lives.
        self.quiet_groups = len(daemons.inhabited())

    def start(self):
        for i, workspace in enumerate(self.workspaces):
            self.clients.append(subprocess.Popen(
                [os.path.join(self.platform.bin, "cordium"), "exec", "--no-stdin", workspace.name,
                 PLACE, KINDS[i % len(KINDS)]],
                env=self.platform.cli_env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, preexec_fn=come_last))
        assert eventually(lambda: len(self.daemons.inhabited()) >= self.quiet_groups + HOSTILE, 20), "not all run"
        time.sleep(2)  # until each has met its limits
        ended = [c.args[-1] for c in self.clients if c.poll() is not None]
        assert not ended, f"ended by themselves: {ended}"

    def stop(self):
        for client in self.clients:
            client.terminate()
        for client in self.clients:
            client.wait(20)
        self.clients = []
        assert eventually(lambda: len(self.daemons.inhabited()) <= self.quiet_groups, 30), "they outlive their clients"

    def delete(self):
        for workspace in self.workspaces:
            workspace.delete()


def come_last():
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.nice(19)


def schedule(policy, priority):
    """Of all our threads: the SDK has one of its own."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setscheduler(int(thread), policy, os.sched_param(priority))


def measure(samples, state, platform, client, quiet, run_once):
    space = fixture.SPACE
    samples.take("exec", state, EXECS, lambda: (lambda r: None if r.stdout == "hello\n" else r)(quiet.exec("echo hello")))
    samples.take("call", state, CALLS, lambda: None if client.spaces.get(space).metadata.name == space else "another space")
    samples.take("run", state, RUNS, run_once)


def print_figures(samples):
    print(f"      {'':8}{'alone':>18}{'hostile':>20}{'factor':>16}")
    print(f"      {'ms':8}{'median':>9}{'p95':>9}{'median':>11}{'p95':>9}{'median':>9}{'p95':>7}")
    factors = {}
    for what in MEASURED:
        m0, p0, m1, p1 = (samples.quantile(what, s, q) for s in ("alone", "hostile") for q in (0.5, 0.95))
        factors[what] = (m1 / m0, p1 / p0)
        print(f"      {what:8}{m0:9.2f}{p0:9.2f}{m1:11.2f}{p1:9.2f}{m1 / m0:9.1f}{p1 / p0:7.1f}")
    goals = [
        (f"exec, median within {FACTOR_MAX:g}x of alone", factors["exec"][0] <= FACTOR_MAX),
        (f"exec, p95 within {FACTOR_MAX:g}x of alone", factors["exec"][1] <= FACTOR_MAX),
        (f"run, median within {FACTOR_MAX:g}x of alone", factors["run"][0] <= FACTOR_MAX),
        (f"gateway, p95 under {CALL_MILLISECONDS_MAX} ms",
         samples.quantile("call", "hostile", 0.95) < CALL_MILLISECONDS_MAX),
    ]
    for name, is_met in goals:
        print(f"      goal {'met   ' if is_met else 'missed'}  {name}")
    sys.stdout.flush()


def curl_run(platform, access):
    code, text = platform.curl("/v1/run", json.dumps({"image": "docker.io/library/busybox:latest", "argv": ["true"]}), access)
    return None if code == 200 and json.loads(text)["outcome"] == "exited" else f"{code} {text[:200]}"


@test
def a_quiet_neighbour_and_the_gateway_are_served_all_the_same(platform):
    program = os.environ["NEIGHBOURS"]
    daemons = Daemons(platform)
    fixture.ensure(platform)
    access = platform.access_token()
    samples = Samples()
    with Cordium("localhost", auth=AccessToken(access), host=platform.host, port=platform.port,
                 ssl_context_factory=platform.ssl_context) as client:
        quiet = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        quiet.exec("true")
        curl_run(platform, access)
        time.sleep(1)  # the executor makes storages ahead of need
        before = len(daemons.storages())
        hostiles = Hostiles(platform, daemons, client, program)
        schedule(os.SCHED_RR, 1)
        try:
            for _ in range(ROUNDS):
                measure(samples, "alone", platform, client, quiet, lambda: curl_run(platform, access))
                hostiles.start()
                print(f"      load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cpus", flush=True)
                measure(samples, "hostile", platform, client, quiet, lambda: curl_run(platform, access))
                hostiles.stop()
        finally:
            schedule(os.SCHED_OTHER, 0)
            for c in hostiles.clients:
                c.kill()
        print_figures(samples)
        hostiles.delete()
        assert eventually(lambda: len(daemons.storages()) <= before, 30, 0.2), "storages are left"
        quiet.delete()
    assert not samples.failures, samples.failures[:5]
    assert eventually(lambda: not processes(PLACE), 10), "processes are left"


if __name__ == "__main__":
    os.environ["NEIGHBOURS"] = sys.argv.pop(2)
    main()
