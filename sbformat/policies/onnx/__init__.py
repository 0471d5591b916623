"""``export_onnx``: a policy as an ONNX model."""
