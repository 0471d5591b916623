'use strict';

// The pickle machine (FORMAT.md 5.1 to 5.3): bytes to an inert tree, a log and flags. The opcodes are in opcodes.js.

const { characterWidth } = require('./bytes.js');
const { pickleFailure, limitExceeded } = require('./errors.js');
const { Changeable, Global, List, Dict, MutableSet, Node, Persistent } = require('./nodes.js');
const { renamed } = require('./compat_pickle.js');

const NEWLINE = 0x0a;
const RENAMED_BELOW = 3;
const MEMORY = { byte: 24, node: 320, memo: 160 };
const LONGEST_SHORT = 255;

/** Entries by index: an array while indexes are consecutive, otherwise a map by text, whose hash is salted. */
class Memo {
  constructor() {
    this.dense = [];
    this.sparse = new Map();
  }

  get size() {
    return this.dense.length + this.sparse.size;
  }

  get(index) {
    return index < this.dense.length ? this.dense[index] : this.sparse.get(`memo ${index}`);
  }

  set(index, value) {
    if (index < this.dense.length) this.dense[index] = value;
    else if (index === this.dense.length) {
      this.sparse.delete(`memo ${index}`);
      this.dense.push(value);
    } else this.sparse.set(`memo ${index}`, value);
  }
}

class Machine {
  /**
   * @param {Buffer} bytes
   * @param {number} start offset of the pickle
   * @param {Budget} budget
   * @param {(bytes: Buffer) => string} eightBitText decodes 8-bit texts: ASCII, or UTF-8 in a .pth
   */
  constructor(bytes, start, budget, eightBitText) {
    this.bytes = bytes;
    this.start = start;
    this.at = start;
    this.end = Math.min(bytes.length, start + budget.get('pickle_bytes')); // of what may be read
    this.budget = budget;
    this.eightBitText = eightBitText;
    this.protocol = 0;
    this.stack = [];
    this.marks = [];
    this.memo = new Memo();
    this.frameStop = null;
    this.nodeCount = 0;
    this.longBytes = 0; // of texts, bytes and integers that are charged by their size
    this.widened = 0; // what texts need in addition
    this.log = [];
    this.discarded = []; // values that an opcode removed from the stack without a use
    this.flags = new Set();
    this.result = undefined;
    this.stopped = false;
  }

  run(opcodes) {
    const maxOpcodes = this.budget.get('pickle_opcodes');
    for (let count = 1; !this.stopped; count += 1) {
      if (count > maxOpcodes) limitExceeded(`pickle_opcodes is ${maxOpcodes}`);
      const opcode = opcodes[this.take(1)[0]];
      if (opcode === undefined) pickleFailure(`an unknown opcode before byte ${this.at}`);
      opcode(this);
      if (this.frameStop !== null && this.at >= this.frameStop) this.closeFrame();
      this.budget.check('pickle_stack', this.stack.length);
    }
    this.budget.keep(this.memory());
    return this;
  }

  /** An upper bound of the memory that the values need (8.1). */
  memory() {
    const short = Math.max(0, this.at - this.start - this.longBytes);
    return MEMORY.byte * short + this.longBytes + this.widened + MEMORY.node * this.nodeCount + MEMORY.memo * this.memo.sparse.size;
  }

  /** Refuse a pickle that ends too early: at the end of the bytes, or because it is longer than the limit. */
  cutShort(message) {
    if (this.end < this.bytes.length) limitExceeded(`pickle_bytes is ${this.budget.get('pickle_bytes')}`);
    pickleFailure(message);
  }

  // Arguments

  take(count) {
    if (count > this.end - this.at) this.cutShort(`the pickle ends within an opcode, at byte ${this.at}`);
    const start = this.at;
    this.at += Number(count);
    return this.bytes.subarray(start, this.at);
  }

  /** Take the bytes after a length. */
  takeSized(count) {
    if (count > LONGEST_SHORT) this.longBytes += Number(count);
    return this.take(count);
  }

  /** Count the memory of a long text beyond its bytes. */
  widen(utf8) {
    if (utf8.length > LONGEST_SHORT) this.widened += (characterWidth(utf8) - 1) * utf8.length;
  }

  line() {
    const stop = this.bytes.indexOf(NEWLINE, this.at);
    if (stop < 0 || stop >= this.end) this.cutShort('a line has no end');
    const line = this.bytes.subarray(this.at, stop);
    this.at = stop + 1;
    return line;
  }

  openFrame(size) {
    if (this.frameStop !== null) pickleFailure('a frame within a frame');
    if (size > this.end - this.at) this.cutShort('a frame extends past the data');
    this.frameStop = this.at + Number(size);
  }

  closeFrame() {
    if (this.at > this.frameStop) pickleFailure('an opcode extends past its frame');
    this.frameStop = null;
  }

  // The stack

  get base() {
    return this.marks.length > 0 ? this.marks[this.marks.length - 1] : 0;
  }

  push(value) {
    this.stack.push(value);
  }

  top() {
    if (this.stack.length <= this.base) pickleFailure('no value is on the stack above the mark');
    return this.stack[this.stack.length - 1];
  }

  pop() {
    const value = this.top();
    this.stack.length -= 1;
    return value;
  }

  discard(values) {
    for (const value of values) this.discarded.push(value);
  }

  mark() {
    this.marks.push(this.stack.length);
    this.budget.check('pickle_marks', this.marks.length);
  }

  popToMark() {
    if (this.marks.length === 0) pickleFailure('there is no mark');
    return this.stack.splice(this.marks.pop());
  }

  // The memo

  remember(index) {
    const value = this.top();
    this.budget.check('pickle_memo_index', index);
    this.memo.set(index, value);
    this.budget.check('pickle_memo', this.memo.size);
  }

  recall(index) {
    const value = this.memo.get(index);
    if (value === undefined) pickleFailure(`the memo has no entry ${index}`);
    this.pushAgain(value);
  }

  /** Push a value that is referred to again: a later change of it is flagged. */
  pushAgain(value) {
    if (value instanceof Changeable) value.shared = true;
    this.push(value);
  }

  // Nodes

  count(nodes = 1) {
    this.nodeCount += nodes;
    this.budget.check('pickle_nodes', this.nodeCount);
  }

  /** Push a value that counts as a node. */
  make(value) {
    this.count();
    this.push(value);
    return value;
  }

  makeLogged(node) {
    this.log.push({ node });
    return this.make(node);
  }

  importGlobal(module, name) {
    this.count();
    const names = this.protocol < RENAMED_BELOW ? renamed(module, name) : [module, name];
    const node = new Global(...names);
    this.log.push({ node });
    return node;
  }

  persist(id) {
    this.make(new Persistent(id));
  }

  // Changes

  /** Apply a change: values for a list or a set, pairs for a dict, a state only for nodes. */
  change(target, kind, values) {
    if (target instanceof Node) this.changeNode(target, kind, values);
    else if (kind === 'APPENDS' && target instanceof List) for (const value of values) target.items.push(value);
    else if (kind === 'ADDITEMS' && target instanceof MutableSet) for (const value of values) target.items.push(value);
    else if (kind === 'SETITEMS' && target instanceof Dict) this.setItems(target, values);
    else pickleFailure(`${kind} of a value that does not support it`);
    if (target.shared && !(target instanceof Global)) this.flags.add('changed'); // a Global only represents a name
  }

  changeNode(target, kind, values) {
    this.count(kind === 'SETITEMS' ? 1 + values.length : 1);
    target.changes.push({ kind, values });
    this.log.push({ changed: target });
  }

  setItems(dict, pairs) {
    this.count(pairs.length);
    for (const pair of pairs) dict.pairs.push(pair);
  }

  stop() {
    this.result = this.pop();
    this.stopped = true;
    if (this.stack.length > 0) this.flags.add('values');
    if (this.marks.length > 0) this.flags.add('marks');
    if (this.frameStop > this.at) this.flags.add('frame');
  }
}

module.exports = { Machine };
