"""Small fitted models of every kind, for the tests of files and for the files of older versions."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from aidlearn import (
    SVC,
    SVR,
    LADRegressor,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    PiecewiseLinearModel,
    QuantileRegressor,
    QuantileRegressorCV,
    SemiSupervisedSVC,
)

N = 60


def data(n: int = N, m: int = 3):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, m))
    y = X @ np.arange(1.0, m + 1) + rng.laplace(size=n)
    names = np.array(["low", "middle", "<high>"])[np.digitize(y, [-2, 2])]
    partly = np.where(rng.random(n) < 0.6, -1, np.where(y > 0, 7, 5))
    return X, y, names, partly


def unfitted():
    """Name, estimator, and which target of :func:`data` it takes (1: numbers, 2: names, 3: partly labelled)."""
    return {
        "lad": (LADRegressor(), 1),
        "lad-options": (LADRegressor(alpha=0.01, fit_intercept=False, tol=1e-6, init="kmeans"), 1),
        "quantile": (QuantileRegressor(quantile=0.3), 1),
        "quantiles": (QuantileRegressor(quantile=[0.1, 0.5, 0.9]), 1),
        "quantiles-array": (QuantileRegressor(quantile=np.array([0.2, 0.8])), 1),
        "linear-svc": (LinearSVC(class_weight={False: 2.0, True: 1.0}), 4),
        "linear-svc-names": (LinearSVC(row_duals=True, class_weight="balanced"), 2),
        "linear-svr": (LinearSVR(epsilon=0.2), 1),
        "svc-rbf": (SVC(C=2.0), 2),
        "svc-poly": (SVC(kernel="poly", degree=2, coef0=1.0, gamma=0.5), 4),
        "svc-linear": (SVC(kernel="linear", decision_function_shape="ovo"), 2),
        "svc-precomputed": (SVC(kernel="precomputed"), 2),
        "svc-nystroem": (SVC(approximation="nystroem", n_components=20), 4),
        "svr-rbf": (SVR(C=2.0), 1),
        "svr-linear": (SVR(kernel="linear", epsilon=0.3), 1),
        "svr-precomputed": (SVR(kernel="precomputed"), 1),
        "svr-nystroem": (SVR(approximation="nystroem", n_components=20), 1),
        "semi-linear": (SemiSupervisedSVC(balance="constraint"), 3),
        "semi-rbf": (SemiSupervisedSVC(kernel="rbf"), 3),
        "semi-poly": (SemiSupervisedSVC(kernel="poly", degree=2, coef0=1), 3),
        "semi-graph": (SemiSupervisedSVC(kernel="graph", n_neighbors=4), 3),
        "semi-precomputed": (SemiSupervisedSVC(kernel="precomputed", refine=True), 3),
        "plane-lad": (LADRegressor(init="kmeans"), 1),
        "plane-svc": (LinearSVC(init="kmeans"), 2),
        "plane-semi": (SemiSupervisedSVC(), 3),
        "one-svr": (LinearSVR(epsilon=0.2), 1),
        "outliers": (LinearOneClassSVM(nu=0.2), 1),
        "piecewise": (PiecewiseLinearModel(kinks=[0.0, 2.0], slopes=[-1.0, 4.0, 9.0], quadratic=np.eye(3)), 1),
        "cv-svc": (LinearSVCCV(Cs=[0.1, 1.0], cv=3), 2),
        "cv-quantile": (QuantileRegressorCV(quantile=0.3, alphas=[0.1, 0.0], cv=3), 1),
    }


NAMES = list(unfitted())


def rows(name: str):
    """The rows that a model is fitted on; names say where it has fewer than three features."""
    X, *_ = data()
    if name == "outliers":
        return X + 4.0
    if "precomputed" in name:
        return X @ X.T
    return X[:, :2] if name.startswith("plane") else X[:, :1] if name.startswith("one-") else X


def fitted(name: str):
    """A fitted model and rows to predict."""
    model, target = unfitted()[name]
    X, (_, y, names, partly) = rows(name), data()
    return model.fit(X, [y, names, partly, y > 0][target - 1]), X


def fitted_sparse(name: str):
    """The same, fitted on a sparse matrix."""
    model, target = unfitted()[name]
    X, y, names, partly = data()
    X = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    return model.fit(X, [y, names, partly, y > 0][target - 1]), X
