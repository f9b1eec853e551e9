"""Backups of a lake: what is in one, how it is taken while flows run, and how it becomes a lake again."""
