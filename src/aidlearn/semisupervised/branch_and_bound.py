"""Branch and bound on the labels of unlabelled clusters: the aggregated S3VM (paper, section 3.3).

    minimise over v, b   1/2 |v|^2 + sum_l s_l max(0, 1 - y_l z_l) + sum_u s_u max(0, 1 - |z_u|),     z = A v + b

A node fixes the labels of some unlabelled rows and counts the losses of the others as 0, which gives a lower bound on
its subtree. The search branches on the row whose label is expected to raise that bound most; nodes are explored best
bound first, each by a dive to a leaf. The result is the best point found and the bound proven by the open nodes, even
if a limit ends the search.

With ``cut`` a third state is allowed (see :class:`Cut`); the result is then a bound on the original problem.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from aidlearn.kernel.functions import TINY
from aidlearn.numerics import Float
from aidlearn.semisupervised.node_qp import NodeRows, NodeSolution, NodeSolver, node_solver

FREE, PLUS, MINUS, CUT = 0, 1, -1, 2
"""State of an unlabelled row at a node: free, labelled, or (with cuts) a cluster with entries on both sides."""
States = NDArray[np.int8]


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the branch and bound."""

    wrong_side: float = 1e-3
    """Guess. Weight of the more expensive label in the choice of the row to branch on, which breaks ties."""
    local_search_nodes: int = 64
    """Guess. Number of nodes between two local searches."""
    switches: int = 20
    """Guess. Maximum rounds of a local search, each of which labels all rows by their side and solves again."""
    switch_gain: float = 1e-9
    """Guess. Relative decrease of the objective below which a local search has settled."""
    tube_price: float = 10.0
    """Price of leaving the tube of a cut cluster by its width, in units of the known value: leaving never pays."""
    least_width: float = 1e-3
    """Guess. Minimum width of a tube in ``tube_price``, which keeps the price finite."""
    rounding: float = 1e-12
    """Guess. Relative amount by which a bound may miss the tolerance and still count as meeting it."""


SETTINGS = SearchSettings()


@dataclass(frozen=True)
class Cut:
    """The state of clusters with entries on both sides of the hyperplane.

    The absolute score of a cluster's mean is at most ``width``, and the loss of its entries is at least ``loss``.
    """

    width: Float
    loss: Float


@dataclass(frozen=True)
class SemiSupervisedRows:
    """Rows of an aggregated problem, labelled ones first; ``intercept`` is that of :class:`NodeRows`."""

    A: Float
    weight: Float
    labels: Float
    intercept: float | None = None

    @property
    def n_unlabelled(self) -> int:
        """Number of unlabelled rows."""
        return len(self.weight) - len(self.labels)

    @property
    def nodes(self) -> NodeRows:
        """The rows without their labels."""
        return NodeRows(self.A, self.weight, self.intercept)

    def value(self, v: Float, z: Float) -> float:
        """Return the objective at a point with scores z."""
        n = len(self.labels)
        labelled = self.weight[:n] @ np.maximum(0.0, 1.0 - self.labels * z[:n])
        return float(0.5 * v @ v + labelled + self.weight[n:] @ np.maximum(0.0, 1.0 - np.abs(z[n : len(self.weight)])))


@dataclass(frozen=True)
class SearchLimits:
    """Limits of a search: relative gap, number of nodes, and ``time.monotonic()`` of the deadline.

    ``watch`` is called with the number of nodes so far.
    """

    relative: float = 1e-6
    nodes: int = 100_000
    deadline: float = math.inf
    watch: Callable[[int], None] | None = None


@dataclass(frozen=True)
class Leaf:
    """The states of a node that needs no more branching, and the scores of the unlabelled rows at its solution."""

    states: States
    scores: Float


@dataclass
class Search:
    """The result of a search, and its state while it runs."""

    v: Float
    b: float
    value: float
    """Objective at (v, b); in a search with cuts, the given value."""
    bound: float = 0.0
    n_nodes: int = 0
    closed: bool = False
    """Whether the bound meets the value within the tolerance."""
    spent: bool = False
    """Whether a limit ended the search."""
    settled: bool = False
    """Whether the point is a local optimum: labelling every row by its side and solving again does not move it."""
    bounding: Leaf | None = None
    """The leaf with the smallest bound, if any leaf was reached."""
    root_bound: float = 0.0
    """Lower bound from the labelled rows alone."""


@dataclass(frozen=True, order=True)
class _Node:
    """An open node; nodes are ordered by their proven bound, then by creation."""

    bound: float
    order: int
    states: States = field(compare=False)
    solution: NodeSolution = field(compare=False)


class _Tree:
    """The rows of one search, and the data that its nodes share."""

    def __init__(self, rows: SemiSupervisedRows, cut: Cut | None, solver: NodeSolver) -> None:
        self.rows, self.cut, self.solver = rows, cut, solver
        self.n_labelled, self.n_free = len(rows.labels), rows.n_unlabelled
        self.weight = rows.weight[self.n_labelled :]
        centred = rows.A[self.n_labelled : len(rows.weight)] - rows.A[: len(rows.weight)].mean(axis=0)
        self.squares = np.maximum((centred**2).sum(axis=1), TINY)
        self.lower = np.full(len(solver.rows.weight), -np.inf)
        self.upper = np.full(len(solver.rows.weight), np.inf)
        self.lower[: self.n_labelled][rows.labels > 0] = 1.0
        self.upper[: self.n_labelled][rows.labels < 0] = -1.0

    def solve(self, states: States) -> NodeSolution:
        """Solve the node with these states."""
        lower, upper = self.lower.copy(), self.upper.copy()
        first, last = self.n_labelled, self.n_labelled + self.n_free
        lower[first:last][states == PLUS] = 1.0
        upper[first:last][states == MINUS] = -1.0
        constant = 0.0
        if self.cut is not None:
            is_cut = states == CUT
            lower[last:][is_cut] = -self.cut.width[is_cut]
            upper[last:][is_cut] = self.cut.width[is_cut]
            constant = float(self.cut.loss[is_cut].sum())
        found = self.solver.solve(lower, upper)
        return replace(found, value=found.value + constant, bound=found.bound + constant)

    def at(self, v: Float, b: float) -> NodeSolution:
        """Return a given point in the form of a node's solution, with the objective as its value."""
        z = self.rows.nodes.scores(v, b)
        return NodeSolution(v, b, z, self.rows.value(v, z), 0.0)

    def unlabelled(self, z: Float) -> Float:
        """Return the scores of the unlabelled rows."""
        return z[self.n_labelled : self.n_labelled + self.n_free]

    def branch(self, states: States, z: Float) -> int | None:
        """Choose the free row to label next, or None if no label can raise the bound."""
        z = np.abs(self.unlabelled(z))
        undecided = states == FREE
        # A label either moves the score to 1, at a price of half the squared distance over |a|^2, or pays the loss.
        right = self._price(np.maximum(0.0, 1.0 - z))
        wrong = self._price(1.0 + z)
        if self.cut is not None:
            can = z <= self.cut.width
            right = np.where(can, np.minimum(right, self.cut.loss), right)
        score = np.where(undecided, right + SETTINGS.wrong_side * np.where(right > 0, wrong, 0.0), -1.0)
        k = int(score.argmax()) if len(score) else 0
        return k if len(score) and score[k] > 0 else None

    def _price(self, distance: Float) -> Float:
        """Return the least cost of moving a row's score by a distance, or of paying its loss."""
        w, g = self.weight, self.squares
        return np.where(distance > w * g, w * (distance - 0.5 * w * g), distance**2 / (2 * g))

    def children(self, states: States, k: int) -> Iterator[States]:
        """Yield the states of the children that branching on row k creates."""
        can_be_cut = self.cut is not None and self.cut.width[k] > 0
        for option in (PLUS, MINUS, CUT) if can_be_cut else (PLUS, MINUS):
            child = states.copy()
            child[k] = option
            yield child


def search(rows: SemiSupervisedRows, limits: SearchLimits, known: tuple[Float, float] | None = None) -> Search:
    """Solve the aggregated problem; ``known`` is a warm start.

    With a limit of 0 nodes, the result is the best local optimum from the labelled rows' solution and the warm start.
    """
    tree = _Tree(rows, None, node_solver(rows.nodes))
    root = tree.solve(np.zeros(tree.n_free, dtype=np.int8))
    best = Search(root.v, root.b, rows.value(root.v, root.z))
    _local_search(tree, root, best, limits.deadline)
    if known is not None:
        _local_search(tree, tree.at(*known), best, limits.deadline)
    _explore(tree, root, best, limits)
    best.settled = _local_search(tree, tree.at(best.v, best.b), best, limits.deadline)
    return best


def switch_labels(rows: SemiSupervisedRows, v: Float, b: float, deadline: float) -> tuple[Float, float]:
    """Label every row by its side and solve, until (v, b) is a local optimum."""
    tree = _Tree(rows, None, node_solver(rows.nodes))
    start = tree.at(v, b)
    best = Search(v, b, start.value)
    _local_search(tree, start, best, deadline)
    return best.v, best.b


def bound(rows: SemiSupervisedRows, cut: Cut, value: float, limits: SearchLimits) -> Search:
    """Return a lower bound on the original problem, of which ``value`` is an upper bound (see :class:`Cut`)."""
    n = len(rows.labels)
    # The tube of a cut cluster is an additional row with a high but finite price, so the bound stays valid.
    price = np.full(rows.n_unlabelled, SETTINGS.tube_price * value) / np.maximum(cut.width, SETTINGS.least_width)
    stacked = NodeRows(np.concatenate([rows.A, rows.A[n:]]), np.concatenate([rows.weight, price]), rows.intercept)
    tree = _Tree(rows, cut, node_solver(stacked))
    root = tree.solve(np.zeros(tree.n_free, dtype=np.int8))
    return _explore(tree, root, Search(root.v, root.b, value), limits)


def _explore(tree: _Tree, root: NodeSolution, best: Search, limits: SearchLimits) -> Search:
    """Explore the tree best bound first, with dives."""
    order = itertools.count()
    nothing = np.zeros(tree.n_free, dtype=np.int8)
    heap = [_Node(root.bound, next(order), nothing, root)]
    leaf = math.inf  # smallest bound of a leaf

    def cutoff() -> float:
        return min(best.value * (1 - limits.relative), leaf)

    def spent() -> bool:
        return best.n_nodes >= limits.nodes or time.monotonic() >= limits.deadline

    while heap and heap[0].bound < cutoff() and not spent():
        node = heapq.heappop(heap)
        while True:
            k = tree.branch(node.states, node.solution.z)
            if k is None:
                if tree.cut is None:
                    _improve(tree, node.solution, best)
                if node.bound < leaf:
                    leaf = node.bound
                    best.bounding = Leaf(node.states, tree.unlabelled(node.solution.z))
                break
            children = []
            for states in tree.children(node.states, k):
                found = tree.solve(states)
                best.n_nodes += 1
                if tree.cut is None:
                    _improve(tree, found, best)
                children.append(_Node(max(node.bound, found.bound), next(order), states, found))
            if limits.watch is not None:
                limits.watch(best.n_nodes)
            if tree.cut is None and best.n_nodes % SETTINGS.local_search_nodes < 2:
                _local_search(tree, children[0].solution, best, limits.deadline)
            children = sorted(child for child in children if child.bound < cutoff())
            for other in children[1:]:
                heapq.heappush(heap, other)
            if not children:
                break
            if spent():
                heapq.heappush(heap, children[0])
                break
            node = children[0]
    best.spent = bool(heap) and heap[0].bound < cutoff()
    best.root_bound = root.bound
    best.bound = max(root.bound, min(heap[0].bound if heap else math.inf, cutoff()))
    best.closed = best.bound >= best.value * (1 - limits.relative) * (1 - SETTINGS.rounding)
    return best


def _improve(tree: _Tree, node: NodeSolution, best: Search) -> None:
    """Keep the node's point if it is the best so far."""
    value = tree.rows.value(node.v, node.z)
    if value < best.value:
        best.v, best.b, best.value = node.v, node.b, value


def _local_search(tree: _Tree, node: NodeSolution, best: Search, deadline: float) -> bool:
    """Label every row by its side, solve, and repeat while the objective falls; return whether it has settled."""
    value = math.inf
    for _ in range(SETTINGS.switches):
        _improve(tree, node, best)
        now = tree.rows.value(node.v, node.z)
        if now >= value * (1 - SETTINGS.switch_gain):
            return True
        if time.monotonic() >= deadline:
            return False
        value = now
        side = np.where(tree.unlabelled(node.z) >= 0, PLUS, MINUS).astype(np.int8)
        node = tree.solve(side)
    return False
