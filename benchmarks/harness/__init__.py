"""Infrastructure of all tables: data sets, programs, processes, layout and one command line.

``datasets`` makes and reads data, ``peers`` adds programs to those of ``aidlearn bench``, ``cells`` runs each
measurement in a process of its own (``process``), ``table`` writes the results and ``command`` is the command line of
every ``python -m benchmarks.NAME``.
"""
