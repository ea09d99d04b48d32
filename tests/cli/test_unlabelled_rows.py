"""Rows without a label are no rows with missing cells: ``missing="drop"`` of a semi-supervised model keeps them."""

import numpy as np
import pandas as pd
import pytest

from aidlearn import SemiSupervisedSVC, load_model
from exact_csv import read_csv

N = 400
ORIGINS = [f"o{k:02}" for k in range(30)]


def made(labels=("no", "yes")):
    """One row in ten has a label; three rows have a missing cell, one of them a label."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=N), "z": rng.normal(size=N), "origin": rng.choice(ORIGINS, N)})
    frame["w"] = rng.uniform(0.5, 2.0, N)
    labels = pd.Series(np.array(labels, dtype=object)[(frame.x + 0.1 * frame.z > 0).astype(int)])
    frame["label"] = labels.where(frame.index % 10 == 0, None)
    frame.loc[20, "x"] = np.nan
    frame.loc[21, "origin"] = None
    frame.loc[22, "w"] = np.nan
    frame.loc[frame.index % 10 == 0, "origin"] = ORIGINS[:20] * 2
    return frame


@pytest.mark.parametrize("data", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("labels", [("no", "yes"), (0, 1), (False, True)])
def test_rows_without_a_label_are_kept(ran, data, labels):
    frame = made(labels)
    if type(labels[0]) is int:
        frame["label"] = frame.label.astype("Int64")
    if labels[0] is False:
        frame["label"] = frame.label.astype("boolean")
    frame.to_csv("t.csv", index=False, float_format="%.17g")
    frame.to_parquet("t.parquet")
    options = ["-t", "label", "--weight", "w", "--missing", "drop", "--categorical", "origin=o29", "--max-iter", "1"]
    done = ran("fit", "s3vm", data, *options, "-o", "m.aid")
    assert done.code in (0, 2), done
    assert "3 rows with missing cells are left out" in done.err
    model = load_model("m.aid")
    assert (model.n_dropped_, len(model.transduction_), model.training_["labelled"]) == (3, 397, 39)
    used = frame.dropna(subset=["x", "z", "origin", "w"])
    y = used.label.astype(object).where(used.label.notna(), -1).to_numpy()
    X = used[["x", "z", "origin"]]
    same = SemiSupervisedSVC(categorical_features={"origin": "o29"}, max_iter=1).fit(X, y, used.w)
    assert model.objective_ == same.objective_
    assert model.transduction_.tolist() == same.transduction_.tolist()
    X.to_csv("x.csv", index=False, float_format="%.17g")
    assert ran("predict", "m.aid", "x.csv", "-o", "p.csv").code == 0
    assert read_csv("p.csv")["prediction"].tolist() == model.predict(X).tolist()


def test_in_python():
    frame = made()
    X = frame[["x", "z", "origin"]]
    used = frame.dropna(subset=["x", "z", "origin", "w"])
    y = np.where(used.label.isna(), "-1", used.label.astype(str))
    expected = SemiSupervisedSVC(max_iter=1).fit(used[["x", "z", "origin"]], y, used.w)
    with_nan = frame.label.astype(object).where(frame.label.notna(), np.nan)
    for label in (frame.label, with_nan, frame.label.astype("string"), frame.label.to_numpy()):
        model = SemiSupervisedSVC(max_iter=1, missing="drop").fit(X, label, frame.w)
        assert (model.n_dropped_, len(model.transduction_)) == (3, 397)
        assert model.objective_ == expected.objective_
        assert model.transduction_.tolist() == expected.transduction_.tolist()
    numbers = frame.label.map({"no": 0.0, "yes": 1.0})
    by_number = SemiSupervisedSVC(max_iter=1, missing="drop").fit(X, numbers, frame.w)
    assert by_number.objective_ == expected.objective_
    assert by_number.classes_.tolist() == [0, 1]
    whole = frame.fillna({"x": 0.0, "origin": "o00", "w": 1.0})
    kept = SemiSupervisedSVC(max_iter=1, missing="drop").fit(whole[["x", "z"]], whole.label)
    assert (kept.n_dropped_, len(kept.transduction_)) == (0, N)
    texts = whole.label.fillna("-1").to_numpy().astype(str)
    marked = SemiSupervisedSVC(max_iter=1, missing="drop").fit(whole[["x", "z"]], texts)
    assert marked.transduction_.tolist() == kept.transduction_.tolist()
    with pytest.raises(ValueError, match="mark unlabelled rows with -1"):
        SemiSupervisedSVC().fit(whole[["x", "z"]], whole.label)


def test_other_models_leave_rows_without_a_target_out(ran):
    frame = made()
    frame.to_csv("t.csv", index=False)
    done = ran("fit", "svm", "t.csv", "-t", "label", "--weight", "w", "--missing", "drop", "-o", "m.aid")
    assert done.code in (0, 2), done
    assert load_model("m.aid").n_dropped_ == N - 39


def test_a_fit_is_resumed_with_all_its_rows(ran):
    made().to_csv("t.csv", index=False)
    options = ["--weight", "w", "--missing", "drop", "--checkpoint", "run.ckpt", "--max-iter", "1"]
    done = ran("fit", "s3vm", "t.csv", "-t", "label", "--categorical", "origin=o29", *options, "-o", "m.aid")
    assert done.code in (0, 2), done
    done = ran("resume", "run.ckpt", "--max-iter", "1", "-o", "r.aid")
    assert done.code in (0, 2), done
    assert len(load_model("r.aid").transduction_) == 397
