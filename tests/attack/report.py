"""What became of each test, a line each."""

import time
import traceback

TESTS = []


def attack(row, name):
    """Marks a test. It takes the World and gives (what each place answered, what the control did)."""
    def add(function):
        TESTS.append((row, name, function))
        return function

    return add


class Report:
    def __init__(self, rows=()):
        self.passed = self.failed = 0
        self.rows = set(rows)

    def wants(self, row):
        return not self.rows or bool(self.rows & set(str(row).split("/")))

    def line(self, row, name, told, control, wrong, seconds=None):
        if wrong:
            self.failed += 1
        else:
            self.passed += 1
        word = "FAIL" if wrong else "ok"
        took = f" ({seconds:.1f} s)" if seconds and seconds >= 0.5 else ""
        print(f"{word} {row} {name}: {', '.join(told)}" + (f" | control: {control}" if control else "") + took, flush=True)
        for text in wrong:
            print("     " + text, flush=True)

    def run(self, world):
        for row, name, function in TESTS:
            if not self.wants(row):
                continue
            began = time.monotonic()
            try:
                told, control = function(world)
                wrong = []
            except Exception as error:  # a test may fail in any way; the others still run
                told, control = [], ""
                wrong = [f"{type(error).__name__}: {error}"]
                if not isinstance(error, AssertionError):
                    wrong += traceback.format_exc().splitlines()[-8:]
            self.line(row, name, told, control, wrong, time.monotonic() - began)

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.passed and not self.failed else 1
