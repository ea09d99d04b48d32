"""How files and data frames become rows: one module for each format.

A new file format is a module here and one line in :mod:`aidlearn.data.opening`.
"""
