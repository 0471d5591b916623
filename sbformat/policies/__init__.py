"""Policies as networks: the tensors that SB3 expects (``shapes``), the graph of what it computes, and back ends."""
