#!/bin/sh
# Installs what the benchmarks compare with (Debian or Ubuntu, as root). OpenBLAS gives R a fast BLAS; PYTHON chooses
# the interpreter the Python peers are installed for.
set -eu
cd "$(dirname "$0")/.."
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    r-base-core r-cran-quantreg libopenblas0-pthread
"${PYTHON:-python3}" -m pip install -e ".[bench]"
Rscript -e 'cat("R uses BLAS", extSoftVersion()[["BLAS"]], "\n"); cat("quantreg", format(packageVersion("quantreg")), "\n")'
