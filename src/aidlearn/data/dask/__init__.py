"""Dask arrays and data frames as sources: rows and labels stay on the workers."""
