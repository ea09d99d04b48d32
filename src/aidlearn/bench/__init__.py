"""Comparisons with other programs, after benchopt's roles: data sets, solvers, and a judge that trusts none of them.

``datasets`` makes and reads data, ``peers`` declares the programs, ``judge`` recomputes their objectives from the
coefficients, ``harness`` runs each measurement in a process of its own and ``table`` writes what came out.
``aidlearn bench`` and the tables of ``benchmarks/`` stand on it; nothing else imports it.
"""
