"""Values as JSON and named arrays, for model files.

JSON values (None, booleans, whole and floating-point numbers, texts, lists) stay as they are; everything else becomes
an object whose key ``$`` names one of the types below. A file never names code: decoding yields only these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

from aidlearn import archive
from aidlearn.data.encoding.recipe import READ_AS, Column, Recipe
from aidlearn.engine.result import Iteration, StartStep, Status
from aidlearn.trace import Frame

TYPE = "$"
RECORDS: dict[str, Any] = {"Iteration": Iteration, "StartStep": StartStep, "Frame": Frame}
"""Data classes that are written field by field."""
CSR = ("data", "indices", "indptr")
TEXTS: dict[str, Any] = {"date": date, "datetime": datetime, "time": time, "decimal": Decimal}
"""Types that JSON cannot hold and that are written as text."""
PLAIN_KINDS = "biufcSUmM"
"""Kinds of NumPy arrays that are written as they are."""


class EncodingError(ValueError):
    """A value that a file cannot hold, or a description that is not valid."""


def encode(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the value for JSON; add its arrays to ``arrays`` under names that start with ``name``."""
    if isinstance(value, np.ndarray):
        return _encode_array(value, name, arrays)
    if isinstance(value, np.generic):  # before float, because np.float64 is a float
        arrays[name] = np.asarray(value)
        return {TYPE: "number", "name": name}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Status):
        return {TYPE: "Status", "value": value.name}
    if type(value) in RECORDS.values():
        parts = {one.name: encode(getattr(value, one.name), f"{name}.{one.name}", arrays) for one in fields(value)}
        return {TYPE: type(value).__name__, "value": parts}
    if isinstance(value, Recipe):
        columns = [[one.name, None if one.levels is None else list(one.levels), one.reference] for one in value.columns]
        kinds = [column.kind for column in value.columns]
        rules = {"missing": value.missing, "unknown": value.unknown}
        return {TYPE: "Recipe", "columns": columns, "kinds": kinds, **rules}
    if isinstance(value, list):
        return [encode(item, f"{name}.{k}", arrays) for k, item in enumerate(value)]
    if isinstance(value, tuple):
        return {TYPE: "tuple", "items": encode(list(value), name, arrays)}
    if isinstance(value, Mapping):
        items = [encode(list(item), f"{name}.{k}", arrays) for k, item in enumerate(value.items())]
        return {TYPE: "dict", "items": items}
    if sparse.issparse(value):
        rows = sparse.csr_array(value)
        for part in CSR:
            arrays[f"{name}.{part}"] = getattr(rows, part)
        kind = "csr_array" if isinstance(value, sparse.sparray) else "csr_matrix"
        return {TYPE: kind, "name": name, "shape": list(rows.shape)}
    for kind, exact in TEXTS.items():
        if type(value) is exact:
            return {TYPE: kind, "value": str(value) if exact is Decimal else value.isoformat()}
    if type(value) is timedelta:
        return {TYPE: "timedelta", "value": [value.days, value.seconds, value.microseconds]}
    if type(value) is Bounds:
        return {TYPE: "Bounds", "ends": encode([np.asarray(value.lb), np.asarray(value.ub)], name, arrays)}
    if type(value) is LinearConstraint:
        matrix = value.A if sparse.issparse(value.A) else np.asarray(value.A)
        stored = encode([matrix, np.asarray(value.lb), np.asarray(value.ub)], name, arrays)
        return {TYPE: "LinearConstraint", "parts": stored}
    if isinstance(value, bytes):
        return {TYPE: "bytes", "value": value.hex()}
    raise EncodingError(f"{name} is a {type(value).__name__}, which a file cannot hold")


def _encode_array(value: NDArray[Any], name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    if value.dtype.kind in PLAIN_KINDS:
        arrays[name] = value
        return {TYPE: "array", "name": name}
    if value.dtype.kind != "O":
        raise EncodingError(f"{name} is an array of {value.dtype}, which a file cannot hold")
    items = encode(value.ravel().tolist(), name, arrays)
    return {TYPE: "objects", "shape": list(value.shape), "items": items}


def decode(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the value that was encoded."""
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(TYPE)
    try:
        if kind == "array":
            return arrays[value["name"]]
        if kind == "number":
            return arrays[value["name"]][()]
        if kind == "objects":
            items = decode(value["items"], arrays)
            filled = np.empty(len(items), dtype=object)
            filled[:] = items
            return filled.reshape(value["shape"])
        if kind == "tuple":
            return tuple(decode(value["items"], arrays))
        if kind == "dict":
            return {_key(key): item for key, item in decode(value["items"], arrays)}
        if kind == "Status":
            return Status[value["value"]]
        if kind in RECORDS:
            return _record(RECORDS[kind], {part: decode(item, arrays) for part, item in value["value"].items()})
        if kind == "Recipe":
            kinds = value.get("kinds") or [None] * len(value["columns"])  # files of earlier versions have no kind
            if not all(kind is None or kind in READ_AS for kind in kinds):
                raise EncodingError("a column of a table has an unknown kind")
            columns = tuple(
                Column(str(name), _levels(levels), ref, kind)
                for (name, levels, ref), kind in zip(value["columns"], kinds, strict=True)
            )
            return Recipe(columns, str(value["missing"]), str(value["unknown"]))
        if kind in TEXTS:
            return _from_text(kind, value["value"])
        if kind == "timedelta":
            days, seconds, microseconds = value["value"]
            return timedelta(days, seconds, microseconds)
        if kind == "Bounds":
            return Bounds(*decode(value["ends"], arrays))
        if kind == "LinearConstraint":
            return LinearConstraint(*decode(value["parts"], arrays))
        if kind == "bytes":
            return bytes.fromhex(value["value"])
        if kind in ("csr_array", "csr_matrix"):
            rows = tuple(arrays[f"{value['name']}.{part}"] for part in CSR)
            matrix = getattr(sparse, kind)(rows, shape=tuple(value["shape"]))
            matrix.check_format(full_check=True)  # invalid column indices would be read as memory addresses
            return matrix
    except KeyError as error:
        raise EncodingError(f"{error} is missing in a value of type {kind!r}") from None
    raise EncodingError(f"it holds a value of unknown type {kind!r}")


def _levels(levels: list[Any] | None) -> tuple[str, ...] | None:
    if levels is not None and not all(isinstance(level, str) for level in levels):
        raise EncodingError("a factor has a level that is not a text")
    return None if levels is None else tuple(levels)


def _from_text(kind: str, text: Any) -> Any:
    try:
        return Decimal(text) if kind == "decimal" else TEXTS[kind].fromisoformat(text)
    except ArithmeticError:
        raise EncodingError(f"{text!r} is no {kind}") from None


def _key(key: Any) -> Any:
    if isinstance(key, (list, dict, np.ndarray)):
        raise EncodingError("a table has a key that is neither text nor number")
    return key


def _record(kind: Any, values: dict[str, Any]) -> Any:
    names = {field.name for field in fields(kind)}
    if set(values) != names:
        raise EncodingError(f"it holds a record of {sorted(values)} where {sorted(names)} are expected")
    return archive.record(kind, values)
