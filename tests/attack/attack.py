"""Known ways out of sandboxes, tried through the real product; each with a control outside.

    python attack.py FOLDER [ROW...]    FOLDER is a running platform (tests/demo/platform.sh up FOLDER)

Prints "ok ROW NAME: places | control: ..." or "FAIL ..." a line, and ends with "N passed, N failed".
"""

import sys

import boundaries  # noqa: F401  each module adds its tests to report.TESTS
import daemon  # noqa: F401
import exhaustion  # noqa: F401
import image_tricks  # noqa: F401
import probes
import reading_back  # noqa: F401
from report import Report
from world import World


def main():
    report = Report(sys.argv[2:])
    world = World(sys.argv[1])
    try:
        probes.run(world, report)
        report.run(world)
    finally:
        world.close()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
