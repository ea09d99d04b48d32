"""The benchmark of starts: every kind can be drawn and fitted."""

import pytest
from benchmarks.start import KINDS, measure


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_fitted_to_its_tolerance(name: str) -> None:
    kind = KINDS[name]
    found = measure(kind, 0, 2000 / kind.n, liblinear=False, all_rows=True)  # which have to agree in their objective
    assert "all rows" in found
    assert found["gap"] <= 1e-4
    assert found["iterations"] >= 1
    assert found["passes"] >= 2
