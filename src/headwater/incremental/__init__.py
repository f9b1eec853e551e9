"""Signed changes through the operators of a query: what views and tables are kept by."""
