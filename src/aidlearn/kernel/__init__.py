"""The kernel SVM (paper, appendix B), on the engine.

functions, matrix, tiles, rows: kernels and their products. dual, solvers, smo, polish: the aggregated dual.
clusters, start, values, problem: the four components. nystroem: a kernel in the span of some rows.
"""
