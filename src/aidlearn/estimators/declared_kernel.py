"""Parameters of the kernel machines and of the semi-supervised SVM."""

from __future__ import annotations

from typing import Any

from aidlearn.estimators.declared import (
    INIT,
    SOLVER,
    TUBE,
    ClassWeightParameters,
    FitParameters,
    LossWeightParameters,
    TableParameters,
    TubeParameters,
)
from aidlearn.estimators.parameters import parameter, parameters

KERNEL = "Kernel: {choices}."


@parameters
class KernelParameters:
    """The kernel and its constants.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "precomputed"} or callable
        A callable takes two arrays of rows and returns their kernel matrix. It must be positive semidefinite; "sigmoid"
        is not.
    gamma : {"scale", "auto"} or float
        Constant of the kernels rbf and poly, as in scikit-learn.
    degree : int
        Degree of the kernel poly.
    coef0 : float
        Constant of the kernel poly; not negative.
    """

    kernel: Any = parameter("rbf", KERNEL, ("rbf", "poly", "linear"))
    gamma: Any = parameter("scale", "Constant of the kernels rbf and poly: scale, auto or a number.")
    degree: float = parameter(3, "Degree of the kernel poly.")
    coef0: float = parameter(0.0, "Constant of the kernel poly.")


@parameters
class MachineParameters(TableParameters, FitParameters):
    """Parameters that the kernel machines share.

    Parameters
    ----------
    approximation : {"nystroem"}
        "nystroem" approximates the kernel by ``n_components`` rows and solves that problem as a linear one, for
        millions of rows. The certificate is then that of the approximated kernel (see ``certified_kernel_``).
    n_components : int
        Number of rows that represent an approximated kernel.
    memory_limit : float or str
        Memory limit of kernel values, in bytes or as in "500MB".
    init : {"auto", "band", "kmeans", "kernel-kmeans", "rows"}, array of labels or callable
        Initial clusters: "band" around a linear machine on Nystroem features; "kmeans" (distances to a sample's
        hyperplane) and "kernel-kmeans" are the paper's procedures; "rows" uses no clusters. "auto" is "rows" for
        few rows or few support vectors, else "band".
    initial_rate : float
        Ratio of initial clusters to rows (r^0).
    solver : {"auto", "smo"}
        Solver of the aggregated problems: our compiled SMO.
    """

    approximation: str | None = parameter(None, "Approximate the kernel by this many rows.")
    n_components: int = parameter(300)
    memory_limit: float | str = parameter("2GB", "Memory for kernel values, as in 500MB.")
    init: Any = parameter("auto", INIT, ("auto", "band", "kmeans", "kernel-kmeans", "rows"))
    initial_rate: float | None = parameter(None)
    solver: str = parameter("auto", SOLVER, ("auto", "smo"))


@parameters
class OneAgainstOneParameters:
    """Decisions and solvers of the kernel classifier.

    Parameters
    ----------
    decision_function_shape : {"ovr", "ovo"}
        Shape of :meth:`decision_function` for more than two classes.
    solver : {"auto", "smo", "libsvm"}
        Solver of the aggregated problems: our compiled SMO, or libsvm; "auto" is libsvm for few rows.
    """

    decision_function_shape: str = parameter("ovr")
    solver: str = parameter("auto", SOLVER, ("auto", "smo", "libsvm"))


@parameters
class SVCParameters(
    LossWeightParameters, OneAgainstOneParameters, KernelParameters, ClassWeightParameters, MachineParameters
):
    """Parameters of :class:`~aidlearn.SVC`."""


@parameters
class SVRParameters(LossWeightParameters, TubeParameters, KernelParameters, MachineParameters):
    """Parameters of :class:`~aidlearn.SVR`."""

    epsilon: float = parameter(0.1, TUBE)


@parameters
class SemiSupervisedParameters(KernelParameters, TableParameters, FitParameters):
    """Parameters of :class:`~aidlearn.SemiSupervisedSVC`.

    Parameters
    ----------
    C : float
        Weight of the losses of labelled rows (M_l in the paper).
    C_unlabeled : float
        Weight of the losses of unlabelled rows (M_u); 0 gives the supervised machine.
    balance : {"constraint", "cost"}
        "constraint": the mean decision value of the unlabelled rows is the mean label of the labelled rows, which
        keeps the unlabelled rows from all ending on one side. "cost": larger weights for the smaller labelled class.
    kernel : {"linear", "rbf", "poly", "precomputed", "graph", "auto"} or callable
        "graph" is the heat kernel of a nearest-neighbour graph of all training rows. "auto" chooses among about sixty
        kernels and overrides C, C_unlabeled and balance: it takes those that best predict held-out labelled rows (see
        ``choice_``).
    n_components : int
        Number of rows that represent the kernel (Nystroem); by default all up to 3,000 rows, else 1,000.
    n_neighbors : int
        Number of neighbours of a row in the graph kernel.
    diffusion : float
        Diffusion time of the graph kernel.
    certify : bool
        Bound the original problem by branch and bound over three states of each cluster, and continue until that bound
        meets the objective. Feasible for small or low-dimensional data.
    refine : bool
        Local search on the true objective after AID; never worse than its start.
    n_init : int
        Number of runs from different initial clusters; the best is kept.
    node_limit : int
        Maximum number of branch-and-bound nodes per aggregated problem; by default 30 to 2,000, fewer for more
        clusters. By default, ``certify`` searches longer and longer, up to 100,000 nodes.
    max_iter : int
        Limit on iterations: 1 and 5 are AID1 and AID5 of the paper. By default 5, or 1,000 with ``certify``.
    init : {"auto", "kmeans"}, array of labels or callable
        Initial clusters of the unlabelled rows: "auto" is k-means++ with ten Lloyd iterations, "kmeans" one iteration
        from random rows as in the paper. A callable receives the features and the targets (1, -1, and 0 for unlabelled
        rows).
    initial_rate : float
        Ratio of initial unlabelled clusters to rows; by default 0.01 (0.0001 above 10,000 rows), at least 10 clusters.
    solver : {"auto", "miqp"}
        Solver of the aggregated problems. "auto" is our branch and bound; its nodes are solved by DAQP if it is
        installed (``pip install aidlearn[s3vm]``), else by our interior point. "miqp" is the paper's mixed-integer
        program, solved by SCIP (``pip install aidlearn[miqp]``) without a node limit: set a ``time_limit``.
    """

    C: float = parameter(1.0, "Weight of the losses of labelled rows.")
    C_unlabeled: float = parameter(1.0, "Weight of the losses of rows without a label.")
    balance: str | None = parameter(
        None,
        "constraint: rows without a label are split as the labelled ones; cost: weigh classes alike.",
        ("constraint", "cost"),
    )
    kernel: Any = parameter("linear", KERNEL, ("linear", "rbf", "poly", "graph", "auto"))
    n_components: int | None = parameter(None)
    n_neighbors: int = parameter(10)
    diffusion: float = parameter(30.0)
    certify: bool = parameter(False, "Prove the global optimum; for small data.")
    refine: bool = parameter(False, "Local search on the true objective at the end.")
    n_init: int = parameter(1)
    node_limit: int | None = parameter(None)
    max_iter: int | None = parameter(None)
    init: Any = parameter("auto", INIT, ("auto", "kmeans"))
    initial_rate: float | None = parameter(None)
    solver: str = parameter("auto", choices=("auto", "miqp"))
