"""The back end that runs a graph with numpy."""
