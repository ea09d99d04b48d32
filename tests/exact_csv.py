"""CSV files as pandas reads them, with every number to its last bit."""

from typing import Any

import pandas as pd

ROUNDS = int(pd.__version__.split(".")[0]) < 3
"""Before its version 3 pandas reads numbers quickly rather than exactly, unless it is asked to."""


def read_csv(path: Any, **given: Any) -> pd.DataFrame:
    return pd.read_csv(path, **given, **({"float_precision": "round_trip"} if ROUNDS else {}))
