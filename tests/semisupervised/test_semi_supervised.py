"""SemiSupervisedSVC: true bounds, honest statuses, clear errors, scikit-learn's conventions."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from aidlearn import LinearSVC, SemiSupervisedSVC, Status
from aidlearn.semisupervised.branch_and_bound import SearchLimits


@parametrize_with_checks(
    [SemiSupervisedSVC(), SemiSupervisedSVC(kernel="rbf"), SemiSupervisedSVC(balance="constraint", refine=True)]
)
def test_scikit_learn_checks(estimator, check):
    if check.func.__name__ == "check_classifiers_classes":
        pytest.skip("fits the classes -1 and 1, and -1 marks unlabelled rows (scikit-learn's own convention)")
    check(estimator)


def objective(X, y, w, b, C, C_unlabeled, weight=None):
    """The original objective with y in {1, 0} and -1 for unlabelled rows."""
    weight = np.ones(len(y)) if weight is None else weight
    z = X @ w + b
    loss = np.where(y == -1, C_unlabeled * np.maximum(0, 1 - np.abs(z)), C * np.maximum(0, 1 - (2 * y - 1) * z))
    return 0.5 * w @ w + weight @ loss


def dichotomies(points):
    """Every labelling of points in one or two dimensions (in general position) that some hyperplane gives."""
    n = len(points)
    found = {(1,) * n, (-1,) * n}
    if points.shape[1] == 1:
        for cut in points[:, 0]:
            for side in (points[:, 0] > cut, points[:, 0] >= cut):
                found |= {tuple(np.where(side, 1, -1)), tuple(np.where(side, -1, 1))}
        return found
    for i, j in itertools.combinations(range(n), 2):
        along = points[j] - points[i]
        side = np.where((points - points[i]) @ np.array([-along[1], along[0]]) > 0, 1, -1)
        for a, b in itertools.product([-1, 1], repeat=2):
            side[i], side[j] = a, b
            found |= {tuple(side), tuple(-side)}
    return found


def global_optimum(X, y, C, C_unlabeled):
    """Brute force over all labellings that a hyperplane can give: values that enclose the global optimum.

    Each labelling is solved by libsvm; its dual value is below the best objective with these labels, and the true
    objective of its hyperplane is above the optimum, whether it has converged or not.
    """
    free = np.flatnonzero(y == -1)
    weight = np.where(y == -1, C_unlabeled, C)
    lower, upper = np.inf, np.inf
    for signs in dichotomies(X[free]):
        side = np.where(y == 1, 1, -1)
        side[free] = signs
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SVC(kernel="linear", tol=1e-6, max_iter=100_000).fit(X, side, sample_weight=weight)
        w = model.coef_[0]
        lower = min(lower, np.abs(model.dual_coef_).sum() - 0.5 * (w @ w))
        upper = min(upper, *(objective(X, y, w, b, C, C_unlabeled) for b in [model.intercept_[0], *(side - X @ w)]))
    return lower, upper


def instance(seed, d):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 15 if d == 1 else 9))
    X = np.concatenate([[[-1.0] * d, [1.0] * d], rng.normal(size=(2 + n, d)) * rng.choice([0.5, 1.5, 4.0])])
    y = np.concatenate([[0, 1], rng.integers(0, 2, 2), np.full(n, -1)])
    return X, y, float(rng.choice([0.1, 1.0, 10.0])), float(rng.choice([0.05, 0.5, 2.0]))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("block", range(5))
def test_bounds_hold_and_certified_means_optimal(d, block):
    """50 instances: the bound is below the global optimum, and a certified solution has its value."""
    certified = tight = 0
    for seed in range(50 * block, 50 * block + 50):
        X, y, C, C_unlabeled = instance((seed, d), d)
        lower, upper = global_optimum(X, y, C, C_unlabeled)
        tight += upper <= lower * (1 + 1e-4) + 1e-7
        quick = SemiSupervisedSVC(C=C, C_unlabeled=C_unlabeled, initial_rate=0.3).fit(X, y)
        proof = SemiSupervisedSVC(C=C, C_unlabeled=C_unlabeled, certify=True, time_limit=10).fit(X, y)
        for model in (quick, proof):
            assert model.lower_bound_ <= upper * (1 + 1e-9) + 1e-12
            assert model.objective_ >= lower * (1 - 1e-9) - 1e-9
            value = objective(X, y, model.coef_[0], model.intercept_[0], C, C_unlabeled)
            assert model.objective_ == pytest.approx(value, rel=1e-9, abs=1e-12)
            if model.status_ is Status.certified:
                assert model.objective_ <= upper * (1 + 1.01e-4) + 1e-12
        assert quick.status_ in (Status.one_region, Status.certified, Status.iteration_limit)
        certified += proof.status_ is Status.certified
    assert certified == 50
    assert tight >= 45  # libsvm stalls on a few


COUNTER_EXAMPLE = np.array([0, 12.5] + [4.5] * 20 + [7.5] * 3 + [12.5])[:, None], np.array([0, 1] + [-1] * 24)
COUNTER_CLUSTERS = np.array([0, 1] + [2] * 20 + [3] * 4)


def test_one_region_is_not_called_optimal():
    """All clusters lie in one region at w = 4/9, b = -1, and yet w = 0.4, b = -4 is better."""
    X, y = COUNTER_EXAMPLE
    model = SemiSupervisedSVC(init=COUNTER_CLUSTERS).fit(X, y)
    assert model.status_ is Status.one_region
    assert model.objective_ == pytest.approx(8 / 81)
    assert model.lower_bound_ <= 0.08
    proof = SemiSupervisedSVC(init=COUNTER_CLUSTERS, certify=True).fit(X, y)
    assert proof.status_ is Status.certified
    assert proof.objective_ == pytest.approx(0.08)


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 300)
    X = rng.normal(size=(300, 5)) + 2.2 * (2 * truth[:, None] - 1) * np.array([1, 1, 0, 0, 0])
    y = np.full(300, -1)
    for k in (0, 1):
        some = np.flatnonzero(truth == k)[:3]
        y[some] = k
    return X, y, truth


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "graph"])
def test_unlabelled_rows_help(blobs, kernel):
    X, y, truth = blobs
    model = SemiSupervisedSVC(kernel=kernel, balance="constraint", diffusion=10).fit(X, y)
    assert (model.transduction_ == truth).mean() > 0.95
    assert (model.predict(X) == truth).mean() > 0.95
    assert set(model.transduction_[y != -1] == y[y != -1]) == {True}


def test_balance_constraint_holds(blobs):
    X, y, _ = blobs
    y = y.copy()
    y[np.flatnonzero(y == 1)[0]] = -1
    model = SemiSupervisedSVC(balance="constraint").fit(X, y)
    assert model.decision_function(X[y == -1]).mean() == pytest.approx((2 - 3) / 5, abs=1e-9)


def test_balance_cost_weighs_the_smaller_class(blobs):
    X, y, _ = blobs
    y = y.copy()
    y[np.flatnonzero(y == 1)[0]] = -1
    weight = np.where(y == 1, 1.5, 1.0)
    one, two = SemiSupervisedSVC(balance="cost").fit(X, y), SemiSupervisedSVC().fit(X, y, weight)
    assert one.objective_ == pytest.approx(two.objective_)


def test_supervised_control_is_the_svm(blobs):
    """C_unlabeled = 0, or no unlabelled rows: the ordinary SVM, certified."""
    X, y, truth = blobs
    known = y != -1
    exact = LinearSVC(tol=1e-8).fit(X[known], y[known]).objective_
    control = SemiSupervisedSVC(C_unlabeled=0).fit(X, y)
    assert control.objective_ == pytest.approx(exact, rel=1e-5)
    assert control.status_ is Status.certified
    whole = SemiSupervisedSVC(C=0.1).fit(X, truth)
    assert whole.objective_ == pytest.approx(LinearSVC(C=0.1, tol=1e-8).fit(X, truth).objective_, rel=1e-4)
    assert whole.status_ is Status.certified


def test_kernels_agree(blobs):
    X, y, _ = blobs
    gram = rbf_kernel(X, gamma=0.2)
    built_in = SemiSupervisedSVC(kernel="rbf", gamma=0.2).fit(X, y)
    for other in (
        SemiSupervisedSVC(kernel="precomputed").fit(gram, y),
        SemiSupervisedSVC(kernel=lambda a, b: rbf_kernel(a, b, gamma=0.2)).fit(X, y),
    ):
        assert other.objective_ == pytest.approx(built_in.objective_, rel=1e-6)
    model = SemiSupervisedSVC(kernel="precomputed").fit(gram, y)
    np.testing.assert_allclose(model.decision_function(gram[:9]), built_in.decision_function(X[:9]), atol=1e-5)
    plain = SemiSupervisedSVC().fit(X, y)
    through_gram = SemiSupervisedSVC(kernel="precomputed").fit(X @ X.T, y)
    assert through_gram.objective_ == pytest.approx(plain.objective_, rel=1e-4)


def test_nystroem_represents_rows_by_some(blobs):
    X, y, truth = blobs
    model = SemiSupervisedSVC(kernel="rbf", n_components=40, balance="constraint").fit(X, y)
    assert (model.predict(X) == truth).mean() > 0.95


@pytest.mark.parametrize("max_iter", [1, 5])
def test_refine_never_makes_it_worse(blobs, max_iter):
    X, y, _ = blobs
    for balance, C_unlabeled in itertools.product([None, "constraint", "cost"], [0.02, 1.0]):
        parameters = {"balance": balance, "C_unlabeled": C_unlabeled, "max_iter": max_iter, "init": "kmeans"}
        plain = SemiSupervisedSVC(**parameters).fit(X, y)
        refined = SemiSupervisedSVC(refine=True, **parameters).fit(X, y)
        assert refined.objective_ <= plain.objective_ * (1 + 1e-12)
        assert refined.lower_bound_ <= refined.objective_
        if balance == "constraint":
            assert refined.decision_function(X[y == -1]).mean() == pytest.approx(0, abs=1e-9)


def test_more_starts_are_not_worse(blobs):
    X, y, _ = blobs
    one = SemiSupervisedSVC(init="kmeans", max_iter=1).fit(X, y)
    five = SemiSupervisedSVC(init="kmeans", max_iter=1, n_init=5).fit(X, y)
    assert five.objective_ <= one.objective_


def test_sparse_rows_and_integer_weights(blobs):
    X, y, _ = blobs
    dense = SemiSupervisedSVC(random_state=3).fit(X, y)
    thin = SemiSupervisedSVC(random_state=3).fit(sparse.csr_array(X), y)
    assert thin.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    labels = np.arange(len(y)) % 12
    weighted = SemiSupervisedSVC(init=labels).fit(X, y, weight)
    repeated = SemiSupervisedSVC(init=np.repeat(labels, weight)).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-5)


def test_three_classes_and_strings(blobs):
    rng = np.random.default_rng(1)
    truth = np.repeat(["a", "b", "c"], 60)
    X = rng.normal(size=(180, 2)) + 5 * np.array([[0, 0], [0, 1], [1, 0]])[np.repeat([0, 1, 2], 60)]
    y = np.full(180, "-1")
    y[::20] = truth[::20]
    model = SemiSupervisedSVC().fit(X, y)
    assert model.decision_function(X).shape == (180, 3)
    assert (model.transduction_ == truth).mean() > 0.95
    assert len(model.status_) == 3


def test_many_labelled_rows_are_clustered():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    truth = (X[:, 0] > 0).astype(int)
    y = np.where(rng.random(4000) < 0.6, truth, -1)
    model = SemiSupervisedSVC(C=0.1, C_unlabeled=0.1, max_iter=30).fit(X, y)
    assert model.n_clusters_ < 2000
    value = objective(X, y, model.coef_[0], model.intercept_[0], 0.1, 0.1)
    assert model.objective_ == pytest.approx(value)
    assert (model.predict(X) == truth).mean() > 0.97


def test_limits_end_with_a_usable_model(blobs):
    X, y, _ = blobs
    model = SemiSupervisedSVC(max_iter=1, init="kmeans", C_unlabeled=0.1).fit(X, y)
    assert model.n_iter_ == 1
    stopped = SemiSupervisedSVC(callbacks=lambda record: True, init="kmeans").fit(X, y)
    assert stopped.status_ in (Status.interrupted, Status.one_region)
    few = SemiSupervisedSVC(node_limit=1, certify=True, max_iter=2).fit(X, y)
    # Any hyperplane is above the optimum, and so above a bound that was proven in one node.
    assert 0 < few.lower_bound_ <= SemiSupervisedSVC(refine=True).fit(X, y).objective_
    for usable, C_unlabeled in ((model, 0.1), (stopped, 1.0), (few, 1.0)):
        value = objective(X, y, usable.coef_[0], usable.intercept_[0], 1.0, C_unlabeled)
        assert usable.objective_ == pytest.approx(value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, np.full(len(y), -1)), "Every row of y is -1"),
        (lambda X, y: (X, np.where(y == 0, -1, y)), "only one class: .*-1 marks unlabelled rows"),
        (lambda X, y: (X, np.where(y == 0, np.nan, y)), "NaN at row .*mark unlabelled rows with -1"),
        (lambda X, y: (np.where(np.arange(X.size).reshape(X.shape) == 7, np.nan, X), y), "row 1, column 2"),
        (lambda X, y: (X[:-1], y), "inconsistent numbers of samples"),
        (lambda X, y: (X, None), "requires y"),
    ],
)
def test_bad_data(blobs, change, message):
    X, y = change(*blobs[:2])
    with pytest.raises(ValueError, match=message):
        SemiSupervisedSVC().fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "C must be"),
        ({"C_unlabeled": -1}, "C_unlabeled must be"),
        ({"balance": "both"}, "balance must be"),
        ({"kernel": "sigmoid"}, "not positive semidefinite"),
        ({"kernel": "cosine"}, "kernel must be"),
        ({"kernel": lambda a, b: -rbf_kernel(a, b)}, "positive"),
        ({"kernel": lambda a, b: rbf_kernel(a, b) - 0.5}, "not positive semidefinite"),
        ({"kernel": "precomputed"}, "square"),
        ({"kernel": "rbf", "gamma": -1}, "gamma must be"),
        ({"init": "band"}, "init must be"),
        ({"init": np.zeros(3)}, "one cluster label per row"),
        ({"n_init": 0}, "n_init must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"node_limit": 0}, "node_limit must be"),
        ({"solver": "cplex"}, "solver must be"),
    ],
)
def test_bad_parameters(blobs, parameters, message):
    X, y, _ = blobs
    with pytest.raises(ValueError, match=message):
        SemiSupervisedSVC(**parameters).fit(X, y)


def test_labels_that_alternate_and_rows_without_weight():
    """The first centres are found wherever the unlabelled rows stand, and whether they count or not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4002, 3))
    truth = (X[:, 0] > 0).astype(int)
    alternating = SemiSupervisedSVC(max_iter=1).fit(X, np.where(np.arange(4002) % 2 == 0, truth, -1))
    assert (alternating.transduction_ == truth).mean() > 0.9
    y = np.where(np.arange(4002) < 50, truth, -1)
    ignored = SemiSupervisedSVC().fit(X, y, sample_weight=(y != -1).astype(float))
    assert ignored.objective_ == pytest.approx(LinearSVC(tol=1e-8).fit(X[:50], y[:50]).objective_, rel=1e-4)


def test_time_limit_and_interruption_keep_the_solution(blobs, monkeypatch):
    X, y, _ = blobs
    short = SemiSupervisedSVC(refine=True, time_limit=1e-3).fit(X, y)
    assert short.objective_ == pytest.approx(objective(X, y, short.coef_[0], short.intercept_[0], 1.0, 1.0))
    calls = []
    SemiSupervisedSVC(n_init=5, refine=True, callbacks=lambda record: calls.append(record) or True).fit(X, y)
    assert len(calls) == 1
    monkeypatch.setattr("aidlearn.semisupervised.refine._continued", _interrupt)
    kept = SemiSupervisedSVC(refine=True).fit(X, y)
    assert kept.objective_ == SemiSupervisedSVC().fit(X, y).objective_


def _interrupt(*arguments):
    raise KeyboardInterrupt


def test_the_search_says_how_far_it_is_and_ends(monkeypatch):
    """Overlapping classes in eight dimensions, which no search of this size certifies."""
    monkeypatch.setattr(SearchLimits, "nodes", 30)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    y = np.where(np.arange(60) < 10, X[:, 0] + rng.normal(size=60) > 0, -1)

    class Watch:
        nodes = ()

        def __call__(self, record):
            return False

        def on_search(self, n_nodes):
            self.nodes = (*self.nodes, n_nodes)

    watch = Watch()
    model = SemiSupervisedSVC(certify=True, callbacks=watch).fit(X, y)
    assert 0 < max(watch.nodes) <= 2003  # the searches for a point have their own limit
    assert model.status_ is Status.one_region
    assert 0 < model.lower_bound_ <= model.objective_


def test_certify_ends_on_duplicates():
    """Copies of a row have a rounded mean and cannot be halved: the run must not go on for ever."""
    rng = np.random.default_rng(3)
    base = np.sort(rng.uniform(0.1, 3, size=(12, 1)), axis=0)
    X = np.repeat(base, rng.integers(1, 9, 12), axis=0)
    n = len(X)
    X = np.concatenate([[[0.0]], X, [[3.3]]])
    y = np.concatenate([[0], np.full(n, -1), [1]])
    weight = rng.random(n + 2) * 10 ** rng.uniform(-2, 2, n + 2)
    for parameters in ({"node_limit": 3}, {"tol": 0.0}):
        model = SemiSupervisedSVC(certify=True, init=np.zeros(n + 2), balance="constraint", **parameters)
        assert model.fit(X, y, sample_weight=weight).n_iter_ < 100
        assert model.status_ is not Status.numerical or model.gap_ < 1e-6


def test_one_region_is_a_local_optimum_at_a_node_limit():
    """With every row's label fixed at its side the objective cannot fall (that problem is convex, and tight here)."""
    n_checked = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(12, 1))
        y = np.full(12, -1)
        y[:4] = 0, 1, 0, 1
        model = SemiSupervisedSVC(C=0.75, C_unlabeled=50, node_limit=3).fit(X, y)
        side = np.where(y == -1, (model.decision_function(X) >= 0).astype(int), y)
        if model.status_ is Status.one_region and len(np.unique(side)) == 2:
            fixed = LinearSVC(C=1, tol=1e-8).fit(X, side, sample_weight=np.where(y == -1, 50, 0.75))
            assert model.objective_ <= fixed.objective_ * (1 + 1e-5)
            n_checked += 1
    assert n_checked >= 20


def test_booleans_scores_and_offsets(blobs):
    X, y, truth = blobs
    as_objects = np.array([bool(value) if value != -1 else -1 for value in y], dtype=object)
    model = SemiSupervisedSVC().fit(X, as_objects)
    assert model.classes_.dtype == bool
    plain = SemiSupervisedSVC().fit(X, y)
    assert plain.score(X, y) == pytest.approx((plain.predict(X) == y)[y != -1].mean())
    with pytest.raises(ValueError, match="nothing to score"):
        plain.score(X, np.full(len(y), -1))
    far = SemiSupervisedSVC(kernel="rbf", balance="constraint").fit(X + 1e6, y)
    assert (far.transduction_ == truth).mean() > 0.9
    gram = sparse.csr_array(rbf_kernel(X))
    assert SemiSupervisedSVC(kernel="precomputed").fit(gram, y).predict(gram).shape == (300,)
