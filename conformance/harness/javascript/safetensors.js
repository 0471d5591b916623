'use strict';

// A .safetensors file (WRITER.md 12.6).

const { dtype } = require('./dtypes.js');
const {
  Refusal, containerFailure, tensorFailure, unsupported,
} = require('./errors.js');
const { countItems } = require('./geometry.js');
const { parseObject } = require('./json.js');
const { isIntegerTag, integerOf, listOf } = require('./statistics/tagged.js');
const { rowsOf } = require('./tables.js');

const LENGTH_BYTES = 8;
const METADATA = '__metadata__';
const DTYPES = new Map(rowsOf('dtypes').filter((row) => row.safetensors !== null).map((row) => [row.safetensors, dtype(row.name)]));

/** The header as a tagged dict. Whatever is wrong with it is a fault of the container. */
function parseHeader(bytes, budget) {
  try {
    return parseObject(bytes, budget).dict;
  } catch (error) {
    if (error instanceof Refusal && error.outcome === 'data failure') containerFailure(error.message);
    throw error;
  }
}

/** Metadata: an object of texts. */
function readMetadata(value) {
  const isTexts = value?.dict?.every(([, text]) => typeof text === 'string');
  return isTexts ? value.dict : containerFailure('the metadata is not an object of texts');
}

const counts = (value) => {
  const items = listOf(value);
  const areCounts = items !== null && items.every((item) => isIntegerTag(item) && integerOf(item) >= 0n);
  return areCounts ? items.map(integerOf) : containerFailure('a shape or offsets are not an array of integers');
};

/** One row of the header. */
function readRow([name, value]) {
  if (!name.isWellFormed()) containerFailure('the name of a tensor is not Unicode text');
  const fields = new Map(value?.dict ?? containerFailure('a tensor is not an object'));
  const [code, shape, offsets] = [fields.get('dtype'), counts(fields.get('shape')), counts(fields.get('data_offsets'))];
  if (typeof code !== 'string' || offsets.length !== 2 || offsets[0] > offsets[1]) containerFailure('a tensor has an invalid dtype or offsets');
  return { name, code, shape, start: offsets[0], stop: offsets[1] };
}

/** Check that the tensors tile the bytes after the header. */
function checkTiling(rows, size) {
  let at = 0n;
  for (const { start, stop } of [...rows].sort((a, b) => Number(a.start - b.start) || Number(a.stop - b.stop))) {
    if (start !== at) containerFailure('there is a gap or an overlap between tensors');
    at = stop;
  }
  if (at !== BigInt(size)) containerFailure('the tensors do not end with the file');
}

function readTensor({ code, shape, start, stop }, bytes) {
  const type = DTYPES.get(code) ?? unsupported('an unknown dtype');
  if (countItems(shape) * BigInt(type.size) !== stop - start) tensorFailure('the bytes of a tensor are not those of its shape');
  const items = bytes.subarray(Number(start), Number(stop));
  if (type.kind === 'bool' && items.some((byte) => byte > 1)) tensorFailure('a bool is neither 0 nor 1');
  return { type, shape, items };
}

/** Metadata, as pairs, and a map of the tensors by name. */
function readSafetensors(bytes, budget) {
  if (bytes.length < LENGTH_BYTES) containerFailure('the file is too short for a header');
  const length = bytes.readBigUInt64LE();
  if (length > BigInt(bytes.length - LENGTH_BYTES)) containerFailure('the header does not fit in the file');
  const body = LENGTH_BYTES + Number(length);
  const header = parseHeader(bytes.subarray(LENGTH_BYTES, body), budget);
  const metadata = header.filter(([name]) => name === METADATA).flatMap(([, value]) => readMetadata(value));
  const rows = header.filter(([name]) => name !== METADATA).map(readRow);
  budget.check('leaves', rows.length);
  checkTiling(rows, bytes.length - body);
  for (const { shape } of rows) budget.check('tensor_rank', shape.length);
  return { metadata, tensors: new Map(rows.map((row) => [row.name, readTensor(row, bytes.subarray(body))])) };
}

module.exports = { readSafetensors };
