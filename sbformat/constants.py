"""Names, markers and signatures that more than one package uses, by section of FORMAT.md.

This module imports nothing of the package.
"""

from __future__ import annotations

from typing import Final

# -- FORMAT.md 1, the archive -------------------------------------------------------------------------

DATA_ENTRY: Final = "data"
VERSION_ENTRY: Final = "_stable_baselines3_version"  # SB3 >= 0.9.0
SYSTEM_INFO_ENTRY: Final = "system_info.txt"  # SB3 >= 1.3.0
PYTORCH_VARIABLES_ENTRY: Final = "pytorch_variables.pth"
TENSORS_ENTRY: Final = "tensors.pth"  # its name in SB3 <= 0.8
POLICY_ENTRY: Final = "policy.pth"
PTH_SUFFIX: Final = ".pth"
ARCHIVE_SUFFIXES: Final = (".zip", ".pth", ".pkl")  # of files that are opened, whatever they start with
ENTROPY_OPTIMIZER: Final = "ent_coef_optimizer"  # of SAC, TQC and CrossQ, where the coefficient is learned
TORCH_VARIABLES: Final = frozenset({"log_ent_coef", "ent_coef_tensor"})  # the only names in pytorch_variables.pth
OPTIMIZER_WORD: Final = "optimizer"  # in the names of the state dicts of optimizers, and of no others
PLAIN_ENTRIES: Final = frozenset({DATA_ENTRY, VERSION_ENTRY, SYSTEM_INFO_ENTRY})  # entries that are not torch files

# Entries that identify SB2 zips and npz files.
SB2_PARAMETERS_ENTRY: Final = "parameters"
SB2_PARAMETER_LIST_ENTRY: Final = "parameter_list"

# -- FORMAT.md 2, the zip layer -----------------------------------------------------------------------

LOCAL_SIGNATURE: Final = b"PK\x03\x04"
CENTRAL_SIGNATURE: Final = b"PK\x01\x02"
END_SIGNATURE: Final = b"PK\x05\x06"
ZIP64_END_SIGNATURE: Final = b"PK\x06\x06"
ZIP64_LOCATOR_SIGNATURE: Final = b"PK\x06\x07"
DESCRIPTOR_SIGNATURE: Final = b"PK\x07\x08"

# -- FORMAT.md 3, data --------------------------------------------------------------------------------

TYPE_MARKER: Final = ":type:"
SERIALIZED_MARKER: Final = ":serialized:"

# -- FORMAT.md 5, pickles -----------------------------------------------------------------------------

SURROGATE_PAIR: Final = r"[\ud800-\udbff][\udc00-\udfff]"
"""A pattern of two surrogates, which are one character in UTF-16 (5.1)."""

# -- FORMAT.md 6, the torch zip -----------------------------------------------------------------------

PICKLE_RECORD: Final = "data.pkl"
STORAGE_FOLDER: Final = "data/"
TORCH_VERSION_RECORD: Final = "version"
TORCH_VERSION_RECORD_OLD: Final = ".data/version"
BYTE_ORDER_RECORD: Final = "byteorder"
TORCHSCRIPT_RECORD: Final = "constants.pkl"
IGNORED_RECORDS: Final = (".format_version", ".storage_alignment", ".data/serialization_id")
TORCH_VERSIONS: Final = range(1, 11)

# -- FORMAT.md 7, the legacy stream -------------------------------------------------------------------

LEGACY_MAGIC: Final = 0x1950A86A20F9469CFC6C
LEGACY_MAGIC_BYTES: Final = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # LONG1, ten bytes, STOP
LEGACY_PROTOCOL: Final = 1001

# -- SB2.md 16.2, a .npy ------------------------------------------------------------------------------

NPY_MAGIC: Final = b"\x93NUMPY"

# -- STATISTICS.md 17, files of statistics -----------------------------------------------------------

WHOLE_FILE: Final = "vecnormalize.pkl"
WHOLE_FILES: Final = (WHOLE_FILE, "vec_normalize.pkl")
"""The name in rl_zoo3, and that in many tutorials and Hub folders."""
OBSERVATIONS_FILE: Final = "obs_rms.pkl"
RETURNS_FILE: Final = "ret_rms.pkl"

# -- STATISTICS.md 17.5, a bundle ---------------------------------------------------------------------

SETTINGS_ENTRY: Final = "vecnormalize.json"
ARRAYS_ENTRY: Final = "vecnormalize.safetensors"

# -- SCANNING.md 14, scanning -------------------------------------------------------------------------

PICKLE_SUFFIXES: Final = (".pkl", ".pickle", ".p", ".pck", ".pcl", ".dill", ".joblib")
"""Suffixes of files that programs load as pickles (14.2)."""
TABLES: Final = (".csv", ".parquet")
"""Suffixes of the files that have a row for each step of a replay buffer."""
