"""Materialized views: what is stored of them, how they are brought up to date, and how that is proved."""
