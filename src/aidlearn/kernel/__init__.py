"""The kernel SVM (paper, appendix B), on the engine.

functions, rows, tiles: kernels, the rows they are evaluated on, and products with their matrix.
dual, solvers, smo: the aggregated dual and its solvers. clusters, entries, values, problem, start: the four components.
"""
