'use strict';

// Persistent ids and storages (FORMAT.md 6.3; the sixth item: 7).

const { tensorFailure, unsupported } = require('./errors.js');
const { STORAGES, swapped } = require('./dtypes.js');
const { Global, Tuple, persistentsIn } = require('./nodes.js');
const { quoted } = require('./names.js');
const { ITEMS } = require('./tags.js');

const MAX_COUNT = 2n ** 63n;

const isCount = (value) => typeof value === 'bigint' && value >= 0n && value < MAX_COUNT;

/** A storage, or a view of one. Its bytes are read when an item is. */
class Storage {
  constructor(dtype, size, read, isBigEndian) {
    this.dtype = dtype; // null if untyped
    this.size = size; // in bytes
    this.read = read;
    this.isBigEndian = isBigEndian;
    this.swapped = new Map();
  }

  static of(dtype, bytes, isBigEndian) {
    return new Storage(dtype, bytes.length, () => bytes, isBigEndian);
  }

  get bytes() {
    this.content ??= this.read();
    return this.content;
  }

  /** The bytes in little-endian order, swapped as the items of `dtype`, from the first byte. */
  littleEndian(dtype) {
    if (!this.isBigEndian || dtype.group === 1) return this.bytes;
    if (!this.swapped.has(dtype.group)) this.swapped.set(dtype.group, swapped(this.bytes, dtype.group));
    return this.swapped.get(dtype.group);
  }

  /** Dtype and size, and a function that reads the items. */
  described() {
    return { dtype: this.dtype?.name ?? null, size: this.size, [ITEMS]: () => (this.dtype === null ? this.bytes : this.littleEndian(this.dtype)) };
  }
}

/** The dtype of a storage class; null for an untyped one. */
function storageDtype(value) {
  if (!(value instanceof Global) || value.changes.length > 0) tensorFailure('the storage class is not a global');
  const name = `${value.module} ${value.name}`;
  if (!STORAGES.has(name)) tensorFailure(`${quoted(`${value.module}.${value.name}`)} is not a storage class`);
  const dtype = STORAGES.get(name);
  if (dtype === undefined) unsupported('a packed storage');
  return dtype;
}

/** The sixth item of a legacy stream's ids: key, offset and size of a view. */
function checkView(view) {
  const [key, offset, size] = view instanceof Tuple ? view.items : [];
  if (view.items?.length !== 3 || typeof key !== 'string' || !isCount(offset) || !isCount(size)) {
    tensorFailure('a view has an unknown form');
  }
}

/** Check one persistent id. */
function readId(node, length) {
  if (node.changes.length > 0) tensorFailure('a persistent id is changed');
  if (!(node.id instanceof Tuple)) tensorFailure('a persistent id is not a tuple');
  const { items } = node.id;
  if (items[0] === 'module') unsupported('an entire module');
  if (items[0] !== 'storage' || items.length !== length) tensorFailure('a persistent id has an unknown form');
  const [, type, key, location, numel, view = null] = items;
  if (view !== null) checkView(view);
  const dtype = storageDtype(type);
  if (typeof key !== 'string' || typeof location !== 'string' || !isCount(numel)) {
    tensorFailure('a persistent id has an invalid key, location or count');
  }
  return { dtype, key, location, numel, view };
}

/** The storages of one file by key. Every id with the same key gets the same storage. */
class Storages {
  /** @param {(id: object) => Storage} open creates the storage of the first id with a key */
  constructor(idLength, open) {
    this.idLength = idLength;
    this.open = open;
    this.byNode = new Map();
    this.byKey = new Map();
  }

  get totalBytes() {
    let total = 0;
    for (const { storage } of this.byKey.values()) total += storage.size;
    return total;
  }

  /** The storage of a persistent id, which is checked at its first use. */
  of(node) {
    if (!this.byNode.has(node)) this.byNode.set(node, this.find(readId(node, this.idLength)));
    return this.byNode.get(node);
  }

  find(id) {
    if (!this.byKey.has(id.key)) this.byKey.set(id.key, { id, storage: this.open(id) });
    const known = this.byKey.get(id.key);
    if (known.id.dtype !== id.dtype || known.id.location !== id.location || known.id.numel !== id.numel) {
      tensorFailure(`the storage ${quoted(id.key)} has two classes, locations or counts`);
    }
    return known.storage;
  }

  /** Check all persistent ids in a value. */
  check(value) {
    for (const node of persistentsIn(value)) this.of(node);
  }
}

module.exports = { Storage, Storages, isCount };
