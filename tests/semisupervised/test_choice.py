"""Kernel, penalties and balance chosen from labelled rows: leaving rows out is exact, and the choice is of use."""

import numpy as np
import pytest
from scipy import linalg, sparse

import aidlearn
from aidlearn import SemiSupervisedSVC
from aidlearn.semisupervised.choice import CandidateKernels, choose, left_out_error
from aidlearn.semisupervised.features import GraphFeatures, of_unit_length


def moons(n=300, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n) % 2
    angle = rng.uniform(0, np.pi, n)
    X = np.column_stack([np.cos(angle) + t, np.where(t == 1, 0.4 - np.sin(angle), np.sin(angle))])
    X = np.hstack([X, np.zeros((n, 4))]) + 0.08 * rng.normal(size=(n, 6))
    y = np.full(n, -1)
    y[:16] = t[:16]
    return X, t, y


@pytest.mark.parametrize("columns", [1, 3])
def test_leaving_out_by_formula_is_leaving_out(columns):
    rng = np.random.default_rng(1)
    n = 9
    F = rng.normal(size=(n, 4))
    Y = np.sign(rng.normal(size=(n, columns)))
    weight = rng.uniform(0.5, 2.0, n)
    K, ridge = F @ F.T, 0.3
    total = 0.0
    for i in range(n):
        rest = np.setdiff1d(np.arange(n), [i])
        alpha = linalg.solve(K[np.ix_(rest, rest)] + 1 + np.diag(ridge / weight[rest]), Y[rest])
        total += weight[i] * np.mean((Y[i] - (K[i, rest] + 1) @ alpha) ** 2)
    assert left_out_error(K, Y, weight, ridge) == pytest.approx(total / weight.sum(), rel=1e-10)


@pytest.mark.parametrize("kind", ["dense", "tall", "sparse"])
def test_candidates_are_what_their_names_say(kind):
    """The features of some rows, those of the built representation and those of the same rows as new ones agree."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 90 if kind == "sparse" else 12 if kind == "tall" else 100))
    if kind == "sparse":
        X = sparse.csr_array(np.where(rng.random(X.shape) < 0.2, np.abs(X), 0.0))
    rows = np.array([3, 50, 7])
    seen = 0
    for candidate in CandidateKernels(X, np.random.default_rng(0)):
        projection, built = candidate.build()
        some = candidate.features(rows)
        K = some @ some.T / candidate.mean_square
        F = built.features[rows]
        F = F.toarray() if sparse.issparse(F) else F
        assert pytest.approx(K, rel=1e-6, abs=1e-6) == F @ F.T, candidate.name
        whole = built.features
        squares = whole.multiply(whole).sum() if sparse.issparse(whole) else (whole**2).sum()
        assert squares / 80 == pytest.approx(1.0, rel=1e-6), candidate.name
        if not isinstance(built, GraphFeatures):
            w = np.random.default_rng(3).normal(size=(1, whole.shape[1]))
            again = built.scores(projection.apply(X[rows]), built.expansion(w))
            assert again[:, 0] == pytest.approx(F @ w[0], rel=1e-5, abs=1e-6), candidate.name
        seen += 1
    assert seen > 20


def test_unit_length_keeps_rows_of_zeros():
    X = sparse.csr_array(np.array([[3.0, 4.0], [0.0, 0.0]]))
    assert of_unit_length(X).toarray() == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0]]))


def test_it_uses_the_shape_of_the_data_and_no_label_of_unlabelled_rows():
    X, t, y = moons()
    model = SemiSupervisedSVC(kernel="auto").fit(X, y)
    hidden = y == -1
    plain = SemiSupervisedSVC(balance="constraint", C_unlabeled=0.01).fit(X, y)
    accuracy = (model.transduction_[hidden] == t[hidden]).mean()
    assert accuracy > max(0.9, (plain.transduction_[hidden] == t[hidden]).mean())
    assert set(model.choice_) == {"kernel", "ridge", "error", "C", "C_unlabeled", "balance"}
    assert model.choice_["C_unlabeled"] == pytest.approx(model.choice_["C"] / hidden.sum())
    assert model.lower_bound_ <= model.objective_
    assert not hasattr(model, "coef_")
    assert (model.predict(X)[hidden] == model.transduction_[hidden]).mean() > 0.95
    assert not hasattr(model.set_params(kernel="linear").fit(X, y), "choice_")


def test_several_classes_and_the_model_file(tmp_path):
    rng = np.random.default_rng(4)
    t = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, 5)) + 4 * np.eye(5)[t]
    y = np.where(np.arange(120) % 40 < 4, t, -1)
    model = SemiSupervisedSVC(kernel="auto").fit(X, y)
    assert (model.transduction_ == t).mean() > 0.95
    aidlearn.save_model(model, tmp_path / "model.aid")
    again = aidlearn.load_model(tmp_path / "model.aid")
    assert (again.decision_function(X[:7]) == model.decision_function(X[:7])).all()
    assert again.choice_ == model.choice_


@pytest.mark.parametrize("wanted", ["linear", "components", "whitened", "rbf", "graph"])
def test_every_kind_predicts_new_rows_and_survives_a_file(wanted, tmp_path, monkeypatch):
    X, _, y = moons(120)
    every = CandidateKernels.__iter__
    monkeypatch.setattr(CandidateKernels, "__iter__", lambda self: (c for c in every(self) if wanted in c.name))
    model = SemiSupervisedSVC(kernel="auto").fit(X, y)
    assert wanted in model.choice_["kernel"]
    aidlearn.save_model(model, tmp_path / "model.aid")
    new = X[:9] + 1e-3
    assert (aidlearn.load_model(tmp_path / "model.aid").predict(new) == model.predict(new)).all()
    if wanted != "graph":
        score = model.decision_function(X)
        assert (np.where(score > 0, 1, 0)[y == -1] == model.transduction_[y == -1]).all()


def test_many_rows_are_compared_by_linear_kernels():
    rng = np.random.default_rng(5)
    t = rng.integers(0, 2, 3500)
    X = rng.normal(size=(3500, 4)) + t[:, None]
    codes = np.where(np.arange(3500) < 1500, t, -1)
    chosen, _ = choose(CandidateKernels(X, np.random.default_rng(0)), codes, np.ones(3500), -1)
    assert "linear" in chosen.kernel or "whitened" in chosen.kernel
