"""Another lakehouse table."""
