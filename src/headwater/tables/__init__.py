"""What keeps tables, and what writes them from a stream."""
