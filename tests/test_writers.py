"""Two processes that write the same path never damage it: readers see the old file or the new one."""

import subprocess
import sys

import numpy as np
import pytest

from aidlearn import archive

WRITER = """
import sys
from pathlib import Path
import numpy as np
from aidlearn import archive
path, previous, value = Path(sys.argv[1]), sys.argv[2] == "previous", float(sys.argv[3])
print("ready", flush=True)
for _ in range(60):
    arrays = {"values": np.full(5000, value)}
    archive.write(path, "aidlearn model", 1, {"value": value}, arrays, path.with_name("old") if previous else None)
"""


def readable(path):
    """The archive, or the one before while a writer renames it."""
    try:
        return archive.read(path, "aidlearn model", 1)
    except archive.ArchiveError:
        return archive.read(path.with_name("old"), "aidlearn model", 1)


@pytest.mark.parametrize("previous", ["none", "previous"])
def test_two_writers_of_one_path(tmp_path, previous):
    path = tmp_path / "model"
    archive.write(path, "aidlearn model", 1, {"value": 0.0}, {"values": np.zeros(5000)})
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, previous, value], stdout=subprocess.PIPE)
        for value in ("1", "2")
    ]
    for writer in writers:
        assert writer.stdout.readline() == b"ready\n"
    while any(writer.poll() is None for writer in writers):
        found = readable(path)
        assert (found.arrays["values"] == found.meta["value"]).all()
    assert [writer.wait() for writer in writers] == [0, 0]
    assert archive.read(path, "aidlearn model", 1).meta["value"] in (1.0, 2.0)
    assert not list(tmp_path.glob("*.writing"))
    for writer in writers:
        writer.stdout.close()
