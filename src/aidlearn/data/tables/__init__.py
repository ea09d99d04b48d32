"""How files and data frames become rows: one module for each format.

All formats share :class:`~aidlearn.data.tables.columns.Columns`, which makes rows of numbers, and files share
:class:`~aidlearn.data.tables.files.FileSource`. A new file format is a module here and a case in
:mod:`aidlearn.data.opening`.
"""
