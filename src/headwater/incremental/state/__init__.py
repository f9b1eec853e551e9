"""A query's result as a table: what is stored alongside its columns, and how a change is taken into it."""
