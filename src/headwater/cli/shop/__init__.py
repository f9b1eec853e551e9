"""The demo's shop: what happens in it, its database, and the project that keeps its lake."""
