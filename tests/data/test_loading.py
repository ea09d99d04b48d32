"""A Ctrl-C while compiled code is loaded is heard afterwards, not in the middle."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from aidlearn.data.rows.threads import uninterrupted


def test_an_interrupt_waits_for_the_module(tmp_path, monkeypatch):
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor k in range(1000):\n    pass\nwhole = True\n"
    (tmp_path / "interrupted_module.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        import interrupted_module  # noqa: F401
    assert signal.getsignal(signal.SIGINT) is before
    assert sys.modules["interrupted_module"].whole


def test_other_threads_load_as_usual():
    found = []

    def load():
        with uninterrupted():
            import json

            found.append(json)

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    assert found[0] is sys.modules["json"]


CODE = """
import os, signal, sys, threading, time
import numpy as np
from aidlearn import SVC
rng = np.random.default_rng(0)
X = rng.normal(size=(2500, 3))
y = X[:, 0] > 0

def interrupt():
    time.sleep(float(sys.argv[1]))
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    SVC().fit(X, y)
    time.sleep(0.5)
except KeyboardInterrupt:
    pass
SVC().fit(X, y)
"""


@pytest.mark.parametrize("delay", ["0.05", "0.15"])
def test_a_fit_after_an_interrupted_one_works(delay):
    done = subprocess.run([sys.executable, "-c", CODE, delay], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
