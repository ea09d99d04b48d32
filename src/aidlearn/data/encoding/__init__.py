"""Meaning of the cells of a table: factors and their levels, numbers, missing cells, and files.

A :class:`~aidlearn.data.encoding.recipe.Recipe` says how columns become attributes. This room knows no source and no
fit.
"""
