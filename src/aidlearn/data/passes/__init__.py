"""One fit over a source: its passes, transformations of the rows (scaled, mixed, reweighted), samples and moments.

All rooms above start from a :class:`~aidlearn.data.passes.run.Run`.
"""
