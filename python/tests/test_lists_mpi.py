"""Lists of the ranks of real MPI programs. What ranks do is in lists_ranks.py, for several numbers of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "lists_ranks.py"
RUNS = [line[4:].split("(")[0] for line in PROGRAM.read_text().splitlines() if line.startswith("def ranks_")]


@pytest.fixture(autouse=True)
def memory_of_ranks():
    """Ranks that are aborted leave the memory that they share."""
    before = {*Path("/dev/shm").glob("mpich_shm_*")}
    yield
    for path in {*Path("/dev/shm").glob("mpich_shm_*")} - before:
        path.unlink(missing_ok=True)


def start(ranks, *words, program=PROGRAM, launcher="mpiexec", **variables):
    """Runs a program as that many ranks; launchers of wheels lie beside the interpreter."""
    path = Path(sys.executable).parent / launcher
    env = {name: value for name, value in os.environ.items() if name != "HQ_LISTS_BACKEND"} | variables
    command = [str(path), "-n", str(ranks), sys.executable, str(program), *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=90)


@pytest.mark.parametrize(("ranks", "seeds"), [(2, 6), (3, 4), (5, 2)])
def test_ranks(ranks, seeds):
    ran = start(ranks, "all", str(seeds))
    assert (ran.returncode, ran.stdout.split()) == (0, RUNS), ran.stdout + ran.stderr


def test_a_rank_that_is_alone():
    ran = start(1, "alone", "10")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("end", "is_failure", "said"),
    [
        ("end_well", False, ""),
        ("end_early", True, "rank 1 ended; ranks 0, 2 at collective 1: len()"),
        ("end_early_while_others_are_in_a_sub", True, "ranks of a context of 2 are not at the same collective: rank 1 ended; rank 0"),
        ("end_with_an_exception", True, "rank 1 ended with LookupError: not found; ranks 0, 2 at collective 1: len()"),
        ("end_within_a_collective", True, ""),
        ("end_without_memory", True, "rank 0: there is no memory for 400000"),
        ("end_with_a_failure_that_nothing_follows", True, "rank 1: this was followed by no collective:"),
    ],
)
def test_no_rank_waits_for_one_that_has_ended(end, is_failure, said):
    ran = start(3, end, "0")
    # The code is that of the launcher, which may end the others.
    assert bool(ran.returncode) == is_failure and said in ran.stderr, ran
    assert is_failure or not ran.stderr


def test_what_fails_is_raised_with_the_traceback_of_the_rank(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from headquarters.lists import Context\n"
        "C = Context()\n"
        "try:\n"
        "    C.iterates(4).map(lambda n: 1 // (n - 3)).len()\n"
        "except ZeroDivisionError as error:\n"
        "    assert C.rank == 1 or 'lambda n: 1 // (n - 3)' in str(error.__cause__)\n"
        "    C.comm.Barrier()\n"
        "    sys.stdout.write(f'{C.backend} {C.procs}\\n')\n"
    )
    ran = start(2, program=program)
    assert (ran.returncode, ran.stdout) == (0, "mpi 2\nmpi 2\n"), ran


def test_ranks_that_see_one_rank_each_are_refused(tmp_path):
    # As under the launcher of another MPI.
    env = {**os.environ, "OMPI_COMM_WORLD_SIZE": "4"}
    code = "from headquarters.lists import Context; Context()"
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    said = ran.stderr.splitlines()[-1]
    assert "4 ranks were started (OMPI_COMM_WORLD_SIZE=4" in said and "sees one" in said and "mpi4py, which uses " in said


def test_a_program_of_mpi_list_runs_as_ranks(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from mpi_list import Context, DFM, F\n"
        "C = Context()\n"
        "assert sys.argv == [__file__, 'x'] and __name__ == '__main__'\n"
        "total = C.iterates(10).map(F * 2).reduce(lambda a, b: a + b, 0)\n"
        "sys.stdout.write(f'{total} {C.procs}\\n')\n"
    )
    ran = start(2, "-m", "headquarters.alias", "mpi_list", str(program), "x", program="-B")
    assert (ran.returncode, ran.stdout) == (0, "90 2\n90 2\n"), ran
