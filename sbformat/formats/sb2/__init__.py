"""The formats of Stable Baselines 2, the predecessor on TensorFlow."""
