"""Random tables: what the command line predicts is what Python predicts, to the last bit."""

import pytest
from benchmarks.fuzz.tables import check


@pytest.mark.parametrize("seed", range(12))
def test_predictions_are_those_of_python(seed, tmp_path):
    """``python -m benchmarks.fuzz --tables 300`` tries more of them."""
    check(seed, tmp_path)


@pytest.mark.parametrize("seed", [73, 121, 212])
def test_the_memory_layout_changes_no_bit(seed, tmp_path):
    """Frames of numbers are stored by columns, files are read by rows."""
    check(seed, tmp_path)
