'use strict';

// A pickle as a tree (conformance/README.md, "Trees of pickles"). It may contain itself, so nodes are numbered in
// the order of the first reference, and written one after the other.

const {
  ByteArray, Call, Dict, FrozenSet, Global, List, MutableSet, Persistent, Tuple,
} = require('./nodes.js');
const { Float, tagInteger } = require('./tags.js');

class TreePrinter {
  constructor() {
    this.numbers = new Map(); // by identity
    this.order = [];
  }

  ref(value) {
    if (typeof value === 'bigint') return tagInteger(value);
    if (value === null || typeof value !== 'object') return value;
    if (value instanceof Float) return { float: value.hex };
    if (Buffer.isBuffer(value)) return { bytes: value.toString('base64') };
    if (value instanceof ByteArray) return { bytearray: value.bytes.toString('base64') };
    if (value instanceof Tuple && value.items.length === 0) return { tuple: [] };
    if (!this.numbers.has(value)) {
      this.numbers.set(value, this.order.length);
      this.order.push(value);
    }
    return { node: this.numbers.get(value) };
  }

  refs(values) {
    return values.map((value) => this.ref(value));
  }

  pairs(pairs) {
    return pairs.map((pair) => this.refs(pair));
  }

  change({ kind, values }) {
    if (kind === 'BUILD') return { BUILD: this.ref(values) };
    return { [kind]: kind === 'SETITEMS' ? this.pairs(values) : this.refs(values) };
  }

  call(node) {
    if (node.opcode === 'STACK_GLOBAL') return { call: node.opcode, arguments: this.refs(node.args) };
    // `keywords` is undefined except for NEWOBJ_EX: JSON omits it.
    return {
      call: node.opcode, callable: this.ref(node.callable), arguments: this.ref(node.args), keywords: this.ref(node.keywords),
    };
  }

  content(node) {
    if (node instanceof List) return { list: this.refs(node.items) };
    if (node instanceof Tuple) return { tuple: this.refs(node.items) };
    if (node instanceof MutableSet) return { set: this.refs(node.items) };
    if (node instanceof FrozenSet) return { frozenset: this.refs(node.items) };
    if (node instanceof Dict) return { dict: this.pairs(node.pairs) };
    if (node instanceof Global) return { global: [node.module, node.name] };
    if (node instanceof Call) return this.call(node);
    if (node instanceof Persistent) return { persistent: this.ref(node.id) };
    return { extension: node.code };
  }

  node(node) {
    const printed = this.content(node);
    if (node.changes?.length > 0) printed.changes = node.changes.map((change) => this.change(change));
    return printed;
  }
}

/** The output of `--blob`. */
function printTree(machine) {
  const printer = new TreePrinter();
  const value = printer.ref(machine.result);
  const log = machine.log.map((row) => (row.changed ? { changed: printer.ref(row.changed) } : printer.ref(row.node)));
  const nodes = [];
  while (nodes.length < printer.order.length) nodes.push(printer.node(printer.order[nodes.length]));
  return { protocol: machine.protocol, value, log, flags: [...machine.flags].sort(), nodes };
}

module.exports = { printTree };
