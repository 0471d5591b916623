'use strict';

// The opcodes of FORMAT.md 5.1, as a table of functions over a Machine, and the two ways to read a pickle.

const { decodeUtf8WithSurrogates } = require('./bytes.js');
const { pickleFailure } = require('./errors.js');
const { ByteArray, Call, Dict, Extension, FrozenSet, List, MutableSet, Node, Tuple } = require('./nodes.js');
const { Machine } = require('./pickle.js');
const {
  asciiText, parseFloat, parseIndex, parseInt, parseLong, parseString, parseUnicode, utf8Text,
} = require('./pickle_text.js');
const { Float } = require('./tags.js');

const HIGHEST_PROTOCOL = 5;

// Arguments

const u1 = (m) => m.take(1)[0];
const u2 = (m) => m.take(2).readUInt16LE();
const u4 = (m) => m.take(4).readUInt32LE();
const u8 = (m) => m.take(8).readBigUInt64LE();
const i4 = (m) => m.take(4).readInt32LE();

const sized = (size) => (m) => m.take(size(m));
const s1 = sized(u1);
const s4 = sized(u4);
const s8 = sized(u8);
const i4s = sized((m) => {
  const size = i4(m);
  if (size < 0) pickleFailure('a negative length');
  return size;
});

// Plain values

const push = (make) => (m) => m.push(make(m));

function longOf(bytes) {
  if (bytes.length === 0) return 0n;
  const unsigned = BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`);
  return BigInt.asIntN(bytes.length * 8, unsigned);
}

function unicodeOf(bytes) {
  const text = decodeUtf8WithSurrogates(bytes);
  if (text === null) pickleFailure('a text is not UTF-8');
  return text;
}

// Containers

const EMPTY_TUPLE = new Tuple([]);

const tuple = (count) => (m) => {
  const items = [];
  for (let i = 0; i < count; i += 1) items.unshift(m.pop());
  m.make(new Tuple(items));
};

const fromMark = (Container) => (m) => m.make(new Container(m.popToMark()));

function pairsOf(values) {
  if (values.length % 2 !== 0) pickleFailure('a key without a value');
  const pairs = [];
  for (let i = 0; i < values.length; i += 2) pairs.push([values[i], values[i + 1]]);
  return pairs;
}

function dict(m) {
  const pairs = pairsOf(m.popToMark());
  m.count(pairs.length);
  m.make(new Dict(pairs));
}

const change = (kind, values) => (m) => {
  const given = values(m);
  m.change(m.top(), kind, given);
};

function itemPair(m) {
  const value = m.pop();
  return [[m.pop(), value]];
}

// Names and calls

const isNode = (value) => value instanceof Node;
const isArguments = (value) => value instanceof Tuple || isNode(value);

function checkedCall(opcode, callable, args, keywords = undefined) {
  if (!isNode(callable)) pickleFailure(`${opcode} calls a plain value`);
  if (!isArguments(args)) pickleFailure(`the arguments of ${opcode} are not a tuple`);
  if (keywords !== undefined && !(keywords instanceof Dict) && !isNode(keywords)) {
    pickleFailure(`the keywords of ${opcode} are not a dict`);
  }
  return new Call(opcode, callable, args, keywords);
}

const callTwo = (opcode) => (m) => {
  const args = m.pop();
  m.makeLogged(checkedCall(opcode, m.pop(), args));
};

function newObjEx(m) {
  const keywords = m.pop();
  const args = m.pop();
  m.makeLogged(checkedCall('NEWOBJ_EX', m.pop(), args, keywords));
}

/** The tuple that INST and OBJ create from the values above the mark. */
function impliedTuple(m, items) {
  if (items.length === 0) return EMPTY_TUPLE;
  m.count();
  return new Tuple(items);
}

function inst(m) {
  const module = utf8Text(m.line());
  const name = utf8Text(m.line());
  const args = impliedTuple(m, m.popToMark());
  m.makeLogged(checkedCall('INST', m.importGlobal(module, name), args));
}

function obj(m) {
  const items = m.popToMark();
  if (items.length === 0) pickleFailure('OBJ without a class');
  m.makeLogged(checkedCall('OBJ', items[0], impliedTuple(m, items.slice(1))));
}

function global(m) {
  const module = utf8Text(m.line());
  m.push(m.importGlobal(module, utf8Text(m.line())));
}

function stackGlobal(m) {
  const name = m.pop();
  const module = m.pop();
  if (typeof module === 'string' && typeof name === 'string') {
    m.push(m.importGlobal(module, name));
    return;
  }
  const isName = (value) => typeof value === 'string' || isNode(value);
  if (!isName(module) || !isName(name)) pickleFailure('STACK_GLOBAL of a value that is not a name');
  m.makeLogged(new Call('STACK_GLOBAL', null, [module, name]));
}

const extension = (code) => (m) => {
  const number = code(m);
  if (number <= 0) pickleFailure('an extension code is not positive');
  m.makeLogged(new Extension(number));
};

// The rest

function pop(m) {
  if (m.marks.length > 0 && m.stack.length === m.base) m.marks.pop();
  else m.pop();
}

function readonlyBuffer(m) {
  const value = m.pop();
  if (value instanceof ByteArray) m.push(value.bytes);
  else if (Buffer.isBuffer(value) || isNode(value)) m.push(value);
  else pickleFailure('READONLY_BUFFER of a value that is not a buffer');
}

function proto(m) {
  const protocol = u1(m);
  if (protocol > HIGHEST_PROTOCOL) pickleFailure(`unknown protocol ${protocol}`);
  m.protocol = protocol;
}

const eightBit = (bytes) => (m) => m.push(m.eightBitText(bytes(m)));
const remember = (index) => (m) => m.remember(index(m));
const recall = (index) => (m) => m.recall(index(m));
const memoIndex = (m) => parseIndex(m.line());

const OPCODES = new Array(256);
for (const [byte, opcode] of [
  [0x28, (m) => m.mark()], // MARK
  [0x2e, (m) => m.stop()], // STOP
  [0x30, pop], // POP
  [0x31, (m) => m.popToMark()], // POP_MARK
  [0x32, (m) => m.pushAgain(m.top())], // DUP
  [0x4e, push(() => null)], // NONE
  [0x88, push(() => true)], // NEWTRUE
  [0x89, push(() => false)], // NEWFALSE
  [0x49, push((m) => parseInt(m.line()))], // INT
  [0x4c, push((m) => parseLong(m.line()))], // LONG
  [0x4a, push((m) => BigInt(i4(m)))], // BININT
  [0x4b, push((m) => BigInt(u1(m)))], // BININT1
  [0x4d, push((m) => BigInt(u2(m)))], // BININT2
  [0x8a, push((m) => longOf(s1(m)))], // LONG1
  [0x8b, push((m) => longOf(i4s(m)))], // LONG4
  [0x46, push((m) => parseFloat(m.line()))], // FLOAT
  [0x47, push((m) => new Float(m.take(8)))], // BINFLOAT
  [0x53, eightBit((m) => parseString(m.line()))], // STRING
  [0x54, eightBit(i4s)], // BINSTRING
  [0x55, eightBit(s1)], // SHORT_BINSTRING
  [0x56, push((m) => parseUnicode(m.line()))], // UNICODE
  [0x58, push((m) => unicodeOf(s4(m)))], // BINUNICODE
  [0x8c, push((m) => unicodeOf(s1(m)))], // SHORT_BINUNICODE
  [0x8d, push((m) => unicodeOf(s8(m)))], // BINUNICODE8
  [0x42, push(s4)], // BINBYTES
  [0x43, push(s1)], // SHORT_BINBYTES
  [0x8e, push(s8)], // BINBYTES8
  [0x96, (m) => m.make(new ByteArray(s8(m)))], // BYTEARRAY8
  [0x29, push(() => EMPTY_TUPLE)], // EMPTY_TUPLE
  [0x85, tuple(1)], // TUPLE1
  [0x86, tuple(2)], // TUPLE2
  [0x87, tuple(3)], // TUPLE3
  [0x74, fromMark(Tuple)], // TUPLE
  [0x5d, (m) => m.make(new List([]))], // EMPTY_LIST
  [0x6c, fromMark(List)], // LIST
  [0x61, change('APPENDS', (m) => [m.pop()])], // APPEND
  [0x65, change('APPENDS', (m) => m.popToMark())], // APPENDS
  [0x7d, (m) => m.make(new Dict([]))], // EMPTY_DICT
  [0x64, dict], // DICT
  [0x73, change('SETITEMS', itemPair)], // SETITEM
  [0x75, change('SETITEMS', (m) => pairsOf(m.popToMark()))], // SETITEMS
  [0x8f, (m) => m.make(new MutableSet([]))], // EMPTY_SET
  [0x90, change('ADDITEMS', (m) => m.popToMark())], // ADDITEMS
  [0x91, fromMark(FrozenSet)], // FROZENSET
  [0x70, remember(memoIndex)], // PUT
  [0x71, remember(u1)], // BINPUT
  [0x72, remember(u4)], // LONG_BINPUT
  [0x94, remember((m) => m.memo.size)], // MEMOIZE
  [0x67, recall(memoIndex)], // GET
  [0x68, recall(u1)], // BINGET
  [0x6a, recall(u4)], // LONG_BINGET
  [0x63, global], // GLOBAL
  [0x93, stackGlobal], // STACK_GLOBAL
  [0x82, extension(u1)], // EXT1
  [0x83, extension(u2)], // EXT2
  [0x84, extension(i4)], // EXT4
  [0x52, callTwo('REDUCE')], // REDUCE
  [0x69, inst], // INST
  [0x6f, obj], // OBJ
  [0x81, callTwo('NEWOBJ')], // NEWOBJ
  [0x92, newObjEx], // NEWOBJ_EX
  [0x62, change('BUILD', (m) => m.pop())], // BUILD
  [0x50, (m) => m.persist(asciiText(m.line()))], // PERSID
  [0x51, (m) => m.persist(m.pop())], // BINPERSID
  [0x80, proto], // PROTO
  [0x95, (m) => m.openFrame(u8(m))], // FRAME
  [0x97, () => pickleFailure('NEXT_BUFFER')], // NEXT_BUFFER
  [0x98, readonlyBuffer], // READONLY_BUFFER
]) OPCODES[byte] = opcode;

/** Read one of several consecutive pickles. The machine's `at` is the offset of its end. */
function readPickle(bytes, start, budget, eightBitText) {
  return new Machine(bytes, start, budget, eightBitText).run(OPCODES);
}

/** Read a pickle that must fill its space. */
function readWholePickle(bytes, budget, eightBitText) {
  budget.check('pickle_bytes', bytes.length);
  const machine = readPickle(bytes, 0, budget, eightBitText);
  if (machine.at !== bytes.length) pickleFailure('bytes follow the pickle');
  return machine;
}

module.exports = { readPickle, readWholePickle };
