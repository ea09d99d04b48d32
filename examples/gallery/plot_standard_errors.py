"""
Standard errors compared with R
===============================

Engel's data, the classic example of quantile regression: food expenditure and income of 235 households. We reproduce the table of
R's ``summary(rq(foodexp ~ income, tau = 1:9/10), se = "nid")``, and the figure of every textbook.
"""

# %%
# One call for nine quantiles, one :class:`~aidlearn.Summary` for each.

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

from aidlearn import QuantileDisplay, QuantileRegressor, equal_slopes

data = sm.datasets.engel.load_pandas().data
X, y = data[["income"]], data["foodexp"]
model = QuantileRegressor(quantile=[k / 10 for k in range(1, 10)], tol=0).fit(X, y)
summaries = model.summary(X, y, se="nid")
print(summaries[4])

# %%
# R 4.2 with quantreg 5.94 printed these standard errors of the slope for ``summary(rq(foodexp ~ income, tau, engel), se = "nid")``:

R = {0.1: 0.0402402, 0.5: 0.0282772, 0.9: 0.0284907}
for summary in summaries:
    if summary.quantile in R:
        ours, theirs = summary.standard_errors[1], R[summary.quantile]
        print(f"tau = {summary.quantile}: aidlearn {ours:.7f}, R {theirs:.7f}")
        assert abs(ours - theirs) < 1e-6

# %%
# The slope by quantile with its 95 % band, and the least-squares slope as a dashed line: rich households differ more
# in what they spend on food than poor ones.

QuantileDisplay.from_estimator(model, X=X, y=y, summaries=summaries)
plt.show()

# %%
# Are the slopes equal? The test (R's ``anova``) rejects it.

print(equal_slopes(summaries))

# %%
# The data with the nine lines.

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ax.plot(data.income, data.foodexp, "o", ms=3, color="0.6")
ends = np.array([350.0, 3000.0])
for q, slope, intercept in zip(model.quantile, model.coef_[:, 0], model.intercept_, strict=True):
    ax.plot(ends, intercept + slope * ends, lw=2 if q == 0.5 else 0.9, color="#0072B2")
ax.set(xlabel="income", ylabel="food expenditure", xlim=(300, 3000), ylim=(200, 2000))
plt.show()
