'use strict';

// The wrappers of torch (FORMAT.md 6.8): a state dict with the names of SB3, from one with those of `torch.compile`, `DataParallel`, pruning and norms.

const { unsupported } = require('../errors.js');
const { isSame } = require('../geometry.js');
const { ITEMS } = require('../tags.js');
const { numbersOf } = require('./plain.js');
const { product } = require('./spaces.js');

const MODULES = new Set(['_orig_mod', 'module']);
const KEYED = 'extractors';

/** A number as float16: the nearest multiple of the distance between numbers of its size, halves to even. */
function toHalf(number) {
  if (!Number.isFinite(number)) return number;
  const step = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(number))), -14) - 10);
  const [below, rest] = [Math.floor(number / step), number / step - Math.floor(number / step)];
  const rounded = step * (rest > 0.5 || (rest === 0.5 && below % 2 !== 0) ? below + 1 : below);
  return Math.abs(rounded) > 65504 ? rounded * Infinity : rounded;
}

const FLOATS = new Map(Object.entries({ float16: toHalf, float32: Math.fround, float64: Number }));
const NEARLY = 1.001;
const BYTES_OF_AN_ITEM = 16;

const beginning = (parts, count) => parts.slice(0, count).map((part) => `${part}.`).join('');

/** How many names have each beginning. */
function countBeginnings(names) {
  const counts = new Map();
  for (const name of names) {
    const parts = name.split('.');
    for (let at = 0; at < parts.length; at += 1) {
      const key = beginning(parts, at);
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
  }
  return counts;
}

/** A name without wrappers of modules. */
function strip(name, counts) {
  const parts = name.split('.');
  const plain = [];
  parts.forEach((part, at) => {
    const isWrapper = MODULES.has(part) && plain.at(-1) !== KEYED
      && counts.get(beginning(parts, at)) === counts.get(beginning(parts, at + 1));
    if (!isWrapper) plain.push(part);
  });
  return plain.join('.');
}

const undetermined = () => unsupported('the parts of a tensor do not determine it');

function applyMask(original, mask) {
  if (!isSame(original.shape, mask.shape)) undetermined();
  return original.items.map((item, at) => item * mask.items[at]);
}

/** The position along each axis of an item of an array in C order. */
function positionOf(index, shape) {
  let rest = index;
  return shape.map((size, axis) => {
    const step = product(shape.slice(axis + 1));
    const found = Math.floor(rest / step);
    rest %= step;
    return found;
  });
}

/** `u M v`, where an axis of the weight is that of the rows of M. */
function multiply({ shape, items }, left, right, axis) {
  const inner = product(shape.slice(axis + 1));
  return items.reduce((sum, item, index) => {
    const [outer, row] = [Math.floor(index / (inner * shape[axis])), Math.floor(index / inner) % shape[axis]];
    return sum + left.items[row] * item * right.items[outer * inner + (index % inner)];
  }, 0);
}

function divideByNorm(weight, left, right) {
  const size = weight.items.length;
  const axes = weight.shape.flatMap((length, axis) => (size > 0 && isSame(left.shape, [length]) && isSame(right.shape, [size / length]) ? [axis] : []));
  const [first, ...others] = axes.map((axis) => multiply(weight, left, right, axis));
  const isCertain = axes.length === 1 || (axes[0] === 0 && !others.some((other) => Math.abs(other) > Math.abs(first) * NEARLY));
  if (!isCertain) undetermined();
  return weight.items.map((item) => item / first);
}

function scale(direction, length) {
  const lengths = direction.shape.map((_, axis) => length.shape[axis] ?? 1);
  const isFit = length.shape.length === 0 || (length.shape.length === direction.shape.length && lengths.every((size, axis) => size === 1 || size === direction.shape[axis]));
  if (!isFit) undetermined();
  const groups = direction.items.map((_, index) => positionOf(index, direction.shape).reduce((at, place, axis) => (lengths[axis] === 1 ? at : at * lengths[axis] + place), 0));
  const squares = length.items.map(() => 0);
  direction.items.forEach((item, index) => { squares[groups[index]] += item * item; });
  return direction.items.map((item, index) => item * (length.items[groups[index]] / Math.sqrt(squares[groups[index]])));
}

const SUFFIXES = [
  [['_orig', '_mask'], applyMask],
  [['_orig', '_u', '_v'], divideByNorm],
  [['_v', '_g'], scale],
];
const PARAMETRIZATIONS = [
  [['.original', '.0._u', '.0._v'], divideByNorm],
  [['.original1', '.original0'], scale],
];
const PARAMETRIZATION = /^((?:.+?\.)?)parametrizations\.([^.]+)(\..+)$/;

/** The tensors that are computed: name, parts, and the function; null where the parts do not determine it. */
function findComputed(tensors, modules) {
  const found = [];
  for (const name of tensors.keys()) {
    const row = SUFFIXES.find(([[first, ...others]]) => name.endsWith(first) && others.every((part) => tensors.has(name.slice(0, -first.length) + part)));
    if (row !== undefined) {
      const target = name.slice(0, -row[0][0].length);
      found.push([target, row[0].map((part) => target + part), row[1]]);
    }
  }
  const groups = new Map();
  for (const name of tensors.keys()) {
    const match = PARAMETRIZATION.exec(name);
    if (match !== null && !match[1].endsWith(`${KEYED}.`)) {
      const stem = `${match[1]}parametrizations.${match[2]}`;
      const group = groups.get(stem) ?? { target: match[1] + match[2], parts: [] };
      group.parts.push(match[3]);
      groups.set(stem, group);
    }
  }
  for (const [stem, { target, parts }] of groups) {
    const row = PARAMETRIZATIONS.find(([names]) => isSame([...names].sort(), [...parts].sort()));
    const isAlone = row !== undefined && !modules.has(`${stem}.1`);
    found.push([target, (isAlone ? row[0] : parts).map((part) => stem + part), isAlone ? row[1] : null]);
  }
  return found.filter(([target]) => !tensors.has(target));
}

function compute(parts, run, budget) {
  if (run === null) undetermined();
  const [{ dtype, shape }] = parts;
  parts.forEach((part) => {
    if (!FLOATS.has(part.dtype)) undetermined();
    budget.check('member_bytes', BYTES_OF_AN_ITEM * product(part.shape));
  });
  const items = run(...parts.map((part) => ({ shape: part.shape, items: numbersOf(part) }))).map(FLOATS.get(dtype));
  return { tensor: { dtype: 'float64', shape, [ITEMS]: () => Buffer.from(Float64Array.from(items).buffer) } };
}

/** A tagged state dict without wrappers. */
function unwrap(tag, budget) {
  const pairs = tag.ordered_dict ?? tag.dict;
  if (pairs === undefined || !pairs.every(([name, value]) => typeof name === 'string' && value?.tensor !== undefined)) {
    return unsupported('a state dict is not a dict of tensors');
  }
  const counts = countBeginnings(pairs.map(([name]) => name));
  const tensors = new Map(pairs.map(([name, value]) => [strip(name, counts), value]));
  const metadata = tag._metadata?.ordered_dict ?? tag._metadata?.dict ?? [];
  const paths = metadata.map(([path]) => path).filter((path) => typeof path === 'string');
  const modules = new Set(paths.map((path) => strip(`${path}.`, counts).slice(0, -1)));
  for (const [target, parts, run] of findComputed(tensors, modules)) {
    const made = compute(parts.map((part) => tensors.get(part).tensor), run, budget);
    parts.forEach((part) => tensors.delete(part));
    tensors.set(target, made);
  }
  return { dict: [...tensors] };
}

module.exports = { unwrap };
