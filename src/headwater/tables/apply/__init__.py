"""Changes of rows applied to a table: the current state of every key (SCD 1), or all its states (SCD 2)."""
