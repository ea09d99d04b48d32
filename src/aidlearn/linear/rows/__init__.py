"""Rows of linear problems by storage: dense, sparse with groups, and one factor that is eliminated.

Solvers see a :class:`~aidlearn.linear.rows.matrix.Matrix` and never ask how its rows are stored.
"""
