"""A query's result as a table: what is stored beside its columns, and how a change is taken into it."""
