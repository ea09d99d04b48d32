"""One BLAS thread inside a fit, whichever thread it runs in, and as many as before afterwards."""

import os
import subprocess
import sys

import joblib
import pytest

from aidlearn.data.rows.threads import cores, n_threads

BLAS = """
import threading
import numpy as np, scipy.linalg
from threadpoolctl import threadpool_info
from aidlearn.data.rows.threads import one_blas_thread

def limits():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()

before, seen = limits(), []
def limited():
    with one_blas_thread():
        seen.append(limits())
limited()
in_thread(limited)
assert all(set(found) == {1} for found in seen), seen
assert limits() == before, (before, limits())
entered, left = threading.Event(), threading.Event()
def late():
    with one_blas_thread():
        entered.set()
        left.wait(10)
thread = threading.Thread(target=late)
with one_blas_thread():
    thread.start()
    entered.wait(10)
left.set()
thread.join()
assert limits() == before, (before, limits())
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core: BLAS has one thread anyway")
def test_the_limit_holds_in_every_thread_and_is_lifted():
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", BLAS], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_every_core_by_default_and_one_in_a_worker():
    assert n_threads(None) == cores() == n_threads(-1)
    assert n_threads(3) == 3
    assert n_threads(-1000) == 1
    for backend in ("loky", "threading"):
        found = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(n_threads)(None) for _ in range(2))
        assert found == [1, 1]
