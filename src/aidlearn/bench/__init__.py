"""Comparison of programs for ``aidlearn bench``, with a judge that trusts none of them.

``peers`` declares the programs, ``solvers`` runs them, ``measure`` takes times and memory, and ``judge`` recomputes
their objectives from the coefficients. The tables of ``benchmarks/`` use it too.
"""
