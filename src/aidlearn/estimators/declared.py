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
        Certified relative gap at which to stop; 0 requests a verified optimum.
    max_iter : int
        Limit on iterations (aggregated problems solved).
    time_limit : float
        Time limit of the whole fit in seconds, which several models share; the best solution so far is then returned.
        Checking the rows and evaluating a model may exceed it.
    n_jobs : int
        Number of threads; by default every core that the process may use (one inside a joblib worker). Results do not
        depend on it.
    random_state : int
        Seed of the random numbers of a fit.
    verbose : int
        Verbosity; 1 logs every iteration.
    callbacks : callable or list of callables
        Functions called with each :class:`~aidlearn.Iteration`; a true return value stops the fit. A method
        ``on_pass`` of a callback is called with a :class:`~aidlearn.PassProgress` after every chunk of the data.
    checkpoint : path
        File to which the fit is saved after every iteration, and from which it continues if the file exists. Each of
        several models (quantiles, classes) has its own file, with a number appended.
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
    """Encoding of the columns of a table as columns of X.

    Parameters
    ----------
    categorical_features : "from_dtype", list, mask, dict or None
        Columns of a table that are factors: those of strings, categories and booleans, or exactly the named ones; a
        dict gives their reference levels (None: the first in string order). A factor has one coefficient for each
        level, named as in ``origin[LAS]``; with an intercept its reference level has none.
    missing : {"error", "drop", "level"}
        Treatment of missing cells: refuse the table, drop their rows (``n_dropped_`` counts them), or give missing
        cells of factors a level of their own.
    unknown : {"error", "reference"}
        Treatment of factor levels that the fit has not seen: refuse the prediction, or use the reference level.
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
    """Scaling of the columns to unit standard deviation.

    Parameters
    ----------
    standardize : bool
        Divide every column by its standard deviation, without copying the data. Coefficients are returned in the units
        of the data; objective, bound and penalty are those of the scaled problem.
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
    """Initial clusters of the linear models and the solver of their aggregated problems.

    Parameters
    ----------
    init : {"auto", "band", "kmeans", "birch"}, array of labels or callable
        Initial clusters. "band" sharpens a start on all rows; "kmeans" is the paper's procedure.
    initial_rate : float
        Ratio of initial clusters to rows (r^0).
    solver : {"auto", "interior-point", "highs"}
        Solver of the aggregated problems: our interior point, or HiGHS.
    """

    init: Any = parameter("auto", INIT, ("auto", "band", "kmeans", "birch"))
    initial_rate: float | None = parameter(None)
    solver: str = parameter("auto", SOLVER, ("auto", "interior-point", "highs"))


@parameters
class InteriorPointParameters:
    """Solver of models with a quadratic term, which are not linear programs.

    Parameters
    ----------
    solver : {"auto", "interior-point"}
        Solver of the aggregated problems: our interior point.
    """

    solver: str = parameter("auto", SOLVER, ("auto", "interior-point"))


@parameters
class ConstraintParameters:
    """Constraints on the coefficients.

    Parameters
    ----------
    positive : bool
        Keep the coefficients (not the intercept) at 0 or above.
    bounds : scipy.optimize.Bounds
        Bounds on the coefficients, in the units of the data: one number for all, or one for each; an additional last
        number bounds the intercept.
    constraints : scipy.optimize.LinearConstraint or list of them
        Linear constraints ``lb <= A @ coef <= ub``; equal sides give an equality. An additional last column of A is
        that of the intercept. Each of several models (classes, quantiles) satisfies bounds and constraints.
    """

    positive: bool = parameter(False, "Keep the coefficients (not the intercept) at 0 or above.")
    bounds: Any = parameter(None)
    constraints: Any = parameter(None)


@parameters
class WarmStartParameters:
    """Warm start from an earlier fit.

    Parameters
    ----------
    warm_start : bool
        Start the next fit from ``coef_`` and ``intercept_`` (with init="auto" or "band", if the shapes match). The
        certificate does not depend on it.
    """

    warm_start: bool = parameter(False)


@parameters
class LinearParameters(
    ConstraintParameters, WarmStartParameters, InterceptParameters, ClusterParameters, TableParameters, FitParameters
):
    """Parameters that the linear models share."""


@parameters
class PenaltyParameters:
    """An elastic net on the coefficients.

    Parameters
    ----------
    alpha : float
        Penalty ``alpha * sum(sample_weight) * (l1_ratio |coef|_1 + (1 - l1_ratio) / 2 |coef|^2)``; the default
        ``l1_ratio`` gives the penalty of scikit-learn's QuantileRegressor.
    l1_ratio : float
        Share of the L1 penalty, from 0 (ridge) to 1 (L1 only); values between give an elastic net.
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
    """Folds, their scores, and the final fit.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test)
        Folds, as in scikit-learn. They act as weights of the rows, so no row is copied.
    scoring : str or callable
        Score of the test rows.
    refit : bool
        Refit all rows with the best penalty. Otherwise the coefficients are averaged over the folds, without a
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
        Quantiles, strictly between 0 and 1. With several, ``coef_`` has one row, ``predict`` one column and attributes
        such as ``gap_`` one element for each.
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
        Margins at which the slope of the loss changes, in ascending order.
    slopes : sequence of floats
        Slopes of the loss left of the first kink, between kinks, and right of the last: one more than kinks, ascending,
        the first at most 0 and the last at least 0. The smallest value of the loss is 0.
    quadratic : float, array of shape (n_features,) or (n_features, n_features)
        The matrix P, or its diagonal; symmetric and positive semidefinite. The intercept has no quadratic term.
    linear : array of shape (n_features,) or (n_features + 1,)
        The vector q; an additional last number is that of the intercept. Optima may then be negative, and a problem
        that is unbounded below raises :class:`~aidlearn.Unbounded`.
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
        Upper bound on the fraction of outliers, lower bound on the fraction of support vectors; above 0, up to 1.
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
        Values of C, or their number on a logarithmic scale from 1e-4 to 1e4.
    """

    Cs: Any = parameter(10)


@parameters
class QuantileCVParameters(CrossValidationParameters, InterceptParameters, TableParameters, FitParameters):
    """Parameters of :class:`~aidlearn.QuantileRegressorCV`.

    Parameters
    ----------
    quantile : float
        Quantile, strictly between 0 and 1.
    alphas : int or sequence of floats
        Penalties, or their number on a logarithmic scale down from the smallest at which all slopes are 0.
    """

    quantile: float = parameter(0.5, "One quantile, strictly between 0 and 1.")
    alphas: Any = parameter(10)
