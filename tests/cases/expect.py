"""Reads what a case's header says: limits, and expectations that a run's result is held to.

A header is a run of comment lines "key: text"; lines that are indented further go on with the key
before them. What an expectation says in words that are not understood here is reported as not
checked, never as passed.
"""

import base64
import re

DEFAULTS = {"wall": "5s", "grace": "1s", "mem": "128M", "pids": "64", "cpu": "1.0", "stdout": "65536",
            "stderr": "65536", "disk": "64M"}


def header(path):
    """The fields of the comment that a program begins with."""
    fields, key = {}, None
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            text = line.rstrip("\n")
            m = re.match(r"^(?:/\*|//| \*/?|#!?)(.*)$", text)
            if not m:
                break
            body = m.group(1)
            named = re.match(r"^ ?([a-z]+): ?(.*)$", body)
            if named:
                key = named.group(1)
                fields[key] = named.group(2).strip()
            elif key and body.startswith("  "):
                fields[key] += " " + body.strip()
            if text.rstrip().endswith("*/") and not text.startswith("/*"):
                break
    return fields


def _milliseconds(text):
    m = re.fullmatch(r"([\d.]+)(ms|s|m)?", text)
    return int(float(m.group(1)) * {"ms": 1, "s": 1000, "m": 60000, None: 1000}[m.group(2)])


def _mebibytes(text):
    m = re.fullmatch(r"(\d+)([KMG])?", text)
    n = int(m.group(1)) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, None: 1}[m.group(2)]
    return max(1, n >> 20)


def limits(text):
    """RunLimits as JSON, and the limits that a Run has no number for."""
    asked = dict(DEFAULTS)
    asked.update(w.split("=", 1) for w in text.replace("compile:", " ").split() if "=" in w)
    names = {
        "wall": ("wallMs", _milliseconds), "grace": ("graceMs", _milliseconds),
        "mem": ("memoryMegabytes", _mebibytes), "pids": ("pids", int),
        "cpu": ("cpuMillicores", lambda t: int(float(t) * 1000)),
        "stdout": ("stdoutBytes", int), "stderr": ("stderrBytes", int), "disk": ("diskMegabytes", _mebibytes),
    }
    known = {names[k][0]: names[k][1](v) for k, v in asked.items() if k in names}
    return known, {k: v for k, v in asked.items() if k not in names}


def output(result, name):
    """All bytes of a stream, beginning and end."""
    out = result.get(name, {})
    parts = [base64.b64decode(out["data"]) if "data" in out else out.get("text", "").encode(),
             base64.b64decode(out["tailData"]) if "tailData" in out else out.get("tailText", "").encode()]
    return b"".join(parts)


def _unquote(text):
    return re.sub(r"\\(n|t|r|\\|\"|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})", _unescape, text)


def _unescape(m):
    code = m.group(1)
    return {"n": "\n", "t": "\t", "r": "\r"}.get(code) or (chr(int(code[1:], 16)) if code[0] in "uU" else code)


def _split(text, separator):
    """At separators outside of quotes and brackets."""
    parts, at, depth, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted and c in "([":
            depth += 1
        elif not quoted and c in ")]":
            depth -= 1
        elif not quoted and depth <= 0 and text.startswith(separator, i):
            parts.append(text[at:i])
            at = i + len(separator)
    return [p.strip() for p in parts + [text[at:]] if p.strip()]


SLACK = 0.25  # seconds for a new TLS connection and the scheduler of a busy machine

QUOTED = r'"((?:[^"\\]|\\.)*)"'


class Judge:
    """Holds one result to one expectation."""

    def __init__(self, result, seconds):
        self.result, self.seconds = result, seconds
        self.failures, self.unchecked = [], []
        self.out = output(result, "stdout").decode("utf-8", "replace")
        self.err = output(result, "stderr").decode("utf-8", "replace")
        facts, usage = result.get("facts", {}), result.get("usage", {})
        self.numbers = {
            "oom_kills": facts.get("oomKills", 0), "pids_denied": facts.get("pidsDenied", 0),
            "cpu_ms": int(usage.get("cpuMs", 0)), "wall_ms": int(usage.get("wallMs", 0)),
            "memory_peak": int(usage.get("memoryPeakBytes", 0)),
            "stdout_total_bytes": int(result.get("stdout", {}).get("totalBytes", 0)),
            "memory_limit": next((int(l["value"]) << 20 for l in result.get("limits", ())
                                  if l["name"] == "memoryMegabytes"), 0),
            "exit_code": result.get("exitCode"), "signal": result.get("signal"),
        }
        self.truths = {
            "stdout_truncated": result.get("stdout", {}).get("isTruncated", False),
            "stderr_truncated": result.get("stderr", {}).get("isTruncated", False),
            "disk_full": facts.get("diskFull", False), "oom": facts.get("oomKills", 0) > 0,
            "timed_out": result.get("outcome") == "timed_out",
        }

    def check(self, what, holds):
        if not holds:
            self.failures.append(what)

    def expectation(self, text):
        for clause in _split(text, ";"):
            for part in _split(clause, " and "):
                if not self.part(part):
                    self.unchecked.append(part)

    def part(self, text):
        """True when something in it was understood."""
        choices = [c for c in re.split(r",? or ", text)]
        if len(choices) > 1 and all(re.match(r"(outcome|exit_code|signal)=\S+", c) for c in choices):
            judges = [Judge(self.result, self.seconds) for _ in choices]
            for judge, choice in zip(judges, choices):
                judge.pairs(choice)
            self.check(f"{text} (is {self.result.get('outcome')})", any(not j.failures for j in judges))
            return True
        if self.words(text) or self.lines(text):
            return True
        return self.pairs(text)

    def pairs(self, text):
        known = False
        text = text.replace("result.", "")
        for name, value in re.findall(r"\b(\w+)=([\w.-]+)", text):
            if name == "outcome":
                known = True
                self.check(text, self.result.get("outcome") == value)
            elif name in self.truths:
                known = True
                self.check(f"{name}={value}", self.truths[name] == (value == "true"))
            elif name in self.numbers:
                known = True
                self.check(f"{name}={value} (is {self.numbers[name]})",
                           self.numbers[name] is None if value == "null" else
                           value.lstrip("-").isdigit() and self.numbers[name] == int(value))
        for name, sign, value in re.findall(r"\b(\w+) (>=|<=|>|<) (\d+)\b(?! ?MiB)", text):
            if isinstance(self.numbers.get(name), int):
                known = True
                n = self.numbers[name]
                self.check(f"{name} {sign} {value} (is {n})",
                           {">=": n >= int(value), "<=": n <= int(value), ">": n > int(value), "<": n < int(value)}[sign])
        m = re.search(r"(\w+) between (\d+)", text)
        if m and m.group(1) in self.numbers:
            known, self.low = True, int(m.group(2))
            self.check(f"{m.group(1)} >= {self.low} (is {self.numbers[m.group(1)]})", self.numbers[m.group(1)] >= self.low)
        if re.fullmatch(r"\d+", text) and hasattr(self, "low"):
            known = True  # the other half of "between A and B"
            self.check(f"cpu_ms <= {text}", self.numbers["cpu_ms"] <= int(text))
        m = re.search(r"(\d+) MiB <= memory_peak <= (\d+) MiB", text)
        if m:
            known = True
            self.check(text, int(m.group(1)) << 20 <= self.numbers["memory_peak"] <= int(m.group(2)) << 20)
        m = re.search(r"^(?:total )?wall <= ([\d.]+) ?s", text)
        if m:
            known = True
            self.check(f"wall <= {m.group(1)} s (is {self.seconds:.2f})", self.seconds <= float(m.group(1)) + SLACK)
        m = re.search(r"^wall about ([\d.]+) s", text)
        if m:
            known = True
            self.check(text, abs(self.seconds - float(m.group(1))) < 1)
        m = re.search(r"returned stdout <= (\d+) bytes", text)
        if m:
            known = True
            self.check(text, len(output(self.result, "stdout")) <= int(m.group(1)))
        return known

    def words(self, text):
        m = re.match(r'(stdout|stderr)=' + QUOTED, text)
        if m:
            self.pairs(text[m.end():])
            stream = self.out if m.group(1) == "stdout" else self.err
            allowed = [_unquote(t) for t in re.findall(r'(?:=|or (?:one of the two)?)' + QUOTED, text)]
            self.check(f"{m.group(1)} is {stream[:120]!r}", stream in allowed)
            return True
        m = re.match(r'(stdout|stderr) matches "(.*)"(?: with (\w+) (<|<=) (\d+))?', text)
        if m:
            self.matches(self.stream(m.group(1)), *m.groups()[1:])
            return True
        m = re.match(r"(stdout|stderr) (contains|starts with|ends|has) (.*)", text)
        if m:
            stream = self.stream(m.group(1))
            for piece in re.findall(QUOTED, m.group(3)):
                piece = _unquote(piece)
                holds = {"starts with": stream.startswith(piece), "ends": stream.endswith(piece)}.get(
                    m.group(2), piece in stream)
                self.check(f"{m.group(1)} {m.group(2)} {piece!r}: {stream[-120:]!r}", holds)
            return True
        m = re.fullmatch(r"(stdout|stderr) (?:is )?empty", text)
        if m:
            stream = self.stream(m.group(1))
            self.check(f"{m.group(1)} is {stream[:120]!r}", stream == "")
            return True
        return False

    def stream(self, name):
        return self.out if name == "stdout" else self.err

    def matches(self, stream, pattern, name, sign, number):
        m = re.search(pattern, stream, re.M)
        self.check(f"output matches {pattern}: {stream[:120]!r}", m)
        if m and name:
            value = re.search(re.escape(name) + r"=(\d+)", stream)
            self.check(f"{name} {sign} {number}: {stream[:80]!r}",
                       value and (int(value.group(1)) < int(number) or
                                  (sign == "<=" and int(value.group(1)) == int(number))))

    def lines(self, text):
        m = re.match(r"(?:.*\b)?(none|no line|no|nothing) (" + QUOTED + r"(?:(?:,| or|, no) " + QUOTED + ")*)", text)
        known = False
        if m and "also" not in text:
            known = True
            for word in re.findall(QUOTED, m.group(2)):
                self.check(f"no {word!r} in {self.out[:160]!r}", word not in self.out)
        m = re.match(r'(?:every|each) line (?:"[^"]*)?errno=(.*)', text)
        if m:
            known = True
            allowed = {int(n) for n in re.findall(r"(?<![\d.])\d+(?![\d.])", re.sub(r"less than.*", "", m.group(1)))}
            wrong = [l for l in self.out.splitlines()
                     if (e := re.search(r"errno=(\d+)", l)) and int(e.group(1)) not in allowed]
            self.check(f"errno not in {sorted(allowed)}: {wrong[:3]}", not wrong)
        return known
