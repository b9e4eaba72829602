"""How long to work between two checkpoints: Young's and Daly's intervals, the exact optimum, and what they cost.

Pure arithmetic. Every quantity of one call is in the same unit of time (seconds, minutes …); results are in it too.

========  ===============================================================================================
delta     cost of writing one checkpoint
mtbf      mean time between failures, M below
restart   time from a failure until work goes on, R below; the only quantity that may be 0
work      useful work of the whole task, without checkpoints, Ts below
tau       useful work *between* two checkpoints: it does not contain ``delta``
========  ===============================================================================================

Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM
17(9), 1974. J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
Generation Computer Systems 22(3), 2006. Both assume failures that come at a constant rate and may also strike while
a checkpoint is written or a restart is under way. The optimum is flat: a mean time between failures that is wrong
by 40 % costs less than one point of overhead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from agentlab.errors import BadDefinition

Method = Literal["young", "daly_first", "daly", "optimum"]
METHODS: tuple[Method, ...] = ("young", "daly_first", "daly", "optimum")

_SERIES_BELOW = 1e-9
"""Under this delta/M, ``w + log1p(-w)`` loses more digits than three terms of the series leave out."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A recommended interval. ``tau`` is infinite when no checkpoint should be written.

    ``warning`` says why the plain formula was not followed; it is empty when it was.
    """

    tau: float
    method: str
    clamped: bool = False
    warning: str = ""


def young(delta: float, mtbf: float) -> float:
    """Young 1974: ``sqrt(2 delta M)``.

    Raises:
        BadDefinition: an input is not a positive finite number.
    """
    _positive(delta=delta, mtbf=mtbf)
    return math.sqrt(2 * delta) * math.sqrt(mtbf)


def daly_first(delta: float, mtbf: float, restart: float = 0.0) -> float:
    """Daly's first order form: ``sqrt(2 delta (M + R)) - delta``, ``M`` for delta >= 2(M + R), where it ends.

    It falls to 0 as delta comes near that end; :func:`daly` does not.

    Raises:
        BadDefinition: an input is not a positive finite number (``restart`` may be 0).
    """
    _positive(delta=delta, mtbf=mtbf)
    _not_negative(restart=restart)
    if cannot_pay(delta, mtbf + restart):
        return mtbf
    return math.sqrt(2 * delta) * math.sqrt(mtbf + restart) - delta


def daly(delta: float, mtbf: float) -> float:
    """Daly 2006, higher order: ``sqrt(2 delta M) [1 + sqrt(delta/2M)/3 + (delta/2M)/9] - delta``, ``M`` for delta >= 2M.

    Raises:
        BadDefinition: an input is not a positive finite number.
    """
    _positive(delta=delta, mtbf=mtbf)
    if cannot_pay(delta, mtbf):
        return mtbf
    half = delta / mtbf / 2
    return young(delta, mtbf) * (1 + math.sqrt(half) / 3 + half / 9) - delta


def optimum(delta: float, mtbf: float) -> float:
    """The exact minimum of :func:`completion_time` over tau: ``M (1 + W0(-exp(-delta/M - 1)))``.

    It follows from setting the derivative of Daly's expected completion time to zero, and depends neither on the
    restart time nor on the amount of work.

    Raises:
        BadDefinition: an input is not a positive finite number.
    """
    _positive(delta=delta, mtbf=mtbf)
    return mtbf * _one_plus_w0(delta / mtbf)


def lambert_w0(z: float) -> float:
    """The principal branch of Lambert's W: the ``w >= -1`` with ``w exp(w) = z``, by Halley's iteration.

    Raises:
        BadDefinition: ``z`` is not a finite number of at least ``-1/e``.
    """
    if not (math.isfinite(z) and z >= -1 / math.e):
        raise BadDefinition(f"W0 is defined for finite numbers from -1/e on, not for {z!r}")
    if z < 0:  # near the branch point, its series: W0 = -1 + p - p^2/3 + 11 p^3/72
        p = math.sqrt(max(0.0, 2 * (1 + math.e * z)))
        if p < 1e-4:
            return -1 + p - p * p / 3 + 11 * p**3 / 72
        w = -1 + p - p * p / 3
    else:
        w = math.log1p(z) if z < 3 else math.log(z) - math.log(math.log(z))
    for _ in range(50):
        # f/e^w instead of f: no overflow for large z
        error = w - z * math.exp(-w)
        step = error / (w + 1 - (w + 2) * error / (2 * w + 2))
        w -= step
        if abs(step) <= 4e-16 * max(abs(w), 1e-300):
            break
    return w


def _one_plus_w0(x: float) -> float:
    """``1 + W0(-exp(-1 - x))`` for x > 0, without the cancellation that small x would suffer.

    With ``w = 1 + W0`` the defining equation reads ``w + log(1 - w) = -x``.
    """
    p = math.sqrt(2 * x)
    if x < _SERIES_BELOW:
        return p - p * p / 3 + p**3 / 36
    if x > 0.5:
        return 1 + lambert_w0(-math.exp(-1 - x))
    w = p - p * p / 3 + p**3 / 36
    for _ in range(50):
        error = w + math.log1p(-w) + x
        step = -error * (1 - w) / w
        w -= step
        if abs(step) <= 4e-16 * w:
            break
    return w


def cannot_pay(delta: float, mtbf: float) -> bool:
    """Whether a checkpoint costs more than it saves: ``delta >= 2M``, where Daly's series ends."""
    return delta >= 2 * mtbf


def recommend(delta: float, mtbf: float, *, method: Method = "daly", restart: float = 0.0,
              work: float | None = None) -> Interval:  # fmt: skip
    """The interval to use, clamped to ``mtbf`` where checkpoints cannot pay, and infinite where none is needed.

    ``restart`` matters to ``daly_first`` alone. With ``work``, an interval longer than it means: no checkpoint.

    Raises:
        BadDefinition: an input is not a positive finite number, or there is no such method.
    """
    if method not in METHODS:
        raise BadDefinition(f"no interval named {method!r}: known are {', '.join(METHODS)}")
    _positive(delta=delta, mtbf=mtbf)
    _not_negative(restart=restart)
    if work is not None:
        _positive(work=work)
    clamped = cannot_pay(delta, mtbf)
    warning = ""
    if clamped:
        tau = mtbf
        warning = (
            f"a checkpoint ({delta:g}) costs more than it saves: it takes twice the mean time between failures "
            f"({mtbf:g}) or longer; make it smaller or the failures rarer"
        )
    elif method == "daly_first":
        tau = daly_first(delta, mtbf, restart)
    else:
        tau = {"young": young, "daly": daly, "optimum": optimum}[method](delta, mtbf)
    if work is not None and tau > work:
        why = f"the interval ({tau:g}) is longer than the work ({work:g}): no checkpoint"
        return Interval(math.inf, method, clamped, f"{warning}; {why}" if warning else why)
    return Interval(tau, method, clamped, warning)


def segment_time(tau: float, delta: float, mtbf: float, restart: float = 0.0) -> float:
    """Expected time of one segment: ``M exp(R/M) (exp((tau + delta)/M) - 1)`` (Daly 2006). Infinite on overflow.

    Raises:
        BadDefinition: an input is not a positive finite number (``restart`` may be 0).
    """
    _positive(tau=tau, delta=delta, mtbf=mtbf)
    _not_negative(restart=restart)
    return _until(tau + delta, mtbf, restart)


def completion_time(work: float, tau: float, delta: float, mtbf: float, restart: float = 0.0) -> float:
    """Expected time of the whole task, ``work/tau`` segments long (Daly 2006); the last one ends in a checkpoint too.

    Raises:
        BadDefinition: an input is not a positive finite number (``restart`` may be 0).
    """
    _positive(work=work)
    return segment_time(tau, delta, mtbf, restart) * (work / tau)


def completion_time_without(work: float, mtbf: float, restart: float = 0.0) -> float:
    """Expected time of the task without checkpoints, from the start after each failure: ``M exp(R/M) (exp(Ts/M) - 1)``.

    Raises:
        BadDefinition: an input is not a positive finite number (``restart`` may be 0).
    """
    _positive(work=work, mtbf=mtbf)
    _not_negative(restart=restart)
    return _until(work, mtbf, restart)


def overhead(tau: float, delta: float, mtbf: float, restart: float = 0.0) -> float:
    """Expected time beyond the useful work, as a fraction of the work: ``E[T]/Ts - 1``."""
    return segment_time(tau, delta, mtbf, restart) / tau - 1


def waste(tau: float, delta: float, mtbf: float, restart: float = 0.0) -> float:
    """Fraction of the expected time that is not useful work: ``1 - Ts/E[T]``, always under 1."""
    return 1 - tau / segment_time(tau, delta, mtbf, restart)


def waste_first_order(tau: float, delta: float, mtbf: float, restart: float = 0.0) -> float:
    """``delta/(tau + delta) + ((tau + delta)/2 + R)/M``: good only for ``tau + delta`` far below M, else it exceeds 1."""
    _positive(tau=tau, delta=delta, mtbf=mtbf)
    _not_negative(restart=restart)
    return delta / (tau + delta) + ((tau + delta) / 2 + restart) / mtbf


def _until(length: float, mtbf: float, restart: float) -> float:
    """Expected time until ``length`` passes without a failure, with a restart after each one."""
    try:
        return mtbf * math.exp(restart / mtbf) * math.expm1(length / mtbf)
    except OverflowError:
        return math.inf


def _positive(**named: float) -> None:
    for name, value in named.items():
        if not (_is_number(value) and 0 < value < math.inf):
            raise BadDefinition(f"{name} must be a positive finite number, not {value!r}")


def _not_negative(**named: float) -> None:
    for name, value in named.items():
        if not (_is_number(value) and 0 <= value < math.inf):
            raise BadDefinition(f"{name} must be a finite number of at least 0, not {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
