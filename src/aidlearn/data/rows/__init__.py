"""Storage of rows: chunks, sources of chunks, and the threads that map a function over them.

All other rooms read rows through :class:`~aidlearn.data.rows.source.DataSource` and
:class:`~aidlearn.data.rows.chunk.Chunk`, and do not depend on how rows are stored.
"""
