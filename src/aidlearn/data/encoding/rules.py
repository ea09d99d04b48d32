"""Rules for the columns of a table: which are factors, and how missing cells and unknown levels are treated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from aidlearn.data.encoding.recipe import level_text, listed_levels

MISSING_RULES, UNKNOWN_RULES = ("error", "drop", "level"), ("error", "reference")
FROM_DTYPE = "from_dtype"
FACTOR_KINDS = ("text", "category", "boolean")


@dataclass(frozen=True)
class Rules:
    """Rules of an estimator or a source for the columns of tables."""

    categorical: Any = FROM_DTYPE
    missing: str = "error"
    unknown: str = "error"
    also: Mapping[Any, Any] = field(default_factory=dict)
    """Factors in addition to those recognised by type, and their reference levels (None for the first level)."""
    numeric: Sequence[Any] = ()
    """Columns treated as numbers, whatever their type."""
    unlabelled: bool = False
    """Whether a row without a target is unlabelled, so that ``missing="drop"`` keeps it."""

    def check(self) -> None:
        """Raise an error for a value that is not allowed."""
        for name, value, choices in (
            ("missing", self.missing, MISSING_RULES),
            ("unknown", self.unknown, UNKNOWN_RULES),
        ):
            if not isinstance(value, str) or value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
        given = self.categorical
        is_text = isinstance(given, (str, bytes))
        if given is not None and not (given == FROM_DTYPE if is_text else hasattr(given, "__iter__")):
            raise ValueError(
                f"categorical_features must be {FROM_DTYPE!r}, None, a list of columns, a mask of them, or a dict from "
                f"columns to reference levels, got {given!r}."
            )

    @property
    def by_dtype(self) -> bool:
        return isinstance(self.categorical, str)

    def over(self, other: Rules) -> Rules:
        """Return these rules with their defaults replaced by the other rules."""
        plain = Rules()
        return Rules(
            other.categorical if self.by_dtype else self.categorical,
            other.missing if self.missing == plain.missing else self.missing,
            other.unknown if self.unknown == plain.unknown else self.unknown,
            other.also if self.by_dtype else self.also,
            other.numeric if self.by_dtype else self.numeric,
            self.unlabelled or other.unlabelled,
        )

    def factors(self, names: Sequence[Any], kinds: Sequence[str], where: str) -> dict[int, str | None]:
        """Return the positions of the factors, and their requested reference levels."""
        found: dict[int, str | None] = {}
        if self.by_dtype:
            found = {k: None for k, kind in enumerate(kinds) if kind in FACTOR_KINDS}
        for name, level in self._named(names, where).items():
            found[_position(names, name, where)] = None if level is None else level_text(level)
        for name in self.numeric if self.by_dtype else ():
            found.pop(_position(names, name, where), None)
        return dict(sorted(found.items()))

    def named_factors(self, names: Sequence[Any], where: str) -> list[int]:
        """Return the positions of the columns that are named as factors; unknown names are ignored."""
        return [k for k in (_place(names, name) for name in self._named(names, where)) if k is not None]

    def _named(self, names: Sequence[Any], where: str) -> Mapping[Any, Any]:
        """Return the columns named as factors, one by one or by a mask, and their reference levels."""
        given = self.also if self.by_dtype else self.categorical
        if given is None or isinstance(given, Mapping):
            return given or {}
        listed = list(given)
        if not (listed and all(isinstance(value, (bool, np.bool_)) for value in listed)):
            return dict.fromkeys(listed)
        if len(listed) != len(names):
            raise ValueError(f"categorical_features is a mask of {len(listed)} columns, {where} has {len(names)}.")
        return dict.fromkeys(name for name, chosen in zip(names, listed, strict=True) if chosen)


def _place(names: Sequence[Any], name: Any) -> int | None:
    if name in names:
        return list(names).index(name)
    if isinstance(name, Integral) and -len(names) <= int(name) < len(names):
        return int(name) % len(names)
    return None


def _position(names: Sequence[Any], name: Any, where: str) -> int:
    found = _place(names, name)
    if found is not None:
        return found
    shown = listed_levels([str(known) for known in names])
    raise ValueError(f"categorical_features names {name!r}, which is not a column of {where}; its columns are {shown}.")
