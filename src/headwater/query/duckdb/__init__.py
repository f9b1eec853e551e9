"""The fast engine: DuckDB inside the process, for queries whose every part was compared with Spark's answers."""
