"""Data sources: where entries come from."""

from aidlearn.data.arrays import ArraySource, TableSource
from aidlearn.data.convert import as_source
from aidlearn.data.source import Chunk, DataSource

__all__ = ["ArraySource", "Chunk", "DataSource", "TableSource", "as_source"]
