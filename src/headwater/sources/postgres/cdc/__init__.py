"""Changes of Postgres tables."""
