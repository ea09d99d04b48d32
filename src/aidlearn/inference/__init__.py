"""Standard errors, tests and confidence intervals of quantile regressions.

A new standard error is a function in ``covariance``; ``summary`` holds what users see.
"""
