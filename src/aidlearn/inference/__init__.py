"""Standard errors, tests and confidence intervals of quantile regressions.

``survey`` holds the residuals and sums at a solution that every estimate needs; ``covariance`` has the bandwidths, the
densities and the sandwich; ``clusters`` treats rows that depend on each other; ``order_statistics`` computes quantiles
over all rows; ``rank_test`` inverts rank tests. ``summary`` and ``hypotheses`` hold the results that users see.
"""
