"""Rows handed in by programs."""
