"""The semi-supervised SVM (paper, section 3.3), on the engine.

problem, start: the four components. branch_and_bound, node_qp, miqp: solvers of aggregated problems.
refine: local search after AID. features, choice: kernels as features of a linear machine, and the choice among them.
"""
