"""The code of the documentation runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headquarters as hq

GUIDE = Path(__file__).parents[2] / "docs/guide"


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (GUIDE / page).read_text(), re.MULTILINE | re.DOTALL)


BLOCKS = blocks("python.md")
# What a block takes as given.
GIVEN = "def rate(x, k=0):\n    return x + k\n\n"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[-1][:40])
def test_a_block_runs(block: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(GIVEN + block)
    prepare = tmp_path / "prepare"
    prepare.write_text("#!/bin/sh\necho ready\n")
    prepare.chmod(0o700)
    # The program is found from where the job runs, as it is from a directory that is on the path.
    with hq.LocalCluster(cpus=4) as cluster:
        env = {**os.environ, "HQ_SERVER_DIR": cluster.server_dir}
        (tmp_path / "out").mkdir()
        (tmp_path / "out/prepare").symlink_to(prepare)
        ran = subprocess.run(
            [sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
        )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


@pytest.mark.parametrize("ranks", [1, 3])
def test_blocks_about_lists_run(ranks: int, tmp_path: Path) -> None:
    # One after the other in one program, as starting ranks takes longer than the rest.
    script = tmp_path / "script.py"
    script.write_text("\n".join(blocks("lists.md")))
    launcher = [str(Path(sys.executable).parent / "mpiexec"), "-n", str(ranks)] if ranks > 1 else []
    ran = subprocess.run([*launcher, sys.executable, str(script)], capture_output=True, text=True, timeout=90)
    assert (ran.returncode, ran.stdout) == (0, f"332833500 {ranks}\n"), ran


def test_blocks_about_lists_run_on_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("\n".join(blocks("lists.md")))
    with hq.LocalCluster(cpus=3) as cluster:
        env = {**os.environ, "HQ_SERVER_DIR": cluster.server_dir}
        ran = subprocess.run([sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=90)
    assert (ran.returncode, ran.stdout) == (0, "332833500 3\n"), ran


def test_calls_and_futures_print_what_they_should(tmp_path: Path) -> None:
    block = next(block for block in BLOCKS if "as_completed" in block)
    script = tmp_path / "script.py"
    script.write_text(block)
    ran = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    lines = sorted(ran.stdout.splitlines())
    assert [line.split()[0] for line in lines] == ["1.5", "4.0", "4.0"] and lines[-1] == "4.0 500500", ran
