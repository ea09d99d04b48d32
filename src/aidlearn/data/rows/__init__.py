"""Where rows live: chunks, sources of chunks, and the threads that map a function over them.

Everything above reads rows through :class:`~aidlearn.data.rows.source.DataSource` and
:class:`~aidlearn.data.rows.chunk.Chunk`; nobody else asks how rows are stored.
"""
