"""Runs of the command line in this process, and the table that most tests use."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd

from aidlearn.cli import main

N = 400
X = [f"x{k}" for k in range(3)]
COLUMNS = ",".join(X)


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self):
        """Strict JSON: NaN and Infinity are refused."""

        def refuse(token):
            raise AssertionError(f"{token} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


def run(*arguments, stdin=""):
    """Run a command with its streams; the exit code is what ``main`` returns."""
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    streams = [io.TextIOWrapper(io.BytesIO(data)), *(io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in "oe")]
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        code = main([str(argument) for argument in arguments])
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
    return Ran(code, *(stream.buffer.getvalue().decode() for stream in streams[1:]))


def frame():
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(N, 3)), columns=X)
    table["city"] = rng.choice(["Oslo", "Paris", "Rome"], N)
    y = table[X].to_numpy() @ [1.0, -2.0, 3.0] + 2.0 * (table["city"] == "Rome") + rng.laplace(size=N)
    table["y"] = y
    table["label"] = np.where(y > 0, "yes", "no")
    table["three"] = np.digitize(y, [-2, 2])
    table["w"] = rng.uniform(0.5, 2.0, N)
    table["one"] = 1
    return table
