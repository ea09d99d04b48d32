"""Cross-validation over paths: certified, and what a grid search over single models gives."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneGroupOut, ShuffleSplit, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from aidlearn import LinearSVC, LinearSVCCV, QuantileRegressor, QuantileRegressorCV
from oracles import highs_quantile

CS = np.logspace(-3, 2, 4)


@parametrize_with_checks([LinearSVCCV(Cs=2, cv=3), QuantileRegressorCV(alphas=[0.01, 0.1], cv=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def classes(n=6000, p=4, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    score = X @ rng.normal(size=p) + rng.logistic(size=n)
    return X, np.array(["a", "b", "c"])[np.digitize(score, [0.0] if k == 2 else [-1.0, 1.0])]


@pytest.mark.parametrize("n", [300, 20_000])
@pytest.mark.parametrize("k", [2, 3])
def test_scores_are_those_of_a_grid_search(n, k):
    X, y = classes(n, k=k)
    model = LinearSVCCV(Cs=CS, tol=1e-8).fit(X, y)
    search = GridSearchCV(LinearSVC(tol=1e-8), {"C": CS}, cv=StratifiedKFold(5)).fit(X, y)
    theirs = np.array([search.cv_results_[f"split{fold}_test_score"] for fold in range(5)])
    assert np.array_equal(model.scores_, theirs)
    assert search.best_params_["C"] == model.C_
    assert np.array_equal(model.coef_, LinearSVC(tol=1e-8, C=model.C_).fit(X, y).coef_)
    assert model.gaps_.shape == (5, 4)
    assert model.gaps_.max() <= 1e-8
    shape = (5, 4, X.shape[1] + 1)
    assert model.coefs_paths_.shape == (shape if k == 2 else (3, *shape))


@pytest.mark.parametrize("n", [300, 20_000])
def test_balanced_classes_and_weights_are_those_of_each_fold(n):
    X, y = classes(n)
    keep = (y == "a") | (np.arange(n) % 4 == 0)
    X, y = X[keep], y[keep]
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    model = LinearSVCCV(Cs=CS, cv=KFold(3), class_weight="balanced", tol=1e-8).fit(X, y, weight)
    for fold, (train, test) in enumerate(KFold(3).split(X)):
        for k, C in enumerate(CS):
            single = LinearSVC(C=C, class_weight="balanced", tol=1e-8).fit(X[train], y[train], weight[train])
            assert model.scores_[fold, k] == pytest.approx(single.score(X[test], y[test], weight[test]), abs=1e-12)


@pytest.mark.parametrize("n", [120, 9000])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_point_of_a_quantile_path_is_certified(n, fit_intercept):
    """The points against single fits on the rows of their folds, and their bounds against HiGHS."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) + 0.3
    X[:, 2] = np.where(np.arange(n) < n // 4, X[:, 2], 0.0)  # empty in a fold that trains on the others
    y = 1e6 * (n > 1000) + X @ [1.0, 0.0, 2.0] + rng.standard_t(3, n)
    alphas = [0.3, 0.0, 0.03]
    folds = list(KFold(4).split(X))
    model = QuantileRegressorCV(quantile=0.3, alphas=alphas, cv=folds, tol=1e-7, fit_intercept=fit_intercept).fit(X, y)
    assert model.gaps_.max() <= 1e-7
    for fold, (train, test) in enumerate(folds):
        for k, alpha in enumerate(alphas):
            point = model.coefs_paths_[fold, k]
            slopes, level = point[:3], point[3] if fit_intercept else 0.0
            residual = y[train] - X[train] @ slopes - level
            objective = np.maximum(0.3 * residual, -0.7 * residual).sum() + alpha * len(train) * np.abs(slopes).sum()
            if n < 1000:
                best = highs_quantile(X[train], y[train], 0.3, fit_intercept=fit_intercept, l1=alpha * len(train))
            else:
                single = QuantileRegressor(quantile=0.3, alpha=alpha, tol=1e-8, fit_intercept=fit_intercept)
                best = single.fit(X[train], y[train]).objective_
            assert objective == pytest.approx(best, rel=3e-7)
            left = y[test] - X[test] @ slopes - level
            assert model.scores_[fold, k] == pytest.approx(-np.maximum(0.3 * left, -0.7 * left).mean(), rel=1e-8)
    assert model.alpha_ == alphas[int(model.scores_.mean(axis=0).argmax())]


def test_the_path_of_alphas_begins_where_slopes_are_zero():
    X, _ = classes(2000)
    y = 2 * X[:, 0] + np.random.default_rng(1).laplace(size=2000)
    model = QuantileRegressorCV(alphas=5, tol=1e-8).fit(X, y)
    assert np.allclose(model.alphas_ / model.alphas_[0], np.logspace(0, -3, 5))
    above = QuantileRegressor(alpha=1.01 * model.alphas_[0], tol=1e-8).fit(X, y)
    below = QuantileRegressor(alpha=0.95 * model.alphas_[0], tol=1e-8).fit(X, y)
    assert np.abs(above.coef_).max() < 1e-6 < np.abs(below.coef_).max()


def test_scorers_other_splits_and_no_refit():
    X, y = classes(900)
    frame = pd.DataFrame(X, columns=list("pqrs"))
    splits = ShuffleSplit(3, test_size=0.2, random_state=0)
    model = LinearSVCCV(Cs=CS, cv=splits, scoring="f1_macro", tol=1e-8, refit=False).fit(frame, y)
    search = GridSearchCV(LinearSVC(tol=1e-8), {"C": CS}, cv=splits, scoring="f1_macro").fit(frame, y)
    theirs = np.array([search.cv_results_[f"split{fold}_test_score"] for fold in range(3)])
    assert np.allclose(model.scores_, theirs, rtol=0, atol=1e-12)
    best = int(np.argmax(model.scores_.mean(axis=0)))
    assert np.allclose(model.coef_[0], model.coefs_paths_[:, best, :-1].mean(axis=0))
    assert not hasattr(model, "gap_")
    assert model.predict(frame).shape == (900,)


def test_a_fold_may_train_on_one_class():
    X, y = classes(400)
    order = np.argsort(y, kind="stable")
    groups = np.repeat([0, 1], [np.sum(y == "a"), np.sum(y == "b")])
    cv = list(LeaveOneGroupOut().split(X, groups=groups))
    model = LinearSVCCV(Cs=[0.1, 1.0], cv=cv).fit(X[order], y[order])
    assert model.gaps_.max() <= 1e-4
    assert (model.scores_ == 0).all()  # each is tested on the class it has not seen


def test_files_give_the_folds_of_memory(tmp_path):
    X, y = classes(5000)
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet")
    ours = LinearSVCCV(Cs=[0.01, 1.0]).fit(str(tmp_path / "rows.parquet"), "y")
    assert np.array_equal(ours.scores_, LinearSVCCV(Cs=[0.01, 1.0]).fit(X, y).scores_)
    with pytest.raises(ValueError, match="scoring needs rows in memory"):
        LinearSVCCV(Cs=[0.01, 1.0], scoring="f1_macro").fit(str(tmp_path / "rows.parquet"), "y")


def test_infinity_is_named_where_its_coefficient_is_zero():
    X, _ = classes(200)
    model = QuantileRegressor().fit(X, X[:, 0])
    model.coef_ = np.zeros(4)
    X[7, 1] = np.inf
    with pytest.raises(ValueError, match="infinity at row 7"):
        model.predict(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"Cs": 0}, "Cs must be an integer >= 1, got 0"),
        ({"Cs": [1.0, -1.0]}, "Cs must be a number > 0, got -1.0"),
        ({"Cs": []}, "Cs must hold at least one number"),
        ({"refit": "yes"}, "refit must be True or False, got 'yes'"),
        ({"cv": []}, "cv gives no folds"),
        ({"cv": [([0, 1], [])]}, "cv gives a fold without rows to test on"),
        ({"cv": [([0, 10_000], [1])]}, "cv gives rows that X, which has 300, does not have"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        LinearSVCCV(**parameters).fit(*classes(300))


@pytest.mark.parametrize("kind", [LinearSVCCV, QuantileRegressorCV])
def test_groups_stay_together(kind):
    X, labels = classes(120)
    y = labels if kind is LinearSVCCV else X[:, 0]
    groups = np.array(["north", "south", "east"])[np.arange(120) % 3]
    given = {"Cs": [0.1, 1.0]} if kind is LinearSVCCV else {"alphas": [0.01, 0.1]}
    model = kind(cv=GroupKFold(3), **given).fit(X, y, groups=groups)
    splits = list(GroupKFold(3).split(X, y, groups))
    expected = kind(cv=splits, **given).fit(X, y)
    assert np.array_equal(model.scores_, expected.scores_)
    # Rows with missing cells take their groups with them.
    table = pd.DataFrame(np.vstack([np.full((2, X.shape[1]), np.nan), X]))
    longer = [np.concatenate([part[:2], part]) for part in (y, groups)]
    dropped = kind(cv=GroupKFold(3), missing="drop", **given).fit(table, longer[0], groups=longer[1])
    assert np.array_equal(dropped.scores_, expected.scores_)
    with pytest.raises(ValueError, match=r"groups.shape == \(5,\), expected \(120,\): one group per row"):
        kind(cv=GroupKFold(3), **given).fit(X, y, groups=groups[:5])
