"""The other formats of the family: Stable Baselines 2, lone pickles, statistics, replay buffers, files of arrays."""
