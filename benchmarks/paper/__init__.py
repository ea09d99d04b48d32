"""The paper's experiments side by side with ours: ``python -m benchmarks.paper NAME`` (``--list`` names them).

Each row holds the paper's number, that of its procedure run here ("faithful": its start, its splitting rules, its
solvers and its stopping rule) and that of the default. ``published`` has the paper's numbers, ``generators`` makes
similar data, ``experiment`` defines experiments, ``store`` keeps measurements (a stopped run can be resumed) and
``worker`` runs the processes of cells; every other module has one group of experiments.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before anything loads a BLAS: cells are forks of this process
