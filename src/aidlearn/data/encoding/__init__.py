"""What the cells of a table mean: factors and their levels, numbers, missing cells, and where a cell is.

A :class:`~aidlearn.data.encoding.recipe.Recipe` says how columns become attributes. This room knows no source and no
fit.
"""
