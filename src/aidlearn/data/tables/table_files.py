"""Table files as sources: batches of chosen columns, with factors encoded and rows with missing cells dropped."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.levels import REFUSED, LevelsFound, TableOutline, make_recipe, refuse_columns
from aidlearn.data.encoding.places import FilePlace
from aidlearn.data.encoding.recipe import Recipe
from aidlearn.data.encoding.rules import Rules
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.tables.arrow import ArrowColumns, arrow_floats, arrow_kind, arrow_target, complete, joined
from aidlearn.data.tables.columns import EncodedSource, Roles, choose_columns
from aidlearn.data.tables.files import FileSource, read_ahead
from aidlearn.numerics import Float


class TableFiles(EncodedSource, FileSource):
    """Base of table formats; a subclass reads the record batches of each file."""

    named = True
    is_decoded = True
    where: str
    """Name of the files in messages."""
    rules: Rules = Rules()
    """Rules given when the files were opened; an estimator's own rules take precedence."""
    checked: tuple[str, ...] = ()
    """Columns in which a missing cell drops the row; empty if all rows are used."""
    dictionaries: Sequence[str] = ()
    """Columns read as dictionaries of their levels."""
    decimal: str | None = None
    """The decimal mark of a text file."""
    _request: tuple[Any, ...] | None = None
    """Rules that the source was encoded by, used to recognise an equal request."""

    @abstractmethod
    def _batches(self, place: FilePlace, columns: list[str]) -> Iterator[Any]:
        """Yield record batches of the named columns of a file, from its first row to its last."""

    def _choose(self, schema: Any, where: str, asked: Roles, dates: Sequence[str] = ()) -> None:
        """Choose the columns among those of the files and of their folders."""
        import pyarrow as pa

        self._inside = list(schema.names)
        self._keys = FolderKeys(self.places)
        fields = [*schema, *self._keys.fields(self._inside)]
        indexes = (schema.pandas_metadata or {}).get("index_columns", [])  # row names are not attributes
        roles = choose_columns([field.name for field in fields], where, asked, indexes)
        self.where, self.inputs, self.target, self.weight = where, roles.columns, roles.target, roles.weight
        self.needed = [*roles.columns, *(name for name in (roles.target, roles.weight) if name is not None)]
        self.target_name, self.has_target = str(roles.target), roles.target is not None
        self.types = {field.name: field.type for field in pa.schema(fields)}
        for what, needs in (("target", "numbers or texts"), ("weight", "numbers")):
            name = getattr(roles, what)
            kind = "number" if name is None else arrow_kind(self.types[name])
            if kind in REFUSED or (what == "weight" and kind == "text"):
                holds = REFUSED.get(kind, "texts").partition(";")[0]
                raise ValueError(f"The {what} {name!r} of {where} holds {holds}; convert it to {needs}.")
        kinds = ["date" if name in dates else arrow_kind(self.types[name]) for name in self.inputs]
        self.outline = TableOutline(self.inputs, kinds, where)
        self._encode(None)
        self._found: dict[tuple[int, tuple[str, ...]], LevelsFound] = {}
        """Levels found so far, by column and checked columns."""

    def _count(self, n_rows: Sequence[int]) -> None:
        """Set the number of rows from those of each file."""
        self.n_entries = self._n_rows = sum(n_rows)
        self._n_used: dict[tuple[str, ...], int] = {(): self._n_rows}
        """Number of rows used, by checked columns."""
        self._first_rows = np.concatenate([[0], np.cumsum(n_rows)])
        if self.n_entries == 0:
            raise ValueError(f"{self.where} has no rows.")

    def opened_with(self, rules: Rules) -> TableFiles:
        """Return the same files with rules, over which those of an estimator take precedence."""
        source = copy(self)
        source.rules = rules
        return source

    def encoded(self, rules: Rules, intercept: bool) -> TableFiles:
        """Return the same files encoded by the rules of an estimator; one pass over the factors finds levels."""
        rules = rules.over(self.rules)
        factors = rules.factors(self.inputs, self.outline.kinds, self.where)
        refuse_columns(self.outline, factors)
        request = (factors, rules.missing, rules.unknown, rules.unlabelled, intercept, rules.by_dtype, list(rules.also))
        if request == self._request:
            return self
        source = self._with_factors(factors)
        source._request = request
        unchecked = self.target if rules.unlabelled else None
        source.checked = tuple(name for name in self.needed if name != unchecked) if rules.missing == "drop" else ()
        if source.checked != self.checked:
            source.found_classes = None  # fewer rows may have fewer classes
        found = source._levels(factors)
        source.n_entries = source._n_used[source.checked]
        source.n_dropped = self._n_rows - source.n_entries
        if factors:
            n = source.n_entries
            source._encode(make_recipe(self.outline, rules, factors, found, n, intercept, source.row_name))
        return source

    def following(self, recipe: Recipe | None) -> TableFiles:
        """Return the same files encoded by the recipe of a model, without a search for levels."""
        factors = {} if recipe is None else recipe.factor_positions
        refuse_columns(self.outline, factors)
        source = self._with_factors(factors)
        source._encode(recipe)
        return source

    def _with_factors(self, factors: Iterable[int]) -> TableFiles:
        """Return a copy that reads factors as dictionaries and is not encoded yet."""
        source = copy(self)
        source.dictionaries = [self.inputs[j] for j in factors if self.outline.kinds[j] in ("text", "category")]
        source._encode(None)
        return source

    def _levels(self, factors: Iterable[int]) -> dict[int, LevelsFound]:
        """Return the levels of columns in the rows used; one pass finds those still unknown and counts the rows."""
        wanted = [j for j in factors if (j, self.checked) not in self._found]
        if wanted or self.checked not in self._n_used:
            names = self.needed if self.checked else [self.inputs[j] for j in wanted]
            self._n_used[self.checked] = sum(self._scan(wanted, names))
            if self._n_used[self.checked] == 0:
                raise ValueError(f"Every row of {self.where} has a missing cell, so missing='drop' leaves none.")
        return {j: self._found[j, self.checked] for j in factors}

    def _scan(self, wanted: Sequence[int], names: list[str]) -> list[int]:
        """Return the number of used rows of each file, and collect the levels of the wanted columns."""
        found = {j: LevelsFound(self.outline.kinds[j]) for j in wanted}
        counts, row = [], 0
        for place in self.places:
            first = row
            for batch in self._used(names, [place]):
                columns = ArrowColumns([batch], self.outline)
                for j, levels in found.items():
                    if not levels.is_too_many():
                        levels.add(*columns.dictionary(j, 0, columns.n_rows), row)
                row += columns.n_rows
            counts.append(row - first)
        self._found.update({(j, self.checked): levels for j, levels in found.items()})
        return counts

    def _used(self, columns: list[str], places: Sequence[FilePlace] | None = None) -> Iterator[Any]:
        """Yield batches of the rows used, including the columns encoded in folder names."""
        inside = [name for name in columns if name in self._inside]
        for place in self.places if places is None else places:
            for batch in self._batches(place, inside or self._inside[:1]):  # without columns, batches lose their length
                whole = batch if inside == columns else self._keys.completed(batch, place, columns)
                yield complete(whole, self.checked) if self.checked else whole

    def row_name(self, row: int) -> str:
        if self.checked:
            return f"{row} of those without missing cells of {self.where}"
        file = int(np.searchsorted(self._first_rows, row, side="right")) - 1
        return f"{row - self._first_rows[file]} of {self.places[file]}"

    def _read(self, held: int = 1) -> Iterator[Chunk]:
        return (load() for load in self._loads(held))

    def loads(self, held: int) -> Iterator[Callable[[], Chunk]]:
        return self._ahead(self._loads(held))

    def _loads(self, held: int) -> Iterator[Callable[[], Chunk]]:
        """Yield functions that convert the batches of each chunk, into buffers that later chunks reuse.

        Decoding and conversion to arrays run in separate threads.
        """
        start, ring = 0, None if self.is_sparse else self._ring(np.float64, held)
        for batches in recut(read_ahead(self._used(self.needed)), self.rows_per_chunk):
            yield partial(self._converted, batches, start, None if ring is None else next(ring))
            start += sum(batch.num_rows for batch in batches)

    def _converted(self, batches: Sequence[Any], start: int, into: Float | None) -> Chunk:
        n = sum(batch.num_rows for batch in batches)
        if self.encoding is None and into is not None:  # batch by batch, so that no column is copied twice
            X, first = into[:n], 0
            for batch in batches:
                ArrowColumns([batch], self.outline).rows(0, batch.num_rows, None, into=X[first:])
                first += batch.num_rows
        else:
            columns = ArrowColumns(batches, self.outline, self.encoding, self.decimal)
            X = columns.rows(0, n, self.encoding, into=into, row_name=lambda row: self.row_name(start + row))
        target = np.zeros(n) if self.target is None else arrow_target(joined(batches, self.target), self.target)
        weight = np.ones(n) if self.weight is None else arrow_floats(joined(batches, self.weight), self.weight)
        return Chunk(start, start + n, X, target, weight)

    def targets(self) -> Iterator[NDArray[Any]]:
        for batch in self._used(self.needed if self.checked else [self.target]):
            yield arrow_target(joined([batch], self.target), self.target)


def recut(batches: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of slices of batches, with ``size`` rows in each list (fewer in the last), without copies."""
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


class FolderKeys:
    """Columns encoded in folder names, as in ``year=2024/month=5/``; whole numbers if all values are, else texts."""

    def __init__(self, places: Sequence[FilePlace]) -> None:
        self.names = [name for name, _ in places[0].keys]
        for place in places:
            if [name for name, _ in place.keys] != self.names:
                raise ValueError(f"{place} lies in folders of other keys than {places[0]}.")
        self._values = {name: [dict(place.keys)[name] for place in places] for name in self.names}

    def fields(self, inside: Sequence[str]) -> list[Any]:
        """Return the fields of a schema; columns of the same name inside the files take precedence."""
        import pyarrow as pa

        text = pa.dictionary(pa.int32(), pa.string())
        return [
            pa.field(name, pa.int64() if self._is_whole(name) else text) for name in self.names if name not in inside
        ]

    def _is_whole(self, name: str) -> bool:
        return all(value is None or re.fullmatch(r"-?\d{1,18}", value) for value in self._values[name])

    def completed(self, batch: Any, place: FilePlace, columns: list[str]) -> Any:
        """Return a batch of a file's columns and the keys of its folders, which are the same in every row."""
        import pyarrow as pa

        keys = dict(place.keys)
        parts = [
            batch.column(name)
            if name in batch.schema.names
            else self._repeated(keys[name], self._is_whole(name), batch.num_rows)
            for name in columns
        ]
        return pa.RecordBatch.from_arrays(parts, names=columns)

    @staticmethod
    def _repeated(value: str | None, whole: bool, n: int) -> Any:
        import pyarrow as pa

        if whole:
            return pa.repeat(pa.scalar(None if value is None else int(value), pa.int64()), n)
        codes = pa.repeat(pa.scalar(None if value is None else 0, pa.int32()), n)
        return pa.DictionaryArray.from_arrays(codes, pa.array([value or ""], pa.string()))


def where_of(places: Sequence[FilePlace]) -> str:
    """Return the name of one or several files for messages."""
    if len(places) == 1:
        return str(places[0])
    folder = str(places[0]).rpartition("/")[0]
    return f"{folder or places[0]} ({len(places)} files)"
