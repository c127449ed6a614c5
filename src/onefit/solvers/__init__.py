"""Solvers: the fit on the labelled rows, and fold systems on all rows."""
