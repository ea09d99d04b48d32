"""A few small cases of the fuzzer for every estimator; ``make fuzz`` and ``benchmarks.fuzz --fits N`` try more."""

from itertools import count, islice

import pytest
from benchmarks.fuzz.__main__ import FEW_ROWS
from benchmarks.fuzz.cases import ESTIMATORS, make
from benchmarks.fuzz.checks import check

from aidlearn.estimators.registry import IN_FILES

pytest.importorskip("clarabel")


def test_every_model_is_tried():
    assert set(ESTIMATORS) == set(IN_FILES)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fits_pass_the_oracles(name, tmp_path):
    cases = (make(seed, FEW_ROWS) for seed in count())
    for case in islice((case for case in cases if case.estimator == name), 3):
        check(case, tmp_path)
