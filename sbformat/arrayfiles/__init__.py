"""Files of plain arrays: ``.safetensors``, ``.npz`` and ``.npy``, read and written."""
