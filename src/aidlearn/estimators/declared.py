"""Every parameter of every estimator, declared once (see :mod:`aidlearn.estimators.parameters`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from aidlearn.estimators.parameters import parameter, parameters

SOLVER = "Solver of the aggregated problems: {choices}."
INIT = "Initial clusters: {choices}."
TUBE = "Half width of the tube in which errors are free."

# Groups


@parameters
class FitParameters:
    """Accuracy, limits and observers of a fit.

    Parameters
    ----------
    tol : float
        Certified relative gap at which to stop; 0 asks for a verified optimum.
    max_iter : int
        Limit on iterations (aggregated problems solved).
    time_limit : float
        Seconds for the whole fit, after which the best solution so far is returned. Several models share them. Checking
        the rows and evaluating a model may take longer.
    n_jobs : int
        Threads; by default every core that the process may use (one inside a worker of joblib). Results do not depend
        on it.
    random_state : int
        Seed of the random numbers of a fit.
    verbose : int
        1 logs every iteration.
    callbacks : callable or list of callables
        Called with each :class:`~aidlearn.Iteration`; a true return value stops the fit. A method ``on_pass`` of a
        callback is called with a :class:`~aidlearn.PassProgress` after every chunk of the data.
    checkpoint : path
        File that the fit is saved to after every iteration, and continued from if it exists. Each of several models
        (quantiles, classes) has its own file, with a number appended.
    """

    tol: float = parameter(1e-4)
    max_iter: int | None = parameter(100)
    time_limit: float | None = parameter(None)
    n_jobs: int | None = parameter(None)
    random_state: Any = parameter(0)
    verbose: int = parameter(0)
    callbacks: Any = parameter(None)
    checkpoint: str | Path | None = parameter(
        None, "Save the fit here after every iteration, and continue from it if it exists."
    )


@parameters
class TableParameters:
    """How the columns of a table become columns of X.

    Parameters
    ----------
    categorical_features : "from_dtype", list, mask, dict or None
        Columns of a table that are factors: those of texts, categories and truth values, or exactly the named ones; a
        dict gives their reference levels (None: the first in the order of texts). A factor has one coefficient for each
        level, called ``origin[LAS]``; with an intercept its reference level has none.
    missing : {"error", "drop", "level"}
        How to treat missing cells: refuse the table, leave out their rows (``n_dropped_`` counts them), or give those
        of factors a level of their own.
    unknown : {"error", "reference"}
        How to treat a level that the fit has not seen: refuse the prediction, or take it for the reference level.
    """

    categorical_features: Any = parameter("from_dtype")
    missing: str = parameter(
        "error",
        "Missing cells: {choices}: refuse, leave out their rows, or a level of their own in factors.",
        ("error", "drop", "level"),
    )
    unknown: str = parameter(
        "error",
        "Levels that the fit has not seen: {choices}: refuse, or take for the reference level.",
        ("error", "reference"),
    )


@parameters
class StandardizeParameters:
    """Columns in units of their spread.

    Parameters
    ----------
    standardize : bool
        Divide every column by its standard deviation, without a copy. Coefficients come back in the units of the data;
        objective, bound and penalty are those of the scaled problem.
    """

    standardize: bool = parameter(False, "Scale columns to standard deviation 1; coefficients are unscaled.")


@parameters
class InterceptParameters:
    """An intercept, which is not penalised.

    Parameters
    ----------
    fit_intercept : bool
        Whether the model has an intercept.
    """

    fit_intercept: bool = parameter(True, "Fit without an intercept.")


@parameters
class ClusterParameters:
    """How the linear models cluster rows and solve the aggregated problems.

    Parameters
    ----------
    init : {"auto", "band", "kmeans", "birch"}, array of labels or callable
        Initial clusters. "band" sharpens a start on all rows; "kmeans" is the paper's procedure.
    initial_rate : float
        Initial clusters over rows (r^0).
    solver : {"auto", "interior-point", "highs"}
        Solver of the aggregated problems: our interior point, or HiGHS.
    """

    init: Any = parameter("auto", INIT, ("auto", "band", "kmeans", "birch"))
    initial_rate: float | None = parameter(None)
    solver: str = parameter("auto", SOLVER, ("auto", "interior-point", "highs"))


@parameters
class InteriorPointParameters:
    """The solver of models with a quadratic term, which are no linear programs.

    Parameters
    ----------
    solver : {"auto", "interior-point"}
        Solver of the aggregated problems: our interior point.
    """

    solver: str = parameter("auto", SOLVER, ("auto", "interior-point"))


@parameters
class ConstraintParameters:
    """Where the coefficients may lie.

    Parameters
    ----------
    positive : bool
        Keep the coefficients (not the intercept) at 0 or above.
    bounds : scipy.optimize.Bounds
        Bounds on the coefficients, in the units of the data: one number for all, or one for each. With one more, the
        last is that of the intercept.
    constraints : scipy.optimize.LinearConstraint or list of them
        ``lb <= A @ coef <= ub``; equal numbers make an equation. With one column more than there are coefficients, the
        last is that of the intercept. Each of several models (classes, quantiles) meets bounds and constraints.
    """

    positive: bool = parameter(False, "Keep the coefficients (not the intercept) at 0 or above.")
    bounds: Any = parameter(None)
    constraints: Any = parameter(None)


@parameters
class WarmStartParameters:
    """Starts from the solution of an earlier fit.

    Parameters
    ----------
    warm_start : bool
        Start a further fit from ``coef_`` and ``intercept_`` (with init="auto" or "band", if the shapes match). The
        certificate does not depend on it.
    """

    warm_start: bool = parameter(False)


@parameters
class LinearParameters(
    ConstraintParameters, WarmStartParameters, InterceptParameters, ClusterParameters, TableParameters, FitParameters
):
    """What the linear models share."""


@parameters
class PenaltyParameters:
    """An elastic net on the coefficients.

    Parameters
    ----------
    alpha : float
        Penalty ``alpha * sum(sample_weight) * (l1_ratio |coef|_1 + (1 - l1_ratio) / 2 |coef|^2)``; with the default
        ``l1_ratio`` that of scikit-learn's QuantileRegressor.
    l1_ratio : float
        Share of the L1 penalty, from 0 (ridge) to 1 (L1 only); between them it is an elastic net.
    """

    alpha: float = parameter(0.0, "L1 penalty on the coefficients, scikit-learn's meaning.")
    l1_ratio: float = parameter(1.0, "Share of the L1 penalty in alpha: below 1 an elastic net, 0 is ridge.")


@parameters
class LossWeightParameters:
    """The weight of the losses against the quadratic term.

    Parameters
    ----------
    C : float
        Weight of the losses.
    """

    C: float = parameter(1.0, "Weight of the losses.")


@parameters
class TubeParameters:
    """A tube around the model.

    Parameters
    ----------
    epsilon : float
        Half width of the tube in which errors are free.
    """

    epsilon: float = parameter(0.0, TUBE)


@parameters
class ClassWeightParameters:
    """Weights of classes.

    Parameters
    ----------
    class_weight : dict or "balanced"
        Factors on the weights of the rows of each class.
    """

    class_weight: Any = parameter(None, "balanced, or factors as in yes=2,no=1.", ("balanced",))


@parameters
class CrossValidationParameters:
    """Folds, their scores, and what follows them.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test)
        Folds, as in scikit-learn. They are weights of the rows: nothing is copied.
    scoring : str or callable
        Score of the test rows.
    refit : bool
        Fit all rows with the best penalty. Otherwise the coefficients are the means of those of the folds, without a
        certificate.
    """

    cv: Any = parameter(5)
    scoring: Any = parameter(None)
    refit: bool = parameter(True)


# Linear models


@parameters
class LADParameters(PenaltyParameters, LinearParameters, StandardizeParameters):
    """Parameters of :class:`~aidlearn.LADRegressor`."""


@parameters
class QuantileParameters(PenaltyParameters, LinearParameters, StandardizeParameters):
    """Parameters of :class:`~aidlearn.QuantileRegressor`.

    Parameters
    ----------
    quantile : float or sequence of floats
        Each strictly between 0 and 1. With several, ``coef_`` has one row and ``predict`` one column for each, and
        attributes such as ``gap_`` one element.
    rearrange : bool
        Sort the predictions of several quantiles in each row, so that they never cross (Chernozhukov, Fernandez-Val and
        Galichon 2010).
    """

    quantile: Any = parameter(0.5, "One quantile or several, as in 0.1,0.5 or 0.01:0.99:0.01.")
    rearrange: bool = parameter(False)


@parameters
class RowDualParameters:
    """The procedure and the solvers of the linear support vector classifier.

    Parameters
    ----------
    row_duals : bool
        Split clusters below, on and above the margin (the paper's dual procedure), so that ``dual_coef_`` satisfies the
        optimality conditions row by row and not only in sum.
    solver : {"auto", "interior-point", "libsvm", "liblinear"}
        Solver of the aggregated problems: our interior point, libsvm or liblinear.
    """

    REFUSED: ClassVar[dict[str, str]] = {
        "dual": "aidlearn chooses its solvers itself. For duals that are optimal row by row, use row_duals=True."
    }
    row_duals: bool = parameter(False)
    solver: str = parameter("auto", SOLVER, ("auto", "interior-point", "libsvm", "liblinear"))


@parameters
class LinearSVCParameters(
    LossWeightParameters, RowDualParameters, ClassWeightParameters, LinearParameters, StandardizeParameters
):
    """Parameters of :class:`~aidlearn.LinearSVC`."""


@parameters
class LinearSVRParameters(
    TubeParameters, LossWeightParameters, InteriorPointParameters, LinearParameters, StandardizeParameters
):
    """Parameters of :class:`~aidlearn.LinearSVR`."""


@parameters
class PiecewiseParameters(LinearParameters):
    """Parameters of :class:`~aidlearn.PiecewiseLinearModel`.

    Parameters
    ----------
    kinks : sequence of floats
        Where the slope of the loss changes, ascending.
    slopes : sequence of floats
        Slopes of the loss left of the first kink, between kinks, and right of the last: one more than kinks, ascending,
        the first at most 0 and the last at least 0. The smallest value of the loss is 0.
    quadratic : float, array of shape (n_features,) or (n_features, n_features)
        P, or its diagonal; symmetric and positive semidefinite. The intercept has no quadratic term.
    linear : array of shape (n_features,) or (n_features + 1,)
        q; with one more number, the last is that of the intercept. Optima may be negative then, and a problem whose
        objective falls without end is refused in a sentence.
    l1 : float
        Weight of the L1 penalty on the coefficients.
    """

    kinks: Any = parameter((0.0,), "Margins at which the slope of the loss changes, as in 0,10.")
    slopes: Any = parameter(
        (-1.0, 1.0), "Slopes of the loss between its kinks, one more than kinks, as in --slopes=-1,4,9."
    )
    quadratic: Any = parameter(None)
    linear: Any = parameter(None)
    l1: float = parameter(0.0, "Weight of the L1 penalty on the coefficients.")


@parameters
class LinearOneClassParameters(
    InteriorPointParameters, ClusterParameters, TableParameters, StandardizeParameters, FitParameters
):
    """Parameters of :class:`~aidlearn.LinearOneClassSVM`.

    Parameters
    ----------
    nu : float
        Upper bound on the share of outliers, lower bound on the share of support vectors; above 0, up to 1.
    """

    nu: float = parameter(0.5, "Largest share of the rows that may be outliers; above 0, up to 1.")


@parameters
class LinearSVCCVParameters(
    CrossValidationParameters, ClassWeightParameters, InterceptParameters, TableParameters, FitParameters
):
    """Parameters of :class:`~aidlearn.LinearSVCCV`.

    Parameters
    ----------
    Cs : int or sequence of floats
        Values of C, or how many on a logarithmic scale from 1e-4 to 1e4.
    """

    Cs: Any = parameter(10)


@parameters
class QuantileCVParameters(CrossValidationParameters, InterceptParameters, TableParameters, FitParameters):
    """Parameters of :class:`~aidlearn.QuantileRegressorCV`.

    Parameters
    ----------
    quantile : float
        Strictly between 0 and 1.
    alphas : int or sequence of floats
        Penalties, or how many on a logarithmic scale down from the smallest that leaves all slopes 0.
    """

    quantile: float = parameter(0.5, "One quantile, strictly between 0 and 1.")
    alphas: Any = parameter(10)
