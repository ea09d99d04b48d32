"""The paper's experiments side by side with ours: ``python -m benchmarks.paper NAME`` (``--list`` names them).

One row holds the paper's number, that of its procedure run here ("faithful": its start, its rules of splitting, its
solvers and its stopping rule) and that of the default. ``published`` has the paper's numbers, ``generators`` data like
its own, ``experiment`` what an experiment is, ``store`` keeps measurements (a stopped run resumes), ``worker`` runs
the processes of cells; the other modules have one group of experiments each.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before anything loads a BLAS: cells are forks of this process
