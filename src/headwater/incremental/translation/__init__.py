"""From a query's text to its operators."""
