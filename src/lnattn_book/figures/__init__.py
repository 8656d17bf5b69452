"""Figures of the book: functions that take arrays and return a matplotlib Figure."""
