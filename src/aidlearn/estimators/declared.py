"""Every parameter of every estimator, declared once: constructors, documentation and the command line read it here.

A group of parameters is a class. A model's parameters are a class that derives from its groups; the estimator derives
from that class and so has its constructor. Nothing here imports NumPy, so that the command line's help costs nothing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import Parameter as Argument
from inspect import Signature
from pathlib import Path
from typing import Any, ClassVar, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass(frozen=True)
class Declaration:
    """What is known of a parameter beside its type and its default."""

    kind: str
    """Type of the value, as the documentation states it."""
    text: str
    help: str = ""
    """Text of the command line's option; without one there is no option."""
    choices: tuple[str, ...] = ()
    """Values that are names, the default first."""


def parameter(default: Any, kind: str, text: str = "", help: str = "", choices: tuple[str, ...] = ()) -> Any:
    """A parameter with its default, its type and its description."""
    return field(default=default, metadata={"declared": Declaration(kind, text, help, choices)})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
def parameters(cls: type[T]) -> type[T]:
    """Give a class a constructor with its parameters and those of its groups, its own first."""
    made = dataclass(kw_only=True, repr=False, eq=False)(cls)
    arguments = [Argument("self", Argument.POSITIONAL_OR_KEYWORD)]
    for name, known in declared(made):
        arguments.append(Argument(name, Argument.KEYWORD_ONLY, default=known.default, annotation=known.annotation))
    set_all, refused = made.__init__, getattr(made, "REFUSED", {})

    @wraps(set_all)
    def construct(self: Any, **given: Any) -> None:
        for name in refused.keys() & given.keys():
            raise TypeError(f"{type(self).__name__} has no parameter {name}: {refused[name]}")
        set_all(self, **given)

    construct.__signature__ = Signature(arguments)  # type: ignore[attr-defined]  # what inspect reads
    made.__init__ = construct  # type: ignore[method-assign]  # with the signature above
    return made


@dataclass(frozen=True)
class Declared:
    """A parameter of a class: its default, and what is declared of it."""

    default: Any
    annotation: Any
    declaration: Declaration


def declared(cls: type) -> Iterator[tuple[str, Declared]]:
    """The parameters of a class, its own first and then those of its groups in their order."""
    known = {one.name: one for one in fields(cls)}
    seen: set[str] = set()
    for group in cls.__mro__:
        for name in vars(group).get("__annotations__", {}):
            if name in known and name not in seen:
                seen.add(name)
                one = known[name]
                yield name, Declared(one.default, one.type, one.metadata["declared"])


def documented(cls: type) -> str:
    """The parameters of a class as a section of a numpydoc docstring."""
    lines = []
    for name, one in declared(cls):
        default = "optional" if one.default is None else f"default={_text(one.default)}"
        lines.append(f"    {name} : {one.declaration.kind}, {default}")
        lines += textwrap.wrap(one.declaration.text, 120, initial_indent=8 * " ", subsequent_indent=8 * " ")
    return "\n" + "\n".join(lines)


def _text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


# Groups


@parameters
class FitParameters:
    """What every fit has: its accuracy, its limits, and who watches it."""

    tol: float = parameter(1e-4, "float", "Certified relative gap at which to stop; 0 asks for a verified optimum.")
    max_iter: int | None = parameter(100, "int", "Limit on iterations (aggregated problems solved).")
    time_limit: float | None = parameter(
        None,
        "float",
        "Seconds for the whole fit, after which the best solution so far is returned. Several models share them. "
        "Checking the rows and evaluating a model may take longer.",
    )
    n_jobs: int | None = parameter(
        None,
        "int",
        "Threads; by default every core that the process may use (one inside a worker of joblib). Results do not "
        "depend on it.",
    )
    random_state: Any = parameter(0, "int")
    verbose: int = parameter(0, "int", "1 logs every iteration.")
    callbacks: Any = parameter(
        None,
        "callable or list of callables",
        "Called with each :class:`~aidlearn.Iteration`; a true return value stops the fit. A method ``on_pass`` of a "
        "callback is called with a :class:`~aidlearn.PassProgress` after every chunk of the data.",
    )
    checkpoint: str | Path | None = parameter(
        None,
        "path",
        "File that the fit is saved to after every iteration, and continued from if it exists. Each of several models "
        "(quantiles, classes) has its own file, with a number appended.",
        help="Save the fit here after every iteration, and continue from it if it exists.",
    )


@parameters
class TableParameters:
    """How the columns of a table become those of the rows."""

    categorical_features: Any = parameter(
        "from_dtype",
        '"from_dtype", list, mask, dict or None',
        "Columns of a table that are factors: those of texts, categories and truth values, or exactly the named ones; "
        "a dict gives their reference levels (None: the first in the order of texts). A factor has one coefficient for "
        "each level, called ``origin[LAS]``; with an intercept its reference level has none.",
    )
    missing: str = parameter(
        "error",
        '{"error", "drop", "level"}',
        "What missing cells do: refuse the table, leave out their rows (``n_dropped_`` counts them), or, in factors, "
        "form a level of their own.",
        help="Missing cells: {choices}: refuse, leave out their rows, or a level of their own in factors.",
        choices=("error", "drop", "level"),
    )
    unknown: str = parameter(
        "error",
        '{"error", "reference"}',
        "What a level does that the fit has not seen: refuse the prediction, or count as the reference level.",
        help="Levels that the fit has not seen: {choices}: refuse, or take for the reference level.",
        choices=("error", "reference"),
    )


@parameters
class StandardizeParameters:
    """Columns in units of their spread."""

    standardize: bool = parameter(
        False,
        "bool",
        "Divide every column by its standard deviation, without a copy. Coefficients come back in the units of the "
        "data; objective, bound and penalty are those of the scaled problem.",
        help="Scale columns to standard deviation 1; coefficients are unscaled.",
    )


@parameters
class InterceptParameters:
    """An intercept, which no penalty concerns."""

    fit_intercept: bool = parameter(True, "bool", help="Fit without an intercept.")


@parameters
class ClusterParameters:
    """How the linear models cluster rows and solve the aggregated problems."""

    init: Any = parameter(
        "auto",
        '{"auto", "band", "kmeans", "birch"}, array of labels or callable',
        'Initial clusters. "band" sharpens a start on all rows; "kmeans" is the paper\'s procedure.',
        help="Initial clusters: {choices}.",
        choices=("auto", "band", "kmeans", "birch"),
    )
    initial_rate: float | None = parameter(None, "float", "Initial clusters over rows (r^0).")
    solver: str = parameter(
        "auto",
        '{"auto", "interior-point", "highs"}',
        "Solver of the aggregated problems: our interior point, or HiGHS.",
        help="Solver of the aggregated problems: {choices}.",
        choices=("auto", "interior-point", "highs"),
    )


@parameters
class ConstraintParameters:
    """Where the coefficients may lie."""

    positive: bool = parameter(
        False,
        "bool",
        "Keep the coefficients (not the intercept) at 0 or above.",
        help="Keep the coefficients (not the intercept) at 0 or above.",
    )
    bounds: Any = parameter(
        None,
        "scipy.optimize.Bounds",
        "Bounds on the coefficients, in the units of the data: one number for all, or one for each. With one more, the "
        "last is that of the intercept.",
    )
    constraints: Any = parameter(
        None,
        "scipy.optimize.LinearConstraint or list of them",
        "``lb <= A @ coef <= ub``; equal numbers make an equation. With one column more than there are coefficients, "
        "the last is that of the intercept. Each of several models (classes, quantiles) meets bounds and constraints.",
    )


@parameters
class WarmStartParameters:
    """Starts from the solution of an earlier fit."""

    warm_start: bool = parameter(
        False,
        "bool",
        'Start a further fit from ``coef_`` and ``intercept_`` (with init="auto" or "band", if the shapes match). The '
        "certificate does not depend on it.",
    )


@parameters
class LinearParameters(
    ConstraintParameters, WarmStartParameters, InterceptParameters, ClusterParameters, TableParameters, FitParameters
):
    """What the linear models share."""


@parameters
class PenaltyParameters:
    """An elastic net on the coefficients."""

    alpha: float = parameter(
        0.0,
        "float",
        "Penalty ``alpha * sum(sample_weight) * (l1_ratio |coef|_1 + (1 - l1_ratio) / 2 |coef|^2)``; with the default "
        "``l1_ratio`` that of scikit-learn's QuantileRegressor.",
        help="L1 penalty on the coefficients, scikit-learn's meaning.",
    )
    l1_ratio: float = parameter(
        1.0,
        "float",
        "Share of the L1 penalty, from 0 (ridge) to 1 (L1 only); between them it is an elastic net.",
        help="Share of the L1 penalty in alpha: below 1 an elastic net, 0 is ridge.",
    )


@parameters
class ClassWeightParameters:
    """Weights of classes."""

    class_weight: Any = parameter(
        None,
        'dict or "balanced"',
        "Factors on the weights of the rows of each class.",
        help="balanced, or factors as in yes=2,no=1.",
        choices=("balanced",),
    )


@parameters
class KernelParameters:
    """The kernel and its constants."""

    kernel: Any = parameter(
        "rbf",
        '{"rbf", "poly", "linear", "precomputed"} or callable',
        "A callable takes two arrays of rows and returns their kernel matrix. It must be positive semidefinite; "
        '"sigmoid" is not.',
        help="Kernel: {choices}.",
        choices=("rbf", "poly", "linear"),
    )
    gamma: Any = parameter(
        "scale",
        '{"scale", "auto"} or float',
        "Constant of the kernels rbf and poly, as in scikit-learn.",
        help="Constant of the kernels rbf and poly: scale, auto or a number.",
    )
    degree: int = parameter(3, "int", "Degree of the kernel poly.", help="Degree of the kernel poly.")
    coef0: float = parameter(
        0.0, "float", "Constant of the kernel poly; not negative.", help="Constant of the kernel poly."
    )


@parameters
class MachineParameters(TableParameters, FitParameters):
    """What the kernel machines share."""

    approximation: str | None = parameter(
        None,
        '{"nystroem"}',
        '"nystroem" solves the problem of the kernel\'s approximation by ``n_components`` rows with the linear '
        "machinery, for millions of rows. The certificate is then one for the approximated kernel (see "
        "``certified_kernel_``).",
        help="Approximate the kernel by this many rows.",
    )
    n_components: int = parameter(300, "int", "Rows that represent the kernel if it is approximated.")
    memory_limit: float | str = parameter(
        "2GB",
        "float or str",
        'Memory for kernel values, in bytes or as in "500MB".',
        help="Memory for kernel values, as in 500MB.",
    )
    init: Any = parameter(
        "auto",
        '{"auto", "band", "kmeans", "kernel-kmeans", "rows"}, array of labels or callable',
        'Initial clusters: "band" around a linear machine on Nystroem features; "kmeans" (distances to a sample\'s '
        'hyperplane) and "kernel-kmeans" are the paper\'s procedures; "rows" does without clusters. "auto" is "rows" '
        'for few rows or few support vectors, else "band".',
        help="Initial clusters: {choices}.",
        choices=("auto", "band", "kmeans", "kernel-kmeans", "rows"),
    )
    initial_rate: float | None = parameter(None, "float", "Initial clusters over rows (r^0).")
    solver: str = parameter(
        "auto",
        '{"auto", "smo"}',
        "Solver of the aggregated problems: our compiled SMO.",
        help="Solver of the aggregated problems: {choices}.",
        choices=("auto", "smo"),
    )


@parameters
class CrossValidationParameters:
    """Folds, their scores, and what follows them."""

    cv: Any = parameter(
        5,
        "int, splitter or iterable of (train, test)",
        "Folds, as in scikit-learn. They are weights of the rows: nothing is copied.",
    )
    scoring: Any = parameter(None, "str or callable", "Score of the test rows.")
    refit: bool = parameter(
        True,
        "bool",
        "Fit all rows with the best penalty. Otherwise the coefficients are the means of those of the folds, without a "
        "certificate.",
    )


# Models


@parameters
class LADParameters(PenaltyParameters, LinearParameters, StandardizeParameters):
    """Parameters of :class:`~aidlearn.LADRegressor`."""


@parameters
class QuantileParameters(PenaltyParameters, LinearParameters, StandardizeParameters):
    """Parameters of :class:`~aidlearn.QuantileRegressor`."""

    quantile: Any = parameter(
        0.5,
        "float or sequence of floats",
        "Each strictly between 0 and 1. With several, ``coef_`` has one row and ``predict`` one column for each, and "
        "attributes such as ``gap_`` one element.",
        help="One quantile or several, as in 0.1,0.5 or 0.01:0.99:0.01.",
    )
    rearrange: bool = parameter(
        False,
        "bool",
        "Sort the predictions of several quantiles in each row, so that they never cross (Chernozhukov, Fernandez-Val "
        "and Galichon 2010).",
    )


@parameters
class LinearSVCParameters(ClassWeightParameters, LinearParameters, StandardizeParameters):
    """Parameters of :class:`~aidlearn.LinearSVC`."""

    REFUSED: ClassVar[dict[str, str]] = {
        "dual": "aidlearn chooses its solvers itself. For duals that are optimal row by row, use row_duals=True."
    }
    C: float = parameter(1.0, "float", "Weight of the losses.", help="Weight of the losses.")
    row_duals: bool = parameter(
        False,
        "bool",
        "Split clusters below, on and above the margin (the paper's dual procedure), so that ``dual_coef_`` satisfies "
        "the optimality conditions row by row and not only in sum.",
    )
    solver: str = parameter(
        "auto",
        '{"auto", "interior-point", "libsvm", "liblinear"}',
        "Solver of the aggregated problems: our interior point, libsvm or liblinear.",
        help="Solver of the aggregated problems: {choices}.",
        choices=("auto", "interior-point", "libsvm", "liblinear"),
    )


@parameters
class LinearSVRParameters(LinearParameters, StandardizeParameters):
    """Parameters of :class:`~aidlearn.LinearSVR`."""

    epsilon: float = parameter(
        0.0,
        "float",
        "Half width of the tube in which errors are free.",
        help="Half width of the tube in which errors are free.",
    )
    C: float = parameter(1.0, "float", "Weight of the losses.", help="Weight of the losses.")
    solver: str = parameter(
        "auto",
        '{"auto", "interior-point"}',
        "Solver of the aggregated problems: our interior point.",
        help="Solver of the aggregated problems: {choices}.",
        choices=("auto", "interior-point"),
    )


@parameters
class PiecewiseParameters(LinearParameters):
    """Parameters of :class:`~aidlearn.PiecewiseLinearModel`."""

    kinks: Any = parameter(
        (0.0,),
        "sequence of floats",
        "Where the slope of the loss changes, ascending.",
        help="Margins at which the slope of the loss changes, as in 0,10.",
    )
    slopes: Any = parameter(
        (-1.0, 1.0),
        "sequence of floats",
        "Slopes of the loss left of the first kink, between kinks, and right of the last: one more than kinks, "
        "ascending, the first at most 0 and the last at least 0. The smallest value of the loss is 0.",
        help="Slopes of the loss between its kinks, one more than kinks, as in --slopes=-1,4,9.",
    )
    quadratic: Any = parameter(
        None,
        "float, array of shape (n_features,) or (n_features, n_features)",
        "P, or its diagonal; symmetric and positive semidefinite. The intercept has no quadratic term.",
    )
    linear: Any = parameter(
        None,
        "array of shape (n_features,) or (n_features + 1,)",
        "q; with one more number, the last is that of the intercept. Optima may be negative then, and a problem whose "
        "objective falls without end is refused in a sentence.",
    )
    l1: float = parameter(
        0.0,
        "float",
        "Weight of the L1 penalty on the coefficients.",
        help="Weight of the L1 penalty on the coefficients.",
    )


@parameters
class LinearOneClassParameters(ClusterParameters, TableParameters, StandardizeParameters, FitParameters):
    """Parameters of :class:`~aidlearn.LinearOneClassSVM`."""

    nu: float = parameter(
        0.5,
        "float",
        "Upper bound on the share of outliers, lower bound on the share of support vectors; above 0, up to 1.",
        help="Largest share of the rows that may be outliers; above 0, up to 1.",
    )
    solver: str = parameter(
        "auto",
        '{"auto", "interior-point"}',
        "Solver of the aggregated problems: our interior point.",
        help="Solver of the aggregated problems: {choices}.",
        choices=("auto", "interior-point"),
    )


@parameters
class SVCParameters(KernelParameters, ClassWeightParameters, MachineParameters):
    """Parameters of :class:`~aidlearn.SVC`."""

    C: float = parameter(1.0, "float", "Weight of the losses.", help="Weight of the losses.")
    decision_function_shape: str = parameter(
        "ovr", '{"ovr", "ovo"}', "Shape of :meth:`decision_function` for more than two classes."
    )
    solver: str = parameter(
        "auto",
        '{"auto", "smo", "libsvm"}',
        'Solver of the aggregated problems: our compiled SMO, or libsvm; "auto" is libsvm for few rows.',
        help="Solver of the aggregated problems: {choices}.",
        choices=("auto", "smo", "libsvm"),
    )


@parameters
class SVRParameters(KernelParameters, MachineParameters):
    """Parameters of :class:`~aidlearn.SVR`."""

    C: float = parameter(1.0, "float", "Weight of the losses.", help="Weight of the losses.")
    epsilon: float = parameter(
        0.1,
        "float",
        "Half width of the tube in which errors are free.",
        help="Half width of the tube in which errors are free.",
    )


@parameters
class SemiSupervisedParameters(KernelParameters, TableParameters, FitParameters):
    """Parameters of :class:`~aidlearn.SemiSupervisedSVC`."""

    C: float = parameter(
        1.0,
        "float",
        "Weight of the losses of labelled rows (M_l in the paper).",
        help="Weight of the losses of labelled rows.",
    )
    C_unlabeled: float = parameter(
        1.0,
        "float",
        "Weight of the losses of unlabelled rows (M_u); 0 gives the supervised machine.",
        help="Weight of the losses of rows without a label.",
    )
    balance: str | None = parameter(
        None,
        '{"constraint", "cost"}',
        '"constraint": the mean decision value of the unlabelled rows is the mean label of the labelled rows, which '
        'excludes that all unlabelled rows end on one side. "cost": larger weights for the smaller labelled class.',
        help="constraint: rows without a label are split as the labelled ones; cost: weigh classes alike.",
        choices=("constraint", "cost"),
    )
    kernel: Any = parameter(
        "linear",
        '{"linear", "rbf", "poly", "precomputed", "graph", "auto"} or callable',
        '"graph" is the heat kernel of a nearest-neighbour graph of all training rows. "auto" chooses among some sixty '
        "kernels, and with the kernel also C, C_unlabeled and balance, whatever is given for them: those that predict "
        "labelled rows best that are left out (see ``choice_``).",
        help="Kernel: {choices}.",
        choices=("linear", "rbf", "poly", "graph", "auto"),
    )
    degree: float = parameter(3, "int", "Degree of the kernel poly.", help="Degree of the kernel poly.")  # type: ignore[assignment]  # read as a number
    n_components: int | None = parameter(
        None,
        "int",
        "Rows that represent the kernel (Nystroem); by default all of up to 3,000 rows, 1,000 of more.",
    )
    n_neighbors: int = parameter(10, "int", "Neighbours of a row in the graph kernel.")
    diffusion: float = parameter(30.0, "float", "Diffusion time of the graph kernel.")
    certify: bool = parameter(
        False,
        "bool",
        "Bound the original problem by branch and bound over three states of each cluster, and continue until that "
        "bound meets the objective. Feasible for small or low-dimensional data.",
        help="Prove the global optimum; for small data.",
    )
    refine: bool = parameter(
        False,
        "bool",
        "Local search on the true objective after AID; never worse than its start.",
        help="Local search on the true objective at the end.",
    )
    n_init: int = parameter(1, "int", "Runs from different initial clusters; the best is kept.")
    node_limit: int | None = parameter(
        None,
        "int",
        "Nodes of the branch and bound of one aggregated problem; by default 30 to 2,000, fewer for more clusters.",
    )
    max_iter: int | None = parameter(
        None,
        "int",
        "Limit on iterations: 1 and 5 are AID1 and AID5 of the paper. By default 5, or 1,000 with ``certify``.",
    )
    init: Any = parameter(
        "auto",
        '{"auto", "kmeans"}, array of labels or callable',
        'Initial clusters of the unlabelled rows: "auto" is k-means++ with ten Lloyd iterations, "kmeans" one '
        "iteration from random rows as in the paper. A callable gets the features and the targets (1, -1, and 0 for "
        "unlabelled rows).",
        help="Initial clusters: {choices}.",
        choices=("auto", "kmeans"),
    )
    initial_rate: float | None = parameter(
        None,
        "float",
        "Initial unlabelled clusters over rows; by default 0.01 (0.0001 above 10,000 rows), at least 10 clusters.",
    )
    solver: str = parameter(
        "auto",
        '{"auto", "miqp"}',
        'Solver of the aggregated problems. "auto" is our branch and bound; its nodes are solved by DAQP if it is '
        'installed (``pip install aidlearn[s3vm]``), else by our interior point. "miqp" is the paper\'s mixed-integer '
        "program, solved by SCIP (``pip install aidlearn[miqp]``) without a limit on nodes: give a ``time_limit``.",
    )


@parameters
class LinearSVCCVParameters(
    CrossValidationParameters, ClassWeightParameters, InterceptParameters, TableParameters, FitParameters
):
    """Parameters of :class:`~aidlearn.LinearSVCCV`."""

    Cs: Any = parameter(
        10, "int or sequence of floats", "Values of C, or how many on a logarithmic scale from 1e-4 to 1e4."
    )


@parameters
class QuantileCVParameters(CrossValidationParameters, InterceptParameters, TableParameters, FitParameters):
    """Parameters of :class:`~aidlearn.QuantileRegressorCV`."""

    quantile: float = parameter(
        0.5, "float", "Strictly between 0 and 1.", help="One quantile, strictly between 0 and 1."
    )
    alphas: Any = parameter(
        10,
        "int or sequence of floats",
        "Penalties, or how many on a logarithmic scale down from the smallest that leaves all slopes 0.",
    )
