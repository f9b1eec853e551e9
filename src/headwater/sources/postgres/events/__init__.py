"""An event store in Postgres."""
