"""Measurements: one script for each subject, with its results beside it."""
