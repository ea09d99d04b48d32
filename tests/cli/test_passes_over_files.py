"""Commands read files no more often than a fit in Python does: one opening, one encoding, one count of the classes."""

from collections import Counter

import numpy as np
import pytest

from aidlearn import LinearSVC, open_source
from aidlearn.data.encoding import levels
from aidlearn.data.tables import csv, table_files

N = 3000


class CountedReader:
    """A reader of pyarrow that counts the blocks it decodes."""

    def __init__(self, reader, columns, decoded):
        self.reader, self.columns, self.decoded = reader, columns, decoded

    def __enter__(self):
        self.reader.__enter__()
        return self

    def __exit__(self, *error):
        return self.reader.__exit__(*error)

    @property
    def schema(self):
        return self.reader.schema

    def __iter__(self):
        for batch in self.reader:
            self.decoded[tuple(self.columns)] += 1
            yield batch


@pytest.fixture
def decoded(monkeypatch):
    """How many blocks of CSV were decoded, by the columns that were read; the first block of an opening counts too."""
    counts = Counter()
    read = csv.CsvSource._reader

    def counted(self, place, columns, *options):
        return CountedReader(read(self, place, columns, *options), columns or ["opening"], counts)

    monkeypatch.setattr(csv.CsvSource, "_reader", counted)
    return counts


@pytest.fixture
def recipes(monkeypatch):
    """How many recipes were made."""
    made = []

    def counted(*args):
        made.append(levels.make_recipe(*args))
        return made[-1]

    monkeypatch.setattr(table_files, "make_recipe", counted)
    return made


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    x, city = rng.normal(size=(N, 2)), rng.integers(0, 3, N)
    labels = np.where(x.sum(axis=1) + 0.3 * city > 0, "up", "down")
    rows = (f"{a},{b},c{k},{label}" for (a, b), k, label in zip(x, city, labels, strict=True))
    path = tmp_path / "t.csv"
    path.write_text("a,b,city,y\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("options", [[], ["--class-weight", "up=2,down=1"], ["--no-intercept"]])
def test_fit_of_a_linear_model(ran, table, decoded, recipes, options):
    """The target's column is read once to count the classes; all other blocks are those of the same fit in Python."""
    done = ran("fit", "svm", table, "-t", "y", *options, "-o", "m.aid", "-q")
    assert done.code == 0, done
    by_command, n_recipes = Counter(decoded), len(recipes)
    decoded.clear()
    given = {"fit_intercept": "--no-intercept" not in options, "random_state": 0, "n_jobs": -1}
    weight = {"up": 2, "down": 1} if "--class-weight" in options else None
    LinearSVC(class_weight=weight, **given).fit(open_source(table, "y"))
    assert by_command[("y",)] == 1
    assert by_command == decoded
    assert n_recipes == 1


def test_fit_of_a_kernel_machine(ran, table, decoded, recipes):
    """One reading to know the rows, and one to load them, from which the classes are counted too."""
    done = ran("fit", "kernel-svm", table, "-t", "y", "--class-weight", "up=2,down=1", "-o", "m.aid", "-q")
    assert done.code == 0, done
    assert decoded == {("opening",): 1, ("a", "b", "city", "y"): 2}
    assert len(recipes) == 1


def test_header_is_read_once(ran, table, monkeypatch):
    """However many columns are named."""
    looks = []
    of = csv.Dialect.of.__func__
    monkeypatch.setattr(csv.Dialect, "of", classmethod(lambda cls, *args: looks.append(args) or of(cls, *args)))
    for names in ("a", "a,b,city"):
        done = ran("fit", "svm", table, "-t", "y", "--columns", names, "-o", "m.aid", "-q")
        assert done.code == 0, done
    assert len(looks) == 2  # by the source; the command looks only for columns given by number


def test_classes_are_counted_anew_after_rows_are_dropped(ran, tmp_path):
    """A class of incomplete rows only is no class of the complete ones."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    rows = [f"{value},{'up' if value > 0 else 'down'}" for value in x] + [",sideways"] * 3
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "\n".join(rows) + "\n")
    source = open_source(path, "y")
    assert source.classes().labels.tolist() == ["down", "sideways", "up"]
    assert LinearSVC(missing="drop").fit(source).classes_.tolist() == ["down", "up"]
