"""Policies as ONNX models: ``translate`` makes steps of nodes, ``model`` makes a file of the steps."""
