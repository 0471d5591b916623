'use strict';

// The inert tree (FORMAT.md 5.2). None, bools and texts are JavaScript's own; ints are bigints, floats are Float,
// bytes are Buffer, and the rest are the classes here. Nothing in it is ever hashed by its content.

class ByteArray {
  constructor(bytes) {
    this.bytes = bytes;
  }
}

class Tuple {
  constructor(items) {
    this.items = items;
  }
}

class FrozenSet {
  constructor(items) {
    this.items = items;
  }
}

/** A value that opcodes change in place. `shared` is set once it was taken from the memo or duplicated (5.3). */
class Changeable {
  constructor() {
    this.shared = false;
  }
}

class List extends Changeable {
  constructor(items) {
    super();
    this.items = items;
  }
}

class MutableSet extends Changeable {
  constructor(items) {
    super();
    this.items = items;
  }
}

class Dict extends Changeable {
  constructor(pairs) {
    super();
    this.pairs = pairs;
  }
}

/** Represents a value that only an interpreter could create. Records the changes made to it. */
class Node extends Changeable {
  constructor() {
    super();
    this.changes = [];
  }
}

class Global extends Node {
  constructor(module, name) {
    super();
    this.module = module;
    this.name = name;
  }
}

class Call extends Node {
  constructor(opcode, callable, args, keywords = undefined) {
    super();
    this.opcode = opcode;
    this.callable = callable;
    this.args = args;
    this.keywords = keywords;
  }
}

class Persistent extends Node {
  constructor(id) {
    super();
    this.id = id;
  }
}

class Extension extends Node {
  constructor(code) {
    super();
    this.code = code;
  }
}

/** The values directly within a value or a node, in the order of the pickle. */
function partsOf(value) {
  if (Array.isArray(value)) return value;
  if (value instanceof Dict) return value.pairs;
  if (!(value instanceof Node)) return value.items ?? [];
  const changes = value.changes.map(({ values }) => values);
  if (value instanceof Call) return [value.callable, value.args, value.keywords, ...changes];
  return value instanceof Persistent ? [value.id, ...changes] : changes;
}

/** All persistent ids in a value, each once, in the order of the pickle. */
function* persistentsIn(root) {
  const seen = new Set();
  const todo = [root];
  while (todo.length > 0) {
    const value = todo.pop();
    if (value === null || typeof value !== 'object' || Buffer.isBuffer(value) || seen.has(value)) continue;
    seen.add(value);
    if (value instanceof Persistent) yield value;
    const parts = partsOf(value);
    for (let i = parts.length - 1; i >= 0; i -= 1) todo.push(parts[i]);
  }
}

module.exports = {
  ByteArray, Call, Changeable, Dict, Extension, FrozenSet, Global, List, MutableSet, Node, Persistent, Tuple, persistentsIn,
};
