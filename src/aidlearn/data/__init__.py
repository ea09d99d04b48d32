"""Data sources, and runs over their entries."""

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.source import DataSource
from aidlearn.data.tables.conversion import as_source
from aidlearn.data.tables.in_memory import TableSource

__all__ = ["ArraySource", "Chunk", "DataSource", "Run", "TableSource", "as_source"]
