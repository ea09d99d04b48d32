"""Amounts of memory as users write them."""

from __future__ import annotations

import re
from typing import Any

UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_bytes(name: str, value: Any) -> float:
    """Bytes of a number, or of a text such as "500MB" or "2GiB"."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*", value)
        if match and match[2].upper() in UNITS:
            value = float(match[1]) * UNITS[match[2].upper()]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError(f"{name} must be a positive number of bytes or a text such as '500MB' or '2GiB', got {value!r}.")
