"""Frozen results: what makes each again, who reads it, and whether they still agree."""
