"""Real tables with categories as sparse rows, compared with dense ones: python -m benchmarks.sparse [--table svm]."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.harness.cells import Cell
from benchmarks.harness.command import Options, Table, comparison, main
from benchmarks.harness.datasets import DataSet
from benchmarks.harness.table import TableLayout

FLIGHTS = DataSet("nycflights CSR", "nycflights_sparse", (327_346, 152), {})
TAILNUM = replace(FLIGHTS, name="nycflights CSR tailnum", shape=(327_346, 4_188), arguments={"tailnum": True})
KDD = DataSet("kddcup99 CSR", "standardised", (494_021, 115), {"name": "kddcup99"})
KDD_DENSE = replace(KDD, name="kddcup99 dense", arguments={"name": "kddcup99", "dense": True})
CENSUS = DataSet("census CSR", "standardised", (199_523, 476), {"name": "census"})
LEVELS = DataSet("generated 2M CSR", "many_levels", (2_000_000, 100_503), {"n": 2_000_000, "n_levels": 100_000})
FEWER = DataSet("generated 200k CSR", "many_levels", (200_000, 10_503), {"n": 200_000, "n_levels": 10_000})


def lad(options: Options) -> list[Cell]:
    sets = [FLIGHTS] if options.quick else [FLIGHTS, TAILNUM, FEWER, LEVELS]
    return [cell for data in sets for cell in comparison("lad", data, options)]


def svm(options: Options) -> list[Cell]:
    sets = [CENSUS] if options.quick else [KDD, KDD_DENSE, CENSUS]
    penalties = (0.1,) if options.quick else (0.1, 1.0, 10.0)
    return [cell for data in sets for C in penalties for cell in comparison("svm", data, options, C=C)]


TITLE = "tol={tol:g}, one thread, best of {repeat}"
TABLES = (
    Table("lad", f"LAD on sparse rows, {TITLE}", lad, TableLayout(), tol=1e-4),
    Table("svm", f"Linear SVM on sparse rows, {TITLE}", svm, TableLayout(exact=1e-2), tol=1e-4),
)

if __name__ == "__main__":
    main("sparse", __doc__.split("\n")[0], *TABLES)
