"""Conversion of files and data frames to rows, in one module per format.

All formats share :class:`~aidlearn.data.tables.columns.Columns`, which makes rows of numbers, and files share
:class:`~aidlearn.data.tables.files.FileSource`. A new file format needs a module here and a case in
:mod:`aidlearn.data.opening`.
"""
