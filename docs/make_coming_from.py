"""Write docs/coming-from.md: python docs/make_coming_from.py. Figures of peers come from runs where they are installed."""

from __future__ import annotations

import logging
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from aidlearn import QuantileRegressor, bootstrap, equal_slopes

TEXT = """# Coming from scikit-learn, quantreg, statsmodels, Stata, liblinear

aidlearn fits the same models with the same standard errors, adds a proof of optimality, and takes files larger than memory. The figures
below were produced by `python docs/make_coming_from.py`, which runs the peers that are installed; the data are
`statsmodels.datasets.engel` (235 households, food expenditure on income) and, for clusters, generated rows.

## From R's quantreg

`summary(rq(y ~ x, tau = 1:9/10), se = "nid")` becomes, for a data frame `d`,

```python
import numpy as np
import pandas as pd
from aidlearn import formula

rng = np.random.default_rng(0)
d = pd.DataFrame({"x": rng.uniform(0, 10, 500)})  # your data
d["y"] = 1 + 0.5 * d.x + (1 + 0.2 * d.x) * rng.normal(size=500)

model = formula.fit("y ~ x", d, model="quantile", quantile=[k / 10 for k in range(1, 10)])
for summary in model.summary(d[["x"]], d["y"], se="nid"):
    print(summary)
```

or, without a formula, `QuantileRegressor(quantile=...).fit(X, y).summary(X, y, se="nid")`. Factors, `C(month)` and `- 1` work as in R; standard errors agree to
[four digits and more](#engel-standard-errors-of-intercept-and-slope).

## From scikit-learn and liblinear

| elsewhere | in aidlearn | what differs |
|---|---|---|
| `linear_model.QuantileRegressor(quantile=q, alpha=0)` | `QuantileRegressor(quantile=q)` | `alpha` is 0 by default in aidlearn and 1 in scikit-learn; the objective is a sum in aidlearn and a mean in scikit-learn |
| `linear_model.QuantileRegressor(alpha=a)` | `QuantileRegressor(alpha=a)` | nothing: the same penalty |
| `svm.SVC(kernel="linear", C=C)` | `LinearSVC(C=C)` | only the speed |
| `svm.LinearSVC(loss="hinge", C=C)`, liblinear `-s 3` | `LinearSVC(C=C)` | liblinear penalises the intercept (less with a larger `intercept_scaling` or `-B`); without an intercept (`fit_intercept=False`) they are the same |
| `svm.LinearSVC()`, liblinear `-s 1`, `-s 2` | - | a different loss, the squared hinge |
| `svm.LinearSVR(C=C, epsilon=e)`, liblinear `-s 13` | `LinearSVR(C=C, epsilon=e)` | liblinear penalises the intercept |
| `svm.SVR(kernel="linear")` | `LinearSVR` | nothing |
| `svm.SVC(kernel="rbf", C=C, gamma=g)` | `SVC(C=C, gamma=g)` | stops at a certified gap, not at a violation of the KKT conditions |
| `svm.OneClassSVM(kernel="linear", nu=nu)` | `LinearOneClassSVM(nu=nu)` | see [one-class](one-class.md) |
| `GridSearchCV(LinearSVC(), {"C": Cs})` | `LinearSVCCV(Cs=Cs)` | shares passes; grid searches work too |
| `make_pipeline(StandardScaler(), LinearSVC())` | `LinearSVC(standardize=True)` | no copy; coefficients in the units of the data |
| `make_column_transformer((OneHotEncoder(), [...]))` | nothing to do | text and categorical columns are factors |
| liblinear `train -s 3 -c 1 file model` | `aidlearn fit svm file.svmlight --C 1 -o model.aid` | a svmlight file contains its target |

```python
import numpy as np
from sklearn.linear_model import QuantileRegressor as TheirQuantileRegressor
from sklearn.svm import SVC as TheirSVC
from aidlearn import LinearSVC, QuantileRegressor

X = rng.normal(size=(300, 3))
score = X @ [1.0, -1.0, 0.5] + rng.normal(size=300)
ours, theirs = QuantileRegressor(quantile=0.7, alpha=0.01, tol=1e-9), TheirQuantileRegressor(quantile=0.7, alpha=0.01)
assert np.allclose(ours.fit(X, score).coef_, theirs.fit(X, score).coef_, atol=1e-6)
ours, theirs = LinearSVC(C=0.5, tol=1e-9), TheirSVC(kernel="linear", C=0.5, tol=1e-9)
assert np.allclose(ours.fit(X, score > 0).coef_, theirs.fit(X, score > 0).coef_, atol=1e-4)
```

## Quantile regression, call by call

| what | aidlearn | R quantreg | statsmodels | Stata | pyfixest |
|---|---|---|---|---|---|
| fit | `QuantileRegressor(quantile=0.5).fit(X, y)` | `rq(y ~ x, tau = 0.5)` | `QuantReg(y, X).fit(q=0.5)` | `qreg y x, quantile(.5)` | `quantreg("y ~ x", d, quantile=0.5)` |
| several quantiles | `quantile=[0.1, 0.5, 0.9]` | `tau = c(.1, .5, .9)` | a loop | `sqreg` | `quantile=[...]` |
| weights | `fit(X, y, sample_weight=w)` | `weights = w` | - | `[pw=w]` | - |
| table | `model.summary(X, y)` | `summary(fit, se = "nid")` | `.summary()` | shown | `.summary()` |
| iid errors | `se="iid"` | `se = "iid"` | `vcov="iid"` | `vce(iid)` | `vcov="iid"` |
| not iid | `se="nid"` | `se = "nid"` | - | - | `vcov="nid"` |
| kernel | `se="kernel"` | `se = "ker"` | `vcov="robust"` | `vce(robust)` | `vcov="hetero"` |
| clusters | `se="cluster", clusters=g` | - | - | `qreg2, cluster(g)` | `vcov={"CRV1": "g"}` |
| bootstrap | `se="bootstrap"`, `bootstrap(model, X, y)` | `se = "boot", bsmethod = "wxy"` | - | `bsqreg` | - |
| rank test | `se="rank"` (small data) | `se = "rank"` | - | - | - |
| bandwidth | `bandwidth="bofinger"` | `hs = FALSE` | `bandwidth="bofinger"` | `vce(, bofinger)` | - |
| equal slopes | `equal_slopes(model.summary(X, y))` | `anova(fit1, fit2)` | - | `test` after `sqreg` | - |
| linear hypotheses | `summary.wald_test(["a", "b"])` | `anova(small, large)` | `.wald_test` | `test a b` | `.wald_test` |
| nested models | `likelihood_ratio_test(small, large)` | - | - | - | - |
"""

DIFFERENCES = """
## What differs, and why

- **iid**: the published estimate of the sparsity is a difference quotient of the quantiles of the residuals (Siddiqui;
  Koenker and Bassett 1978), here over the residuals that are not zero. R's `summary.rq(se = "iid")` uses
  another estimate, so its standard errors differ from those of aidlearn by a common factor, which tends to 1 as n grows.
- **nid, kernel, Bofinger**: the same formulas, and results that agree to 4 digits or more. `kernel` uses a Gaussian kernel
  and the bandwidth `min(sd, IQR / 1.34) (q(tau + h) - q(tau - h))`, q the normal quantile, as R does; statsmodels uses an
  Epanechnikov kernel by default and Stata another scale.
- **cluster**: Parente and Santos Silva's sandwich with the small-sample factor `G/(G-1) (n-1)/(n-k)` and G - 1 degrees
  of freedom; it agrees with pyfixest's `CRV1` to the last digits. Interpolated rows count as below the fit.
- **rank**: R interpolates between the two steps of the rank test around its critical value; here the interval ends at
  the step that rejects, so it is wider by less than a step. The statistic and the p-value are those of the rank test of
  a coefficient of 0.
- **pyfixest's nid** has the small-sample factor `(n-1)/(n-k)` too; R and aidlearn have none.
- **Weights** mean what they mean in R: the data are the rows (w x, w y). They are not frequencies; rows of weight 0 are
  left out and not counted.
- **bootstrap**: exponential weights of the rows (R's "wxy"); every replicate comes with its proven gap.
- **Tolerance**: the default `tol=1e-4` of a fit may be coarse compared with the sampling error of millions of rows; a note in the summary
  then names the tolerance to use.
"""

R = """
suppressMessages(library(quantreg)); data(engel)
for (tau in c(0.1, 0.5, 0.9)) { f <- suppressWarnings(rq(foodexp ~ income, tau, engel))
  for (se in c("iid", "nid", "ker")) cat("quantreg", tau, se, format(suppressWarnings(summary(f, se = se)$coefficients[, 2]), digits = 8), "\\n") }
t <- anova(rq(foodexp ~ income, 0.25, engel), rq(foodexp ~ income, 0.75, engel))$table
cat("anova", format(as.numeric(unlist(t[1, ])), digits = 8), "\\n")
"""


def lines_of_r() -> list[list[str]]:
    if shutil.which("Rscript") is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "peer.R")
        script.write_text(R)
        done = subprocess.run(["Rscript", str(script)], capture_output=True, text=True)
    return [line.split() for line in done.stdout.splitlines()]


def engel_table() -> str:
    import statsmodels.api as sm

    data = sm.datasets.engel.load_pandas().data
    X, y = data[["income"]], data.foodexp
    theirs = {
        (float(tau), se): values for name, *rest in lines_of_r() if name == "quantreg" for tau, se, *values in [rest]
    }
    out = [
        "\n## engel: standard errors of intercept and slope\n",
        "| quantile | se | aidlearn | R quantreg |",
        "|---|---|---|---|",
    ]
    names = {"iid": "iid", "nid": "nid", "kernel": "ker"}
    for tau in (0.1, 0.5, 0.9):
        model = QuantileRegressor(quantile=tau, tol=0).fit(X, y)
        for se, other in names.items():
            ours = ", ".join(f"{value:.6g}" for value in model.summary(X, y, se=se).standard_errors)
            shown = ", ".join(f"{float(value):.6g}" for value in theirs.get((tau, other), [])) or "not installed"
            out.append(f"| {tau:g} | {se} | {ours} | {shown} |")
    test = equal_slopes(QuantileRegressor(quantile=[0.25, 0.75], tol=0).fit(X, y).summary(X, y))
    out.append(f"\n`equal_slopes` at 0.25 and 0.75: F({test.df}, {test.df_residual:g}) = {test.statistic:.6g}.")
    for name, *values in lines_of_r():
        if name == "anova":
            out.append(f"R's `anova`: F({float(values[0]):g}, {float(values[1]):g}) = {float(values[2]):.6g}.")
    out.append("\n```\n" + str(QuantileRegressor(quantile=0.5, tol=0).fit(X, y).summary(X, y)) + "\n```")
    return "\n".join(out) + "\n"


def cluster_table() -> str:
    rng = np.random.default_rng(0)
    n = 2000
    g = np.arange(n) // 20
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n // 20)[g]})
    y = 1 + X.a - X.b + rng.normal(size=n // 20)[g] + rng.normal(size=n)
    out = [
        "\n## Clusters: 2,000 generated rows in 100 clusters, median\n",
        "| | (intercept) | a | b |",
        "|---|---|---|---|",
    ]

    def add(name: str, values: object) -> None:
        out.append(f"| {name} | " + " | ".join(f"{float(value):.6g}" for value in np.asarray(values)) + " |")

    model = QuantileRegressor(quantile=0.5, tol=0).fit(X, y)
    add('aidlearn, `se="cluster"`', model.summary(X, y, se="cluster", clusters=g).standard_errors)
    try:
        import pyfixest

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = pyfixest.quantreg("y ~ a + b", X.assign(y=y, g=g), vcov={"CRV1": "g"}, quantile=0.5, tol=1e-10)
            add("pyfixest, `CRV1`", theirs.se())
    except ImportError:
        out.append("| pyfixest | not installed | | |")
    add('aidlearn, `bootstrap(kind="cluster")`', bootstrap(model, X, y, 400, "cluster", g, 0).standard_errors)
    add('aidlearn, `se="nid"` (wrong here: it assumes independent rows)', model.summary(X, y).standard_errors)
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    logging.getLogger("aidlearn").setLevel(logging.WARNING)  # pyfixest turns all logs on
    Path(__file__).with_name("coming-from.md").write_text(TEXT + engel_table() + cluster_table() + DIFFERENCES)
