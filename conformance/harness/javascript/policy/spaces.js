'use strict';

// Spaces (VALUES.md 13.4, STATISTICS.md 17.6), and observations as vectors (19.3).

const { invalid, unsupported } = require('../errors.js');
const { isSame } = require('../geometry.js');
const { parseObject } = require('../json.js');
const { readSpace: readTaggedSpace } = require('../statistics/spaces.js');
const { ITEMS } = require('../tags.js');
const { isPlain, numbersOf } = require('./plain.js');

const product = (sizes) => sizes.reduce((all, size) => all * size, 1);

const shapeOf = (state) => state.get('_shape') ?? state.get('shape');

const MAKERS = {
  'box.Box': (state) => ({
    kind: 'Box', shape: shapeOf(state), low: state.get('low'), high: state.get('high'),
  }),
  'discrete.Discrete': (state) => ({ kind: 'Discrete', shape: [], n: state.get('n') }),
  'multi_discrete.MultiDiscrete': (state) => ({ kind: 'MultiDiscrete', shape: state.get('nvec').shape, nvec: state.get('nvec').items }),
  'multi_binary.MultiBinary': (state) => ({ kind: 'MultiBinary', shape: shapeOf(state) }),
  'dict.Dict': (state) => ({ kind: 'Dict', parts: [...state.get('spaces')].map(([key, space]) => [key, readSpace(space)]) }),
};
const CLASSES = new Map(['gym', 'gymnasium'].flatMap((library) => Object.entries(MAKERS).map(([name, make]) => [`${library}.spaces.${name}`, make])));

/** The number of choices of each component of a space of choices. */
function choicesOf({ kind, n, nvec }) {
  if (kind === 'Discrete') return [n];
  return kind === 'MultiDiscrete' ? nvec : [];
}

/** A space of a pickle. */
function readSpace(value) {
  const make = CLASSES.get(value?.type) ?? (isPlain(value) ? invalid : unsupported)('an unknown space');
  const space = make(value.state);
  if (Math.min(...choicesOf(space)) < 1) invalid('a space without a choice');
  return space;
}

/** An array of 17.6. */
function readArray({ dtype, shape, items }) {
  const all = Array.isArray(items) ? items : new Array(product(shape)).fill(items);
  return { dtype, shape, items: all.map(Number) };
}

/** A space of 17.6. */
function readJsonSpace(given, budget) {
  const space = readTaggedSpace(parseObject(Buffer.from(JSON.stringify(given)), budget), budget);
  const array = ({ type: { name: dtype }, shape, bytes }) => ({ dtype, shape: shape.map(Number), items: numbersOf({ dtype, [ITEMS]: () => bytes }) });
  if (space.type === 'Box') return { kind: 'Box', shape: space.shape.map(Number), low: array(space.low), high: array(space.high) };
  if (space.type === 'Discrete') return { kind: 'Discrete', shape: [], n: Number(space.n) };
  return unsupported('a space that a decoder of policies does not need');
}

const isImage = (space) => space.kind === 'Box' && space.shape.length === 3 && space.low.dtype === 'uint8'
  && space.low.items.every((item) => item === 0) && space.high.items.every((item) => item === 255);

/** The number of items of an encoded observation. */
function encodedSize(space) {
  if (space.kind === 'Discrete') return space.n;
  if (space.kind === 'MultiDiscrete') return space.nvec.reduce((sum, size) => sum + size, 0);
  return product(space.shape);
}

/** One-hot vectors of several indexes, one after another. */
function oneHot(indexes, sizes) {
  return indexes.flatMap((index, at) => Array.from({ length: sizes[at] }, (_, number) => Number(number === Math.trunc(index))));
}

function encodeItems(space, items, dividesImages) {
  if (space.kind === 'Discrete') return oneHot(items, [space.n]);
  if (space.kind === 'MultiDiscrete') return oneHot(items, space.nvec);
  const isDivided = dividesImages && isImage(space);
  return items.map((item) => Math.fround(isDivided ? Math.fround(item) / 255 : item));
}

/** Images with the channels last, with them first. */
function moveChannels(array) {
  const [height, width, channels] = array.shape.slice(-3);
  const size = height * width * channels;
  const items = array.items.map((_, at) => {
    const [image, rest] = [Math.floor(at / size), at % size];
    const [channel, pixel] = [Math.floor(rest / (height * width)), rest % (height * width)];
    return array.items[image * size + pixel * channels + channel];
  });
  return { ...array, shape: [...array.shape.slice(0, -3), channels, height, width], items };
}

/**
 * The observations of a batch, normalized and encoded, each as a Map of vectors by key (null without a Dict), and whether
 * there was a batch.
 */
function readObservations(space, value, statistics, dividesImages) {
  const parts = space.kind === 'Dict' ? space.parts : [[null, space]];
  let isBatch = false;
  const columns = parts.map(([key, part]) => {
    let array = readArray(key === null ? value : value[key]);
    const fits = (shape) => isSame(shape, part.shape) || isSame(shape.slice(1), part.shape);
    if (!fits(array.shape) && isImage(part)) array = moveChannels(array);
    if (!fits(array.shape)) throw new TypeError('an observation does not fit its space');
    isBatch = isBatch || array.shape.length > part.shape.length;
    const size = product(part.shape);
    const rows = Array.from({ length: array.items.length / size }, (_, row) => array.items.slice(row * size, (row + 1) * size));
    return [key, rows.map((row) => encodeItems(part, statistics(key, row), dividesImages))];
  });
  const count = columns[0][1].length;
  return { isBatch, rows: Array.from({ length: count }, (_, row) => new Map(columns.map(([key, rows]) => [key, rows[row]]))) };
}

module.exports = {
  encodedSize, isImage, product, readArray, readJsonSpace, readObservations, readSpace,
};
