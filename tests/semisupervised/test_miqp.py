"""The paper's mixed-integer program: the optimum of every labelling, and the same machine as our branch and bound."""

import itertools
import sys

import numpy as np
import pytest

from aidlearn import SemiSupervisedSVC
from aidlearn.semisupervised import branch_and_bound, miqp
from aidlearn.semisupervised.branch_and_bound import SearchLimits, SemiSupervisedRows
from aidlearn.semisupervised.node_qp import node_solver

pytest.importorskip("pyscipopt")


def rows(seed, n_unlabelled=6, intercept=None):
    rng = np.random.default_rng(seed)
    labels = np.array([1.0, -1.0, 1.0])
    A = rng.normal(size=(3 + n_unlabelled, 2)) + np.r_[labels, np.zeros(n_unlabelled)][:, None]
    weight = np.r_[np.full(3, 2.0), rng.integers(1, 5, n_unlabelled) * 0.4]
    return SemiSupervisedRows(A, weight, labels, intercept)


def by_enumeration(given):
    """The least value over all labellings."""
    solver, n, best = node_solver(given.nodes), len(given.labels), np.inf
    for choice in itertools.product((1.0, -1.0), repeat=given.n_unlabelled):
        label = np.r_[given.labels, choice]
        lower, upper = np.where(label > 0, 1.0, -np.inf), np.where(label < 0, -1.0, np.inf)
        found = solver.solve(lower, upper)
        best = min(best, given.value(found.v, given.nodes.scores(found.v, found.b)))
    assert n == 3
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("intercept", [None, 0.2])
def test_it_finds_the_best_of_all_labellings(seed, intercept):
    given = rows(seed, intercept=intercept)
    found = miqp.search(given, SearchLimits(relative=1e-7, nodes=-1))
    optimum = by_enumeration(given)
    assert found.closed
    assert found.value == pytest.approx(optimum, rel=1e-5)
    assert found.value == pytest.approx(given.value(found.v, given.nodes.scores(found.v, found.b)), rel=1e-12)
    assert found.root_bound <= optimum * (1 + 1e-9)
    ours = branch_and_bound.search(given, SearchLimits())
    assert found.value == pytest.approx(ours.value, rel=1e-5)


def test_a_limit_ends_it_with_a_usable_point():
    given = rows(1, n_unlabelled=25)
    found = miqp.search(given, SearchLimits(relative=1e-9, nodes=1))
    assert np.isfinite(found.v).all()
    assert found.value == pytest.approx(given.value(found.v, given.nodes.scores(found.v, found.b)))
    late = miqp.search(given, SearchLimits(deadline=0.0))
    assert late.spent
    assert np.isfinite(late.value)


@pytest.mark.parametrize("balance", [None, "constraint"])
def test_the_machine_is_that_of_our_branch_and_bound(balance):
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(-1.5, 1, size=(40, 2)), rng.normal(1.5, 1, size=(40, 2))])
    y = np.full(80, -1)
    y[:3], y[40:43] = 0, 1
    models = [
        SemiSupervisedSVC(C=1.0, C_unlabeled=0.2, balance=balance, max_iter=2, solver=solver).fit(X, y)
        for solver in ("auto", "miqp")
    ]
    first, second = (model.history_[0] for model in models)
    assert second.objective == pytest.approx(first.objective, rel=1e-5)
    assert models[1].lower_bound_ <= models[0].objective_ * (1 + 1e-9)
    assert (models[0].transduction_ == models[1].transduction_).all()


def test_without_scip_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    monkeypatch.setattr(miqp, "available", lambda: False)
    with pytest.raises(ImportError, match=r"pip install \"aidlearn\[miqp\]\""):
        SemiSupervisedSVC(solver="miqp").fit(np.eye(3), [0, 1, -1])
