"""Lists in one process, and what all back ends have in common."""

import subprocess
import sys
from dataclasses import replace

import pytest

import lists_oracle
from headquarters.lists import DFM, ArgumentChanged, Context, F, NoBackend, RanksDiffer
from headquarters.lists._agreement import Report, verdict
from headquarters.lists._backend import choose, load_mpi
from headquarters.lists._failure import failure_of
from headquarters.lists._layout import Layout
from headquarters.lists._messages import block_lengths, head_length, pack, pieces, unpack
from headquarters.lists._stored import OnDisk

MPICH = {"PMI_SIZE": "4", "PMI_RANK": "1"}


@pytest.fixture
def C():
    return Context("serial")


def add(left, right):
    return left + right


@pytest.mark.parametrize("storage", ["memory", "disk"])
@pytest.mark.parametrize("seed", range(30))
def test_a_list_is_what_a_plain_list_is(seed, storage):
    lists_oracle.check(Context("serial", storage=storage), seed)


@pytest.mark.parametrize("is_larger_last", [False, True])
def test_layouts_are_even(is_larger_last):
    for total in range(25):
        for parts in range(1, 9):
            layout = Layout(total, parts, is_larger_last)
            rows = lists_oracle.even(list(range(total)), parts, is_larger_last)
            assert [list(layout.range(part)) for part in range(parts)] == rows
            assert [layout.part_of(number) for part in range(parts) for number in rows[part]] == [
                part for part in range(parts) for _ in rows[part]
            ]


def test_x0_comes_in_once_for_each_rank_and_initial_once(C):
    assert C.iterates(4).reduce(add, 100) == C.iterates(4).reduce(add, initial=100) == 106


def test_what_fails_is_raised_at_once(C):
    with pytest.raises(ZeroDivisionError):
        C.iterates(3).map(lambda n: 1 // n)


@pytest.mark.parametrize(
    ("expression", "argument", "value"),
    [
        (F[1], [1, 2], 2),
        (F["a"]["b"], {"a": {"b": 3}}, 3),
        (F.upper(), "a", "A"),
        (F.split(",")[0], "a,b", "a"),
        (F.strip().upper().replace("A", "B"), " a ", "B"),
        (F.format(1, x=2), "{0} {x}", "1 2"),
        (F("real"), 3 + 4j, 3.0),
        (F("real") + F("imag"), 3 + 4j, 7.0),
        (F.real + F.imag, 3 + 4j, 7.0),
        (F("numerator.real"), 5, 5),
        (F + 1, 2, 3),
        (10 - F, 2, 8),
        # Python 3 has no __div__.
        (F / F, 4, 1.0),
        (F("real") / F("imag"), 3 + 4j, 0.75),
        (1 / F, 4, 0.25),
        (7 // F, 2, 3),
        (F // 2, 7, 3),
        (F % 4, 7, 3),
        (17 % F, 7, 3),
        (F**2, 3, 9),
        (2**F, 3, 8),
        (2 * F * 3, 2, 12),
        ("a" + F, "b", "ab"),
        (-F, 3, -3),
        (+F, 3, 3),
        (~F, 3, -4),
        (abs(F), -3, 3),
        (F == 3, 3, True),
        (F != 3, 3, False),
        (3 > F, 2, True),
        (F <= 2, 3, False),
        (F >= 2, 3, True),
        ((F > 1) & (F < 3), 2, True),
        ((F < 1) | (F > 3), 2, False),
        (1 | F, 2, 3),
        (3 & F, 2, 2),
        (F ^ 3, 1, 2),
        (3 ^ F, 1, 2),
        (F << 2, 1, 4),
        (1 << F, 2, 4),
        (F >> 1, 4, 2),
        (16 >> F, 2, 4),
        (F["items"][F["at"]], {"items": [1, 2], "at": 1}, 2),
        (F.replace("a", F[0]), "ba", "bb"),
    ],
    ids=repr,
)
def test_an_expression_is_a_function(C, expression, argument, value):
    assert expression(argument) == value
    assert DFM(C, [argument]).map(expression).collect() == [value]


def test_an_expression_can_be_read():
    assert repr(F.split(",", maxsplit=F[0])[0] + 1) == "(F.split(',', maxsplit=F[0])[0] + 1)"


@pytest.mark.parametrize(
    ("misused", "text"),
    [
        (lambda: 1 < F < 3, "join conditions with & and |"),
        (lambda: 1 in F, "Placeholder"),
        (lambda: list(F[0]), "Expression"),
        (lambda: F(3), "name of an attribute"),
        (lambda: Context("serial").iterates(3).map(F.real), "F('real')"),
        (lambda: Context("serial").iterates(3).map(F), "lambda element: element"),
    ],
)
def test_an_expression_that_is_misused_says_so(misused, text):
    with pytest.raises(TypeError) as raised:
        misused()
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("do", "kind", "text"),
    [
        (lambda C: C.iterates(3).map(3), TypeError, "map takes a function, not 3"),
        (lambda C: C.iterates(3).reduce(None, 0), TypeError, "reduce takes a function, not None"),
        (lambda C: C.iterates(-1), ValueError, "n is -1, and cannot be negative"),
        (lambda C: C.iterates(1.5), TypeError, "n is a whole number, not 1.5"),
        (lambda C: C.iterates(3).head(-1), ValueError, "n is -1"),
        (lambda C: C.iterates(3).collect(1), ValueError, "there is no rank 1"),
        (lambda C: C.iterates(3).collect(-1), ValueError, "root is -1"),
        (lambda C: C.iterates(3).flatMap(lambda n: n), TypeError, "has to return a list, not a int"),
        (lambda C: C.iterates(3).flatMap(str), TypeError, "has to return a list, not a str"),
        (lambda C: C.iterates(3).nodeMap(lambda rank, part: range(3)), TypeError, "has to return a list, not a range"),
        (lambda C: C.iterates(3).nodeMap(lambda rank, part: None), TypeError, "not a NoneType"),
        (lambda C: C.iterates(3).reduce(add), TypeError, "either x0"),
        (lambda C: C.iterates(3).reduce(add, 0, initial=0), TypeError, "either x0"),
        (lambda C: C.iterates(3).scan(add, exclusive=True), TypeError, "takes initial="),
        (lambda C: C.iterates(3).group(add, list, -1), ValueError, "N is -1"),
        (lambda C: C.iterates(3).group(add, list, 3, order="any"), ValueError, "'rank' or 'element', not 'any'"),
        (lambda C: C.iterates(3).group(lambda n, out: out.update({3: [n]}), list, 3), ValueError, "key 3 is not among 0 … 2"),
        (lambda C: C.iterates(3).group(lambda n, out: out.update({0: [n]}), list, 0), ValueError, "key 0, and N is 0"),
        (lambda C: C.iterates(3).group(lambda n, out: out.update({0: n}), list, 3), TypeError, "out[0] has to be a list"),
        (lambda C: C.iterates(3).group(lambda n, out: out.update(a=[n]), list, 3), TypeError, "not 'a'"),
        (lambda C: C.iterates(3).repartition(lambda n: 1, print, list, -2), ValueError, "N is -2"),
        (lambda C: C.iterates(3).repartition(lambda n: -1, print, list, 2), ValueError, "what llen returns is -1"),
        (lambda C: C.iterates(3).repartition(lambda n: 0.5, print, list, 2), TypeError, "what llen returns is a whole number"),
        (lambda C: C.iterates(3).repartition(lambda n: 1, lambda n, r: [n], list, 0), ValueError, "3 records have no place"),
        (lambda C: C.iterates(2).repartition(lambda n: 3, lambda n, r: [n], list, 3), ValueError, "gave 1 blocks for 2 ranges"),
        (lambda C: C.sub([]), ValueError, "at least one"),
        (lambda C: C.sub([0, 0]), ValueError, "different ranks"),
        (lambda C: C.sub([1]), ValueError, "different ranks of 0 … 0"),
        (lambda C: C.iterates(3).store("tape"), ValueError, "'memory' or 'disk', not 'tape'"),
        (lambda C: Context("serial", storage="tape"), ValueError, "'memory' or 'disk', not 'tape'"),
        (lambda C: C.from_list({"a", "b"}), TypeError, "sort it"),
        (lambda C: len(C.iterates(3)), TypeError, "write d.len()"),
        (lambda C: C.from_list(5), TypeError, "from_list: 5 is no list; give one"),
        (lambda C: C.read_lines("/no-such-file"), FileNotFoundError, "no-such-file"),
        (lambda C: C.read_lines(__file__, encoding="utf-16"), ValueError, "lines cannot be found in utf-16"),
        (lambda C: DFM(C, [C]).store("disk"), TypeError, "a Context belongs to its process"),
        (lambda C: DFM(C, [C.iterates(3)]).store("disk"), TypeError, "a DFM belongs to its rank"),
        (lambda C: C.comm.send(1, dest=0), RuntimeError, "no messages between ranks here"),
        (lambda C: C.comm.recv(), RuntimeError, "no messages between ranks here"),
        (lambda C: C.comm.Allreduce, AttributeError, "that of Context('mpi') has it"),
        (lambda C: C.MPI.INT, AttributeError, "use Context('mpi')"),
    ],
)
def test_bad_input_is_refused_and_named(C, do, kind, text):
    with pytest.raises(kind) as raised:
        do(C)
    assert text in str(raised.value)


def sort_in_place(values, *_):
    values.sort()
    return values


@pytest.mark.parametrize(
    "do",
    [
        lambda d: d.map(sort_in_place),
        lambda d: d.flatMap(sort_in_place),
        lambda d: d.filter(sort_in_place),
        lambda d: d.nodeMap(lambda rank, part: sort_in_place(part)),
        lambda d: d.reduce(lambda left, right: sort_in_place(right), []),
        lambda d: d.scan(sort_in_place),
        lambda d: d.group(lambda element, out: sort_in_place(element), list, 3),
        lambda d: d.repartition(lambda element: len(sort_in_place(element)), print, list, 3),
        lambda d: d.repartition(len, lambda element, ranges: sort_in_place(element)[:1], list, 1),
        lambda d: d.repartition(len, lambda element, ranges: [element], lambda blocks: sort_in_place(blocks[1]), 1),
    ],
)
def test_debug_finds_arguments_that_were_changed(do):
    elements = [[3, 1], [2, 0]]
    with pytest.raises(ArgumentChanged, match="has changed its argument"):
        do(DFM(Context("serial", debug=True), elements))


def test_debug_lets_reduce_change_its_left_argument(C):
    debug = Context("serial", debug=True)
    assert DFM(debug, [[1], [2]]).reduce(list.__iadd__, []) == [1, 2]
    assert DFM(debug, [add, print]).map(lambda function: function.__name__).collect() == ["add", "print"]


@pytest.mark.parametrize(
    ("asked", "has_comm", "variables", "chosen"),
    [
        (None, False, {}, "serial"),
        (None, False, {"HQ_LISTS_BACKEND": ""}, "serial"),
        (None, True, {}, "mpi"),
        (None, False, MPICH, "mpi"),
        (None, False, {"PMI_SIZE": "1"}, "serial"),
        (None, False, {"OMPI_COMM_WORLD_SIZE": "2"}, "mpi"),
        (None, False, {"SLURM_STEP_NUM_TASKS": "2"}, "mpi"),
        # Of the worker, and not of its task.
        (None, False, {"SLURM_STEP_NUM_TASKS": "2", "HQ_JOB_ID": "1"}, "serial"),
        (None, False, {"SLURM_STEP_NUM_TASKS": "2", "HQ_JOB_ID": "1", "HQ_NUM_NODES": "2"}, "mpi"),
        # Of the job, not of what was started.
        (None, False, {"SLURM_NTASKS": "2"}, "serial"),
        (None, False, {"HQ_RANKS": "2"}, "mpi"),
        (None, False, {"HQ_LISTS_BACKEND": "serial", **MPICH}, "serial"),
        ("serial", False, MPICH, "serial"),
        ("mpi", False, {"HQ_LISTS_BACKEND": "serial"}, "mpi"),
        (None, False, {"HQ_LISTS_BACKEND": "mpi"}, "mpi"),
        ("tasks", False, MPICH, "tasks"),
        (None, False, {"HQ_LISTS_BACKEND": "tasks"}, "tasks"),
        (None, False, {"HQ_SERVER_DIR": "/home/me/server"}, "tasks"),
        (None, False, {"HQ_SERVER_DIR": "/home/me/server", **MPICH}, "mpi"),
        # A task has one place.
        (None, False, {"HQ_SERVER_DIR": "/home/me/server", "HQ_JOB_ID": "1"}, "serial"),
    ],
)
def test_the_back_end_is_chosen(asked, has_comm, variables, chosen):
    assert choose(asked, has_comm, variables) == chosen


@pytest.mark.parametrize(
    ("asked", "has_comm", "variables", "kind", "text"),
    [
        ("dask", False, {}, ValueError, "no back end 'dask'; there are"),
        (None, False, {"HQ_LISTS_BACKEND": "dask"}, ValueError, "'dask', which HQ_LISTS_BACKEND names"),
        ("serial", True, {}, ValueError, "takes no communicator"),
        ("tasks", True, {}, ValueError, "'tasks' takes no communicator"),
    ],
)
def test_a_back_end_that_is_not_there_is_refused(asked, has_comm, variables, kind, text):
    with pytest.raises(kind) as raised:
        choose(asked, has_comm, variables)
    assert text in str(raised.value)


def test_who_gives_workers_has_chosen():
    assert choose(None, False, {"HQ_LISTS_BACKEND": "serial"}, has_workers=True) == "tasks"
    assert choose(None, False, MPICH, has_workers=True) == "tasks"
    with pytest.raises(ValueError, match="'mpi' takes no executor"):
        choose("mpi", False, {}, has_workers=True)
    with pytest.raises(ValueError, match="give one of them"):
        choose(None, True, {}, has_workers=True)
    with pytest.raises(TypeError, match="not for the back end 'serial'"):
        Context("serial", procs=3)
    with pytest.raises(TypeError, match="give one of the two"):
        Context(executor=1, cluster="/nowhere")
    with pytest.raises(TypeError, match="executor is a headquarters.Executor, not 1"):
        Context(executor=1)


def test_ranks_without_mpi4py_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    with pytest.raises(NoBackend, match="4 ranks were started .PMI_SIZE=4.*pip install mpi4py"):
        load_mpi(MPICH)
    with pytest.raises(NoBackend, match="^mpi4py cannot be loaded"):
        load_mpi({})


def test_lists_need_nothing_of_the_extension():
    code = (
        "import sys; sys.modules['headquarters._native'] = None\n"
        "from headquarters.lists import Context\n"
        "assert Context('serial').iterates(3).len() == 3\n"
        "assert not {'mpi4py', 'numpy', 'cloudpickle'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def report(rank, what, epoch=7, failure=None):
    return Report(rank, epoch, what, failure)


@pytest.mark.parametrize(
    ("reports", "text"),
    [
        ([report(0, "len()"), report(1, "head(3)"), report(2, "len()")], "ranks 0, 2 at collective 7: len(); rank 1 at collective 7: head(3)"),
        ([report(0, "len()"), report(1, ""), report(2, "")], "ranks 1-2 ended; rank 0 at collective 7: len()"),
        ([report(0, "len()"), report(1, "len()", 8)], "rank 0 at collective 7: len(); rank 1 at collective 8: len()"),
    ],
)  # fmt: skip
def test_ranks_that_differ_are_told_apart(reports, text):
    raised = verdict(reports, 0, None)
    assert isinstance(raised, RanksDiffer) and text in str(raised)


def test_all_ranks_raise_what_the_first_of_several_has_raised():
    first, second = KeyError("first"), ValueError("second")
    reports = [report(0, "len()"), report(1, "len()", 7, failure_of(first, 1)), report(2, "len()", 7, failure_of(second, 2))]
    assert verdict(reports, 1, first) is first
    for rank, own in ((0, None), (2, second)):
        raised = verdict(reports, rank, own)
        assert isinstance(raised, KeyError) and "on rank 1" in str(raised.__cause__)
    assert verdict([report(0, "len()"), report(1, "len()")], 0, None) is None
    ended = verdict([report(0, "len()"), replace(reports[1], what="")], 0, None)
    assert isinstance(ended, RanksDiffer) and "rank 1 ended with KeyError: 'first'" in str(ended)
    assert isinstance(ended.__cause__, KeyError)


def test_large_buffers_travel_apart_and_are_not_copied():
    large, small = lists_oracle.Blob(bytes(100_000)), lists_oracle.Blob(b"abc")
    packed = pack([large, small])
    assert block_lengths(packed.head) == [100_000] and head_length(packed.head) == len(packed.head) < 300
    large.data[7] = 1
    came = [bytearray(block) for block in packed.blocks]
    loaded = unpack(packed.head, came)
    assert loaded == [large, small]
    # So is a pickle that is long itself, as that of many small elements.
    packed = pack(list(range(100_000)))
    assert unpack(packed.head, [bytearray(block) for block in packed.blocks]) == list(range(100_000))
    assert len(packed.head) < 100 and len(packed.blocks) == 1


def test_what_is_too_long_for_a_message_is_cut():
    assert [bytes(piece) for piece in pieces(b"abcdefg", 3)] == [b"abc", b"def", b"g"]
    assert pieces(b"", 3) == [] and len(pieces(bytes(6), 3)) == 2


def test_elements_on_disk_are_a_sequence(tmp_path):
    elements = OnDisk(str(number) * number for number in range(20))
    plain = [str(number) * number for number in range(20)]
    assert list(elements) == plain and len(elements) == 20
    assert (elements[3], elements[-1], elements[2:19:5], elements[30:]) == (plain[3], plain[-1], plain[2:19:5], [])
    with pytest.raises(IndexError):
        elements[20]


def test_elements_on_disk_are_in_memory_one_at_a_time():
    alive, most = 0, 0

    class Counted:
        def __init__(self):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __reduce__(self):
            return str, ()

        def __del__(self):
            nonlocal alive
            alive -= 1

    C = Context("serial", storage="disk")
    assert C.iterates(100).map(lambda number: Counted()).len() == 100 and most <= 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "usage:"),
        (["mpi_list"], "usage:"),
        (["radical.pilot", __file__], "there is nothing in the place of 'radical.pilot' yet; there is mpi_list"),
        (["numpy", __file__], "nothing in the place of 'numpy'"),
        (["mpi_list", "/no-such-program.py"], "no program '/no-such-program.py'"),
    ],
)
def test_an_alias_that_is_not_there_is_refused(words, text):
    ran = subprocess.run([sys.executable, "-m", "headquarters.alias", *words], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2 and text in ran.stderr


def test_the_old_name_is_there_in_one_process(tmp_path):
    (tmp_path / "beside.py").write_text("WORDS = ['a', 'b']\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import subprocess, sys\n"
        "import mpi_list, beside, pickle\n"
        "from mpi_list import Context, DFM, F\n"
        "class Mine: pass\n"
        "pickle.loads(pickle.dumps(Mine()))\n"
        "print(DFM(Context(), beside.WORDS).map(F.upper()).collect(), sys.argv[1:])\n"
        "code = 'import sys; from importlib.util import find_spec as find; spec = find(\"mpi_list\")\\n'\n"
        "code += 'sys.exit(spec is not None and \"headquarters\" in spec.origin)'\n"
        "sys.exit(subprocess.run([sys.executable, '-c', code]).returncode + 4)\n"
    )
    command = [sys.executable, "-m", "headquarters.alias", "mpi_list", str(program), "--x"]
    ran = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("['A', 'B'] ['--x']\n", "")
    assert ran.returncode == 4, "a process that it starts does not know the old name"
