"""One fit over a source: its passes, their changes of the rows (scaled, mixed, reweighted), samples and moments.

The rooms above start from a :class:`~aidlearn.data.passes.run.Run`.
"""
