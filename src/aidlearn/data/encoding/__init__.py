"""Encoding of the cells of a table: factors and their levels, numbers, missing cells, and locations of files.

A :class:`~aidlearn.data.encoding.recipe.Recipe` states how columns become attributes. This room does not depend on
sources or fits.
"""
