"""Tables in a bucket: a local server that speaks S3 is started for them."""

import os
import socket
import urllib.request

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from aidlearn import LADRegressor, load_model, open_source
from exact_csv import read_csv

server = pytest.importorskip("moto.server", reason="moto's server is not installed: pip install moto flask flask-cors")
fs = pytest.importorskip("pyarrow.fs")
if not hasattr(fs, "S3FileSystem"):  # pragma: no cover
    pytest.skip("this pyarrow was built without S3", allow_module_level=True)


def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def bucket():
    """The address of a bucket, and what must follow a path in it."""
    port = unused_port()
    kept = dict(os.environ)
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        os.environ.pop(name, None)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    running.start()
    try:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/tables", method="PUT")
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20).close()
        yield "s3://tables", f"?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    finally:
        running.stop()
        os.environ.clear()
        os.environ |= kept


@pytest.fixture(scope="module")
def frame(bucket):
    rng = np.random.default_rng(0)
    n = 3000
    frame = pd.DataFrame({"a": rng.normal(size=n), "city": rng.choice(["Köln", "Wien", "Bern"], n)})
    frame["year"] = rng.choice([2023, 2024], n)
    frame["y"] = frame.a + (frame.city == "Wien") + rng.laplace(size=n)
    frame = frame.sort_values("year", kind="stable").reset_index(drop=True)
    system, path = fs.FileSystem.from_uri(bucket[0] + bucket[1])
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, f"{path}/one/t.parquet", filesystem=system, row_group_size=700)
    for name, compression in (("t.csv", None), ("t.csv.gz", "gzip")):
        with system.open_output_stream(f"{path}/{name}", compression=compression) as out:
            out.write(frame.to_csv(index=False).encode())
    ds.write_dataset(
        table, f"{path}/parts", filesystem=system, format="parquet", partitioning=["year"], partitioning_flavor="hive"
    )
    return frame


@pytest.mark.parametrize("path", ["one/t.parquet", "one", "one/*.parquet", "t.csv", "t.csv.gz"])
def test_a_bucket_gives_the_bits_of_memory(bucket, frame, path):
    expected = LADRegressor().fit(frame.drop(columns="y"), frame["y"])
    model = LADRegressor().fit(f"{bucket[0]}/{path}{bucket[1]}", "y")
    assert model.coefficient_names_ == expected.coefficient_names_
    assert np.array_equal(model.coef_, expected.coef_)
    assert model.lower_bound_ == expected.lower_bound_


def test_partitions_are_columns(bucket, frame):
    source = open_source(f"{bucket[0]}/parts{bucket[1]}", "y")
    assert source.inputs == ["a", "city", "year"]
    expected = LADRegressor().fit(frame.drop(columns="y"), frame["y"])
    assert np.array_equal(LADRegressor().fit(source).coef_, expected.coef_)


def test_what_is_not_there(bucket, frame):
    for path in ("none.parquet", "none/*.parquet"):
        with pytest.raises(FileNotFoundError, match="There is no file s3://tables/none"):
            LADRegressor().fit(f"{bucket[0]}/{path}{bucket[1]}", "y")


def test_a_server_that_does_not_answer(bucket):
    with pytest.raises(OSError, match=r"s3://other/t\.csv.* cannot be listed: .*"):
        LADRegressor().fit(f"s3://other/t.csv?endpoint_override=127.0.0.1:{unused_port()}&scheme=http", "y")


def test_command_line(bucket, frame, tmp_path, monkeypatch):
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from aidlearn.cli.app import app

    monkeypatch.chdir(tmp_path)
    address = f"{bucket[0]}/one/t.parquet{bucket[1]}"
    done = CliRunner().invoke(app, ["fit", "lad", address, "-t", "y", "-o", "m.aid"])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["predict", "m.aid", address, "-o", "p.csv"])
    assert done.exit_code == 0, done.output
    predicted = load_model("m.aid").predict(frame.drop(columns="y"))
    assert np.array_equal(read_csv("p.csv")["prediction"], predicted)
