'use strict';

// The legacy stream (FORMAT.md 7).

const { tensorFailure, unsupported } = require('./errors.js');
const { Dict, List, Tuple } = require('./nodes.js');
const { quoted } = require('./names.js');
const { readPickle } = require('./opcodes.js');
const { utf8Text } = require('./pickle_text.js');
const { Storage, Storages, isCount } = require('./storages.js');
const { Values } = require('./values.js');

const MAGIC = 0x1950a86a20f9469cfc6cn;
const PROTOCOL = 1001n;
const INFO_KEYS = ['protocol_version', 'little_endian', 'type_sizes'];
const MAX_INFO_TEXT = 64;
const ID_LENGTH = 6;
const COUNT_BYTES = 8;

/** Reads consecutive pickles. */
class Pickles {
  constructor(bytes, budget) {
    this.bytes = bytes;
    this.budget = budget;
    this.at = 0;
  }

  /** Read the next pickle. Only the pickle of the object may import or call. */
  next({ isObject = false } = {}) {
    const machine = readPickle(this.bytes, this.at, this.budget, utf8Text);
    this.size = machine.at - this.at;
    this.at = machine.at;
    if (machine.flags.size > 0) tensorFailure(`a pickle has the flags ${[...machine.flags]}`);
    if (!isObject && machine.log.length > 0) tensorFailure('an import or a call outside the object');
    return machine;
  }
}

const isInfo = (value) => typeof value === 'boolean' || typeof value === 'bigint'
  || (typeof value === 'string' && [...value].length <= MAX_INFO_TEXT);

function checkInfo(info) {
  if (!(info instanceof Dict)) tensorFailure('the third pickle is not a dict');
  const keys = info.pairs.map(([key]) => key);
  if (keys.length !== INFO_KEYS.length || !INFO_KEYS.every((key) => keys.includes(key))) {
    tensorFailure('the third pickle has other keys');
  }
  for (const [, value] of info.pairs) {
    const values = value instanceof Dict ? value.pairs.flat() : [value];
    if (!values.every(isInfo)) tensorFailure('the third pickle has other values');
  }
}

function readKeys(value, budget) {
  if (!(value instanceof List) || !value.items.every((key) => typeof key === 'string')) {
    tensorFailure('the storage keys are not a list of texts');
  }
  budget.check('inner_entries', value.items.length);
  if (new Set(value.items).size !== value.items.length) tensorFailure('a storage key occurs twice');
  return value.items;
}

/** Read the data of the storages after the last pickle. Only the object determines their itemsizes. */
function loadRuns(bytes, start, keys, storages) {
  let at = start;
  for (const key of keys) {
    const entry = storages.byKey.get(key);
    if (entry === undefined) tensorFailure(`no tensor uses the storage ${quoted(key)}`);
    if (bytes.length - at < COUNT_BYTES) tensorFailure('a storage is truncated');
    const numel = bytes.readBigUInt64LE(at);
    if (numel !== entry.id.numel) tensorFailure(`the storage ${quoted(key)} has a different count`);
    at += COUNT_BYTES;
    const size = numel * BigInt(entry.id.dtype?.size ?? 1);
    if (size > BigInt(bytes.length - at)) tensorFailure('a storage is truncated');
    storages.load(key, bytes.subarray(at, at + Number(size)), false);
    at += Number(size);
  }
  if (at !== bytes.length) tensorFailure('something follows the last storage');
  if (keys.length !== storages.byKey.size) tensorFailure('a storage is not listed');
}

/** View key, offset and size of an id, or null if it is a whole storage. */
function readView(id) {
  if (id.view === null) return null;
  const items = id.view instanceof Tuple ? id.view.items : [];
  const [key, offset, size] = items;
  if (items.length !== 3 || typeof key !== 'string' || !isCount(offset) || !isCount(size)) {
    tensorFailure('a view has an unknown form');
  }
  if (offset + size > id.numel) tensorFailure('a view extends past its storage');
  return { key, offset, size, root: id.key };
}

const isSameView = (a, b) => a.offset === b.offset && a.size === b.size && a.root === b.root;

function makeView({ dtype, bytes }, { offset, size }) {
  const itemsize = dtype?.size ?? 1;
  return new Storage(dtype, bytes.subarray(Number(offset) * itemsize, Number(offset + size) * itemsize), false);
}

/** Storages that are views of others (torch < 0.4). */
function loadViews(storages) {
  const views = new Map();
  for (const id of storages.ids.values()) {
    const view = readView(id);
    if (view === null) continue;
    if (storages.byKey.has(view.key)) tensorFailure('a view has the key of a storage');
    const known = views.get(view.key);
    if (known !== undefined && !isSameView(known.view, view)) tensorFailure('two views have the same key');
    const storage = known?.storage ?? makeView(storages.byKey.get(id.key).storage, view);
    views.set(view.key, { view, storage });
    id.viewStorage = storage;
  }
}

function decodeLegacy(bytes, budget) {
  const pickles = new Pickles(bytes, budget);
  if (pickles.next().result !== MAGIC) unsupported('a pickle, but not a torch file');
  if (pickles.next().result !== PROTOCOL) tensorFailure('unknown protocol of the legacy stream');
  checkInfo(pickles.next().result);
  const object = pickles.next({ isObject: true });
  const objectBytes = pickles.size;
  const keys = readKeys(pickles.next().result, budget);
  const storages = new Storages(object.persistents, ID_LENGTH);
  loadRuns(bytes, pickles.at, keys, storages);
  loadViews(storages);
  return new Values(storages, budget, objectBytes).decode(object.result);
}

module.exports = { decodeLegacy };
