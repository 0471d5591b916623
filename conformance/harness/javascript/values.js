'use strict';

// The inert tree of a .pth as tagged values (FORMAT.md 6.6).

const { DTYPES } = require('./dtypes.js');
const { tensorFailure, unsupported } = require('./errors.js');
const { tensorItems } = require('./geometry.js');
const { tagKeys } = require('./keys.js');
const {
  ByteArray, Call, Dict, FrozenSet, Global, List, MutableSet, Persistent, Tuple,
} = require('./nodes.js');
const { quoted } = require('./names.js');
const { Numpy } = require('./numpy.js');
const { checkLeaves } = require('./paths.js');
const {
  Float, ITEMS, STATE, sha256, tagInteger,
} = require('./tags.js');
const { checkIndices } = require('./sparse.js');
const { LAYOUTS, Tensors, argumentsOf, checkLength, nameOf, readLayoutName, readSize } = require('./tensors.js');

const MEMORY_FORMATS = new Set(['contiguous_format', 'preserve_format', 'channels_last', 'channels_last_3d']);
const METADATA = '_metadata';
const ORDERED_DICT = 'collections OrderedDict';
const NUMPY_DTYPE = 'numpy dtype';

const ITEM_COST = 8; // bytes that an item of a copied list or tuple counts

// A converted value: its tag, and the levels of containers from there downwards.
const leaf = (tag) => ({ tag, height: 0 });

/** The tag of a number, or of a list of them. */
function numbers(value) {
  if (value instanceof List) return { list: value.items.map(numbers) };
  return value instanceof Float ? { float: value.hex } : tagInteger(value);
}

class Values {
  constructor(storages, budget, pickleBytes) {
    this.storages = storages;
    this.budget = budget;
    this.tensors = new Tensors(storages, budget, (name) => this.isKnown(name), (state) => this.convert(state, 0, true));
    this.numpy = new Numpy(this);
    this.copied = -pickleBytes;
    this.done = new Map(); // by identity
    this.attributes = new Map(); // the same for values in attributes
    this.encodedBytes = new Map();
    this.unread = []; // [tag, function that returns its digest]
    this.bytesOf = (value) => this.readBytes(value);
    this.keyBytesOf = (value) => this.readKeyBytes(value);
  }

  /** Decode the whole object of a file. */
  decode(root) {
    const { tag } = this.convert(root, 0);
    this.tensors.checkTotals(this.storages.totalBytes);
    checkLeaves(tag, this.budget);
    for (const [target, digest] of this.unread) target.sha256 = digest();
    return tag;
  }

  chargeCopy(bytes) {
    const before = Math.max(0, this.copied);
    this.copied += bytes;
    this.budget.charge('expanded_items', Math.max(0, this.copied) - before);
  }

  checkUnchanged(node) {
    if (node.changes.length > 0) tensorFailure('a value is changed after it was created');
  }

  /**
   * Convert a value below `depth` open containers. Attributes may contain any value. No value contains itself: its pickle
   * would have the flag of 5.3.
   */
  convert(value, depth, isAttribute = false) {
    if (value === null || typeof value !== 'object') return leaf(typeof value === 'bigint' ? tagInteger(value) : value);
    if (value instanceof Float) return leaf({ float: value.hex });
    if (Buffer.isBuffer(value)) return leaf({ bytes: value.toString('base64') });
    if (value instanceof ByteArray) return leaf({ bytearray: value.bytes.toString('base64') });
    const done = isAttribute ? this.attributes : this.done;
    if (!done.has(value)) done.set(value, this.read(value, depth, isAttribute));
    const converted = done.get(value);
    this.budget.check('value_depth', depth + converted.height);
    return converted;
  }

  read(value, depth, isAttribute) {
    if (value instanceof List) return this.items('list', value.items, depth, isAttribute);
    if (value instanceof Tuple) return this.items('tuple', value.items, depth, isAttribute);
    if (value instanceof Dict) return this.dict('dict', value.pairs, depth, isAttribute);
    if (isAttribute) return leaf({ inert: true });
    if (value instanceof MutableSet) return this.set('set', value.items, depth);
    if (value instanceof FrozenSet) return this.set('frozenset', value.items, depth);
    if (value instanceof Global) return leaf(this.global(value));
    if (value instanceof Persistent) return leaf(this.storage(value));
    return this.call(value, depth);
  }

  // Containers

  /** Convert a container and its parts. */
  container(tag, parts) {
    const height = parts.reduce((highest, part) => Math.max(highest, part.height), 0);
    return { tag, height: height + 1 };
  }

  enter(depth) {
    this.budget.check('value_depth', depth + 1);
    return depth + 1;
  }

  items(name, items, depth, isAttribute) {
    const inner = this.enter(depth);
    const parts = items.map((item) => this.convert(item, inner, isAttribute));
    return this.container({ [name]: parts.map((part) => part.tag) }, parts);
  }

  dict(name, pairs, depth, isAttribute = false) {
    const keys = tagKeys(pairs.map(([key]) => key), this.keyBytesOf, this.budget);
    const inner = this.enter(depth);
    const parts = pairs.map(([, value]) => this.convert(value, inner, isAttribute));
    return this.container({ [name]: parts.map((part, index) => [keys[index], part.tag]) }, parts);
  }

  set(name, items, depth) {
    const tags = tagKeys(items, this.keyBytesOf, this.budget);
    this.enter(depth);
    return this.container({ [name]: tags }, []);
  }

  /** collections.OrderedDict, then SETITEMS, then at most one BUILD with `_metadata`. */
  orderedDict(call, args, depth) {
    checkLength(args, 0, 1);
    const pairs = args.length === 0 ? [] : this.listedPairs(args[0]);
    let metadata = null;
    for (const { kind, values } of call.changes) {
      if (metadata !== null) tensorFailure('an OrderedDict is changed after its state');
      if (kind === 'SETITEMS') for (const pair of values) pairs.push(pair);
      else metadata = this.metadataState(kind, values);
    }
    const converted = this.dict('ordered_dict', pairs, depth);
    if (metadata === null) return converted;
    const part = this.convert(metadata[0], depth + 1);
    return {
      tag: { ...converted.tag, [METADATA]: part.tag },
      height: Math.max(converted.height, part.height + 1),
    };
  }

  listedPairs(value) {
    const isPair = (pair) => (pair instanceof Tuple || pair instanceof List) && pair.items.length === 2;
    if (!(value instanceof List) || !value.items.every(isPair)) tensorFailure('the argument of an OrderedDict is not a list of pairs');
    this.chargeCopy(ITEM_COST * value.items.length);
    return value.items.map((pair) => pair.items);
  }

  metadataState(kind, state) {
    if (kind !== 'BUILD' || !(state instanceof Dict) || state.pairs.length !== 1 || state.pairs[0][0] !== METADATA) {
      tensorFailure('an OrderedDict has an unknown state');
    }
    return [state.pairs[0][1]];
  }

  builtSet(name, args, depth) {
    checkLength(args, 0, 1);
    const [value] = args;
    if (args.length === 1 && !(value instanceof List) && !(value instanceof Tuple)) tensorFailure(`the argument of a ${name} is not a list`);
    this.chargeCopy(ITEM_COST * (value?.items.length ?? 0));
    return this.set(name, value?.items ?? [], depth);
  }

  // Names, storages, calls

  global(value) {
    const { module, name } = value;
    if (module === 'torch' && value.changes.length === 0) {
      if (DTYPES.has(name)) return { dtype: name };
      if (LAYOUTS.has(name)) return { layout: name };
      if (MEMORY_FORMATS.has(name)) return { memory_format: name };
    }
    return unsupported(`the name ${quoted(`${module}.${name}`)}`);
  }

  storage(value) {
    const storage = this.storages.of(value);
    const target = storage.described();
    this.unread.push([target, () => sha256(storage.bytes)]);
    return { storage: target };
  }

  /** Convert a call, or refuse an extension. */
  call(value, depth) {
    const tensor = this.tensors.of(value);
    if (tensor !== null) return this.tensor(tensor, depth);
    const name = value.opcode === 'REDUCE' ? nameOf(value.callable) : null;
    if (name === null) unsupported(`a call by ${value.opcode}`);
    const called = `${name.module} ${name.name}`;
    if (!this.isKnown(called) || called === NUMPY_DTYPE) unsupported(`a call of ${quoted(called)}`);
    if (!(value.args instanceof Tuple)) tensorFailure('the arguments of a call are not a tuple');
    const args = value.args.items;
    if (called === ORDERED_DICT) return this.orderedDict(value, args, depth);
    const array = this.numpy.read(value, name, args);
    if (array !== null) return leaf(array);
    this.checkUnchanged(value);
    return READERS.get(called)(this, args, depth, value);
  }

  /** Whether a call of "module name" is a value of 6.6. */
  isKnown(name) {
    return READERS.has(name) || this.numpy.readers.has(name) || name === ORDERED_DICT || name === NUMPY_DTYPE;
  }

  /** Bytes, or the bytes that a call encodes; null for anything else. */
  readBytes(value) {
    if (Buffer.isBuffer(value)) return value;
    if (argumentsOf(value, 'builtins', 'bytes')?.length === 0) return Buffer.alloc(0);
    const args = argumentsOf(value, '_codecs', 'encode');
    if (args === null) return null;
    if (!this.encodedBytes.has(value)) this.encodedBytes.set(value, args.length === 2 ? this.encoded(args) : null);
    return this.encodedBytes.get(value);
  }

  readKeyBytes(value) {
    const bytes = this.readBytes(value);
    if (value instanceof Call && bytes !== null) this.chargeCopy(bytes.length);
    return bytes;
  }

  /** The bytes of a text in latin-1; null if the arguments are not a text and latin-1. */
  encoded([text, encoding]) {
    if (typeof text !== 'string' || (encoding !== 'latin1' && encoding !== 'latin-1')) return null;
    if (/[^\u0000-\u00ff]/.test(text)) tensorFailure('a text is not latin-1');
    return Buffer.from(text, 'latin1');
  }

  byteArray(args) {
    checkLength(args, 0, 2);
    let bytes = Buffer.alloc(0);
    if (args.length > 0) bytes = args.length === 2 ? this.encoded(args) : this.readBytes(args[0]);
    if (bytes === null) tensorFailure('the argument of a bytearray is not bytes');
    this.chargeCopy(bytes.length);
    return bytes;
  }

  device(args) {
    checkLength(args, 1, 2);
    const [name, index = null] = args;
    if (typeof name !== 'string') tensorFailure('the name of a device is not text');
    if (args.length === 2 && (typeof index !== 'bigint' || index < -1n || index > 127n)) {
      tensorFailure('a device has an invalid index');
    }
    const form = args.length === 2 ? /^[A-Za-z_]+$/ : /^[A-Za-z_]+(:(0|[1-9][0-9]?|1[01][0-9]|12[0-7]))?$/;
    if (!form.test(name)) tensorFailure('the name of a device is invalid');
    return { device: [name, index === null ? null : Number(index)] };
  }

  complex(args) {
    checkLength(args, 2);
    if (!args.every((part) => part instanceof Float)) tensorFailure('the parts of a complex number are not floats');
    return { complex: args.map((part) => part.hex) };
  }

  // Tensors

  /** Dtype, shape and a digest that is filled in later. */
  described(tensor) {
    const target = { dtype: tensor.dtype.name, shape: tensor.shape.map(tagInteger) };
    if (tensor.kind === 'meta') return target;
    target[ITEMS] = () => tensorItems(tensor);
    this.unread.push([target, () => {
      tensor.digest.sha256 ??= sha256(tensorItems(tensor));
      return tensor.digest.sha256;
    }]);
    return target;
  }

  flagged(tag, tensor) {
    if (tensor.requiresGrad) tag.requires_grad = true;
    if (tensor.isParameter) tag.is_parameter = true;
    return tag;
  }

  tensor(tensor, depth) {
    const tag = this.tensorTag(tensor);
    if (tensor.state === null) return leaf(tag);
    const state = this.convert(tensor.state, depth, true);
    if (tensor.state.pairs.length > 0) Object.assign(tag, { state: state.tag, [STATE]: [tensor.state, this.storages] });
    return { tag, height: state.height };
  }

  tensorTag(tensor) {
    if (tensor.kind === 'quantized') return this.flagged({ quantized: this.quantized(tensor) }, tensor);
    if (tensor.kind === 'sparse') return { sparse: this.sparse(tensor) };
    return this.flagged({ [tensor.kind === 'meta' ? 'meta' : 'tensor']: this.described(tensor) }, tensor);
  }

  quantized(tensor) {
    const part = (value) => (value.kind === 'strided' ? this.tensorTag(value) : numbers(value));
    return Object.assign(this.described(tensor.integers), {
      scheme: tensor.scheme,
      scale: part(tensor.scale),
      zero_point: part(tensor.zeroPoint),
      axis: tensor.axis === null ? null : tagInteger(tensor.axis),
    });
  }

  sparse(tensor) {
    const { layout, size, indices, values, isCoalesced } = tensor;
    const tags = indices.map((part) => this.tensorTag(part));
    const last = tags.at(-1).tensor;
    this.unread.push([last, () => {
      checkIndices(tensor);
      return last.sha256;
    }]);
    return { layout, size: size.map(tagInteger), indices: tags, values: this.tensorTag(values), is_coalesced: isCoalesced };
  }
}

const READERS = new Map([
  ['builtins set', (values, args, depth) => values.builtSet('set', args, depth)],
  ['builtins frozenset', (values, args, depth) => values.builtSet('frozenset', args, depth)],
  ['torch Size', (values, args, depth, call) => {
    const sizes = readSize(call);
    values.chargeCopy(ITEM_COST * sizes.length);
    return leaf({ size: sizes.map(tagInteger) });
  }],
  ['torch device', (values, args) => leaf(values.device(args))],
  ['torch.serialization _get_layout', (values, args) => leaf({ layout: readLayoutName(args) })],
  ['_codecs encode', (values, args, depth, call) => {
    checkLength(args, 2);
    const bytes = values.readBytes(call);
    if (bytes === null) tensorFailure('the arguments of _codecs.encode are not a text and latin-1');
    values.chargeCopy(bytes.length);
    return leaf({ bytes: bytes.toString('base64') });
  }],
  ['builtins bytes', (values, args) => {
    if (args.length > 0) unsupported('bytes() with an argument');
    return leaf({ bytes: '' });
  }],
  ['builtins bytearray', (values, args) => leaf({ bytearray: values.byteArray(args).toString('base64') })],
  ['builtins complex', (values, args) => leaf(values.complex(args))],
]);

module.exports = { Values };
