"""Write docs/cli.md from real runs: python docs/make_cli.py. It takes a minute or so."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

END = "```python ends"
"""Where a block must not be joined with the console block after it."""

TEXT = """# Command line

`pip install "aidlearn[cli]"` (or `[all]`) brings the command `aidlearn`: fit files of any size, predict, look at what
was proven, continue a fit that was stopped. Everything below was run in an empty folder by `python docs/make_cli.py`;
on a terminal a live display takes the place of the lines `iteration ...`.

- **Data** are .csv, .tsv, .parquet (a file or a folder of files), .npy or .svmlight files; `-` is CSV on standard
  input. Linear models read them in parts, so they may be larger than memory; `kernel-svm`, `kernel-svr` and `s3vm` load them.
- **Columns** go by name, or by number from 0 where no column has that name.
- **Exit codes**: 0 done; 1 an error, in a line or two on standard error, with nothing written; 2 stopped at a
  limit (time, iterations, Ctrl-C, floating-point precision) with the best model so far written. `--debug` adds the
  traceback of an error.
- **Files** are written under a temporary name beside the output and renamed: they are whole or not there. An output
  that exists is overwritten.
- **`--json`** puts strict JSON, and nothing else, on standard output. `--quiet` is silent but for warnings and errors.
- **Ctrl-C** (and SIGTERM) during a fit saves the best solution so far with its proven gap.
- Completion for your shell: `aidlearn --install-completion`.
"""

STEPS: list[tuple[str, str] | str] = [
    "## Fit and predict",
    ("Data to play with: 50,000 rows, ten columns `x0` to `x9` and the target `y`.", "aidlearn generate lad --rows 50000 --cols 10 --seed 1 -o train.csv"),
    ("", "head -n 3 train.csv | cut -c 1-76"),
    ("Least absolute deviation. The summary is the proof: no coefficients can have an objective below the lower bound.", "aidlearn fit lad train.csv --target y -o lad.aid"),
    ("", "aidlearn inspect lad.aid --top 4"),
    ("Columns are matched by name, whatever their order; the target may be there or not.", "aidlearn predict lad.aid train.csv -o predictions.parquet"),
    ("", "aidlearn predict lad.aid train.csv -o - | head -n 3"),
    ("A page about the model, for those who were not there:", "aidlearn report lad.aid -o lad.html"),
    "## Quantiles, and options of the fit",
    ("Several quantiles in one call; predictions have a column for each. The same data in Parquet:", "aidlearn generate lad --rows 50000 --cols 10 --seed 1 -o train.parquet"),
    ("", "aidlearn fit quantile train.parquet -t y --quantile 0.1,0.5,0.9 --tol 1e-6 -o quantiles.aid"),
    ("", "aidlearn predict quantiles.aid train.parquet -o - | head -n 3"),
    ("Chosen columns, an L1 penalty, no intercept, the paper's initial clusters, one thread:", "aidlearn fit lad train.csv -t y --columns x0,x3,x7 --alpha 0.1 --no-intercept --init kmeans --jobs 1 --seed 7 -o few.aid"),
    ("With HiGHS for the aggregated problems, refusing data that need more than 1 GB, and JSON:", "aidlearn fit lad train.parquet -t y --solver highs --memory-limit 1GB --json --quiet -o lad.aid"),
    ("From a pipe:", "head -n 2000 train.csv | aidlearn fit svr - -t y --C 10 --epsilon 0.5 -o svr.aid"),
    "## Standard errors and tests",
    ("Standard errors, tests and intervals are printed and kept in the model (see [statistics](statistics.md)).", "aidlearn fit quantile train.csv -t y --columns x0,x1,x2 --quantile 0.25,0.75 --se nid -o two.aid"),
    ("Are the slopes the same at both quantiles?", "aidlearn compare two.aid | tail -n 1"),
    ("A model against one with more columns:", "aidlearn fit lad train.csv -t y --columns x0,x1 --se iid --quiet -o small.aid"),
    ("", "aidlearn fit lad train.csv -t y --columns x0,x1,x2 --se iid --quiet -o large.aid"),
    ("", "aidlearn compare small.aid large.aid | tail -n 1"),
    "## Texts, weights and classes",
    ("A file as they come: text columns, a column of weights, classes by name.", "@table"),
    ("", "head -n 4 flights.csv"),
    ("Columns of texts are factors, one coefficient for each level but the first; nobody is asked, and it is said:", "aidlearn fit lad flights.csv -t delay --columns distance,hour,carrier --weight passengers -o delay.aid"),
    ("", "aidlearn inspect delay.aid"),
    ("The hour as a factor too, with 12 as its reference level; or the same by a formula:", "aidlearn fit lad flights.csv -t delay --columns distance,hour,carrier --categorical hour=12 --quiet -o hours.aid"),
    ("", "aidlearn fit lad flights.csv --formula \"delay ~ distance + carrier + C(hour, contr.treatment('12'))\" --quiet -o hours.aid"),
    ("", "aidlearn inspect hours.aid --top 5"),
    ("Columns of different size, for a machine that minds:", "aidlearn fit svm flights.csv -t class --columns distance,hour,carrier --standardize --quiet -o scaled.aid"),
    ("Classes are texts or whole numbers; more than two are fitted one against the rest.", "aidlearn fit svm flights.csv -t class --columns distance,hour --C 0.5 --class-weight balanced -o class.aid"),
    ("", "aidlearn fit svm flights.csv -t class --columns distance,hour --class-weight late=3,early=1,fair=1 --quiet -o class.aid"),
    ("", "aidlearn predict class.aid flights.csv --scores -o - | head -n 4"),
    "## Kernels and rows without labels",
    ("", "aidlearn generate svm --rows 3000 --cols 4 -o svm.parquet"),
    ("", "aidlearn fit kernel-svm svm.parquet -t y --C 2 --kernel rbf --gamma 0.3 -o kernel.aid"),
    ("", "aidlearn fit kernel-svm svm.parquet -t y --kernel poly --degree 2 --coef0 1 --nystroem 100 --memory-limit 500MB --quiet -o poly.aid"),
    ("In a semi-supervised file rows without a label have an empty target (`NA`, `NaN` and `null` count as empty). If no\n"
     "target is empty, -1 marks them, scikit-learn's convention; a file with empty targets may have -1 as a class.", "aidlearn generate s3vm --rows 1000 --cols 2 --noise 0.8 --labelled 0.02 -o half.csv"),
    ("", "head -n 6 half.csv"),
    ("The problem is not convex, and the summary says what is proven and what is not:", "aidlearn fit s3vm half.csv -t y --C 1 --C-unlabeled 0.1 --balance constraint -o half.aid; echo exit code $?"),
    "## Stop and continue",
    ("A limit ends a fit with exit code 2 and a model that can be used; a checkpoint keeps the way there.", "aidlearn fit lad train.parquet -t y --init kmeans --tol 1e-6 --max-iter 3 --checkpoint run.ckpt -o part.aid; echo exit code $?"),
    ("", "aidlearn inspect run.ckpt | sed \"s#$PWD/##\""),
    ("", "aidlearn resume run.ckpt --time-limit 60 -o whole.aid"),
    "## Measure",
    ("", "aidlearn bench lad --rows 5000 --cols 10"),
    ("", "aidlearn bench svm --rows 10000 --cols 10 --C 0.1"),
    "## What goes wrong",
    ("", "aidlearn fit lad train.csv --target z -o lad.aid"),
    ("", "aidlearn fit lad train.csv -t y --tol -1 -o lad.aid"),
    ("", "aidlearn fit lad train.csv -t y -o nowhere/lad.aid"),
    ("", "aidlearn predict lad.aid flights.csv -o p.csv"),
    ("", "aidlearn predict run.ckpt train.csv -o p.csv"),
    ("", "aidlearn fit lad; echo exit code $?"),
    "## All commands and options",
    *[("", f"aidlearn {command} --help".replace("  ", " ")) for command in (
        "", "fit", "fit lad", "fit quantile", "fit svm", "fit svr", "fit kernel-svm", "fit s3vm", "predict", "inspect", "resume", "report",
        "generate", "generate s3vm", "bench", "bench svm", "demo",
    )],
]  # fmt: skip

TABLE = """
import numpy as np

rng = np.random.default_rng(0)
n = 2000
distance, hour = rng.integers(100, 2500, n), rng.integers(5, 23, n)
carrier = rng.choice(["AA", "DL", "UA"], n)
delay = 0.002 * distance + 1.5 * (hour - 8) + 6 * (carrier == "UA") + rng.laplace(0, 4, n)
label = np.where(delay < 5, "early", np.where(delay < 15, "fair", "late"))
with open("flights.csv", "w") as file:
    file.write("carrier,distance,hour,passengers,delay,class\\n")
    for row in zip(carrier, distance, hour, rng.integers(50, 300, n), delay.round(1), label):
        file.write(",".join(map(str, row)) + "\\n")
"""


def main() -> None:
    parts = [TEXT]
    with tempfile.TemporaryDirectory() as folder:
        for step in STEPS:
            if isinstance(step, str):
                parts.append(f"{step}\n")
                continue
            words, command = step
            if words:
                parts.append(f"{words}\n")
            if command == "@table":
                subprocess.run([sys.executable, "-c", TABLE], cwd=folder, check=True)
                parts.append(f"```python\n{TABLE.lstrip()}{END}\n")
                continue
            parts.append(f"```console\n$ {command}\n{run(command, folder)}```\n")
    text = "\n".join(parts)
    Path(__file__).with_name("cli.md").write_text(
        text.replace("```\n\n```console\n", "").replace(END, "```"), encoding="utf-8"
    )


def run(command: str, folder: str) -> str:
    """What a terminal shows, without the spaces at the ends of lines and with options broken at 120 characters."""
    program = f"{shlex.quote(sys.executable)} -m aidlearn.cli"
    shell = f'aidlearn() {{ {program} "$@"; }}; {command}'
    done = subprocess.run(
        ["bash", "-c", shell], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )
    text = re.sub(r"[ \t]+$", "", done.stdout, flags=re.MULTILINE).rstrip("\n")
    if "Traceback" in text:
        raise RuntimeError(f"{command}:\n{text}")
    return f"{text}\n" if text else ""


if __name__ == "__main__":
    main()
