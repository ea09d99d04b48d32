"""Writes the model files of the present version, which later versions must load.

Each comes with the predictions of its model on the rows of ``small_models.data``. Run it once per version, when
``aidlearn.files.models.VERSION`` is raised; files of older versions are never written again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from aidlearn import save_model
from aidlearn.files.models import VERSION
from small_models import NAMES, fitted

FOLDER = Path(__file__).parent / f"version_{VERSION}"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    answers = {}
    for name in NAMES:
        model, X = fitted(name)
        save_model(model, FOLDER / f"{name}.aid", training={"command": "make_golden.py", "rows": len(X)})
        answers[name] = model.predict(X)
        answers[f"{name}.objective"] = np.asarray(model.objective_)
    np.savez(FOLDER / "answers.npz", **answers)


if __name__ == "__main__":
    main()
