'use strict';

// The legacy stream (FORMAT.md 7).

const { tensorFailure, unsupported } = require('./errors.js');
const { Dict, List } = require('./nodes.js');
const { quoted } = require('./names.js');
const { readPickle } = require('./opcodes.js');
const { utf8Text } = require('./pickle_text.js');
const { Storage, Storages } = require('./storages.js');
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

  next() {
    const machine = readPickle(this.bytes, this.at, this.budget, utf8Text);
    this.size = machine.at - this.at;
    this.at = machine.at;
    return machine;
  }

  /** The value of the next pickle, which may neither import nor call. */
  nextPlain() {
    return plainResult(this.next());
  }
}

function checkFlags({ flags }) {
  if (flags.size > 0) tensorFailure(`a pickle has the flags ${[...flags]}`);
}

function plainResult(machine) {
  checkFlags(machine);
  if (machine.log.length > 0) tensorFailure('an import or a call outside the object');
  return machine.result;
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

const isSameView = ([key, offset, size, root], other) => key === other[0] && offset === other[1] && size === other[2] && root === other[3];

/** The storages of a stream. Only the object determines their itemsizes, so their bytes are located afterwards. */
class StreamStorages extends Storages {
  constructor(keys) {
    super(ID_LENGTH, (id) => this.openWhole(id));
    this.keys = keys;
    this.listed = new Set(keys);
    this.runs = new Map();
    this.views = new Map();
  }

  openWhole({ key, dtype, numel }) {
    if (!this.listed.has(key)) tensorFailure(`the storage ${quoted(key)} is not listed`);
    return new Storage(dtype, Number(numel) * (dtype?.size ?? 1), () => this.runs.get(key), false);
  }

  find(id) {
    const whole = super.find(id);
    return id.view === null ? whole : this.findView(id, whole);
  }

  /** A storage that is a view of another (torch < 0.4). */
  findView({ key: root, numel, dtype, view }, whole) {
    const [key, offset, size] = view.items;
    if (this.listed.has(key)) tensorFailure('a view has the key of a storage');
    if (offset + size > numel) tensorFailure('a view extends past its storage');
    const facts = [key, offset, size, root];
    if (!this.views.has(key)) {
      const [start, stop] = [offset, offset + size].map((at) => Number(at) * (dtype?.size ?? 1));
      this.views.set(key, { facts, storage: new Storage(dtype, stop - start, () => whole.bytes.subarray(start, stop), false) });
    }
    const known = this.views.get(key);
    if (!isSameView(known.facts, facts)) tensorFailure('two views have the same key');
    return known.storage;
  }

  /** Locate the bytes of all storages after the last pickle. */
  locate(bytes, start) {
    let at = start;
    for (const key of this.keys) {
      if (!this.byKey.has(key)) tensorFailure(`no tensor uses the storage ${quoted(key)}`);
      const { id: { numel, dtype } } = this.byKey.get(key);
      if (bytes.length - at < COUNT_BYTES) tensorFailure('a storage is truncated');
      if (bytes.readBigUInt64LE(at) !== numel) tensorFailure(`the storage ${quoted(key)} has a different count`);
      at += COUNT_BYTES;
      const size = numel * BigInt(dtype?.size ?? 1);
      if (size > BigInt(bytes.length - at)) tensorFailure('a storage is truncated');
      this.runs.set(key, bytes.subarray(at, at + Number(size)));
      at += Number(size);
    }
    if (at !== bytes.length) tensorFailure('something follows the last storage');
  }
}

function checkHead(pickles) {
  const first = pickles.next();
  if (first.result !== MAGIC) unsupported('a pickle, but not a torch file');
  plainResult(first);
  if (pickles.nextPlain() !== PROTOCOL) tensorFailure('unknown protocol of the legacy stream');
  checkInfo(pickles.nextPlain());
}

function decodeLegacy(bytes, budget) {
  const pickles = new Pickles(bytes, budget);
  checkHead(pickles);
  const object = pickles.next();
  const objectBytes = pickles.size;
  checkFlags(object);
  const storages = new StreamStorages(readKeys(pickles.nextPlain(), budget));
  storages.check(object.discarded);
  storages.check(object.result);
  storages.locate(bytes, pickles.at);
  return new Values(storages, budget, objectBytes).decode(object.result);
}

module.exports = { decodeLegacy };
