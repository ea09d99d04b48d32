"""Declaration of parameters: one class gives the constructor, the documentation and the command-line options.

A group of parameters is a class whose docstring describes them. A model's parameters are a class that derives from its
groups; the estimator derives from that class and so has its constructor. Nothing here imports NumPy, so that the
command line prints its help quickly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import Parameter, Signature, cleandoc
from textwrap import indent
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

ENTRY = re.compile(r"^(\w+) : (.+)\n((?: .*\n)*)", re.M)
"""A parameter in a docstring: its name, its type, and the indented lines below."""


@dataclass(frozen=True)
class Declared:
    """A parameter of a class."""

    default: Any
    annotation: Any
    help: str = ""
    """Help text of the command-line option; if it is empty, there is no option."""
    choices: tuple[str, ...] = ()
    """Named values, the default first."""


def parameter(default: Any, help: str = "", choices: tuple[str, ...] = ()) -> Any:
    """Declare a parameter with its default and its command-line option."""
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
def parameters(cls: type[T]) -> type[T]:
    """Give a class a constructor with its parameters and those of its groups, its own first."""
    made = dataclass(kw_only=True, repr=False, eq=False)(cls)
    arguments = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for name, known in declared(made):
        arguments.append(Parameter(name, Parameter.KEYWORD_ONLY, default=known.default, annotation=known.annotation))
    set_all, refused = made.__init__, getattr(made, "REFUSED", {})

    @wraps(set_all)
    def construct(self: Any, **given: Any) -> None:
        for name in refused.keys() & given.keys():
            raise TypeError(f"{type(self).__name__} has no parameter {name}: {refused[name]}")
        set_all(self, **given)

    construct.__signature__ = Signature(arguments)  # type: ignore[attr-defined]  # what inspect reads
    made.__init__ = construct  # type: ignore[method-assign]  # with the signature above
    return made


def declared(cls: type) -> Iterator[tuple[str, Declared]]:
    """Yield the parameters of a class, its own first and then those of its groups in their order."""
    known = {one.name: one for one in fields(cls)}
    names = dict.fromkeys(name for group in cls.__mro__ for name in vars(group).get("__annotations__", {}))
    for name in names:
        if name in known:
            one = known[name]
            yield name, Declared(one.default, one.type, **one.metadata)


def documented(cls: type) -> str:
    """Return the parameters of a class as a section of a numpydoc docstring, from the docstrings of its groups."""
    entries: dict[str, tuple[str, str]] = {}
    for group in reversed(cls.__mro__):
        section = cleandoc(group.__doc__ or "").partition("----------\n")[2] + "\n"
        entries |= {name: (kind, lines) for name, kind, lines in ENTRY.findall(section)}
    text = ""
    for name, one in declared(cls):
        kind, lines = entries.get(name, ("", ""))  # python -OO strips docstrings
        value = f'"{one.default}"' if isinstance(one.default, str) else repr(one.default)
        default = "optional" if one.default is None else f"default={value}"
        text += f"\n    {name} : {kind}, {default}\n" + indent(lines.rstrip("\n"), "    ")
    return text
