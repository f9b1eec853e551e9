"""Catalogs: where tables that go by name are found."""
