"""Every measurement by its name: a description and the function that makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks import catalogue, exports, growth, instructions, large, policies, reading, replay, tools

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench
    from benchmarks.results import Line


class Measure(NamedTuple):
    """A part of the run that ``--only`` can select."""

    name: str
    about: str
    take: Callable[[Bench], list[Line]]
    is_default: bool = True
    """Whether a run without ``--only`` includes it."""


def measure_growth(bench: Bench) -> list[Line]:
    """Measure growth, and keep the curves for the plot."""
    bench.curves = growth.curves(bench)
    return growth.lines(bench.measure, bench.curves)


MEASURES: Final = {
    measure.name: measure
    for measure in (
        Measure("cold-one", "whole process: one archive to its policy as arrays", reading.cold_one),
        Measure("cold-many", "whole process: the policies of 100 archives", reading.cold_many),
        Measure("warm-policy", "an archive's bytes to its policy as arrays", reading.warm_policy),
        Measure("warm-optimizer", "an archive's bytes to its optimizer as arrays", reading.warm_optimizer),
        Measure("warm-tensors", "a policy of 10,000 small tensors", reading.warm_tensors),
        Measure("warm-data", "40 MiB of data, beside json.loads of it", reading.warm_data),
        Measure("inspect", "whole process: sbformat inspect --format json", tools.inspect),
        Measure("inspect-jobs", "whole process: inspect of 100 archives in two processes", tools.inspect_jobs),
        Measure("scan", "an archive's bytes to its verdict", tools.scan),
        Measure("scan-many", "whole process: sbformat scan of 100 archives", tools.scan_many),
        Measure("scan-jobs", "whole process: scan of 100 archives in two processes", tools.scan_jobs),
        Measure("validate", "an archive's bytes to its problems", tools.validate),
        Measure("rebuild", "an archive's bytes to an archive for the newest SB3", tools.rebuild),
        Measure("open-large", "safe_open of 512 MiB, and one tensor of 1 MiB", large.open_large),
        Measure("read-large", "read of 512 MiB, all tensors", large.read_large),
        Measure("write-large", "write of 512 MiB", large.write_large),
        Measure("extract-large", "whole process: 512 MiB to safetensors", large.extract_large),
        Measure("convert-large", "whole process: 512 MiB converted to safetensors", large.convert_large),
        Measure("predict-one", "one observation to its action, networks of two layers of 64", policies.predict_one),
        Measure("predict-batch", "4,096 observations to their actions", policies.predict_batch),
        Measure("predict-image", "one image to its action, the network for Atari games", policies.predict_image),
        Measure("first-action", "whole process: from its start to the first action", policies.first_action),
        Measure("export-onnx", "whole process: an agent to an ONNX file", exports.export_onnx),
        Measure("export-onnx-warm", "an agent that is loaded to an ONNX file", exports.export_onnx_warm),
        Measure("onnx-size", "nodes and bytes of ONNX files", exports.onnx_size),
        Measure("onnx-latency", "one observation in onnxruntime", exports.onnx_latency),
        Measure("onnx-latency-batch", "4,096 observations or 16 images in onnxruntime", exports.onnx_latency_batch),
        Measure("export-c", "whole processes: an agent to a C file, and that to an object", exports.export_c),
        Measure("c-latency", "one observation with compiled C, beside onnxruntime", exports.c_latency),
        Measure("javascript-latency", "one observation with a JavaScript module in node", exports.javascript_latency),
        Measure("growth", "how the cost grows; draws the plot", measure_growth),
        Measure("growth-instructions", "how instructions grow, by valgrind", growth.growth_instructions, False),
        Measure("instructions", "instructions of the hot paths, by valgrind", instructions.instructions),
        Measure("catalog", "whole processes: a catalogue of 10,000 archives, also by Dask", catalogue.catalog, False),
        Measure("catalog-query", "whole processes: searches of a catalogue of 10,000 rows", catalogue.query, False),
        Measure("replay-buffer", "a replay buffer of 2 GiB, extracted; needs SB3", replay.replay_buffer, False),
    )
}
