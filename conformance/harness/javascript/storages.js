'use strict';

// Persistent ids and storages (FORMAT.md 6.3; the sixth item: 7).

const { tensorFailure, unsupported } = require('./errors.js');
const { PACKED_STORAGES, STORAGE_DTYPES, swapped } = require('./dtypes.js');
const { Global, Tuple } = require('./nodes.js');
const { quoted } = require('./names.js');

const MAX_COUNT = 2n ** 63n;

const isCount = (value) => typeof value === 'bigint' && value >= 0n && value < MAX_COUNT;

/** The bytes of a storage, or of a view of one. */
class Storage {
  constructor(dtype, bytes, isBigEndian) {
    this.dtype = dtype; // null if untyped
    this.bytes = bytes;
    this.isBigEndian = isBigEndian;
    this.swapped = new Map();
  }

  /** The bytes in little-endian order, swapped as the items of `dtype`, from the first byte. */
  littleEndian(dtype) {
    if (!this.isBigEndian || dtype.group === 1) return this.bytes;
    if (!this.swapped.has(dtype.group)) this.swapped.set(dtype.group, swapped(this.bytes, dtype.group));
    return this.swapped.get(dtype.group);
  }
}

/** The dtype of a storage class; null for an untyped one. */
function storageDtype(value) {
  if (!(value instanceof Global) || value.changes.length > 0) tensorFailure('the storage class is not a global');
  const { module, name } = value;
  if ((module === 'torch.storage' || module === 'torch') && name === 'UntypedStorage') return null;
  if (module === 'torch' || module === 'torch.cuda') {
    if (STORAGE_DTYPES.has(name)) return STORAGE_DTYPES.get(name);
    if (module === 'torch' && PACKED_STORAGES.has(name)) unsupported('a packed storage');
  }
  return tensorFailure(`${quoted(`${module}.${name}`)} is not a storage class`);
}

/** Check one persistent id. */
function readId(node, length) {
  if (node.changes.length > 0) tensorFailure('a persistent id is changed');
  if (!(node.id instanceof Tuple)) tensorFailure('a persistent id is not a tuple');
  const { items } = node.id;
  if (items[0] === 'module') unsupported('an entire module');
  if (items[0] !== 'storage' || items.length !== length) tensorFailure('a persistent id has an unknown form');
  const [, type, key, location, numel, view = null] = items;
  if (typeof key !== 'string' || typeof location !== 'string' || !isCount(numel)) {
    tensorFailure('a persistent id has an invalid key, location or count');
  }
  return { dtype: storageDtype(type), key, location, numel, view };
}

/** All storages of a file by key. Every id with the same key gets the same storage. */
class Storages {
  constructor(persistents, idLength) {
    this.ids = new Map(persistents.map((node) => [node, readId(node, idLength)]));
    this.byKey = new Map();
    for (const id of this.ids.values()) {
      const known = this.byKey.get(id.key);
      if (known === undefined) this.byKey.set(id.key, { id, storage: null });
      else if (known.id.dtype !== id.dtype || known.id.location !== id.location || known.id.numel !== id.numel) {
        tensorFailure(`the storage ${quoted(id.key)} has two classes, locations or counts`);
      }
    }
  }

  /** Assign each storage its bytes. */
  load(key, bytes, isBigEndian) {
    const entry = this.byKey.get(key);
    const { dtype, numel } = entry.id;
    if (numel * BigInt(dtype?.size ?? 1) !== BigInt(bytes.length)) {
      tensorFailure(`the storage ${quoted(key)} has ${bytes.length} bytes, and should have ${numel} items`);
    }
    entry.storage = new Storage(dtype, bytes, isBigEndian);
  }

  get totalBytes() {
    let total = 0;
    for (const { storage } of this.byKey.values()) total += storage.bytes.length;
    return total;
  }

  /** The storage of a persistent id. */
  of(node) {
    const id = this.ids.get(node);
    return id.viewStorage ?? this.byKey.get(id.key).storage;
  }
}

module.exports = { Storage, Storages, isCount };
