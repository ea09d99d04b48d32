"""Standard errors, tests and confidence intervals of quantile regressions.

covariance: sandwich estimates, a function for each kind of standard error. summary, hypotheses: the results that users
see. order_statistics, centred_gram: sums over all rows. gaps, dependence, rank_test: small methods of their own.
"""
