"""The example with ranks of MPI, with shorter strings."""

import subprocess
import sys
from pathlib import Path

WAVES = Path(__file__).parents[1] / "examples/waves.py"


def test_strings_on_ranks_are_those_of_one_process(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, str(WAVES), "80"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    assert ran.stdout == "3 strings of 80 points on 4 ranks, 200 steps: as in one process\n"
