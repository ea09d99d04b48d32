"""Table files streamed with pyarrow: their common base class, and Parquet."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.levels import LevelsFound, make_recipe, refuse_columns
from aidlearn.data.encoding.places import FilePlace
from aidlearn.data.encoding.recipe import Recipe
from aidlearn.data.encoding.rules import Rules
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.source import DataSource
from aidlearn.data.tables.columns import ColumnChoice, arrow_kind
from aidlearn.data.tables.files import FileSource, RowBlock, read_ahead
from aidlearn.numerics import Float

PLAIN = Rules()


@dataclass(frozen=True)
class ParquetSettings:
    """How much of a Parquet file is read at a time."""

    batch_bytes: int = 2 << 20
    """Guess. Bytes of a decoded batch, counted as float64 cells."""
    held_batches: float = 60.0
    """Guess. Memory of the reader in batches, including what allocators retain."""
    page_bytes: float = 2.2e6
    """Bytes of a page of a column, stored and decoded: writers cut pages at 1 MiB by default."""
    buffer_bytes: int = 1 << 18
    """Guess. Bytes of each column that are read at once."""
    fewest_rows: int = 1024
    """Guess. Minimum number of rows of a batch."""


SETTINGS = ParquetSettings()


def recut(batches: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Batches of any size as lists of slices that make ``size`` rows each (the last fewer); nothing is copied."""
    waiting: list[Any] = []
    missing = size
    for batch in batches:
        first = 0
        while batch.num_rows - first >= missing:
            yield [*waiting, batch.slice(first, missing)]
            first += missing
            waiting, missing = [], size
        if first < batch.num_rows:
            waiting.append(batch.slice(first))
            missing -= batch.num_rows - first
    if waiting:
        yield waiting


class TableFiles(FileSource):
    """Base of table formats: chosen columns of record batches, factors, and rows without missing cells."""

    named = True
    choice: ColumnChoice
    paths: list[FilePlace]
    first_rows: list[int]
    rules: Rules = PLAIN
    """Rules of the opening; an estimator's own rules take precedence."""
    dictionaries: Sequence[str] = ()
    """Columns that are read as dictionaries of their levels."""
    _asked: tuple[Any, ...] | None = None
    """Key of the rules that encoded the source, by which equal rules are recognised."""

    @abstractmethod
    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Record batches of some columns, from the first row to the last."""

    def _describe(self, choice: ColumnChoice, n_rows: Sequence[int], where: str) -> None:
        self.choice = choice
        self.n_entries = self._n_rows = sum(n_rows)
        self.inputs = [str(name) for name in choice.columns]
        self.names, self.n_attributes = choice.names, len(choice.names)
        self.target_name, self.has_target = str(choice.target), choice.target is not None
        self.first_rows = np.concatenate([[0], np.cumsum(n_rows)]).astype(int).tolist()
        self._found: dict[tuple[int, str], LevelsFound] = {}
        """Levels found so far, by column and rows used."""
        self._n_used = {"all": self._n_rows}
        if self.n_entries == 0:
            raise ValueError(f"{where} has no rows.")

    def opened_with(self, rules: Rules) -> TableFiles:
        """The same files with rules, over which those of an estimator take precedence."""
        source = copy(self)
        source.rules = rules
        return source

    def encoded(self, rules: Rules, intercept: bool) -> DataSource:
        """The same files, encoded by the rules of an estimator; levels are found by one pass over their columns."""
        rules = rules.over(self.rules)
        plain = self.choice.encoding(None, False)
        drops, unlabelled = rules.missing == "drop", rules.unlabelled
        factors = rules.factors(plain.columns, plain.outline.kinds, plain.where)
        refuse_columns(plain.outline, factors)
        asked = (factors, rules.missing, rules.unknown, unlabelled, intercept, rules.by_dtype, list(rules.also))
        if asked == self._asked:
            return self
        source, recipe = copy(self), None
        source._asked = asked
        source.dictionaries = _texts_among(plain, factors)
        source.choice = plain.encoding(None, drops, unlabelled)
        if source.choice.used_rows != self.choice.used_rows:
            source.forget_classes()
        if factors or drops:
            found, n_rows = source._levels(factors)
            source.n_entries, source.n_dropped = n_rows, self._n_rows - n_rows
            if factors:
                recipe = make_recipe(plain.outline, rules, factors, found, n_rows, intercept, source.row_name)
        source._encode(plain, recipe, drops, unlabelled)
        return source

    def following(self, recipe: Recipe | None) -> TableFiles:
        """The same files, encoded by the recipe of a model without a search for levels."""
        plain = self.choice.encoding(None, False)
        factors = {} if recipe is None else recipe.factor_positions
        refuse_columns(plain.outline, factors)
        source = copy(self)
        source.dictionaries = _texts_among(plain, factors)
        source._encode(plain, recipe, False)
        return source

    def _encode(self, plain: ColumnChoice, recipe: Recipe | None, drops: bool, unlabelled: bool = False) -> None:
        self.choice = plain.encoding(recipe, drops, unlabelled)
        self.choice.row_name = self.row_name
        self.encoding, self.names = recipe, self.choice.names
        self.n_attributes, self.is_sparse = len(self.names), recipe is not None and recipe.is_sparse

    def _levels(self, factors: Mapping[int, Any]) -> tuple[dict[int, LevelsFound], int]:
        """The levels of columns, and the number of rows that are used."""
        choice, rows = self.choice, self.choice.used_rows
        wanted = [j for j in factors if (j, rows) not in self._found]
        if wanted or rows not in self._n_used:
            names = choice.needed if choice.drops else [choice.columns[j] for j in wanted]
            found = {j: LevelsFound(choice.outline.kinds[j]) for j in wanted}
            row = 0
            for batch in self.batches(names):
                used = choice.complete(batch) if choice.drops else batch
                for j in wanted:
                    if not found[j].is_too_many():
                        found[j].add(*choice.dictionary(used, j), row)
                row += used.num_rows
            self._found.update({(j, rows): levels for j, levels in found.items()})
            self._n_used[rows] = row
            if row == 0:
                raise ValueError(f"Every row of {choice.where} has a missing cell, so missing='drop' leaves none.")
        return {j: self._found[j, rows] for j in factors}, self._n_used[rows]

    def row_name(self, row: int) -> str:
        if self.choice.drops:
            return f"{row} of those without missing cells of {self.choice.where}"
        file = int(np.searchsorted(self.first_rows, row, side="right")) - 1
        return f"{row - self.first_rows[file]} of {self.paths[file]}"

    def column_name(self, column: int) -> str:
        column = column if self.encoding is None else self.encoding.input_of(column)
        return f"{column} ({self.choice.columns[column]!r})"

    def blocks(self) -> Iterator[RowBlock]:
        start = 0
        for parts in self._chunk_parts():
            yield self.choice.block(parts, start=start)
            start += sum(batch.num_rows for batch in parts)

    def _chunk_parts(self) -> Iterator[list[Any]]:
        """Lists of batches, one per chunk; decoding and conversion to arrays have a thread each."""
        return recut(read_ahead(self._used(self.choice.needed)), self.rows_per_chunk)

    def _used(self, columns: list[str]) -> Iterator[Any]:
        """Batches of the rows that are used."""
        batches = self.batches(columns)
        return map(self.choice.complete, batches) if self.choice.drops else batches

    def _cut(self, held: int = 1) -> Iterator[Chunk]:
        return (load() for load in self._loads(held))

    def _loads(self, held: int) -> Iterator[Callable[[], Chunk]]:
        """Functions that convert the batches of each chunk, into buffers that later chunks reuse."""
        start, ring = 0, None if self.is_sparse else self._ring(np.float64, held)

        def load(parts: list[Any], into: Float | None, start: int) -> Chunk:
            return self._chunk(self.choice.block(parts, into, start), start)

        for parts in self._chunk_parts():
            yield partial(load, parts, None if ring is None else next(ring), start)
            start += sum(batch.num_rows for batch in parts)

    def loads(self, held: int) -> Iterator[Callable[[], Chunk]]:
        self._check_unchanged()
        yield from read_ahead(self._loads(held))
        self._check_unchanged()

    def targets(self) -> Iterator[NDArray[Any]]:
        target = self.choice.target
        assert target is not None
        needed = self.choice.needed if self.choice.drops else [target]
        return (self.choice.raw(batch.column(target)) for batch in self._used(needed))


class FolderKeys:
    """Columns encoded in folder names, as in ``year=2024/month=5/``: whole numbers if all are, else texts."""

    def __init__(self, places: Sequence[FilePlace]) -> None:
        self.names = [name for name, _ in places[0].keys]
        for place in places:
            if [name for name, _ in place.keys] != self.names:
                raise ValueError(f"{place} lies in folders of other keys than {places[0]}.")
        values = [[value for _, value in place.keys] for place in places]
        self.whole = [
            all(value is None or re.fullmatch(r"-?\d{1,18}", value) for value in column)
            for column in zip(*values, strict=True)
        ]

    def fields(self, inside: Sequence[str]) -> list[Any]:
        """Fields of a schema; columns of the same name inside the files take precedence."""
        import pyarrow as pa

        text = pa.dictionary(pa.int32(), pa.string())
        kinds = zip(self.names, self.whole, strict=True)
        return [pa.field(name, pa.int64() if whole else text) for name, whole in kinds if name not in inside]

    def column(self, place: FilePlace, name: str, n: int) -> Any:
        """A column with the file's value in every row."""
        import pyarrow as pa

        value, k = dict(place.keys)[name], self.names.index(name)
        if self.whole[k]:
            return pa.array([None] * n if value is None else np.full(n, int(value)), type=pa.int64())
        codes = pa.array([None] * n if value is None else np.zeros(n, dtype=np.int32), type=pa.int32())
        return pa.DictionaryArray.from_arrays(codes, pa.array([] if value is None else [value], type=pa.string()))


class ParquetSource(TableFiles):
    """Parquet files, in the order of their names; row groups are streamed."""

    def __init__(
        self,
        places: list[FilePlace],
        target: Any = None,
        columns: Any = None,
        weight: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.paths, self.n_jobs = places, n_jobs
        self._remember(places)
        schema, sizes = None, []
        for place in places:
            try:
                with pq.ParquetFile(place.file()) as file:
                    found, n_rows = file.schema_arrow, file.metadata.num_rows
            except Exception as error:
                raise ValueError(f"{place} cannot be read as Parquet: {short(error)}") from None
            schema = found if schema is None else schema
            if list(zip(found.names, found.types, strict=True)) != list(zip(schema.names, schema.types, strict=True)):
                raise ValueError(f"{place} has other columns or types than {places[0]}: {_difference(schema, found)}.")
            sizes.append(n_rows)
        assert schema is not None
        self._inside = schema.names
        self._partitions = FolderKeys(places)
        schema = pa.schema([*schema, *self._partitions.fields(schema.names)], metadata=schema.metadata)
        where = where_of(places)
        self._describe(ColumnChoice(schema, where, target, columns, weight), sizes, where)
        column_bytes = SETTINGS.page_bytes + SETTINGS.buffer_bytes
        batches = SETTINGS.held_batches * SETTINGS.batch_bytes
        self.reading_bytes = column_bytes * len(self.choice.needed) + batches

    def batches(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow.lib import ArrowException

        rows = max(SETTINGS.fewest_rows, SETTINGS.batch_bytes // (8 * max(1, len(columns))))
        inside = [name for name in columns if name in self._inside]
        whole = inside == columns
        read = inside or self._inside[:1]  # a batch without columns has no number of rows
        levels = [name for name in self.dictionaries if name in read and _is_text(self.choice.schema, name)]
        for place in self.paths:
            try:
                # Without the first two, pyarrow holds whole row groups, or the whole file.
                with pq.ParquetFile(
                    place.file(), pre_buffer=False, buffer_size=SETTINGS.buffer_bytes, read_dictionary=levels
                ) as file:
                    for batch in file.iter_batches(batch_size=rows, columns=read, use_threads=True):
                        yield batch if whole else self._completed(batch, place, columns)
            except (OSError, ArrowException) as error:
                raise ValueError(f"{place} cannot be read to its end: {short(error)}") from None
            finally:
                pa.default_memory_pool().release_unused()  # it retains what its threads have freed

    def _completed(self, batch: Any, place: FilePlace, columns: list[str]) -> Any:
        """A batch with the columns of its folders added."""
        import pyarrow as pa

        parts = [
            batch.column(name) if name in self._inside else self._partitions.column(place, name, batch.num_rows)
            for name in columns
        ]
        return pa.RecordBatch.from_arrays(parts, names=columns)


def _texts_among(choice: ColumnChoice, factors: Iterable[int]) -> list[str]:
    """Names of the factors that are stored as texts or categories."""
    return [choice.columns[j] for j in factors if choice.outline.kinds[j] in ("text", "category")]


def _is_text(schema: Any, name: str) -> bool:
    return arrow_kind(schema.field(name).type) == "text"


def where_of(places: Sequence[FilePlace]) -> str:
    """Name of one or several files in messages."""
    if len(places) == 1:
        return str(places[0])
    folder = str(places[0]).rpartition("/")[0]
    return f"{folder or places[0]} ({len(places)} files)"


def _difference(schema: Any, other: Any) -> str:
    for name in schema.names:
        if name not in other.names:
            return f"it has no column {name!r}"
        if schema.field(name).type != other.field(name).type:
            return f"{name!r} is {other.field(name).type}, not {schema.field(name).type}"
    extra = [name for name in other.names if name not in schema.names]
    return f"it has a column {extra[0]!r} more" if extra else "their order differs"


def short(error: Exception) -> str:
    """The first line of a message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
