"""Storage of the rows of linear problems: dense, sparse with groups, and with one factor that is eliminated.

Solvers see a :class:`~aidlearn.linear.rows.matrix.Matrix` and never ask how its rows are stored.
"""
