'use strict';

// Constructors of tensors (FORMAT.md 6.5). They create descriptions. Items are read after the
// whole file is described and charged.

const { DTYPES, dtype, isDifferentiable } = require('./dtypes.js');
const { tensorFailure, unsupported } = require('./errors.js');
const { checkBounds, countItems, readGeometry } = require('./geometry.js');
const { Call, Dict, Global, List, Persistent, Tuple } = require('./nodes.js');
const { quoted } = require('./names.js');
const { checkShapes } = require('./sparse.js');
const { isCount } = require('./storages.js');
const { rowsOf } = require('./tables.js');
const { Float } = require('./tags.js');

const SPARSE_LAYOUTS = new Set(['sparse_coo', 'sparse_csr', 'sparse_csc', 'sparse_bsr', 'sparse_bsc']);
const LAYOUTS = new Set(['strided', ...SPARSE_LAYOUTS]);
// Attributes of torch.Tensor itself: setting them would change the tensor.
const OWN_ATTRIBUTES = new Set(rowsOf('refused-attributes').map((row) => row.name));
const PER_TENSOR = new Set(['per_tensor_affine', 'per_tensor_symmetric']);
const FLOAT_PARAMETERS = 'per_channel_affine_float_qparams';
const PER_CHANNEL = new Set(['per_channel_affine', 'per_channel_symmetric', FLOAT_PARAMETERS]);
const SCALES = ['float32', 'float64'];
const ZERO_POINTS = ['int32', 'int64', 'float32'];

/** Module and name of an unchanged global, or null. */
function nameOf(value) {
  return value instanceof Global && value.changes.length === 0 ? { module: value.module, name: value.name } : null;
}

/** Arguments of a plain call of `module.name`, or null if the value is something else. */
function argumentsOf(value, module, name) {
  if (!(value instanceof Call) || value.opcode !== 'REDUCE' || value.changes.length > 0) return null;
  const callable = nameOf(value.callable);
  return callable?.module === module && callable.name === name && value.args instanceof Tuple ? value.args.items : null;
}

function checkLength(args, least, most = least) {
  if (args.length < least || args.length > most) tensorFailure(`a call with ${args.length} arguments`);
}

/** A global `torch.<dtype>`. */
function readDtype(value) {
  const name = nameOf(value);
  if (name === null) tensorFailure('a dtype is not a global');
  if (name.module !== 'torch' || !DTYPES.has(name.name)) unsupported(`the dtype ${quoted(`${name.module}.${name.name}`)}`);
  return dtype(name.name);
}

/** The argument of torch.serialization._get_layout, without "torch.". */
function readLayoutName(args) {
  checkLength(args, 1);
  if (typeof args[0] !== 'string') tensorFailure('the name of a layout is not text');
  const name = args[0].replace(/^torch\./, '');
  if (!LAYOUTS.has(name)) unsupported(`the layout ${quoted(args[0])}`);
  return name;
}

function checkGradient(value, type) {
  if (typeof value !== 'boolean') tensorFailure('requires_grad is not a bool');
  if (value && !isDifferentiable(type)) tensorFailure(`requires_grad of ${type.name}`);
}

function checkHooks(value) {
  if (argumentsOf(value, 'collections', 'OrderedDict')?.length !== 0) unsupported('hooks');
}

function readBits(value, type) {
  const bits = { conj: false, neg: false };
  if (value === undefined) return bits;
  if (!(value instanceof Dict)) tensorFailure('the bits are not a dict');
  for (const [key, bit] of value.pairs) {
    if ((key !== 'conj' && key !== 'neg') || bits[key]) unsupported('a bit other than one conj and one neg');
    if (bit !== true) tensorFailure('a bit is not True');
    bits[key] = true;
  }
  if (bits.conj && type.kind !== 'complex') tensorFailure(`conj of ${type.name}`);
  if (bits.neg && (type.kind === 'bool' || type.name.startsWith('float8'))) tensorFailure(`neg of ${type.name}`);
  return bits;
}

const isSizes = (value) => Array.isArray(value) && value.every(isCount);

/** A tuple of integers, or a call of torch.Size with one. */
function readSize(value) {
  const args = argumentsOf(value, 'torch', 'Size');
  if (args !== null) checkLength(args, 1);
  const tuple = args === null ? value : args[0];
  if (!(tuple instanceof Tuple) || !isSizes(tuple.items)) tensorFailure('a size is not a tuple of integers in [0, 2^63)');
  return tuple.items;
}

/** "module name" of the callable of a call, if it is a name. */
function makerName(value) {
  const name = value instanceof Call && value.opcode === 'REDUCE' ? nameOf(value.callable) : null;
  return name === null ? null : `${name.module} ${name.name}`;
}

/** The tensors of one file, each created once. */
class Tensors {
  /**
   * @param {(name: string) => boolean} isOtherValue whether a call is a value of 6.6
   * @param {(state: Dict) => void} checkAttributes checks the containers in the attributes of a tensor
   */
  constructor(storages, budget, isOtherValue, checkAttributes) {
    this.isOtherValue = isOtherValue;
    this.checkAttributes = checkAttributes;
    this.storages = storages;
    this.budget = budget;
    this.made = new Map(); // by identity of the call
    this.strided = []; // tensors whose items are read and charged
    this.count = 0;
  }

  /** The tensor of a call, or null if the function is not in the table. */
  of(value) {
    const maker = MAKERS.get(makerName(value));
    if (maker === undefined) return null;
    if (!this.made.has(value)) this.made.set(value, this.make(value, maker));
    return this.made.get(value);
  }

  make(value, maker) {
    if (value.changes.length > 0) tensorFailure('a tensor is changed');
    if (!(value.args instanceof Tuple)) tensorFailure('the arguments of a tensor are not a tuple');
    return maker(this, value.args.items);
  }

  /**
   * A tensor within another: one of `kinds`, identified by name before it is decoded, so that no chain is followed. Each
   * use counts in the limits.
   */
  within(value, kinds) {
    const name = makerName(value);
    if (value instanceof Call && !MAKERS.has(name) && !this.isOtherValue(name)) unsupported('a tensor of an unknown call');
    if (!kinds.has(name)) tensorFailure('a tensor of this kind cannot be within a tensor');
    return this.make(value, MAKERS.get(name));
  }

  add(tensor) {
    this.count += 1;
    return { requiresGrad: false, isParameter: false, state: null, ...tensor };
  }

  addStrided(tensor) {
    const added = this.add({ kind: 'strided', ...tensor });
    this.strided.push(added);
    return added;
  }

  storage(value) {
    if (!(value instanceof Persistent)) tensorFailure('a tensor has no storage');
    return this.storages.of(value);
  }

  /** A tensor over items of `dtype`; `[storage, offset, shape, strides]` are its first arguments. */
  geometry(storage, [, offset, shape, strides], dtype) {
    const geometry = readGeometry(shape, strides, this.budget, offset);
    checkBounds(offset, geometry, Math.floor(storage.size / dtype.size));
    // A tensor that wraps this one shares its digest.
    return { storage, dtype, offset, ...geometry, conj: false, neg: false, digest: { sha256: null } };
  }

  /** Decode a value that must be a plain strided tensor. */
  part(value) {
    return this.within(value, STRIDED);
  }

  rebuild(args) {
    checkLength(args, 4);
    const storage = this.storage(args[0]);
    return this.plain(storage, args, storage.dtype);
  }

  plain(storage, args, dtype) {
    if (dtype === null) tensorFailure('a tensor has no dtype');
    if (dtype.kind === 'quantized') tensorFailure('a quantized dtype has no scheme');
    return this.addStrided(this.geometry(storage, args, dtype));
  }

  rebuildV2(args) {
    checkLength(args, 6, 7);
    const storage = this.storage(args[0]);
    checkHooks(args[5]);
    return this.withFlags(this.plain(storage, args, storage.dtype), args[4], args[6]);
  }

  rebuildV3(args) {
    checkLength(args, 7, 8);
    const storage = this.storage(args[0]);
    checkHooks(args[5]);
    const dtype = readDtype(args[6]);
    if (storage.dtype !== null && storage.dtype !== dtype) tensorFailure('the dtype is not that of the storage');
    return this.withFlags(this.plain(storage, args, dtype), args[4], args[7]);
  }

  withFlags(tensor, requiresGrad, bits) {
    checkGradient(requiresGrad, tensor.dtype);
    return Object.assign(tensor, { requiresGrad, ...readBits(bits, tensor.dtype) });
  }

  parameter(args, length) {
    checkLength(args, length);
    const [value, requiresGrad, hooks, attributes] = args;
    checkHooks(hooks);
    const tensor = this.within(value, UNWRAPPED);
    checkGradient(requiresGrad, tensor.kind === 'sparse' ? tensor.values.dtype : tensor.dtype);
    if (length === 4 && tensor.kind !== 'strided') unsupported('attributes of a tensor that is not strided');
    const state = length === 4 ? this.state(attributes) : null;
    if (tensor.kind !== 'sparse') return { ...tensor, requiresGrad, isParameter: true, state };
    return { ...tensor, isParameter: true, state, values: { ...tensor.values, requiresGrad, isParameter: true } };
  }

  /** Attributes, as pairs of a text and a node; refuses those that torch itself reads. */
  state(value) {
    if (!(value instanceof Dict)) tensorFailure('the attributes are not a dict');
    for (const [key] of value.pairs) {
      if (typeof key !== 'string') tensorFailure('the name of an attribute is not text');
    }
    for (const [key] of value.pairs) {
      if (key.startsWith('__') || OWN_ATTRIBUTES.has(key)) unsupported(`the attribute ${quoted(key)}`);
    }
    this.checkAttributes(value);
    this.storages.check(value);
    return value;
  }

  fromType(all) {
    checkLength(all, 4);
    const [callable, type, args, state] = all;
    const className = nameOf(type);
    if (className === null) unsupported('the class is not a global');
    const isParameter = className.module === 'torch.nn.parameter' && className.name === 'Parameter';
    if (!isParameter && (className.module !== 'torch' || className.name !== 'Tensor')) unsupported('an unknown class of tensors');
    const maker = nameOf(callable);
    if (maker === null) unsupported('the function is not a global');
    const make = STRIDED_MAKERS.get(`${maker.module} ${maker.name}`);
    if (make === undefined) unsupported('an unknown function in _rebuild_from_type_v2');
    if (!(args instanceof Tuple)) tensorFailure('the arguments are not a tuple');
    const tensor = make(this, args.items);
    return Object.assign(tensor, { isParameter, state: this.state(state) });
  }

  quantized(args) {
    checkLength(args, 7);
    const storage = this.storage(args[0]);
    checkHooks(args[6]);
    if (storage.dtype?.kind !== 'quantized') tensorFailure('a dtype that is not quantized has a scheme');
    const geometry = this.geometry(storage, args, storage.dtype);
    checkGradient(args[5], geometry.dtype);
    const scheme = this.scheme(args[4], geometry.shape);
    const integers = this.addStrided(geometry);
    return { ...integers, kind: 'quantized', integers, ...scheme };
  }

  scheme(value, shape) {
    if (!(value instanceof Tuple) || nameOf(value.items[0] ?? null) === null) tensorFailure('a scheme has an unknown form');
    const { module, name } = nameOf(value.items[0]);
    if (module !== 'torch' || !(PER_TENSOR.has(name) || PER_CHANNEL.has(name))) unsupported('an unknown scheme');
    const [, scale, zeroPoint, axis = null] = value.items;
    if (PER_TENSOR.has(name)) {
      checkLength(value.items, 3);
      if (!(scale instanceof Float) || typeof zeroPoint !== 'bigint') tensorFailure('a scale or zero point is not a number');
      return { scheme: name, scale, zeroPoint, axis };
    }
    checkLength(value.items, 4);
    if (!isCount(axis) || axis >= BigInt(shape.length)) tensorFailure('the axis is not a dimension');
    const size = shape[Number(axis)];
    const zeroPoints = name === FLOAT_PARAMETERS ? ['float32'] : ZERO_POINTS;
    return {
      scheme: name, scale: this.channels(scale, size, SCALES), zeroPoint: this.channels(zeroPoint, size, zeroPoints), axis,
    };
  }

  /** One number for each channel: a list of them, or a tensor. */
  channels(value, size, dtypes) {
    if (value instanceof List) {
      const isNumber = (item) => item instanceof Float || typeof item === 'bigint';
      if (BigInt(value.items.length) !== size || !value.items.every(isNumber)) tensorFailure('the scales or zero points of a scheme are invalid');
      return value;
    }
    const tensor = this.part(value);
    if (tensor.shape.length !== 1 || tensor.shape[0] !== size || !dtypes.includes(tensor.dtype.name)) {
      tensorFailure('a scheme has another number of channels, or another dtype');
    }
    return tensor;
  }

  sparse(args) {
    checkLength(args, 2);
    const layoutArgs = argumentsOf(args[0], 'torch.serialization', '_get_layout');
    if (layoutArgs === null) tensorFailure('a layout is not a call');
    const layout = readLayoutName(layoutArgs);
    if (!SPARSE_LAYOUTS.has(layout)) tensorFailure('the layout of a sparse tensor is strided');
    if (!(args[1] instanceof Tuple)) tensorFailure('the parts are not a tuple');
    const parts = args[1].items;
    const tensor = { kind: 'sparse', layout, ...(layout === 'sparse_coo' ? this.coo(parts) : this.compressed(parts)) };
    this.budget.check('tensor_rank', tensor.size.length);
    checkShapes(tensor);
    return this.add(tensor);
  }

  coo(parts) {
    checkLength(parts, 3, 4);
    const isCoalesced = parts[3] ?? null;
    if (parts.length === 4 && typeof isCoalesced !== 'boolean') tensorFailure('is_coalesced is not a bool');
    const [indices, values] = [this.part(parts[0]), this.part(parts[1])];
    return { indices: [indices], values, size: readSize(parts[2]), isCoalesced };
  }

  compressed(parts) {
    checkLength(parts, 4);
    const indices = [this.part(parts[0]), this.part(parts[1])];
    return { indices, values: this.part(parts[2]), size: readSize(parts[3]), isCoalesced: null };
  }

  meta(args) {
    checkLength(args, 4);
    const type = readDtype(args[0]);
    const { shape } = readGeometry(args[1], args[2], this.budget);
    checkGradient(args[3], type);
    return this.add({ kind: 'meta', dtype: type, shape, requiresGrad: args[3] });
  }

  /** Compare the totals with their limits: tensors, then items beyond those of the storages (8, `expanded_items`), before any item is read. */
  checkTotals(storageBytes) {
    this.budget.check('tensors', this.count);
    let expanded = 0;
    let all = 0;
    for (const { storage, dtype: type, shape } of this.strided) {
      const items = Number(countItems(shape));
      if (items > 4 * Math.floor(storage.size / type.size)) expanded += items;
      all += items;
    }
    this.budget.charge('expanded_items', Math.max(0, expanded, all - 8 * storageBytes));
  }
}

const UTILS = 'torch._utils';

const STRIDED_MAKERS = new Map([
  [`${UTILS} _rebuild_tensor`, (tensors, args) => tensors.rebuild(args)],
  [`${UTILS} _rebuild_tensor_v2`, (tensors, args) => tensors.rebuildV2(args)],
  [`${UTILS} _rebuild_tensor_v3`, (tensors, args) => tensors.rebuildV3(args)],
]);

const UNWRAPPED_MAKERS = new Map([
  ...STRIDED_MAKERS,
  [`${UTILS} _rebuild_qtensor`, (tensors, args) => tensors.quantized(args)],
  [`${UTILS} _rebuild_sparse_tensor`, (tensors, args) => tensors.sparse(args)],
  [`${UTILS} _rebuild_sparse_csr_tensor`, (tensors, args) => tensors.sparse(args)],
  [`${UTILS} _rebuild_meta_tensor_no_storage`, (tensors, args) => tensors.meta(args)],
]);

const MAKERS = new Map([
  ...UNWRAPPED_MAKERS,
  [`${UTILS} _rebuild_parameter`, (tensors, args) => tensors.parameter(args, 3)],
  [`${UTILS} _rebuild_parameter_with_state`, (tensors, args) => tensors.parameter(args, 4)],
  ['torch._tensor _rebuild_from_type_v2', (tensors, args) => tensors.fromType(args)],
]);

const STRIDED = new Set(STRIDED_MAKERS.keys());
const UNWRAPPED = new Set(UNWRAPPED_MAKERS.keys());

module.exports = { LAYOUTS, Tensors, argumentsOf, checkLength, nameOf, readLayoutName, readSize };
