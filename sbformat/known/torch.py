"""Node decoders for torch's tensors, dtypes, devices and small values in pickles (VALUES.md 13.6).

A tensor in a pickle refers to its storage by ``_load_from_bytes``, whose argument is a complete legacy torch file. That
file is decoded as any other; the constructors are those of a ``.pth``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import FormatError
from sbformat.known.rows import find_role, known, known_in_pth, reject, reject_with
from sbformat.pkl import tree
from sbformat.pkl.numpy import encoded_bytes
from sbformat.pkl.tree import Call, Global, Persistent
from sbformat.pth.constructors import CONSTRUCTORS
from sbformat.pth.decode import open_pth
from sbformat.pth.values import StorageId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.known.context import NodeContext
    from sbformat.known.rows import Known
    from sbformat.pth.values import Storage


def decode_storage(context: NodeContext, node: Call) -> Storage:
    """Decode ``_load_from_bytes(data)``: the storage that is the one object of a torch file."""
    from copy import copy

    args: Any = node.args
    if len(args) != 1 or node.updates:
        reject("_load_from_bytes has unknown arguments")
    seen, key = context.storages, id(args[0])
    if key not in seen:
        seen[key] = None  # while it is read, and when that fails
        seen[key] = _storage(context, args[0])
    storage = copy(seen[key])  # loading the same bytes again makes another storage
    if storage is None:
        reject("expected a storage in the bytes of _load_from_bytes")
    context.substitutes[id(node)] = Persistent(StorageId(storage))
    return storage


def _storage(context: NodeContext, raw: object) -> Storage:
    data = encoded_bytes(raw)
    if data is None:
        reject("expected bytes as the argument of _load_from_bytes")
    try:
        pickle, storages = open_pth(memoryview(data), context.budget)
        value = pickle.value
        names = [type(node) is Global and not node.updates and node.pair in tree.STORAGES for node in pickle.log]
        if type(value) is not Persistent or pickle.flags or not all(names):
            reject("expected a storage in the bytes of _load_from_bytes")
        return storages.storage(value)
    except FormatError as error:
        reject(f"expected a torch file as the argument of _load_from_bytes: {error.message}")


def decode_tensor(context: NodeContext, node: Call) -> object:
    """Decode a tensor or small value of torch, by the constructors of a ``.pth``."""
    role = find_role(node)
    if node.updates or role is None:
        reject("a value of torch is changed after it was constructed")
    args: tuple[object, ...] = node.args  # type: ignore[assignment]
    if context.substitutes:  # persistent references in place of the calls of _load_from_bytes
        get = context.substitutes.get
        args = tuple(
            tuple([get(id(part), part) for part in arg]) if type(arg) is tuple else get(id(arg), arg) for arg in args
        )
    value = CONSTRUCTORS[role](context.tensors, args)
    if args != node.args:
        context.substitutes[id(node)] = Call("REDUCE", node.func, args)
    context.accept(*[arg for arg in args if type(arg) is Global])
    return value


# -- rows ----------------------------------------------------------------------------------------------

_NN: Final = "torch.nn.modules"
_ACTIVATION: Final = "activation_fn"


def _activations(module: str, names: str, *arguments: str) -> list[Known]:
    """Return rows for layers that SB3 can use as an activation, with the arguments that a partial may give them."""
    return known(f"{_NN}.{module}", names, "value, layer", place=_ACTIVATION, arguments=dict.fromkeys(arguments))


def _layers(module: str, names: str) -> list[Known]:
    return known(f"{_NN}.{module}", names, "value, layer")


_FLAGS: Final = dict.fromkeys(("foreach", "maximize", "capturable", "differentiable"))
_FUSED: Final = dict.fromkeys(("foreach", "maximize", "differentiable", "fused"))
_BETAS: Final = {"betas": (0.9, 0.999), "eps": 1e-8}
_STEP: Final = {"step": "scalar"}
_MOMENTS: Final = {**_STEP, "exp_avg": "parameter", "exp_avg_sq": "parameter"}
_ADAM: Final = {**_MOMENTS, "max_exp_avg_sq": "amsgrad"}
_AMSGRAD: Final = {**_FLAGS, "fused": None, "amsgrad": None}
_DECOUPLED: Final = {**_FLAGS, "decoupled_weight_decay": None}
RMSPROP: Final[dict[str, Any]] = {
    "place": "optimizer_class",
    "arguments": {"centered": None, "momentum": 0, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0},
    "stores": {**_STEP, "square_avg": "parameter", "momentum_buffer": "momentum", "grad_avg": "centered"},
}
"""What RMSprop and SB3's variant of it have in common."""


def _optimizer(name: str, stores: Mapping[str, str], flags: Mapping[str, None], **defaults: object) -> list[Known]:
    """Return the row of an optimizer that SB3 can use.

    :param stores: as in :class:`Known`
    :param flags: its arguments that are flags
    :param defaults: the others except ``lr``: ``step`` reads these options, and torch does not add them by itself
    """
    row = {"place": RMSPROP["place"], "arguments": {**flags, **defaults}, "stores": stores}
    return known(f"torch.optim.{name.lower()}", name, "value, layer", **row)


_USES: Final = {
    "tensor_v2": "built", "parameter": "built", "size": "built", "device": "value, built", "from_type_v2": "reaches",
}  # fmt: skip
_OF_PYTHON: Final = frozenset({"ordered_dict", "set", "frozenset", "bytearray", "complex", "encode", "bytes"})

ROWS: Final = [
    # tensors
    *(row for role in CONSTRUCTORS if role not in _OF_PYTHON
      for row in known_in_pth(role, _USES.get(role, ""), call=decode_tensor)),
    *known(  # their tensors have no value here
        "torch._utils",
        "_rebuild_nested_tensor _rebuild_device_tensor_from_numpy _rebuild_device_tensor_from_cpu_tensor "
        "_rebuild_xla_tensor",
        role="unread_tensor", call=reject_with("a tensor of a kind that cannot be read"),
    ),
    *known("torch.storage", "_load_from_bytes", "reaches, built", role="load_from_bytes", call=decode_storage),
    *(row for pair in tree.TENSOR_CLASSES for row in known(*pair, "value")),
    *(row for pair in tree.STORAGES for row in known(*pair, "imported")),
    *(row for pair in tree.DTYPES for row in known(*pair, "value, dtype")),
    *(row for pair in tree.MEMORY_FORMATS for row in known(*pair, "value")),
    *(row for pair in tree.QUANTIZATION_SCHEMES for row in known(*pair, kind="quantization scheme")),
    *known("torch.jit._pickle",
           "build_boollist build_doublelist build_intlist build_tensor_from_id build_tensorlist restore_type_tag",
           "program"),
    # layers
    *_activations("activation", "LogSigmoid Sigmoid Softmax2d Softsign Tanh Tanhshrink"),
    *_activations("activation", "Hardsigmoid Hardswish Mish ReLU ReLU6 SELU SiLU", "inplace"),
    *_activations("activation", "GLU LogSoftmax Softmax Softmin", "dim"),
    *_activations("activation", "CELU ELU", "alpha", "inplace"),
    *_activations("activation", "Hardshrink Softshrink", "lambd"),
    *_activations("activation", "GELU", "approximate"),
    *_activations("activation", "Hardtanh", "min_val", "max_val", "inplace"),
    *_activations("activation", "LeakyReLU", "negative_slope", "inplace"),
    *_activations("activation", "PReLU", "num_parameters", "init"),
    *_activations("activation", "RReLU", "lower", "upper", "inplace"),
    *_activations("activation", "Softplus", "beta", "threshold"),
    *_activations("dropout", "AlphaDropout Dropout FeatureAlphaDropout", "p", "inplace"),
    *_activations("linear", "Identity"),
    *_layers("activation", "MultiheadAttention Threshold"),
    *_layers("batchnorm", "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d"),
    *_layers("container", "ModuleDict ModuleList ParameterDict ParameterList Sequential"),
    *_layers("conv",
             "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d"),
    *_layers("dropout", "Dropout1d Dropout2d Dropout3d"),
    *_layers("flatten", "Flatten Unflatten"),
    *_layers("instancenorm", "InstanceNorm1d InstanceNorm2d InstanceNorm3d"),
    *_layers("linear", "Bilinear LazyLinear Linear"),
    *_layers("loss",
             "BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss KLDivLoss L1Loss MSELoss NLLLoss SmoothL1Loss"),
    *_layers("module", "Module"),
    *_layers("normalization", "GroupNorm LayerNorm LocalResponseNorm RMSNorm"),
    *_layers("padding",
             "ConstantPad1d ConstantPad2d ReflectionPad1d ReflectionPad2d ReplicationPad1d ReplicationPad2d ZeroPad2d"),
    *_layers("pooling", "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
             "AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d MaxPool1d MaxPool2d MaxPool3d"),
    *_layers("rnn", "GRU GRUCell LSTM LSTMCell RNN RNNCell"),
    *_layers("sparse", "Embedding EmbeddingBag"),
    *_layers("transformer",
             "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer"),
    *_layers("upsampling", "Upsample UpsamplingBilinear2d UpsamplingNearest2d"),
    # optimizers: torch/optim/*.py of torch 1.11 to 2.13, defaults, __setstate__ and step
    *_optimizer("Adam", _ADAM, {**_AMSGRAD, "decoupled_weight_decay": None}, **_BETAS, weight_decay=0),
    *_optimizer("AdamW", _ADAM, _AMSGRAD, **_BETAS, weight_decay=1e-2),
    *_optimizer("RMSprop", RMSPROP["stores"], _FLAGS, **RMSPROP["arguments"]),
    *_optimizer("SGD", {}, {**_FUSED, "nesterov": None}, momentum=0, dampening=0, weight_decay=0),
    *_optimizer("Adadelta", {**_STEP, "square_avg": "parameter", "acc_delta": "parameter"}, _FLAGS,
                rho=0.9, eps=1e-6, weight_decay=0),
    *_optimizer("Adagrad", {**_STEP, "sum": "parameter"}, _FUSED,
                lr_decay=0, eps=1e-10, weight_decay=0, initial_accumulator_value=0),
    *_optimizer("Adamax", {**_STEP, "exp_avg": "parameter", "exp_inf": "parameter"}, _FLAGS, **_BETAS, weight_decay=0),
    *_optimizer("ASGD", {**_STEP, "eta": "scalar", "mu": "scalar", "ax": "parameter"}, _FLAGS,
                lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0),
    *_optimizer("NAdam", {**_MOMENTS, "mu_product": "scalar"}, _DECOUPLED, **_BETAS, weight_decay=0,
                momentum_decay=4e-3),
    *_optimizer("RAdam", _MOMENTS, _DECOUPLED, **_BETAS, weight_decay=0),
    *_optimizer("Rprop", {**_STEP, "prev": "parameter", "step_size": "parameter"}, _FLAGS,
                etas=(0.5, 1.2), step_sizes=(1e-6, 50)),
    # not for SB3: another training step (LBFGS, SparseAdam), no biases (Muon), not in every target's torch (Adafactor)
    *known("torch.optim", "Adafactor Muon", "value"),  # their __module__
    *known("torch.optim._adafactor", "Adafactor", "value, layer"),
    *known("torch.optim._muon", "Muon", "value, layer"),
    *known("torch.optim.lbfgs", "LBFGS", "value, layer"),
    *known("torch.optim.optimizer", "Optimizer", "value, layer"),
    *known("torch.optim.sparse_adam", "SparseAdam", "value, layer"),
]  # fmt: skip
