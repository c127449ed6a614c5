"""A finished search as one HTML page that works offline."""

from __future__ import annotations

from onefit.report.page import render_report

__all__ = ["render_report"]
