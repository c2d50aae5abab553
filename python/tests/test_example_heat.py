"""The example with large arrays, with less large ones."""

import subprocess
import sys
from pathlib import Path

HEAT = Path(__file__).parents[1] / "examples/heat.py"


def test_strips_of_a_plate_survive_a_worker(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, str(HEAT), "3"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    assert ran.stdout.startswith("3 strips of 3 MB, 12 steps: ")
