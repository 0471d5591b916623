"""``export_c``: a policy as C99 source."""
