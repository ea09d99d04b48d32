"""Linear models with a piecewise-linear loss: LAD, quantiles, SVM, SVR and losses of one's own.

Rooms, each using only those before it: ``rows``, ``aggregated``, ``constraints``, ``model``, ``passes``, then
``problem`` (the four components of AID) and ``start`` (its initial clusters).
"""
