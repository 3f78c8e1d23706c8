"""Runs a piece of untrusted Python in a fresh sandbox: the program of the document that the product
makes true, told where our server is. It uses the published cordium-sdk as it is."""

import os
import ssl
import sys
from dataclasses import dataclass

from cordium import Cordium


@dataclass
class Execution:
    exit_code: int
    output: str
    chart: bytes | None


def run_untrusted(client: Cordium, code: str) -> Execution:
    sandbox = client.workspaces.run(
        template="python-sandbox.sandboxes.cordium",
        ephemeral=True,
        timeout=120,
    )
    try:
        sandbox.files.write_text("/workspace/main.py", code)
        result = sandbox.exec(
            "cd /workspace && MPLBACKEND=Agg timeout 60 python main.py < /dev/null",
            timeout=90,
            max_capture_bytes=256 * 1024,
        )
        chart = None
        if sandbox.exec("test -f /workspace/chart.png").exit_code == 0:
            chart = sandbox.files.read_bytes("/workspace/chart.png", max_bytes=10 * 1024 * 1024)
        return Execution(result.exit_code, result.stdout + result.stderr, chart)
    finally:
        sandbox.delete()


if __name__ == "__main__":
    code = """
import numpy as np
import matplotlib.pyplot as plt

x = np.linspace(0, 10, 200)
plt.plot(x, np.sin(x))
plt.savefig("/workspace/chart.png")
print("mean:", np.sin(x).mean())
"""
    host, _, port = os.environ["CORDIUM_SERVER"].partition(":")
    with Cordium(
        host=host,
        port=int(port),
        ssl_context_factory=lambda: ssl.create_default_context(cafile=os.environ["CORDIUM_CA_FILE"]),
    ) as client:
        execution = run_untrusted(client, code)
    print(execution.exit_code, execution.output)
    if execution.chart is not None:
        with open(sys.argv[1], "wb") as file:
            file.write(execution.chart)
    sys.exit(execution.exit_code)
