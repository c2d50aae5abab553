"""Tables for notebooks, and how far calls are, against a fake server."""

import math
import sys
import types

import pytest

import headquarters as hq
from headquarters import _notebook


class Terminal:
    def __init__(self):
        self.said = ""

    def write(self, text):
        self.said += text

    def flush(self):
        pass

    def isatty(self):
        return True


class Handle:
    def __init__(self):
        self.pages = []

    def display(self, page, display_id):
        assert display_id
        self.pages.append(page._repr_html_())
        return self

    def update(self, page):
        self.pages.append(page._repr_html_())


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook has shown."""
    handle = Handle()
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=handle.display))
    return handle.pages


def test_a_line_at_a_terminal(make, monkeypatch):
    executor, calls = make(automatic=True)
    futures = [executor.submit(math.sqrt, number) for number in (4, -1, 9)]
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert hq.progress(futures) == futures
    assert terminal.said.endswith(f"\r[{'#' * 40}] 3 of 3 calls, 1 failed\x1b[K\n")


def test_nothing_where_nobody_looks(make, capsys):
    executor, _ = make(automatic=True)
    assert hq.gather(hq.progress([executor.submit(abs, -1)])) == [1]
    assert list(hq.progress(executor.starmap(abs, [(-2,)]))) == [2]
    assert list(hq.progress([])) == []
    assert capsys.readouterr() == ("", "")


def test_a_table_in_a_notebook(make, notebook):
    executor, _ = make(automatic=True)
    futures = [executor.submit(abs, -1), executor.submit(math.sqrt, -1), executor.submit(abs, -2)]
    hq.progress(futures)
    assert "3 of 3 calls have ended" in notebook[-1]
    assert "<td>abs</td><td>0</td><td>2</td><td>0</td><td>0</td>" in notebook[-1]
    assert "<td>sqrt</td><td>0</td><td>0</td><td>1</td><td>0</td>" in notebook[-1]
    results = hq.progress(executor.starmap(math.sqrt, [(4,), (-1,)]))
    assert "<td>sqrt</td><td>0</td><td>1</td><td>1</td><td>0</td>" in notebook[-1]
    assert results._repr_html_().startswith("<p>&lt;Results: 2 of 2 ended&gt;</p><table>")


def test_names_are_text_and_nothing_else(make, notebook):
    executor, _ = make(automatic=True)

    def f():
        return 1

    f.__qualname__ = "<script>alert('x')</script>"
    hq.progress([executor.submit(f)])
    assert "<script>" not in notebook[-1] and "&lt;script&gt;alert(&#x27;x&#x27;)" in notebook[-1]
    assert _notebook.table("a<b", ["<i>"], [("<u>", 3)]) == (
        "<p>a&lt;b</p><table><thead><tr><th>&lt;i&gt;</th></tr></thead><tbody><tr><td>&lt;u&gt;</td><td>3</td></tr></tbody></table>"
    )


def test_who_interrupts_it_ends_no_call(make, monkeypatch):
    executor, calls = make()
    future = executor.submit(abs, -1)

    class Interrupted(_notebook._Nowhere):
        def show(self, counts, is_last):
            raise KeyboardInterrupt

    monkeypatch.setattr(_notebook, "_shown", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        hq.progress([future])
    assert not future.done()
    calls.until_submitted(1)
    calls.run_all()
    assert future.result(30) == 1


def test_clusters_and_executors_are_tables(cluster):
    with hq.Executor(cluster=cluster, name="<b>bold</b>") as executor:
        executor.submit(abs, -1).result(60)
        shown = executor._repr_html_()
        assert f"<td>{executor.job_id}</td><td>&lt;b&gt;bold&lt;/b&gt;</td>" in shown
        assert f"<p>&lt;Executor: job {executor.job_id}&gt;</p>" in shown
        shown = cluster._repr_html_()
        assert "&lt;b&gt;bold" in shown and "<b>" not in shown and "<td>cpus" not in shown.replace("<td>cpus ", "")
    stopped = hq.LocalCluster()
    stopped.stop()
    assert stopped._repr_html_().endswith(", stopped&gt;</p>")
