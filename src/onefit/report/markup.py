"""HTML by small functions. Text goes through :func:`text`; markup is of type str already."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["bullets", "figure", "json_block", "paragraphs", "section", "table", "text"]

#: What could end a script element, or a line in old JavaScript, as JSON escapes.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def text(value: Any) -> str:
    """Anything as text that is safe in elements and in quoted attributes."""
    return escape(str(value), quote=True)


def json_block(value: Any) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_UNSAFE)


def paragraphs(texts: Iterable[str]) -> str:
    """Each text as a paragraph."""
    return "".join(f"<p>{text(one)}</p>" for one in texts)


def bullets(texts: Iterable[str]) -> str:
    """The texts as a list."""
    items = "".join(f"<li>{text(one)}</li>" for one in texts)
    return f'<ul class="plainlist">{items}</ul>'


def section(key: str, heading: str, *parts: str) -> str:
    """A section with its heading."""
    return (
        f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{text(heading)}</h2>'
        + ("".join(parts) + "</section>")
    )


def figure(drawing: str, caption: str, heading: str = "") -> str:
    """A drawing with what it shows; ``heading`` is text, the rest markup."""
    head = f"<h3>{text(heading)}</h3>" if heading else ""
    return f"<figure>{head}{drawing}<figcaption>{caption}</figcaption></figure>"


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()
) -> str:
    """A table whose first column names the rows. Cells are markup; ``numbers`` align right."""

    def kind(i: int) -> str:
        return ' class="num"' if i in numbers else ""

    head = "".join(f'<th scope="col"{kind(i)}>{text(h)}</th>' for i, h in enumerate(heads))
    lines = []
    for first, *rest in rows:
        cells = "".join(f"<td{kind(i)}>{cell}</td>" for i, cell in enumerate(rest, start=1))
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
