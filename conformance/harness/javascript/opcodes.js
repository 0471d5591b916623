'use strict';

// The opcodes of FORMAT.md 5.1, as a table of functions over a Machine, and the two ways to read a pickle.

const { decodeUtf8WithSurrogates } = require('./bytes.js');
const { pickleFailure } = require('./errors.js');
const { ByteArray, Call, Dict, Extension, FrozenSet, List, MutableSet, Node, Tuple } = require('./nodes.js');
const { Machine } = require('./pickle.js');
const {
  asciiText, parseFloat, parseIndex, parseInt, parseLong, parseString, parseUnicode, utf8Text,
} = require('./pickle_text.js');
const { rowsOf } = require('./tables.js');
const { Float } = require('./tags.js');

const HIGHEST_PROTOCOL = 5;
const COPIES = 2; // of a pickle, while it is read (8.1)

// Readers of arguments, by the names in the table of opcodes

const u1 = (m) => m.take(1)[0];
const u4 = (m) => m.take(4).readUInt32LE();
const u8 = (m) => m.take(8).readBigUInt64LE();
const i4 = (m) => m.take(4).readInt32LE();

const sized = (size) => (m) => m.takeSized(size(m));

function signedSize(m) {
  const size = i4(m);
  if (size < 0) pickleFailure('a negative length');
  return size;
}

const ARGUMENTS = {
  '': () => undefined,
  u1,
  u2: (m) => m.take(2).readUInt16LE(),
  u4,
  u8,
  i4,
  f8: (m) => m.take(8),
  line: (m) => m.line(),
  line2: (m) => [m.line(), m.line()],
  s1: sized(u1),
  s4: sized(u4),
  s8: sized(u8),
  i4s: sized(signedSize),
};

// Plain values

const push = (valueOf) => (m, argument) => m.push(valueOf(argument));

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

function inst(m, names) {
  const [module, name] = names.map(utf8Text);
  const args = impliedTuple(m, m.popToMark());
  m.makeLogged(checkedCall('INST', m.importGlobal(module, name), args));
}

function obj(m) {
  const items = m.popToMark();
  if (items.length === 0) pickleFailure('OBJ without a class');
  m.makeLogged(checkedCall('OBJ', items[0], impliedTuple(m, items.slice(1))));
}

function global(m, names) {
  const [module, name] = names.map(utf8Text);
  m.push(m.importGlobal(module, name));
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

function extension(m, code) {
  if (code <= 0) pickleFailure('an extension code is not positive');
  m.makeLogged(new Extension(code));
}

// The rest

function pop(m) {
  if (m.marks.length > 0 && m.stack.length === m.base) m.marks.pop();
  else m.discard([m.pop()]);
}

function readonlyBuffer(m) {
  const value = m.pop();
  if (value instanceof ByteArray) m.push(value.bytes);
  else if (Buffer.isBuffer(value) || isNode(value)) m.push(value);
  else pickleFailure('READONLY_BUFFER of a value that is not a buffer');
}

function proto(m, protocol) {
  if (protocol > HIGHEST_PROTOCOL) pickleFailure(`unknown protocol ${protocol}`);
  m.protocol = protocol;
}

const eightBit = (bytesOf) => (m, argument) => {
  const content = bytesOf(argument);
  m.widen(content);
  m.push(m.eightBitText(content));
};
const bytes = (argument) => argument;
const pushInteger = push((number) => BigInt(number));
const pushUnicode = (m, argument) => {
  m.widen(argument);
  m.push(unicodeOf(argument));
};
const pushBytes = push(bytes);
const remember = (m, index) => m.remember(index);
const recall = (m, index) => m.recall(index);

/** What each opcode does with its argument. */
const HANDLERS = {
  MARK: (m) => m.mark(),
  STOP: (m) => m.stop(),
  POP: pop,
  POP_MARK: (m) => m.discard(m.popToMark()),
  DUP: (m) => m.pushAgain(m.top()),
  NONE: push(() => null),
  NEWTRUE: push(() => true),
  NEWFALSE: push(() => false),
  INT: push(parseInt),
  LONG: push(parseLong),
  BININT: pushInteger,
  BININT1: pushInteger,
  BININT2: pushInteger,
  LONG1: push(longOf),
  LONG4: push(longOf),
  FLOAT: push(parseFloat),
  BINFLOAT: push((binary64) => new Float(binary64)),
  STRING: eightBit(parseString),
  BINSTRING: eightBit(bytes),
  SHORT_BINSTRING: eightBit(bytes),
  UNICODE: push(parseUnicode),
  BINUNICODE: pushUnicode,
  SHORT_BINUNICODE: pushUnicode,
  BINUNICODE8: pushUnicode,
  BINBYTES: pushBytes,
  SHORT_BINBYTES: pushBytes,
  BINBYTES8: pushBytes,
  BYTEARRAY8: (m, content) => m.make(new ByteArray(content)),
  EMPTY_TUPLE: push(() => EMPTY_TUPLE),
  TUPLE1: tuple(1),
  TUPLE2: tuple(2),
  TUPLE3: tuple(3),
  TUPLE: fromMark(Tuple),
  EMPTY_LIST: (m) => m.make(new List([])),
  LIST: fromMark(List),
  APPEND: change('APPENDS', (m) => [m.pop()]),
  APPENDS: change('APPENDS', (m) => m.popToMark()),
  EMPTY_DICT: (m) => m.make(new Dict([])),
  DICT: dict,
  SETITEM: change('SETITEMS', itemPair),
  SETITEMS: change('SETITEMS', (m) => pairsOf(m.popToMark())),
  EMPTY_SET: (m) => m.make(new MutableSet([])),
  ADDITEMS: change('ADDITEMS', (m) => m.popToMark()),
  FROZENSET: fromMark(FrozenSet),
  PUT: (m, line) => m.remember(parseIndex(line)),
  BINPUT: remember,
  LONG_BINPUT: remember,
  MEMOIZE: (m) => m.remember(m.memo.size),
  GET: (m, line) => m.recall(parseIndex(line)),
  BINGET: recall,
  LONG_BINGET: recall,
  GLOBAL: global,
  STACK_GLOBAL: stackGlobal,
  EXT1: extension,
  EXT2: extension,
  EXT4: extension,
  REDUCE: callTwo('REDUCE'),
  INST: inst,
  OBJ: obj,
  NEWOBJ: callTwo('NEWOBJ'),
  NEWOBJ_EX: newObjEx,
  BUILD: change('BUILD', (m) => m.pop()),
  PERSID: (m, line) => m.persist(asciiText(line)),
  BINPERSID: (m) => m.persist(m.pop()),
  PROTO: proto,
  FRAME: (m, size) => m.openFrame(size),
  NEXT_BUFFER: () => pickleFailure('NEXT_BUFFER'),
  READONLY_BUFFER: readonlyBuffer,
};

/** Functions of the machine by byte: they read the argument, and execute the opcode. */
const OPCODES = new Array(256);
for (const { byte, name, argument } of rowsOf('opcodes')) {
  const read = ARGUMENTS[argument];
  const execute = HANDLERS[name];
  OPCODES[Number.parseInt(byte, 16)] = (m) => execute(m, read(m));
}

/** Read one of several consecutive pickles. The machine's `at` is the offset of its end. */
function readPickle(bytes, start, budget, eightBitText) {
  return new Machine(bytes, start, budget, eightBitText).run(OPCODES);
}

/** Read a pickle that must fill its space. */
function readWholePickle(bytes, budget, eightBitText) {
  budget.check('pickle_bytes', bytes.length);
  budget.keep(0, COPIES * bytes.length);
  const machine = readPickle(bytes, 0, budget, eightBitText);
  if (machine.at !== bytes.length) pickleFailure('bytes follow the pickle');
  return machine;
}

module.exports = { readPickle, readWholePickle };
