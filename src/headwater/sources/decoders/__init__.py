"""From records as they came to events with a schema; shared by the sources."""
