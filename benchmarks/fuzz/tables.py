"""Random tables through the command line: what ``aidlearn predict`` writes is what Python predicts, to the last bit."""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import aidlearn
from aidlearn.cli import main

COMMANDS: dict[str, tuple[str, str]] = {
    "lad": ("LADRegressor", "number"),
    "quantile": ("QuantileRegressor", "number"),
    "svr": ("LinearSVR", "number"),
    "svm": ("LinearSVC", "class"),
    "one-class": ("LinearOneClassSVM", "none"),
}
"""Commands, their estimators and targets."""
LEVELS = {
    "text": ["Oslo", "Paris", "a b", "über", 'c,"d"', "e;f"],
    "two": ["m", "p"],
    "zeros": ["007", "07", "7", "08"],
    "dates": ["2024-05-06", "2024-05-07", "2023-01-31"],
    "words": ["true", "False", "maybe", "2.50", "1e3"],
}
"""Levels of factors; the last three kinds look like something else, and are named as categorical."""
NAMED = ("zeros", "dates", "words", "codes")
NEW = "never seen"


@dataclass
class Table:
    """A table, its command, and the options of the fit."""

    command: str
    frame: Any
    target: str | None
    kind: str
    missing: str = "error"
    factors: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    """Factors that only ``--categorical`` makes factors."""

    @property
    def X(self) -> Any:
        return self.frame if self.target is None else self.frame.drop(columns=self.target)

    def fit_options(self) -> list[str]:
        named = ["--categorical", ",".join(self.named)] if self.named else []
        quantile = ["--quantile", "0.2,0.7"] if self.command == "quantile" else []
        target = [] if self.target is None else ["-t", self.target]
        return [*target, "--missing", self.missing, *named, *quantile]

    def in_python(self) -> Any:
        """Return the model that Python fits to the data frame."""
        given: dict[str, Any] = {"missing": self.missing, "categorical_features": self.factors}
        if self.command == "quantile":
            given["quantile"] = [0.2, 0.7]
        model = getattr(aidlearn, COMMANDS[self.command][0])(**given)
        return model.fit(self.X) if self.target is None else model.fit(self.X, self.frame[self.target])


def make(seed: int) -> Table:
    """Return the table of a seed."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 200))
    columns: dict[str, Any] = {}
    factors, named = [], []
    for k in range(int(rng.integers(1, 4))):
        columns[f"x{k}"] = [rng.normal(size=n), np.round(5 * rng.normal(size=n)), rng.integers(-5, 6, n)][k]
    kinds = [*LEVELS, "codes", "boolean"]
    for kind in rng.choice(kinds, int(rng.integers(0, 4)), replace=False).tolist():
        factors.append(f"f {kind}" if rng.random() < 0.2 else kind)
        named += factors[-1:] if kind in NAMED else []
        if kind == "boolean":
            columns[factors[-1]] = rng.random(n) < 0.4
        elif kind == "codes":
            columns[factors[-1]] = rng.choice([1, 2, 10], n)
        else:
            columns[factors[-1]] = rng.choice(np.array(LEVELS[kind], dtype=object), n)
    command = str(rng.choice(list(COMMANDS)))
    frame = pd.DataFrame(columns)
    effect = sum((frame[name].astype(str).str.len() % 3) * 2.0 for name in factors)
    y = frame["x0"] + effect + 0.3 * rng.normal(size=n)
    if command == "one-class":
        frame["x0"] += 5.0
    kind, missing = COMMANDS[command][1], str(rng.choice(["error", "drop", "level"]))
    if missing == "drop":
        frame["x0"] = frame["x0"].where(rng.random(n) > 0.1)
    texts = texts_of(frame, factors)
    for name in texts if missing != "error" else []:
        frame[name] = frame[name].where(rng.random(n) > 0.1, None)
    target = None if kind == "none" else "the target"
    if kind == "number":
        frame[target] = y
    elif kind == "class":
        classes = [["no", "yes"], [0, 1], [False, True], ["low", "mid", "top"]][int(rng.integers(4))]
        frame[target] = np.array(classes)[np.digitize(y, np.quantile(y, np.arange(1, len(classes)) / len(classes)))]
    frame = frame[rng.permutation(frame.columns)]
    return Table(command, frame, target, str(rng.choice(["csv", "parquet"])), missing, factors, named)


def check(seed: int, folder: Path) -> Table:
    """Fit and predict a table by the command line, and compare with Python; differences are AssertionErrors."""
    table, rng = make(seed), np.random.default_rng([seed, 1])
    data, model_file = folder / f"t.{table.kind}", folder / "m.aid"
    write(table.frame, data)
    code, said = run("fit", table.command, data, *table.fit_options(), "-o", model_file, "-q")
    assert code in (0, 2), f"fit: {said}"
    model = aidlearn.load_model(model_file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        python = table.in_python()
        assert list(model.coefficient_names_) == list(python.coefficient_names_), "other coefficients"
        whole = table.X.dropna() if table.missing == "drop" else table.X
        assert same(python.predict(whole), model.predict(whole)), "the fit differs from that of Python"
    for unknown in (None, "reference", "error"):
        X = whole.iloc[rng.permutation(len(whole))[: int(rng.integers(1, len(whole)))]]
        X = X[rng.permutation(X.columns)] if rng.random() < 0.5 else X
        texts = texts_of(X, table.factors)
        if unknown is not None and texts:
            X = X.assign(**{texts[0]: X[texts[0]].where(rng.random(len(X)) > 0.3, NEW)})
        _predicted(model, X, folder / f"new.{rng.choice(['csv', 'parquet'])}", unknown)
    return table


def _predicted(model: Any, X: Any, data: Path, unknown: str | None) -> None:
    """Compare predictions of new rows, or their refusals."""
    write(X, data)
    out = data.with_suffix(".npy")
    scores = ["--scores"] if hasattr(model, "decision_function") else []
    options = [] if unknown is None else ["--unknown", unknown]
    code, said = run("predict", data.parent / "m.aid", data, "-o", out, *scores, *options)
    model.unknown = unknown or "error"
    known = None  # if Python refuses the rows
    with contextlib.suppress(ValueError):
        known = (model.decision_function if scores else model.predict)(X[list(model.feature_names_in_)])
    assert code == (known is None), f"predict {options}: exit code {code}, Python predicts {known}: {said}"
    assert known is None or same(np.load(out).reshape(known.shape), known), (
        f"predictions differ {options} {data.suffix}"
    )


def texts_of(frame: Any, factors: list[str]) -> list[str]:
    """Return the factors whose cells are texts."""
    return [name for name in factors if not pd.api.types.is_numeric_dtype(frame[name])]


def same(one: Any, two: Any) -> bool:
    """Return whether two arrays have the same bits."""
    return bool(np.array_equal(one, two, equal_nan=np.asarray(one).dtype.kind == "f"))


def write(frame: Any, path: Path) -> None:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False, float_format="%.17g")
    else:
        frame.to_parquet(path, index=False)


def run(*arguments: Any) -> tuple[int, str]:
    """Run a command in this process; return its exit code and what it said."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue() + errors.getvalue()
