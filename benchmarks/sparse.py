"""Real tables with categories as sparse rows, beside the same rows dense: python -m benchmarks.sparse [--table svm]."""

from __future__ import annotations

from dataclasses import replace

from aidlearn.bench.datasets import DataSet
from aidlearn.bench.harness import Cell
from aidlearn.bench.table import Layout
from benchmarks.command import Options, Table, comparison, main

FLIGHTS = DataSet("nycflights CSR", "nycflights_sparse", (327_346, 152), {})
TAILNUM = replace(FLIGHTS, name="nycflights CSR tailnum", shape=(327_346, 4_188), arguments={"tailnum": True})
KDD = DataSet("kddcup99 CSR", "standardised", (494_021, 115), {"name": "kddcup99"})
KDD_DENSE = replace(KDD, name="kddcup99 dense", arguments={"name": "kddcup99", "dense": True})
CENSUS = DataSet("census CSR", "standardised", (199_523, 476), {"name": "census"})


def lad(options: Options) -> list[Cell]:
    sets = [FLIGHTS] if options.quick else [FLIGHTS, TAILNUM]
    return [cell for data in sets for cell in comparison("lad", data, options)]


def svm(options: Options) -> list[Cell]:
    sets = [CENSUS] if options.quick else [KDD, KDD_DENSE, CENSUS]
    return [cell for data in sets for cell in comparison("svm", data, options, C=0.1)]


TABLES = (
    Table("lad", "LAD on sparse rows, tol={tol:g}, one thread, best of {repeat}", lad, Layout()),
    Table("svm", "Linear SVM on sparse rows, tol={tol:g}, one thread, best of {repeat}", svm, Layout(exact=1e-2)),
)

if __name__ == "__main__":
    main("sparse", __doc__.split("\n")[0], *TABLES)
