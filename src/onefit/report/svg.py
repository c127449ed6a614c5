"""Small drawings as SVG text. Colours come from the style sheet; text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from onefit._typing import FloatArray, IntArray
from onefit.search.surface import Axis, describe_value

__all__ = [
    "LINE_LABELS",
    "Frame",
    "histogram",
    "marker",
    "point_map",
    "profile",
    "scatter",
    "share_bar",
    "whisker",
]

LINE_LABELS = 9
_CHARACTER = 6.2
#: Outlines of the markers, about 8 units across; as many as there are colours.
_SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.8L4.4 3.4H-4.4z",
    "M0-5L4.6 0L0 5L-4.6 0z",
    "M-4.4-3.4H4.4L0 4.8z",
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "M0-5l1.4 3.3 3.5.4-2.6 2.4.7 3.5L0 2.9l-3 1.7.7-3.5-2.6-2.4 3.5-.4z",
    "M-2-4.5H2L4.5-2V2L2 4.5H-2L-4.5 2V-2z",
)


def marker(number: int) -> tuple[str, str]:
    """Outline and style class of a class number; colour and shape differ between neighbours."""
    size = len(_SHAPES)
    return _SHAPES[(number + number // size) % size], f"c{number % size}"


@dataclass(frozen=True)
class Frame:
    """A drawing area with linear scales."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float = 300.0
    height: float = 200.0
    left: float = 44.0
    bottom: float = 24.0
    top: float = 8.0
    right: float = 8.0

    def px(self, value: float) -> float:
        """Horizontal position."""
        return self.left + _share(value, self.x) * (self.width - self.left - self.right)

    def py(self, value: float) -> float:
        """Vertical position."""
        return (
            self.height
            - self.bottom
            - _share(value, self.y) * (self.height - self.bottom - self.top)
        )

    def y_ticks(self) -> str:
        """Horizontal grid lines with their values."""
        return "".join(
            f'<path class="grid" d="M{self.left:g} {self.py(t):.1f}H{self.width - self.right:g}"/>'
            f'<text class="end" x="{self.left - 6:g}" y="{self.py(t) + 4:.1f}">'
            f"{escape(describe_value(t))}</text>"
            for t in ticks(*self.y)
        )

    def x_ticks(self) -> str:
        """Values along the bottom."""
        return "".join(
            f'<text class="mid" x="{self.px(t):.1f}" y="{self.height - 6:g}">'
            f"{escape(describe_value(t))}</text>"
            for t in ticks(*self.x)
        )

    def wrap(self, title: str, *parts: str) -> str:
        """The complete drawing, with a title for those who do not see it."""
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
        )


def _share(value: float, ends: tuple[float, float]) -> float:
    span = ends[1] - ends[0]
    return 0.5 if span == 0 else float(np.clip((value - ends[0]) / span, 0.0, 1.0))


def ticks(low: float, high: float, n: int = 4) -> list[float]:
    """About ``n`` round numbers between two."""
    if not high > low:
        return [low]
    raw = (high - low) / n
    power = 10.0 ** np.floor(np.log10(raw))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(np.log(s / raw)))
    first = np.ceil(low / step - 1e-9)
    values = (np.arange(first, np.floor(high / step + 1e-9) + 1) * step).tolist()
    return [float(f"{value:.10g}") + 0.0 for value in values]  # + 0.0: no negative zero


def profile(
    axis: Axis, mean: FloatArray, std: FloatArray, ends: tuple[float, float], at: int, title: str
) -> str:
    """Best score at every level of a parameter with its spread; the chosen level is marked."""
    n = len(axis.levels)
    frame = Frame((-0.5, n - 0.5), ends)
    shown = [i for i in range(n) if np.isfinite(mean[i])]
    whiskers = "".join(
        f'<path class="whisker" d="M{frame.px(i):.1f} {frame.py(mean[i] - std[i]):.1f}'
        f'V{frame.py(mean[i] + std[i]):.1f}"/>'
        for i in shown
    )
    path = " ".join(f"{frame.px(i):.1f},{frame.py(mean[i]):.1f}" for i in shown)
    line = f'<polyline class="line" points="{path}"/>' if axis.is_numeric else ""
    dots = "".join(
        f'<circle class="dot{" chosen" if i == at else ""}" cx="{frame.px(i):.1f}" '
        f'cy="{frame.py(mean[i]):.1f}" r="{5 if i == at else 3.2}"/>'
        for i in shown
    )
    return frame.wrap(title, frame.y_ticks(), whiskers, line, dots, _level_labels(frame, axis))


def _level_labels(frame: Frame, axis: Axis) -> str:
    n = len(axis.levels)
    room = (frame.width - frame.left - frame.right) / n
    fits = max(1, int(room / _CHARACTER))
    longest = max(len(level) for level in axis.levels)
    step = max(1, -(-longest // fits)) if axis.is_numeric else 1
    texts = []
    for i in range(0, n, step):
        level = axis.levels[i]
        short = level if len(level) <= fits * step else level[: max(1, fits - 1)] + "…"
        texts.append(
            f'<text class="mid" x="{frame.px(i):.1f}" y="{frame.height - 6:g}">'
            f"<title>{escape(level)}</title>{escape(short)}</text>"
        )
    return "".join(texts)


def scatter(x: FloatArray, y: FloatArray, title: str) -> str:
    """Points against the diagonal, on which both agree."""
    low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
    pad = 0.05 * (high - low) or 1.0
    ends = (low - pad, high + pad)
    frame = Frame(ends, ends, height=280.0)
    diagonal = (
        f'<path class="diagonal" d="M{frame.px(ends[0]):.1f} {frame.py(ends[0]):.1f}'
        f'L{frame.px(ends[1]):.1f} {frame.py(ends[1]):.1f}"/>'
    )
    points = "".join(
        f'<circle class="point" cx="{frame.px(a):.1f}" cy="{frame.py(b):.1f}" r="3"/>'
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
    )
    return frame.wrap(title, frame.y_ticks(), frame.x_ticks(), diagonal, points)


def histogram(predicted: FloatArray, known: FloatArray, title: str) -> str:
    """Shares of predicted values as bars, and of known ones as an outline."""
    both = np.concatenate([predicted, known])
    low, high = float(both.min()), float(both.max())
    if high - low <= max(1e-300, 1e-9 * abs(low)):  # a constant: no room for bins
        margin = max(0.5, abs(low) / 2)
        low, high = low - margin, high + margin
    edges = np.linspace(low, high, min(30, max(5, int(np.sqrt(both.size)))) + 1)
    heights = [np.histogram(v, edges)[0] / max(1, v.size) for v in (predicted, known)]
    top = float(max(h.max() for h in heights)) or 1.0
    frame = Frame((float(edges[0]), float(edges[-1])), (0.0, top), width=360.0, height=220.0)
    base = frame.py(0.0)
    bars = "".join(
        f'<rect class="bar" x="{frame.px(a) + 0.5:.1f}" y="{frame.py(h):.1f}" '
        f'width="{max(0.5, frame.px(b) - frame.px(a) - 1):.1f}" height="{base - frame.py(h):.1f}"/>'
        for a, b, h in zip(edges[:-1], edges[1:], heights[0], strict=True)
    )
    steps = "".join(
        f"V{frame.py(h):.1f}H{frame.px(b):.1f}" for b, h in zip(edges[1:], heights[1], strict=True)
    )
    outline = f'<path class="outline" d="M{frame.px(edges[0]):.1f} {base:.1f}{steps}V{base:.1f}"/>'
    return frame.wrap(title, frame.y_ticks(), frame.x_ticks(), bars, outline)


def point_map(
    points: FloatArray,
    styles: IntArray,
    labelled: Iterable[bool],
    title: str,
    shapes: Sequence[tuple[str, str]],
) -> str:
    """Rows in the plane: a shape and colour for each style, labelled ones large with a border."""
    low, high = points.min(axis=0), points.max(axis=0)
    frame = Frame((low[0], high[0]), (low[1], high[1]), 400.0, 300.0, 10.0, 10.0, 10.0, 10.0)
    symbols = "".join(
        f'<symbol id="m{i}" overflow="visible"><path d="{shape}"/></symbol>'
        for i, (shape, _) in enumerate(shapes)
    )
    marks: tuple[list[str], list[str]] = ([], [])
    for (a, b), style, known in zip(points.tolist(), styles.tolist(), labelled, strict=True):
        x, y = frame.px(a), frame.py(b)
        colour = shapes[style][1]
        if known:
            place = f'transform="translate({x:.1f} {y:.1f}) scale(1.15)"'
            marks[1].append(f'<use href="#m{style}" class="known {colour}" {place}/>')
        else:
            place = f'transform="translate({x:.1f} {y:.1f}) scale(.55)"'
            marks[0].append(f'<use href="#m{style}" class="{colour}" {place}/>')
    return frame.wrap(title, f"<defs>{symbols}</defs>", *marks[0], *marks[1])


def whisker(mean: float, std: float, ends: tuple[float, float]) -> str:
    """One score with its spread, on a scale shared with others."""
    frame = Frame(ends, (0.0, 1.0), 160.0, 18.0, 6.0, 0.0, 0.0, 6.0)
    return (
        '<svg class="mini" viewBox="0 0 160 18" aria-hidden="true">'
        f'<path class="whisker" d="M{frame.px(mean - std):.1f} 9H{frame.px(mean + std):.1f}"/>'
        f'<circle class="dot" cx="{frame.px(mean):.1f}" cy="9" r="4"/></svg>'
    )


def share_bar(share: float, style: str) -> str:
    """A share between 0 and 1 as a bar."""
    return (
        '<svg class="mini" viewBox="0 0 160 18" aria-hidden="true">'
        f'<rect class="{style}" x="0" y="5" width="{160 * share:.1f}" height="8" rx="2"/></svg>'
    )
