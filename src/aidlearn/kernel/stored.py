"""A kernel as values that a file can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from aidlearn.kernel.functions import NAMES, Kernel


def kernel_values(kernel: Kernel) -> dict[str, Any]:
    """The kernel by the names of its constants."""
    return asdict(kernel)


def kernel_of(values: Mapping[str, Any]) -> Kernel:
    """The kernel of such values; others may be among them."""
    if values["name"] not in NAMES:
        raise ValueError(f"it holds a kernel that this version of aidlearn does not know, {values['name']!r}")
    return Kernel(**{field.name: values[field.name] for field in fields(Kernel)})
