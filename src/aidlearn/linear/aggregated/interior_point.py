"""Primal-dual interior point for a weighted sum of tilted hinges (see :mod:`aidlearn.linear.aggregated.hinge_rows`).

With z = e - A w = xi - t, xi >= 0, t >= 0 and u = p + c s in [0, s], the optimality conditions are

    P w + q + A'(c s) = A'u,    u t = 0,    (s - u) xi = 0.

Constraints are rows with s infinite: they have no xi, and the rows before them (``n_soft``) have all four vectors.

Mehrotra's predictor-corrector solves their perturbation with one Cholesky factor of P + A'DA per iteration.
Steps are regularised by a proximal term; bounds come from :mod:`aidlearn.linear.aggregated.certificate` alone.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from aidlearn.linear.aggregated.certificate import Certificate, certify, trivial
from aidlearn.linear.aggregated.hinge_rows import EPS, HingeRows
from aidlearn.linear.aggregated.polish import polish
from aidlearn.linear.aggregated.smoothing import warm_start, worthwhile
from aidlearn.linear.rows.normal import Factor, Normal
from aidlearn.numerics import RIDGES, Float

TINY = 1e-200
"""Floor of products and curvatures, against divisions of zero by zero."""


@dataclass(frozen=True)
class InteriorPointSettings:
    """Numbers of the interior point and of its safeguards."""

    max_iterations: int = 200
    """Maximum number of steps. Nearly separable classes take more than a hundred; a solve without progress ends long
    before."""
    step_to_boundary: float = 0.995
    """Part of the way to the nearest bound that a step takes."""
    corrections: int = 2
    """Maximum number of corrections of a step (Gondzio, 1996).
    Ablation (corrections=0): mean work 1.074, worst table 1.69."""
    longer: float = 0.3
    """Length beyond the present step that a correction aims at."""
    central: float = 10.0
    """Complementarity products are clipped to within this factor of their target (Gondzio, 1996)."""
    most_centring: float = 0.15
    """Maximum of the centring parameter. Where the path bends, predictions are blocked early, and Mehrotra's rule would
    aim every step at little less than the mean product. Between 0.1 and 0.2 the number of steps varies by a
    twentieth.
    Ablation (most_centring=1): mean work 1.024, worst table 1.15."""
    polished_from: float = 1e-7
    """Relative gap at which polishing is first tried: it mostly finds the optimum.
    Ablation (0): mean work 1.006, worst table 1.30."""
    cautious: float = 100.0
    """Multiple of the usual complementarity with which a last attempt starts. Without it problems whose weights span
    four decades stall after a smoothed warm start.
    Ablation (cautious=1): mean work 1.001, worst table 1.08."""
    cut: float = 1e-3
    """Rows whose part of a large Gram matrix is below this, relative to the largest, are left out of it. The direction
    is then a little off; the dual residual, from which every step starts, makes up for it.
    Ablation (cut=0): mean work 0.999, worst table 1.08; 16 % (LAD) and 78 % (SVM) more CPU time on 20,000 x 1,300."""
    cut_less: float = 1e-2
    """Factor of ``cut`` after a step that removed less than half of the dual residual that it should have removed.
    Ablation (cut_less=1): mean work 1.005, worst table 1.33."""
    verified: float = 1e-10
    """Proven relative gap up to which an aggregated solution counts as optimal. A smaller accuracy asks for a verified
    optimum."""
    least_slack: float = 0.1
    """Least slack of a constraint at the starting point, in the units of scaled rows.
    Ablation (least_slack=1e-06): mean work 1.000, worst table 1.01."""
    next_to_bounds: float = 1e-3
    """Least mean of the products at the starting point, relative to the mean margin: where constraints alone hold a
    point without loss, smaller products overflow.
    Ablation (next_to_bounds=0): mean work 1.000, worst table 1.03."""
    least_margin: float = 1e-2
    """Least mean of the products at the starting point of a problem with a linear term, relative to the room of its
    constraints."""
    proximal: float = 1e-9
    """Proximal term of a constrained problem, relative to the curvature of all rows.
    Ablation (proximal=0): mean work 1.000, worst table 1.01."""
    diverged: float = 1e12
    """Size of a scaled coordinate at which a problem counts as unbounded."""
    feasible: float = 1e-9
    """Violation of a constraint, in the units of scaled rows, up to which a point counts as feasible."""


SETTINGS = InteriorPointSettings()


@dataclass(frozen=True)
class AggregatedSolution:
    """A primal point, a dual-feasible point and their values for a :class:`HingeRows` problem."""

    w: Float
    value: float
    certificate: Certificate
    verified: bool = False
    violation: float = 0.0
    """Largest violation of a constraint by the primal point."""
    n_steps: int = 0

    @property
    def gap(self) -> float:
        return self.value - self.certificate.bound if self.violation <= SETTINGS.feasible else math.inf


@dataclass
class _Iterate:
    """w, and two vectors of which every product is to vanish: S = (u, v) with v = s - u, and Z = (t, xi).

    Constraints have neither v nor xi. Also used for steps.
    """

    w: Float
    S: Float
    Z: Float
    n_steps: int = 0


class _Newton:
    """The Newton system of the optimality conditions, factored once at every iterate."""

    it: _Iterate
    factor: Factor | None
    primal_residual: Float
    dual_residual: Float
    ratio: Float
    """``Z / S``"""
    D: Float

    def __init__(self, rows: HingeRows) -> None:
        self.rows, self.K, self.n = rows, len(rows.e), rows.n_soft
        product = rows.A.T @ -rows.lower
        self.linear = product if rows.linear is None else product + rows.linear
        self.coupled = bool(rows.ridge.any())
        # Where constraints alone know a direction, their barrier would push the point along it without end.
        held = SETTINGS.proximal * float(rows.weight[: self.n].sum()) if self.n < self.K else 0.0
        self.ridge = rows.ridge + held

    def move_to(self, it: _Iterate, cut: float) -> None:
        rows, K, n = self.rows, self.K, self.n
        self.it, w, u, t, xi = it, it.w, it.S[:K], it.Z[:K], it.Z[K:]
        self.primal_residual = rows.e - rows.A @ w
        self.primal_residual += t
        self.primal_residual[:n] -= xi
        self.dual_residual = rows.A.T @ u - rows.ridge * w - self.linear
        self.ratio = it.Z / it.S
        D = self.ratio[:K].copy()
        D[:n] += self.ratio[K:]
        # A floor against 0/0 where a row's products have reached the smallest numbers.
        self.D = np.divide(1.0, np.maximum(D, TINY, out=D), out=D)
        self.factor = _factor(rows.normal(self.D, cut), self.ridge)

    def direction(self, products: Float | float) -> _Iterate:
        """The step towards some complementarity products."""
        it, K, n, A, D = self.it, self.K, self.n, self.rows.A, self.D
        alone = products / it.S  # what Z is to be where S stays
        alone -= it.Z
        shift = self.primal_residual + alone[:K]
        shift[:n] -= alone[K:]
        assert self.factor is not None
        dw = self.factor.solve(self.dual_residual + A.T @ (D * shift))
        shift -= A @ dw
        dS = np.empty_like(it.S)
        du = np.multiply(D, shift, out=dS[:K])
        np.negative(du[:n], out=dS[K:])
        alone -= self.ratio * dS
        return _Iterate(dw, dS, alone)

    def longest(self, step: _Iterate, fraction: float) -> tuple[float, float]:
        """Longest primal and dual steps that stay inside; one common length when P couples the two."""
        primal = _longest(float(np.minimum.reduce(step.Z / self.it.Z)), fraction)
        dual = _longest(float(np.minimum.reduce(step.S / self.it.S)), fraction)
        return (min(primal, dual),) * 2 if self.coupled else (primal, dual)

    def ahead(self, step: _Iterate, lengths: tuple[float, float]) -> tuple[Float, Float]:
        """S and Z after a step."""
        primal, dual = lengths
        S, Z = dual * step.S, primal * step.Z
        S += self.it.S
        Z += self.it.Z
        return S, Z

    def corrected(self, mu: float) -> tuple[_Iterate, tuple[float, float]]:
        """Mehrotra's direction: predict with no centring, then centre as much as the prediction needs."""
        predicted = self.direction(0.0)
        S, Z = self.ahead(predicted, self.longest(predicted, 1.0))
        centred = mu * min((float(S @ Z) / (len(S) * mu)) ** 3, SETTINGS.most_centring)
        del S, Z  # frees memory, of which problems of many rows need little else
        products = predicted.S
        products *= predicted.Z
        del predicted
        return self._lengthened(centred, np.subtract(centred, products, out=products))

    def _lengthened(self, centred: float, products: Float) -> tuple[_Iterate, tuple[float, float]]:
        """The step towards some products with its lengths, after Gondzio's corrections for as long as they pay.

        Products that a longer step would take far from their centre are led back to within a factor of it; each
        correction takes one more solution with the same factor.
        """
        least, most = centred / SETTINGS.central, centred * SETTINGS.central
        step = self.direction(products)
        reached = self.longest(step, SETTINGS.step_to_boundary)
        for _ in range(SETTINGS.corrections):
            if min(reached) > 1 - SETTINGS.longer:
                break
            S, Z = self.ahead(step, (min(1.0, reached[0] + SETTINGS.longer), min(1.0, reached[1] + SETTINGS.longer)))
            there, change = np.multiply(S, Z, out=S), Z
            np.minimum(np.maximum(there, least, out=change), most, out=change)
            change -= there
            products += np.maximum(change, -most, out=change)
            del S, Z, there, change
            trial = self.direction(products)
            further = self.longest(trial, SETTINGS.step_to_boundary)
            if min(further) < min(reached):
                break
            step, reached = trial, further
        return step, reached


def solve(
    rows: HingeRows, w: Float, relative: float, deadline: float = math.inf, duals: bool = True
) -> AggregatedSolution:
    """Minimise to a proven relative gap; ``relative = 0`` asks for an optimum verified up to rounding.

    Stops early at the deadline or when precision is exhausted; whatever it returns, its bound is proven. With ``duals``
    those off the kinks are exactly at their bounds.
    """
    rounding = rows.rounding
    exact = relative < SETTINGS.verified
    wanted = max(relative, 1e-13)
    best, polished = _at(rows, w, trivial(rows)), None
    it, cut = _first_point(rows, w, deadline), 0.0 if rows.constrained else SETTINGS.cut
    # A verified optimum is most cheaply had from a fair interior point, which needs no proof of its own; a cautious
    # last attempt starts far from every bound, where the first steps cannot be blocked.
    for target, slack in (
        *([(SETTINGS.polished_from, 1.0)] if exact else []),
        (wanted, 1.0),
        (wanted, SETTINGS.cautious),
    ):
        if slack > 1:
            it, cut = replace(_starting_point(rows, best.w, slack=slack), n_steps=it.n_steps), 0.0
        proven = target == wanted
        best, it = _iterate(rows, it, best, cut, _Aim(target, rounding, deadline, proven))
        if exact:
            polished = polish(rows, best.w if proven else it.w, it.S[: len(rows.e)] + rows.lower)
        if polished is not None:
            best = _better(best, _at(rows, polished.w, polished.certificate))
        if best.gap <= (wanted if proven else SETTINGS.verified) * abs(best.value) + rounding:
            break
        if proven and time.monotonic() > deadline:
            break
    best = replace(best, n_steps=it.n_steps, verified=exact and best.gap <= SETTINGS.verified * abs(best.value))
    if polished is not None and best.certificate is polished.certificate:
        return best  # off the kinks its duals are at their bounds
    return _snapped(rows, best) if duals and time.monotonic() <= deadline else best


def _snapped(rows: HingeRows, solution: AggregatedSolution) -> AggregatedSolution:
    """The solution with duals exactly at their bounds off the kink, if the bound hardly suffers.

    An interior point leaves every row a tiny dual; what counts as a support vector should not.
    """
    n, known = rows.n_soft, solution.certificate
    p, z = known.dual, rows.margins(solution.w)[:n]
    bound = np.where(z > 0, rows.upper[:n], rows.lower[:n])
    enough = known.bound - 0.1 * max(solution.gap, 0.0)
    repair = not worthwhile(rows)  # which takes Gram matrices
    for near in (1e-2, 1e-4, 1e-6):
        snapped = p.copy()
        snapped[:n] = np.where(np.abs(p[:n] - bound) <= near * rows.weight[:n], bound, p[:n])
        certificate = certify(rows, snapped, solution.w, known, enough if repair else -math.inf)
        if certificate.bound >= enough:
            return replace(solution, certificate=certificate)
    return solution


@dataclass(frozen=True)
class _Aim:
    """When iterations end."""

    gap: float
    """Relative gap that is wanted."""
    rounding: float
    deadline: float
    proven: bool
    """Whether that gap is to be proven; otherwise it is estimated by the products of S and Z."""


def _iterate(
    rows: HingeRows, it: _Iterate, best: AggregatedSolution, cut: float, aim: _Aim
) -> tuple[AggregatedSolution, _Iterate]:
    """Predictor-corrector steps; the best certified pair and the last (uncertified) iterate."""
    K, n = len(rows.e), rows.n_soft
    newton, least = _Newton(rows), np.full(K + n, TINY)
    least[:n] = least[K:] = EPS * EPS * rows.weight[:n]
    left = math.inf
    without_progress = 0
    for iteration in range(SETTINGS.max_iterations):
        complementarity = float(it.S @ it.Z)
        last = iteration == SETTINGS.max_iterations - 1 or time.monotonic() > aim.deadline
        # With constraints the best point may not be feasible yet: it has no value to compare with.
        size = abs(best.value if best.violation <= SETTINGS.feasible else rows.value(it.w))
        close = complementarity <= 2 * aim.gap * size + aim.rounding
        if close and not aim.proven:
            break
        if close or last or without_progress:
            gap = best.gap
            best = _better(best, _certified(rows, it, best.certificate, aim.gap))
            without_progress = 0 if best.gap < 0.5 * gap else without_progress + 1
            if last or best.gap <= aim.gap * abs(best.value) + aim.rounding or without_progress > 3:
                break
        newton.move_to(it, cut)
        residual = float(np.maximum.reduce(np.abs(newton.dual_residual), initial=0.0))
        if residual > left:
            cut *= SETTINGS.cut_less
        if newton.factor is None:
            break
        step, (primal, dual) = newton.corrected(complementarity / (K + n))
        # No length at all: the step is not finite.
        if not (primal > 0 and dual > 0) or float(it.w @ it.w) > SETTINGS.diverged**2:
            break
        left = (1 - 0.5 * dual) * residual
        if max(primal, dual) < 1e-3:
            without_progress += 1
            cut *= SETTINGS.cut_less
        S, Z = newton.ahead(step, (primal, dual))
        S, Z = np.maximum(S, least, out=S), np.maximum(Z, TINY, out=Z)
        it = _Iterate(it.w + primal * step.w, S, Z, it.n_steps + 1)
    return best, it


def _first_point(rows: HingeRows, w: Float, deadline: float) -> _Iterate:
    """The starting point: at w, or at a warm start if Gram matrices are large."""
    if not worthwhile(rows):
        return _starting_point(rows, w)
    warm, width = warm_start(rows, w, deadline)
    # The central path rounds the loss of a row of weight s over a width of about 8 mu / s.
    return _starting_point(rows, warm, width / 8 * float(np.median(rows.weight)))


def _starting_point(rows: HingeRows, w: Float, mu: float | None = None, slack: float = 1.0) -> _Iterate:
    """The point of the central path for the margins at w: ``u t = (s - u) xi = mu`` and ``xi - t = z``.

    With u = s theta and a = z s / mu this is ``a theta^2 + (2 - a) theta - 1 = 0``; the smaller of theta and
    1 - theta is computed, so that weights of any size keep their digits. Constraints begin with some slack, whether w
    leaves them any or not.
    """
    n, margins = rows.n_soft, rows.margins(w)
    s, z = rows.weight[:n], margins[:n]
    if mu is None:
        # The objective bounds how far w is from the optimum; most margins of classifiers are large and cost nothing.
        total = float(s @ np.abs(z))
        apart = min(total, max(rows.penalised_loss(w, margins), SETTINGS.next_to_bounds * total))
        mu = max(slack * apart / n, TINY) if n else slack
    if n and rows.linear is not None:
        # Where every margin is 0 a linear term moves the point all the same, as far as constraints leave room.
        reach = float(np.abs(margins[n:]).mean()) if n < len(margins) else 1.0
        mu = max(mu, SETTINGS.least_margin * slack * (reach or 1.0) * float(s.mean()))
    size = np.minimum(np.abs(z) * s / mu, 1e12)
    with np.errstate(divide="ignore", invalid="ignore"):
        smaller = (size + 2 - np.sqrt(size**2 + 4)) / (2 * size)
    smaller = np.where(size < 1e-4, 0.5 - size / 8, np.where(size > 1e6, 1 / np.maximum(size, 1.0), smaller))
    u, v = np.where(z > 0, s * (1 - smaller), s * smaller), np.where(z > 0, s * smaller, s * (1 - smaller))
    room = np.maximum(-margins[n:], SETTINGS.least_slack)
    S = np.concatenate([u, mu / room, v])
    Z = mu / S
    return _Iterate(w.copy(), S, np.maximum(Z, TINY, out=Z))


def _factor(normal: Normal, ridge: Float) -> Factor | None:
    """A factor of P + A'DA, with the smallest proximal term with which it exists.

    The term slows the dual residual down in weak directions, so none is tried first.
    """
    diagonal, extra = normal.diagonal() + ridge, ridge
    if not diagonal.all():  # variables that no row has are held where they are
        extra = ridge + np.where(diagonal > 0, 0.0, max(float(diagonal.max(initial=0.0)), TINY))
    for part in RIDGES:
        factor = normal.factor(extra + part * diagonal if part else extra)
        if factor is not None:
            return factor
    return None


def _longest(steepest: float, fraction: float) -> float:
    """A fraction of the step up to where the steepest relative decrease ends at 0; at most the whole step."""
    return 1.0 if steepest >= -fraction else float(-fraction / steepest)


def _at(rows: HingeRows, w: Float, certificate: Certificate) -> AggregatedSolution:
    return AggregatedSolution(w, rows.value(w), certificate, violation=rows.violation(w))


def _certified(rows: HingeRows, it: _Iterate, known: Certificate, target: float) -> AggregatedSolution:
    value = rows.value(it.w)
    return _at(rows, it.w, certify(rows, it.S[: len(rows.e)] + rows.lower, it.w, known, value - target * abs(value)))


def _better(one: AggregatedSolution, two: AggregatedSolution) -> AggregatedSolution:
    """The better primal (a feasible one before any other) with the better dual."""
    ranks = [(max(found.violation - SETTINGS.feasible, 0.0), found.value) for found in (one, two)]
    primal = two if ranks[1] <= ranks[0] else one
    dual = two if two.certificate.bound >= one.certificate.bound else one
    return AggregatedSolution(primal.w, primal.value, dual.certificate, violation=primal.violation)
