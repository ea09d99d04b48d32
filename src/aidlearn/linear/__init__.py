"""Linear models with piecewise-linear loss (paper, sections 3.1 and 3.2): problem, starts, solvers, certificate."""
