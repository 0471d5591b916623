"""The networks of policies."""
