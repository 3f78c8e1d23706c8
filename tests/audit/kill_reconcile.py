"""Both daemons are killed at random under load; afterwards the audit log, the API and the executor must
tell the same: each effect has one decision before it, nothing else happened, nothing is left behind.

    kill_reconcile.py FOLDER [--seconds N | --minutes N] [--seed N]
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import audit_files  # noqa: E402
import fixture  # noqa: E402
from daemons import Daemons, root_of_tree, tell  # noqa: E402
from harness import eventually, main, test  # noqa: E402
from load import CORE, MAIN, RUNS, Curl, Load, keyed_run, note_runs, note_versions  # noqa: E402
from reconcile import Effect, Log, match, nanoseconds, short  # noqa: E402

GATEWAY_RESTARTED = "The gateway was restarted while the workspace was running"


class Holdings:
    """What the instance has of the host: nothing of it may grow by being killed."""

    def __init__(self, daemons):
        own = daemons.instance
        self.loops = lines_with(["losetup", "-a"], daemons.state)
        self.tables = lines_with(["nft", "list", "tables"], "cordium-" + own)
        with open("/proc/self/mountinfo") as file:
            self.mounts = sum(daemons.folder in line for line in file)
        with open(f"/proc/{daemons.pid('executor')}/mountinfo") as file:
            self.executor_mounts = sum(1 for _ in file)
        self.executors = len(processes_of(daemons.folder, "cordium-executor"))
        self.gateways = len(processes_of(daemons.folder, "cordium-gateway"))
        self.inhabited = len(daemons.inhabited())
        self.storages = len([s for s in daemons.storages() if not s.startswith("ephemeral/spare-")])

    def surplus(self, before):
        return {k: (vars(before)[k], v) for k, v in vars(self).items() if v > vars(before)[k]}


def lines_with(command, text):
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return sum(text in line for line in done.stdout.splitlines())


def processes_of(folder, program):
    """Pids of that program with settings of this folder."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if os.path.basename(words[0]) == program and any(w.startswith(folder + "/") for w in words[1:]):
            found.append(int(entry))
    return found


class Watcher(threading.Thread):
    """Sees programs of keyed Runs from the host: (pid, start time) of each process that was one."""

    def __init__(self, daemons):
        super().__init__(name="watcher")
        self.daemons = daemons
        self.is_over = threading.Event()
        self.seen = {}

    def run(self):
        while not self.is_over.wait(0.08):
            for group in self.daemons.cgroups():
                try:
                    with open(os.path.join(group, "cgroup.procs")) as file:
                        pids = file.read().split()
                except OSError:
                    continue
                for pid in pids:
                    self.look_safely(pid)

    def look(self, pid):
        key, parent = key_of(pid)
        if not key:
            return
        if key_of(parent)[0]:
            return  # a fork of the program that has not executed anything yet
        with open(f"/proc/{pid}/stat") as file:
            self.seen.setdefault(key, set()).add((pid, file.read().rsplit(")", 1)[1].split()[19]))

    def look_safely(self, pid):
        try:
            self.look(pid)
        except OSError:
            pass  # it ended meanwhile


def key_of(pid):
    """(key, parent's pid) of a program that was started for a key."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().split(b"\0")
    with open(f"/proc/{pid}/stat") as file:
        parent = file.read().rsplit(")", 1)[1].split()[1]
    key = next((w.decode()[4:] for w in words if re.fullmatch(rb"key-[0-9a-f]{24}", w)), None)
    return key, parent


class Killer:
    """Kills one of the daemons or both, again and again, some of them while they start."""

    def __init__(self, daemons, rng):
        self.daemons, self.random = daemons, rng
        self.kills = {"gateway": 0, "executor": 0, "while starting": 0}
        self.down_seconds = 0.0

    def work(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.random.uniform(0.2, 4))
            names = self.random.choice((["gateway"], ["gateway"], ["executor"], ["gateway", "executor"]))
            began = time.monotonic()
            for name in names:
                self.daemons.kill(name)
                self.kills[name] += 1
            if self.random.random() < 0.25:
                self.kill_while_starting(names[0])
            self.daemons.up()
            self.down_seconds += time.monotonic() - began

    def kill_while_starting(self, name):
        old = self.daemons.pid(name)
        environment = dict(os.environ, GATEWAY_PORT=str(self.daemons.platform.port), NO_REGISTRY="1")
        starting = subprocess.Popen(["tests/demo/platform.sh", "up", self.daemons.folder], cwd=root_of_tree(),
                                    env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def new_pid():
            try:
                pid = self.daemons.pid(name)
            except (OSError, ValueError):
                return None  # being written
            return pid if pid != old else None

        if eventually(new_pid, 20, 0.005):
            time.sleep(self.random.uniform(0, 0.3))
            if self.daemons.alive(name):
                self.daemons.kill(name)
                self.kills["while starting"] += 1
        starting.wait(60)


# What happened, for the tests that look at it; set by the first of them.
class Scene:
    seconds = 75
    seed = None
    load = watcher = killer = before = log = admin = None
    first = baseline_version = 0  # of the log's lines, of the sets of policies: what was there before


def nanoseconds_of(moment):
    """Of a datetime, which ends with its microsecond: at most that later than what it was made from."""
    return nanoseconds(moment.replace(tzinfo=None).isoformat()) + 999


def user_of(load, name):
    return Curl(load.platform, load.ledger, name, load.members[name])


@test
def daemons_are_killed_under_load_and_clients_are_told_the_truth(platform):
    daemons = Daemons(platform)
    print(f"seed {Scene.seed}, {Scene.seconds:.0f} s", flush=True)
    load = Scene.load = Load(platform, Scene.seed)
    Scene.before = Holdings(daemons)
    Scene.admin = Curl(platform, load.ledger, "admin", load.admin_access)
    note_versions(Scene.admin, load.ledger)
    Scene.baseline_version = max(load.ledger.versions)
    load.ledger.answers.clear()
    Scene.first = platform.audit_lines()[-1]["sequence"]
    Scene.watcher = Watcher(daemons)
    Scene.killer = Killer(daemons, random.Random(Scene.seed))
    Scene.watcher.start()
    try:
        with load:
            Scene.killer.work(Scene.seconds)
            time.sleep(2)
    finally:
        Scene.watcher.is_over.set()
        Scene.watcher.join(10)
    ledger = load.ledger
    tell("kills:", ", ".join(f"{v} {k}" for k, v in Scene.killer.kills.items()),
         f"({Scene.killer.down_seconds:.0f} s down)")
    tell("done:", ", ".join(f"{v} {k}" for k, v in sorted(ledger.counts.items())))
    tell("told:", ", ".join(f"{v} x {k}" for k, v in sorted(ledger.errors.items())))
    assert not ledger.wrong, short(ledger.wrong)
    assert all(ledger.counts.get(k) for k in ("starts", "execs", "deletes", "runs", "applies", "logins")), ledger.counts


@test
def the_log_is_intact_and_each_request_has_one_decision_and_one_end(platform):
    daemons = Daemons(platform)
    # Ends of what was on its way are written when the programs ended.
    unended = []

    def all_ended():
        unended[:] = Log(platform.audit_folder, Scene.first).unended()
        return not unended

    assert eventually(all_ended, 60, 3), short(unended)
    note_versions(Scene.admin, Scene.load.ledger)
    daemons.stop("gateway")
    done = subprocess.run([os.path.join(platform.bin, "cordium-gateway"), "audit", "verify", "--dir",
                           platform.audit_folder, "-o", "json"], capture_output=True, text=True, timeout=300)
    daemons.up()
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["intact"], report
    log = Scene.log = Log(platform.audit_folder, Scene.first)
    assert not log.anomalies, short(log.anomalies)
    kills = Scene.killer.kills
    tell(f"{report['lines']} lines, {len(log.decisions)} decisions, {len(log.starts)} starts of the gateway,",
         f"{report.get('gaps', 0)} gaps, {sum(d.was_killed and d.method in {'Run', 'Exec'} for d in log.decisions)}",
         "programs cut off by a kill")
    assert len(log.starts) >= kills["gateway"], (len(log.starts), kills)


@test
def each_answer_that_a_client_got_has_its_decision(platform):
    wrong = []
    for answer in Scene.load.ledger.answers:
        if not answer["request"]:
            continue  # /oauth2/token has no id in its answer
        decision = Scene.log.by_request.get(answer["request"])
        if decision is None:
            wrong.append(f"{answer}: no decision")
        elif decision.method != answer["method"] or (answer["status"] == 200 and not decision.is_allowed):
            wrong.append(f"{answer}: {decision}")
    assert not wrong, short(wrong)
    tell(f"{len(Scene.load.ledger.answers)} answers")


@test
def each_workspace_has_one_decision_to_create_it_and_what_is_gone_one_to_delete_it(platform):
    load, log = Scene.load, Scene.log
    listed = {}
    for name in load.members:
        for item in user_of(load, name).all(MAIN + "ListWorkspace"):
            meta = item["metadata"]
            listed[meta["uid"]] = {"user": name, "name": meta["name"], "at": nanoseconds(meta["createdAt"])}
    known = {uid: dict(own) for uid, own in listed.items()}
    for uid, own in load.ledger.workspaces.items():
        known.setdefault(uid, {"user": own["user"], "name": own["name"], "at": nanoseconds_of(own["createdAt"])})
    effects = [
        Effect(f"workspace {own['name']}", own["at"], log.allowed("CreateWorkspace", user=own["user"]),
               exact=lambda d, uid=uid: d.workspace == uid)
        for uid, own in known.items()
    ]
    pairs, wrong = match(effects)
    used = {d for _, d in pairs}
    wrong += [f"{d} succeeded, but there is no workspace of it" for d in log.allowed("CreateWorkspace")
              if d.code == "OK" and d not in used]
    deletions_of = {}
    for d in log.allowed("DeleteWorkspace"):
        deletions_of.setdefault(d.workspace, []).append(d)
    for uid, own in known.items():
        deletions = deletions_of.get(uid, [])
        done = [d for d in deletions if d.code == "OK"]
        is_told = load.ledger.workspaces.get(uid, {}).get("deleted")
        if uid in listed:
            wrong += [f"{own['name']} is there, although {d} succeeded" for d in done]
        elif len(done) + sum(d.was_killed for d in deletions) < 1 or len(done) > 1:
            wrong.append(f"{own['name']} is gone, by {[str(d) for d in deletions]}")
        if is_told and uid in listed:
            wrong.append(f"{own['name']} is there, although its user was told that it was deleted")
    assert not wrong, short(wrong)
    tell(f"{len(known)} workspaces, {len(listed)} of them there")


@test
def each_exec_whose_output_was_seen_has_one_decision(platform):
    decisions = {}
    for d in Scene.log.allowed("Exec"):
        decisions.setdefault((d.workspace, d.command), []).append(d)
    wrong = [f"{own}: {len(decisions.get(own, []))} decisions" for own in Scene.load.ledger.execs
             if len(decisions.get(own, [])) != 1]
    assert not wrong, short(wrong)
    started = {d.workspace for d in Scene.log.allowed("StartWorkspace")}
    wrong = [uid for uid, _ in Scene.load.ledger.execs if uid not in started]
    assert not wrong, f"no decision to start {wrong[:5]}"
    tell(f"{len(Scene.load.ledger.execs)} commands")


def when_run(own, run, item):
    """When it started, or when it was there. item learns what became of it since it was listed."""
    if not item.get("startedAt") or item["state"] != "ENDED":
        status, text = own.post(RUNS + "GetRun", {"runId": run})
        if status != 200:  # without a key there is no record of one that its gateway did not see the end of
            assert status == 404, text
            item.update(state="ENDED", outcome="lost")
            return nanoseconds(item["startedAt"]) if item.get("startedAt") else item["seenAt"]
        found = json.loads(text)
        item.update(state=found["state"], outcome=found.get("outcome"))
        # Lost before it was known to have started: when its key was taken.
        item["startedAt"] = found.get("startedAt") or found["metadata"]["createdAt"]
    return nanoseconds(item["startedAt"])


@test
def each_run_has_one_decision(platform):
    load, log = Scene.load, Scene.log
    there, wrong = {}, []
    for name in load.members:
        note_runs(user_of(load, name), load.ledger)
    for run, item in load.ledger.runs.items():
        there[run] = (item["user"], when_run(user_of(load, item["user"]), run, item), item)
    wrong += [f"run {answer['runId']} was told to {user}, but is in no list" for (user, _), answers
              in load.ledger.keys.items() for answer in answers if answer["runId"] not in there]
    effects = [Effect(f"run {run} of {name}", at, log.allowed("Run", user=name),
                      exact=lambda d, run=run, at=at: d.run == run and d.at <= at)
               for run, (name, at, _) in there.items()]
    wrong += match(effects)[1]
    wrong += [f"run {run} is not over" for run, (_, _, item) in there.items() if item["state"] != "ENDED"]
    assert not wrong, short(wrong)
    tell(f"{len(there)} runs, {sum(i['outcome'] == 'lost' for _, _, i in there.values())} of them lost")


@test
def each_key_ran_once_or_says_that_it_is_lost(platform):
    load = Scene.load
    wrong, lost = [], 0
    for (user, key), answers in load.ledger.keys.items():
        again = user_of(load, user).ok(RUNS + "Run", keyed_run(key))
        assert again, (user, key)
        for answer in answers:
            for field in ("runId", "outcome", "exitCode", "stdout"):
                if answer.get(field) != again.get(field):
                    wrong.append(f"{key}: {field} was {answer.get(field)} and is {again.get(field)}")
        lost += again["outcome"] == "lost"
        if not again.get("isRepeated") or again["outcome"] not in ("exited", "lost"):
            wrong.append(f"{key}: {again['outcome']}, {again.get('detail')}, repeated: {again.get('isRepeated')}")
        if again["outcome"] == "exited" and not re.fullmatch(r"[0-9a-f-]{36}\n", again["stdout"].get("text", "")):
            wrong.append(f"{key}: {again['stdout']}")
    for key, processes in Scene.watcher.seen.items():
        if len(processes) > 1:
            wrong.append(f"{key} ran {len(processes)} times")
    assert not wrong, short(wrong)
    tell(f"{len(load.ledger.keys)} keys, {lost} lost, {len(Scene.watcher.seen)} programs seen from the host")


@test
def each_set_of_policies_has_one_decision(platform):
    log = Scene.log
    versions = {v: i for v, i in Scene.load.ledger.versions.items() if v > Scene.baseline_version}
    wrong = [f"version {v} was never seen"
             for v in range(Scene.baseline_version + 1, max(versions) + 1) if v not in versions]
    wrong += [f"version {v} came by {i['reason']}" for v, i in versions.items() if i["reason"] != "apply"]
    effects = [Effect(f"version {v}", nanoseconds(i["createdAt"]), log.allowed("Apply"),
                      exact=lambda d, v=v, at=nanoseconds(i["createdAt"]):
                      d.version == v and d.has_changed)
               for v, i in versions.items()]
    _, more = match(effects)
    wrong += more
    assert not wrong, short(wrong)
    tell(f"{len(versions)} versions")


@test
def each_user_credential_token_and_session_has_one_decision(platform):
    log, admin = Scene.log, Scene.admin
    begun = log.decisions[0].at
    wrong = []

    def new(kind):
        items = [i for i in admin.all(CORE + "List" + kind) if nanoseconds(i["metadata"]["createdAt"]) > begun]
        return [(i, nanoseconds(i["metadata"]["createdAt"])) for i in items]

    effects = []
    for kind in ("User", "Credential"):
        decisions = log.allowed("Create" + kind)
        effects += [Effect(f"{kind} {i['metadata']['name']}", at, decisions,
                           exact=lambda d, i=i: d.target == i["metadata"]["name"]) for i, at in new(kind)]
    sessions = new("Session")
    logins = log.allowed("AuthenticateWithAuthenticationToken", "token")
    effects += [Effect(f"session {i['metadata']['name']}", at, logins,
                       exact=lambda d, i=i: d.session == i["metadata"]["uid"]) for i, at in sessions]
    _, more = match(effects)
    wrong += more
    tokens = 0
    for item, _ in new("Credential"):
        name, count = item["metadata"]["name"], item["status"].get("totalRotations", 0)
        decisions = [d for d in log.allowed("GenerateCredentialToken") if d.target == name]
        done = sum(d.code == "OK" for d in decisions)
        tokens += count
        if not done <= count <= done + sum(d.was_killed for d in decisions):
            wrong.append(f"{count} tokens of {name}, {done} decisions that succeeded")
        if Scene.load.ledger.credentials.get(name, 0) > count:
            wrong.append(f"more tokens of {name} were shown than it had")
    assert not wrong, short(wrong)
    tell(f"{len(effects) - len(sessions)} users and credentials, {tokens} tokens, {len(sessions)} sessions")


@test
def executor_and_store_tell_the_same(platform):
    daemons = Daemons(platform)
    load = Scene.load

    def state():
        """(running, storages that must be there, storages that may be) as the API tells."""
        running, must, may = set(), set(), set()
        for name in load.members:
            for item in user_of(load, name).all(MAIN + "ListWorkspace"):
                uid, status = item["metadata"]["uid"], item["status"]
                may.add(uid)
                if status["state"] == "RUNNING":
                    running.add(uid)
                message = status.get("failure", {}).get("message", "")
                # What stopped it, or kept it from starting, was the death of a daemon.
                assert not message or message == GATEWAY_RESTARTED or "executor" in message.lower(), message
                if status.get("successfulRuns") and not status.get("isEphemeral"):
                    must.add(uid)
        return running, must, may

    def differences():
        running, must, may = state()
        storages = {s.partition("/")[2] for s in daemons.storages() if s.startswith("storages/")}
        dashless = {u.replace("-", "") for u in may}
        found = []
        if len(executor_list(platform, daemons, "sandboxes")) != len(running):
            found.append(f"{len(executor_list(platform, daemons, 'sandboxes'))} sandboxes, {len(running)} run")
        found += [f"storage {s} is nobody's" for s in storages - dashless]
        left = [s for s in daemons.storages() if s.startswith("ephemeral/") and not s.startswith("ephemeral/spare-")]
        if len(left) > len(running):
            found.append(f"ephemeral storages {left}")
        return found

    assert eventually(lambda: not differences(), 30, 0.5), differences()
    with_box = user_of(load, next(iter(load.members)))
    box = with_box.ok(MAIN + "CreateWorkspace", {"metadata": {}, "spec": {}, "status": {
        "templateRef": {"name": fixture.BOX}}})
    if box:
        assert with_box.ok(MAIN + "StartWorkspace", {"workspaceRef": {"name": box["metadata"]["name"]}}) is not None
        assert eventually(lambda: len(state()[0]) == 1, 20, 0.2)
        assert not differences(), differences()
        assert len(executor_list(platform, daemons, "sandboxes")) == 1


def executor_list(platform, daemons, kind):
    done = subprocess.run(["setpriv", f"--reuid={daemons.uid}", f"--regid={daemons.uid}", "--clear-groups", "--",
                           os.path.realpath(os.path.join(platform.bin, "executor_probe")),
                           os.path.join(platform.folder, "run", "executor.sock"), "list", kind],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@test
def nothing_is_left_behind(platform):
    daemons = Daemons(platform)
    for name in Scene.load.members:
        own = user_of(Scene.load, name)
        for item in own.all(MAIN + "ListWorkspace"):
            assert own.ok(MAIN + "DeleteWorkspace", {"name": item["metadata"]["name"]}) is not None, item
    assert eventually(lambda: not Holdings(daemons).surplus(Scene.before), 30, 0.5), \
        Holdings(daemons).surplus(Scene.before)
    assert not Scene.load.ledger.wrong, short(Scene.load.ledger.wrong)


@test
def no_token_that_was_given_is_in_a_log(platform):
    texts = {"the audit log": audit_files.text(platform.audit_folder)}
    for name in ("gateway.log", "executor.log"):
        with open(os.path.join(platform.folder, name), "rb") as file:
            texts[name] = file.read()
    tokens = {token.encode() for token in Scene.load.ledger.tokens}
    shape = re.compile(rb"(?:%s)" % b"|".join(sorted({re.escape(t[:t.index(b"_") + 1]) for t in tokens})))
    lengths = {len(t) for t in tokens}
    for name, text in texts.items():
        for found in shape.finditer(text):
            words = {text[found.start():found.start() + length] for length in lengths}
            assert not words & tokens, f"{name} holds a token that begins with {text[found.start():][:12]}"
    tell(f"{len(Scene.load.ledger.tokens)} tokens")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=75)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    Scene.seconds = options.minutes * 60 if options.minutes else options.seconds
    Scene.seed = options.seed
    sys.argv[1:] = [options.folder]


if __name__ == "__main__":
    parse()
    main()
