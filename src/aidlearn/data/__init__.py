"""Data sources: where entries come from, and runs over them."""

from aidlearn.data.arrays import ArraySource
from aidlearn.data.chunk import Chunk
from aidlearn.data.convert import as_source
from aidlearn.data.frames import TableSource
from aidlearn.data.run import Run
from aidlearn.data.source import DataSource

__all__ = ["ArraySource", "Chunk", "DataSource", "Run", "TableSource", "as_source"]
