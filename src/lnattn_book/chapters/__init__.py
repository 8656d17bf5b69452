"""What the chapters compute and nobody else needs, a module a topic, each with its test."""
