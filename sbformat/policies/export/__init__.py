"""What every exported file needs: its interface, the lowered graph and metadata; and the graph as a file of its own."""
