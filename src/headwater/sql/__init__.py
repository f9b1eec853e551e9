"""SQL: parse, resolve, rewrite; on sqlglot."""
