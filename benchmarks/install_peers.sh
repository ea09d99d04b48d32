#!/bin/sh
# Installs what the benchmarks compare with (Debian or Ubuntu, as root). OpenBLAS gives R a fast BLAS. PYTHON chooses
# the interpreter of aidlearn; AIDLEARN_PEERS_PYTHON (default: the same) that of the peers aidlearn does not share an
# environment with, and the benchmarks find it by the same name.
set -eu
cd "$(dirname "$0")/.."
PYTHON="${PYTHON:-python3}"
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    r-base-core r-cran-quantreg libopenblas0-pthread libocas-tools
"$PYTHON" -m pip install -e ".[bench]"
"${AIDLEARN_PEERS_PYTHON:-$PYTHON}" -m pip install rehline scikit-learn scikit-learn-intelex
Rscript -e 'cat("R uses BLAS", extSoftVersion()[["BLAS"]], "\n"); cat("quantreg", format(packageVersion("quantreg")), "\n")'
