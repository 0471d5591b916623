"""A policy as a JavaScript module without dependencies: what the module computes with, and the module itself."""
