"""Keeps a lake and its state together: where both are, and what is done when one of them was moved, copied or lost."""
