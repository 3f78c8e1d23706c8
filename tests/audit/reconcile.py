"""Holds an audit log against what was seen from outside: each effect has one decision before it."""

import bisect
import collections
import functools
import json
from datetime import datetime, timezone

import audit_files

# Requests whose end is a line of its own; of reads the decision is all.
WRITES = {
    "CreateWorkspace", "StartWorkspace", "StopWorkspace", "DeleteWorkspace", "Exec", "Run", "Apply", "CreateUser",
    "CreateCredential", "GenerateCredentialToken", "AuthenticateWithAuthenticationToken", "token",
}


def nanoseconds(stamp):
    """Of an RFC 3339 time, to the digit."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    seconds = int(datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp())
    return seconds * 10**9 + int((fraction or "0").ljust(9, "0"))


class Decision:
    def __init__(self, record):
        self.sequence = record["sequence"]
        entry, own = record["entry"], record["cordium"]
        # What a request makes bears the request's time.
        self.at = nanoseconds(entry["common"]["startedAt"])
        self.request = own.get("requestID")
        info = entry["info"]
        self.method = info["grpc"]["method"] if "grpc" in info else info["http"]["request"]["path"].rsplit("/", 1)[1]
        self.is_allowed = entry["common"]["status"] == "ALLOWED"
        self.user = entry["common"].get("userRef", {}).get("name")
        self.workspace = own.get("workspaceRef", {}).get("uid")
        self.command = own.get("run", {}).get("commandSHA256")
        self.target = record["metadata"].get("targetRef", {}).get("name")
        self.session = entry["common"].get("sessionRef", {}).get("uid")
        self.end = self.code = self.run = self.version = None
        self.has_changed = False
        self.closed_at = None  # when it cannot have an effect any more
        self.was_killed = False  # the gateway, before its end
        self.lost = None  # the line of the next gateway that says so

    def take_end(self, record):
        own, common = record["cordium"], record["entry"]["common"]
        if own.get("end") == "LOST":
            self.lost = record["sequence"]
            return
        self.end = record["sequence"]
        self.closed_at = nanoseconds(record["metadata"]["createdAt"])
        self.code = own.get("code")
        outcome = own.get("outcome", {})
        self.workspace = own.get("workspaceRef", {}).get("uid") or self.workspace
        self.run, self.version = outcome.get("runId"), outcome.get("policySetVersion")
        self.has_changed = bool(outcome.get("diff"))
        self.session = common.get("sessionRef", {}).get("uid") or self.session
        self.user = common.get("userRef", {}).get("name") or self.user

    def __str__(self):
        return f"{self.method} by {self.user} at line {self.sequence} ({self.request})"


class Log:
    """The log of a platform from one of its lines on."""

    def __init__(self, folder, first=0):
        self.decisions = []
        self.by_request = {}
        self.starts = []  # (sequence, time) of the gateway's
        self.workspace_ends = collections.Counter()
        self.anomalies = []
        for record in audit_files.chain(folder):
            if record["sequence"] > first:
                self.take(record)
        self.close()

    def take(self, record):
        own = record.get("cordium", {})
        if record["kind"] == "DaemonLog":
            if (own.get("daemon"), own["event"]) == ("gateway", "START"):
                self.starts.append((record["sequence"], nanoseconds(record["metadata"]["createdAt"])))
        elif own.get("event") == "WORKSPACE_END":
            self.workspace_ends[own["workspaceRef"]["uid"]] += 1
        elif record["kind"] != "AccessLog":
            return
        elif own["event"] == "DECISION":
            decision = Decision(record)
            self.decisions.append(decision)
            if decision.request:
                if decision.request in self.by_request:
                    self.anomalies.append(f"two decisions of {decision.request}")
                self.by_request[decision.request] = decision
        elif own["event"] == "END":
            decision = self.by_request.get(own["requestID"])
            if decision is None:
                self.anomalies.append(f"line {record['sequence']}: an end without a decision before it")
            elif decision.end or decision.lost:
                self.anomalies.append(f"two ends of {decision}")
            else:
                decision.take_end(record)

    def close(self):
        """A decision's time ends with its end, or with the gateway that took it."""
        sequences = [s for s, _ in self.starts]
        for d in self.decisions:
            i = bisect.bisect_right(sequences, d.sequence)
            next_start = self.starts[i][1] if i < len(sequences) else None
            d.was_killed = d.end is None and next_start is not None
            d.closed_at = d.closed_at if d.end else next_start
        starts = collections.Counter(d.workspace for d in self.allowed("StartWorkspace"))
        self.anomalies += [f"{count} ends of workspace {uid}, which was started {starts[uid]} times"
                           for uid, count in self.workspace_ends.items() if count > starts[uid] > 0]

    @functools.cache
    def allowed(self, *methods, user=None):
        return [d for d in self.decisions
                if d.is_allowed and d.method in methods and (user is None or d.user in (None, user))]

    def unended(self):
        """Writes that were allowed, of which no end is told: by their gateway, or when that was killed by the next."""
        return [str(d) for d in self.decisions
                if d.is_allowed and d.method in WRITES and not d.end and not d.lost
                and not (d.was_killed and d.method == "token")]


class Effect:
    """Something that is there, or was seen. exact: tells whether a decision says itself that it is its own."""

    def __init__(self, text, at, decisions, exact=None):
        self.text, self.at, self.decisions = text, at, decisions
        self.exact = exact or (lambda d: False)


def match(effects):
    """Gives each effect a decision of its own, taken before it and not over by then. Those that a
    decision names come first; the rest go to the decision that closes first. Gives (pairs, what is wrong)."""
    wrong, taken, pairs, rest = [], {}, [], []
    for effect in effects:
        named = [d for d in effect.decisions if effect.exact(d)]
        if len(named) > 1:
            wrong.append(f"{effect.text}: {len(named)} decisions name it: {', '.join(map(str, named))}")
        elif named and (named[0] in taken or named[0].at > effect.at):
            wrong.append(f"{effect.text}: {named[0]} is not its own, or came after it")
        elif named:
            taken[named[0]] = effect
            pairs.append((effect, named[0]))
        else:
            rest.append(effect)
    for effect in sorted(rest, key=lambda e: e.at):
        free = [d for d in effect.decisions
                if d not in taken and not d.end and d.at <= effect.at and (d.closed_at or effect.at) >= effect.at]
        if not free:
            wrong.append(f"{effect.text}: there is no decision for it")
            continue
        own = min(free, key=lambda d: (d.closed_at or 2**63, d.at))
        taken[own] = effect
        pairs.append((effect, own))
    return pairs, wrong


def short(things, most=5):
    return json.dumps(things[:most], indent=1) + (f" and {len(things) - most} more" if len(things) > most else "")
