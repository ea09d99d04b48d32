"""The benchmark of results that stay: cases from files run on any machine, and what differs is named."""

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")

from benchmarks.fixed_point import differences, parse, run


def test_cases_with_little_memory_run_whatever_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidlearn.data.rows.threads.cores", lambda: 64)
    found = parse(run("memory_limit", timed=False), "memory_limit")
    assert set(found) == {"lad memory_limit", "svc-linear memory_limit"}


def test_digests_and_passes_that_differ_are_named() -> None:
    then = {"a": ("1" * 16, "5"), "b": ("2" * 16, "5"), "c": ("3" * 16, "5")}
    now = {"a": ("1" * 16, "5"), "b": ("4" * 16, "6")}
    assert differences(then, then, passes=True) == []
    told = differences(now, then, passes=True)
    assert [text.split(":")[0] for text in told] == ["c", "b", "b"]
    assert len(differences(now, then, passes=False)) == 2
