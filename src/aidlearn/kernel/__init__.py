"""The kernel SVM (paper, appendix B), on the engine.

functions, matrix, rows, compiled_rows, tiles: kernels and their products. dual, solvers, smo_points, smo, polish: the
aggregated dual. problem, tube, clusters, start, hurried, values, precise: the four components, for classification and
regression. nystroem: a kernel in the span of some rows.
"""
