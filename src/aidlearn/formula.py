"""Models by formula, such as ``"delay ~ distance + C(origin)"``, parsed by formulaic (extra ``formula``).

A formula that only lists columns is fitted like a table: from memory, files, streams and Dask, with factors stored as
codes. For transformations and interactions, formulaic builds a sparse matrix in memory.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from aidlearn.data.encoding.recipe import Column as InputColumn
from aidlearn.data.encoding.recipe import EncodedRows, Recipe
from aidlearn.data.encoding.rules import FACTOR_KINDS
from aidlearn.data.opening import open_source
from aidlearn.data.rows.numbers import as_array
from aidlearn.data.tables.conversion import collected, is_elsewhere, is_table
from aidlearn.data.tables.in_memory import FrameColumns
from aidlearn.estimators.registry import MODELS

FACTOR = re.compile(r"""C\((?P<name>[^\W\d]\w*|`[^`]+`)(?:,\s*contr\.treatment\((?:base=)?['"](?P<base>.*)['"]\))?\)""")
"""Pattern of ``C(name)``, or with a reference level ``C(name, contr.treatment("LAS"))``."""


@dataclass
class ListedColumns:
    """The columns of a formula that only lists columns."""

    target: str
    columns: list[str] = field(default_factory=list)
    factors: dict[str, str | None] = field(default_factory=dict)
    """Columns inside ``C()`` and their reference levels; None is the first level."""
    intercept: bool = False


def fit(formula: str, data: Any, model: Any = "lad", *, sample_weight: Any = None, **parameters: Any) -> Any:
    """Fit a model by formula.

    Parameters
    ----------
    formula : str
        ``"y ~ a + C(b)"``. Columns of strings, categories and booleans are factors; ``C()`` makes a numeric column a
        factor, and ``- 1`` removes the intercept. See formulaic for transformations and interactions.
    data : table, path of a file, stream of Arrow batches, or Dask DataFrame
        Transformations and interactions need a table in memory.
    model : str or estimator, default="lad"
        The name of a model on the command line ("lad", "quantile", "svm", "svr", "kernel-svm", "kernel-svr", "s3vm")
        or of its class, or an estimator, which is cloned.
    sample_weight : array or name of a column, optional
    **parameters
        Parameters of the estimator.

    Returns
    -------
    estimator
        The fitted estimator, with ``formula_``; ``predict`` takes tables that have the columns of the formula and
        possibly others.

    Examples
    --------
    >>> import pandas as pd
    >>> from aidlearn import formula
    >>> table = pd.DataFrame({"y": [1.0, 2.0, 3.0, 7.0], "a": [0.0, 1.0, 2.0, 3.0], "b": ["u", "u", "u", "v"]})
    >>> model = formula.fit("y ~ a + C(b)", table, tol=1e-9)
    >>> model.coefficient_names_, model.coef_.round(6).tolist()
    (['a', 'b[v]'], [1.0, 3.0])
    """
    estimator = _estimator(model).set_params(**parameters)
    parsed = _parsed(formula)
    listed = simple_terms(formula)
    intercept = any(str(term) == "1" for term in parsed.rhs)
    if "fit_intercept" in estimator.get_params():
        estimator.set_params(fit_intercept=intercept)
    elif not intercept:
        raise ValueError(f"{type(estimator).__name__} always has an intercept: leave '- 1' out of the formula.")
    if listed is None:
        _fit_matrix(estimator, formula, parsed, data, sample_weight)
    elif is_elsewhere(data):
        _fit_source(estimator, listed, data, sample_weight)
    else:
        _fit_table(estimator, listed, data, sample_weight)
    estimator.formula_ = formula
    return estimator


def simple_terms(formula: str) -> ListedColumns | None:
    """Return the terms of a formula that only lists columns; None for any other formula."""
    parsed = _parsed(formula)
    left = [factor for term in parsed.lhs for factor in term.factors]
    if len(left) != 1 or not _is_name(left[0]):
        return None
    terms = ListedColumns(left[0].expr)
    for term in parsed.rhs:
        if str(term) == "1":
            terms.intercept = True
            continue
        if len(term.factors) != 1:
            return None
        [factor] = term.factors
        if _is_name(factor):
            terms.columns.append(factor.expr)
            continue
        match = FACTOR.fullmatch(factor.expr)
        if match is None:
            return None
        name = match["name"].strip("`")
        terms.columns.append(name)
        terms.factors[name] = match["base"]
    if not terms.columns or len(set(terms.columns)) < len(terms.columns):
        return None
    return terms


def _parsed(formula: str) -> Any:
    try:
        from formulaic import Formula
        from formulaic.errors import FormulaicError
    except ImportError:
        raise ImportError("Formulas need formulaic: pip install 'aidlearn[formula]'.") from None
    try:
        parsed = Formula(formula)
    except FormulaicError as error:
        raise ValueError(f"{formula!r} is not a formula: {str(error).splitlines()[0]}") from None
    if not hasattr(parsed, "lhs"):
        raise ValueError(f"{formula!r} has no target: write it as 'target ~ columns'.")
    return parsed


def _is_name(factor: Any) -> bool:
    return str(getattr(factor.eval_method, "value", factor.eval_method)) == "lookup"


def _estimator(model: Any) -> Any:
    if not isinstance(model, str):
        return clone(model)
    for declared in MODELS.values():
        if model in (declared.command, declared.name):
            return declared.estimator()
    known = ", ".join(repr(declared.command) for declared in MODELS.values())
    raise ValueError(f"model must be one of {known} or an estimator, got {model!r}.")


def _table(data: Any) -> Any:
    table = collected(data)
    if not is_table(table):
        raise ValueError(f"A formula needs a table with named columns, got {type(data).__name__}.")
    return table


def _check_name(known: Collection[str], name: str) -> None:
    if name not in known:
        some = ", ".join(map(repr, list(known)[:12]))
        raise ValueError(f"The formula names {name!r}, which is not a column of the data; the columns are {some}.")


def _cells(columns: FrameColumns, name: Any) -> Any:
    """Return the cells of a named column; anything but a name is returned unchanged."""
    if not isinstance(name, str):
        return name
    _check_name(columns.outline.names, name)
    return as_array(columns.frame.get_column(name))


def _fit_source(estimator: Any, listed: ListedColumns, data: Any, sample_weight: Any) -> None:
    estimator.fit(
        open_source(
            data,
            listed.target,
            listed.columns,
            weight=sample_weight,
            one_hot=listed.factors,
            missing=estimator.missing,
            n_jobs=estimator.n_jobs,
        )
    )


def _fit_table(estimator: Any, listed: ListedColumns, data: Any, sample_weight: Any) -> None:
    columns = FrameColumns(_table(data))
    y, weight = _cells(columns, listed.target), _cells(columns, sample_weight)
    kinds = dict(zip(columns.outline.names, columns.outline.kinds, strict=True))
    for name in listed.columns:
        _check_name(kinds, name)
    if any(base is not None or kinds[name] not in FACTOR_KINDS for name, base in listed.factors.items()):
        by_type = {name: None for name in listed.columns if kinds[name] in FACTOR_KINDS}
        estimator.set_params(categorical_features={**by_type, **listed.factors})
    estimator.fit(columns.frame.select(listed.columns).to_native(), y, sample_weight=weight)


def _fit_matrix(estimator: Any, formula: str, parsed: Any, data: Any, sample_weight: Any) -> None:
    """Fit a formula with transformations or interactions through formulaic's matrix."""
    if is_elsewhere(data):
        raise ValueError(
            f"{formula!r} has transformations or interactions, which need a table in memory; only formulas of columns "
            "and C() are fitted from files, streams and Dask."
        )
    if estimator.missing != "error":
        raise ValueError(f"missing={estimator.missing!r} is only for formulas of columns and C().")
    from formulaic import model_matrix
    from formulaic.errors import FormulaicError

    table = _table(data)
    try:
        made = model_matrix(formula, table, output="sparse", na_action="raise")
    except (FormulaicError, ValueError, KeyError) as error:
        raise ValueError(f"The formula {formula!r} cannot be computed: {str(error).splitlines()[0]}") from None
    columns = FrameColumns(table)
    left = [factor for term in parsed.lhs for factor in term.factors]
    if len(left) == 1 and _is_name(left[0]):
        y = _cells(columns, left[0].expr)
    else:
        y = np.asarray(sparse.csc_array(made.lhs).toarray())
        if y.shape[1] != 1:
            raise ValueError(f"The left side of {formula!r} must be one column, got {y.shape[1]}.")
        y = y[:, 0]
    weight = _cells(columns, sample_weight)
    spec = made.rhs.model_spec
    names = [_renamed(name) for name in spec.column_names]
    kept = [k for k, name in enumerate(names) if name != "Intercept"]
    recipe = Recipe(tuple(InputColumn(names[k]) for k in kept))
    estimator.fit(EncodedRows(sparse.csr_array(made.rhs)[:, kept], recipe), y, sample_weight=weight)
    estimator.formula_rows_ = FormulaRows(spec, kept, recipe, estimator.unknown)


@dataclass(frozen=True)
class FormulaRows:
    """Function that encodes the rows of a table as the fit did, for a formula with transformations."""

    spec: Any
    kept: list[int]
    """Columns of formulaic's matrix other than the intercept."""
    recipe: Recipe
    unknown: str = "error"
    """Treatment of levels not seen in training, "error" or "reference"."""

    def __call__(self, data: Any) -> EncodedRows:
        from formulaic.errors import DataMismatchWarning

        with warnings.catch_warnings():
            # Formulaic warns of unseen levels and uses the reference level instead.
            if self.unknown == "reference":
                warnings.simplefilter("ignore")
            else:
                warnings.simplefilter("error", DataMismatchWarning)
            try:
                made = self.spec.get_model_matrix(_table(data), output="sparse")
            except DataMismatchWarning as warning:
                said = str(warning).partition(". They are")[0]
                raise ValueError(
                    f"{said}. Leave these rows out, or fit with unknown='reference' to predict them as the reference."
                ) from None
        return EncodedRows(sparse.csr_array(made)[:, self.kept], self.recipe)


def _renamed(name: str) -> str:
    """Rename ``C(origin)[T.LAS]`` to ``origin[LAS]``."""
    return re.sub(r"C\((`?)([^,()`]+)\1(?:,[^\[\]]*)?\)", r"\2", name).replace("[T.", "[")
