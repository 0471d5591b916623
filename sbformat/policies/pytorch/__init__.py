"""A policy as plain PyTorch: source to read, run and train on."""
