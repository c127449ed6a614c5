"""The sections of the report, each a function from what was found to markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onefit._typing import FloatArray, IntArray
from onefit.report import svg
from onefit.report.evidence import Agreement, Evidence, Map, margins
from onefit.report.markup import bullets, figure, paragraphs, section, table, text
from onefit.report.words import PARAMETER_WORDS, advice, chosen_parameters, reasons, score_text
from onefit.search.candidates import split_pipeline
from onefit.search.surface import Surface, describe_value

__all__ = [
    "PALETTE",
    "agreement_section",
    "baselines_section",
    "checks_section",
    "choice_section",
    "map_section",
    "predictions_section",
    "profiles_section",
    "reproduce_section",
    "surface_data",
    "surface_section",
]

#: Viridis, dark to light.
PALETTE = (
    "#440154",
    "#482878",
    "#3e4989",
    "#31688e",
    "#26828e",
    "#1f9e89",
    "#35b779",
    "#6ece58",
    "#b5de2b",
    "#fde725",
)
#: Classes that get a row and a marker of their own.
_MOST_CLASSES = 16
_BEST_ROWS = 10

Baseline = tuple[str, float, float]


def choice_section(search: Any, surface: Surface) -> str:
    """What was chosen and why."""
    model = split_pipeline(search.estimator)[1]
    prefix = split_pipeline(search.estimator)[2]
    rows = [
        (
            f'<code>{text(name)}</code><span class="sub">{_symbols(meaning)}</span>',
            f"<strong>{text(value)}</strong>",
        )
        for name, value, meaning in chosen_parameters(search.best_params_, prefix)
    ]
    hints = advice(surface)
    box = f'<div class="advice">{paragraphs(hints)}</div>' if hints else ""
    return section(
        "choice",
        "What was chosen, and why",
        f"<p>A <code>{text(type(model).__name__)}</code> with these parameters:</p>",
        table(("parameter", "value"), rows),
        bullets(reasons(search, surface)),
        box,
    )


def _symbols(words: str) -> str:
    """Our own words as markup, with the subscripts of the penalties."""
    return text(words).replace("γ_A", "γ<sub>A</sub>").replace("γ_I", "γ<sub>I</sub>")


def surface_data(surface: Surface) -> dict[str, Any]:
    """What the heat map needs, as JSON."""
    finite = surface.mean[np.isfinite(surface.mean)]
    low, high = (0.0, 1.0) if not finite.size else _colour_range(finite)
    return {
        "score": surface.score,
        "axes": [
            {"label": axis.label, "levels": axis.levels, "codes": axis.codes.tolist()}
            for axis in surface.axes
        ],
        "mean": _rounded(surface.mean),
        "std": _rounded(surface.std),
        "best": surface.best,
        "low": low,
        "high": high,
        "palette": PALETTE,
    }


def _rounded(values: FloatArray) -> list[float | None]:
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values.tolist()]


def _colour_range(mean: FloatArray) -> tuple[float, float]:
    """Ends of the colours: a few very bad candidates must not hide what the good ones tell."""
    high = float(mean.max())
    low = max(float(mean.min()), high - 2.0 * (high - float(np.median(mean))))
    return float(f"{low if low < high else mean.min():.6g}"), high


def surface_section(surface: Surface) -> str:
    """The heat map, drawn by the script, and the best candidates, which need none."""
    heading = "Score over the parameters"
    if not surface.axes:
        return section("surface-s", heading, "<p>Only one candidate was tried.</p>")
    data = surface_data(surface)
    names = " and ".join(axis.label for axis in surface.axes[:2])
    intro = (
        f"Mean {surface.score} by {names}. Move over the cells, or into the picture with the Tab "
        "key and on with the arrow keys, to read a score and its standard deviation over the folds."
    )
    scale = (
        f'<div class="scale"><span>≤ {text(score_text(data["low"]))}</span>{_ramp()}'
        f"<span>{text(score_text(data['high']))}</span></div>"
    )
    live = (
        '<div id="surface" hidden><div id="controls"></div><p id="slice" class="note" '
        f'role="status"></p>{scale}<div id="heat"></div><output id="readout"></output>'
        '<details><summary>The same numbers as a table</summary><div class="scroll" tabindex="0" '
        'role="region" aria-label="Scores as a table" id="plain"></div></details></div>'
        "<noscript><p>The picture needs JavaScript; the table below does not.</p></noscript>"
    )
    return section("surface-s", heading, f"<p>{text(intro)}</p>", live, _best_table(surface))


def _ramp() -> str:
    cells = "".join(
        f'<rect class="v{i}" x="{i * 10}" y="0" width="10.5" height="8"/>'
        for i in range(len(PALETTE))
    )
    return (
        '<svg class="ramp" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f"{cells}</svg>"
    )


def _best_table(surface: Surface) -> str:
    mean = np.where(np.isnan(surface.mean), -np.inf, surface.mean)
    order = np.argsort(-mean, kind="stable")
    order = np.concatenate([[surface.best], order[order != surface.best]])[:_BEST_ROWS]
    rows = [
        (
            text(score_text(float(surface.mean[i]), float(surface.std[i])))
            + (" (chosen)" if i == surface.best else ""),
            *(text(axis.levels[axis.codes[i]]) for axis in surface.axes),
        )
        for i in order
    ]
    heads = (surface.score, *(axis.label.replace("_", " ") for axis in surface.axes))
    return (
        f"<details><summary>The choice and the {len(rows) - 1} best others</summary>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Best candidates">'
        f"{table(heads, rows)}</div></details>"
    )


def profiles_section(surface: Surface) -> str:
    """Score against each parameter, best over the rest."""
    heading = "Score against each parameter"
    if not surface.axes:
        return ""
    best = [surface.best_by_level(axis) for axis in surface.axes]
    ends = _score_range(surface, np.concatenate(best))
    drawings = []
    for axis, index in zip(surface.axes, best, strict=True):
        mean = np.where(index >= 0, surface.mean[index], np.nan)
        at = int(axis.codes[surface.best])
        title = f"Best {surface.score} by {axis.label}; chosen {axis.levels[at]}"
        drawing = svg.profile(axis, mean, surface.std[index], ends, at, title)
        words = _symbols(PARAMETER_WORDS.get(axis.label, ""))
        drawings.append(figure(drawing, words, axis.label))
    intro = (
        "Each point is the best candidate with that value, over all values of the other "
        "parameters. The bar is its standard deviation over the folds, the ring is the choice. A "
        "flat curve says that the parameter matters little."
    )
    body = f'<div class="multiples">{"".join(drawings)}</div>'
    return section("profiles", heading, f"<p>{text(intro)}</p>", body)


def _score_range(surface: Surface, candidates: IntArray) -> tuple[float, float]:
    """Ends of the score axis: the bars, but never beyond what any fold has seen."""
    mean, std = surface.mean[candidates], surface.std[candidates]
    if not np.isfinite(mean).any():
        return 0.0, 1.0
    splits = surface.splits[candidates]
    low = max(np.nanmin(mean - std), np.nanmin(splits))
    high = min(np.nanmax(mean + std), np.nanmax(splits))
    if high <= low:
        return float(low - 0.05 * (abs(low) or 1.0)), float(high + 0.002 * (abs(high) or 1.0))
    pad = 0.04 * (high - low)
    return float(low - pad), float(high + pad)


def agreement_section(agreement: Agreement | str, quadratic: bool) -> str:
    """Exact against approximate held-out decisions."""
    heading = "Exact against approximate cross-validation"
    if isinstance(agreement, str):
        return section("agreement", heading, paragraphs([agreement]))
    of = "a sample of " if agreement.is_sample else "all "
    intro = (
        f"The held-out decisions of the chosen model on {of}{agreement.n_rows:,} rows with "
        f"{agreement.n_labels} labels in {agreement.n_folds} folds: exact ones across, approximate "
        "ones up. On the dashed line both agree. This choice does not depend on the approximations "
        "unless it says so above; they show how far cheaper criteria can be trusted on these data."
    )
    names = {"newton": "One Newton step", "bif": "Influence function of the paper (BIF)"}
    drawings = [
        figure(
            svg.scatter(agreement.exact, values, f"{names[name]} against exact decisions"),
            text(_agreement_words(agreement.exact, values, name == "newton" and quadratic)),
            names[name],
        )
        for name, values in agreement.others.items()
    ]
    body = f'<div class="multiples">{"".join(drawings)}</div>'
    return section("agreement", heading, f"<p>{text(intro)}</p>", body)


def _agreement_words(exact: FloatArray, other: FloatArray, is_exact: bool) -> str:
    difference = float(np.abs(other - exact).max())
    if min(np.ptp(exact), np.ptp(other)) > 0:
        correlation = f"Correlation {np.corrcoef(exact, other)[0, 1]:.3f}"
    else:
        correlation = "No correlation: the decisions are constant"
    is_rounding = difference <= 1e-9 * max(1.0, float(np.abs(exact).max()))
    largest = "none but rounding" if is_rounding else describe_value(difference)
    words = f"{correlation}; largest difference: {largest}."
    return f"{words} For the square loss this step is exact." if is_exact else words


def predictions_section(evidence: Evidence, target_name: str, shown: Map) -> str:
    """What the model says about the rows without a label."""
    unlabelled = ~evidence.labelled
    heading = "Predictions for the unlabelled rows"
    if not unlabelled.any():
        return section("predictions", heading, "<p>Every row has a label.</p>")
    if evidence.is_classification:
        body = _class_table(evidence, shown)
    else:
        body = "".join(_value_histograms(evidence, target_name))
    intro = f"Predicted {target_name} of the {int(unlabelled.sum()):,} rows that have no label."
    return section("predictions", heading, f"<p>{text(intro)}</p>", body)


def class_styles(evidence: Evidence) -> tuple[list[str], IntArray]:
    """Names in the legend, and for every row which one its prediction is."""
    classes = [str(name) for name in evidence.targets.class_names]
    codes = np.searchsorted(evidence.targets.class_names, evidence.predictions)
    if len(classes) <= _MOST_CLASSES:
        return classes, codes
    common = np.argsort(-np.bincount(codes, minlength=len(classes)), kind="stable")
    own = np.sort(common[: _MOST_CLASSES - 1])
    styles = np.full(len(classes), own.size, dtype=np.intp)
    styles[own] = np.arange(own.size)
    rest = f"{len(classes) - own.size} other classes"
    return [*(classes[i] for i in own), rest], styles[codes]


def _class_table(evidence: Evidence, shown: Map) -> str:
    names, styles = class_styles(evidence)
    known = ~evidence.labelled
    counts = np.bincount(styles[known], minlength=len(names))
    margin = margins(evidence, shown.rows)
    hidden = known[shown.rows]
    truth = np.full(known.size, None, dtype=object)
    truth[~known] = [str(name) for name in evidence.targets.y[~known]]
    rows = []
    for i, name in enumerate(names):
        here = margin[hidden & (styles[shown.rows] == i)]
        share = counts[i] / counts.sum()
        is_rest = len(names) < len(evidence.targets.class_names) and i == len(names) - 1
        n_known = "–" if is_rest else f"{int(np.sum(truth == name)):,}"
        rows.append(
            (
                _key(i) + text(name),
                n_known,
                f"{counts[i]:,} <small>({100 * share:.1f} %)</small>",
                svg.share_bar(counts[i] / counts.max(), svg.marker(i)[1]),
                describe_value(float(np.median(here))) if here.size else "–",
            )
        )
    note = (
        "The median margin is the distance from the predicted class to the next in decision value: "
        "the smaller, the less sure."
    )
    heads = ("class", "labels", "predicted", "share of predictions", "median margin")
    made = table(heads, rows, numbers=(1, 2, 4)).replace("<table>", '<table class="classes">', 1)
    return made + f'<p class="note">{text(note)}</p>'


def _key(number: int) -> str:
    shape, style = svg.marker(number)
    return (
        '<svg class="key" viewBox="-6 -6 12 12" aria-hidden="true">'
        f'<path class="{style}" d="{shape}"/></svg>'
    )


def _value_histograms(evidence: Evidence, target_name: str) -> Iterator[str]:
    predicted = evidence.predictions.reshape(evidence.labelled.size, -1)[~evidence.labelled]
    for i, (values, known) in enumerate(zip(predicted.T, evidence.targets.values.T, strict=True)):
        name = target_name if predicted.shape[1] == 1 else f"{target_name} {i + 1}"
        title = f"Distribution of {name}: predicted for unlabelled rows, and known"
        five = ", ".join(describe_value(float(v)) for v in np.quantile(values, (0, 0.5, 1)))
        caption = (
            f"Share of rows by {name}. Bars: predicted (least, median, most: {five}). Outline: the "
            f"{known.size:,} known values."
        )
        drawing = figure(svg.histogram(values, known, title), text(caption))
        yield f'<div class="narrow">{drawing}</div>'


def map_section(evidence: Evidence, shown: Map, target_name: str) -> str:
    """The rows in the plane, coloured by prediction."""
    n, total = shown.rows.size, evidence.labelled.size
    labelled = evidence.labelled[shown.rows]
    if evidence.is_classification:
        names, styles = class_styles(evidence)
        shapes = [svg.marker(i) for i in range(len(names))]
        items = "".join(f"<li>{_key(i)}{text(name)}</li>" for i, name in enumerate(names))
        legend = f'<ul class="legend">{items}</ul>'
    else:
        values = evidence.predictions.reshape(total, -1)[:, 0]
        low, high = float(values.min()), float(values.max())
        share = (values - low) / ((high - low) or 1.0)
        styles = np.minimum((share * len(PALETTE)).astype(np.intp), len(PALETTE) - 1)
        shapes = [(svg.marker(0)[0], f"v{i}") for i in range(len(PALETTE))]
        legend = (
            f'<div class="scale"><span>{text(target_name)} {describe_value(low)}</span>{_ramp()}'
            f"<span>{describe_value(high)}</span></div>"
        )
    rows = f"{n:,} of {total:,} rows" if n < total else f"All {total:,} rows"
    first, second = (f"{100 * share:.0f} %" for share in shown.shares)
    caption = (
        f"{rows} after preprocessing, in the plane of their first two principal components "
        f"({first} of the variance across, {second} up), by predicted {target_name}. Large "
        f"marks with a border are the {int(labelled.sum()):,} labelled rows. Rows that are close "
        "here may be far apart in directions that the plane does not show."
    )
    title = f"Map of the rows by predicted {target_name}"
    drawing = svg.point_map(shown.points, styles[shown.rows], labelled.tolist(), title, shapes)
    drawing = drawing.replace("<svg ", '<svg class="plane" ', 1)
    body = f'<div class="map">{legend}{figure(drawing, text(caption))}</div>'
    return section("map", "A map of the data", body)


def baselines_section(surface: Surface, baselines: Sequence[Baseline]) -> str:
    """The choice next to simpler models."""
    if not baselines:
        return ""
    best = surface.best
    scores = [("the choice", float(surface.mean[best]), float(surface.std[best])), *baselines]
    ends = (min(m - s for _, m, s in scores), max(m + s for _, m, s in scores))
    rows = [
        (text(name), text(score_text(mean, std)), svg.whisker(mean, std, ends))
        for name, mean, std in scores
    ]
    heads = ("model", surface.score, "mean and standard deviation")
    note = "Cross-validated on the same folds. A choice that does not beat these is of no use."
    return section("baselines", "Against simpler models", f"<p>{note}</p>", table(heads, rows))


def checks_section(evidence: Evidence, n_columns: int, notes: Sequence[str]) -> str:
    """What the data are, and what is noteworthy about them."""
    labelled = evidence.labelled
    facts = [
        f"{labelled.size:,} rows, {n_columns:,} columns before preprocessing and "
        f"{evidence.rows.shape[1]:,} after.",
        f"{int(labelled.sum()):,} rows have a label ({100 * labelled.mean():.2g} %).",
    ]
    if evidence.targets.codes is not None:
        counts = np.bincount(evidence.targets.codes)
        rare = int(np.argmin(counts))
        name = evidence.targets.class_names[rare]
        facts.append(f"The class with the fewest labels is {name}, with {counts[rare]:,}.")
    return section("checks", "Data checks", bullets([*facts, *notes]))


def reproduce_section(code: str, command: str | None, versions: Sequence[tuple[str, str]]) -> str:
    """How to get the same result again."""
    shell = f"<h3>Command</h3><pre><code>{text(command)}</code></pre>" if command else ""
    python = f"<h3>Python</h3><pre><code>{text(code)}</code></pre>"
    rows = [(text(name), text(number)) for name, number in versions]
    listed = f"<h3>Versions</h3>{table(('what', 'version'), rows)}"
    return section("reproduce", "How to reproduce this", shell, python, listed)
