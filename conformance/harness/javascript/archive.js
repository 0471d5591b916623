'use strict';

// The forms of an archive and its entries (FORMAT.md 1).

const { inferAlgorithm } = require('./algorithm.js');
const { caseFold } = require('./case_folding.js');
const { decodeData, findBlob } = require('./data.js');
const { areEqual } = require('./equality.js');
const { containerFailure, missing, unsupported } = require('./errors.js');
const { Budget } = require('./limits.js');
const { Members } = require('./members.js');
const { checkPaths, quoted } = require('./names.js');
const { readWholePickle } = require('./opcodes.js');
const { asciiText } = require('./pickle_text.js');
const { decodeStateDict, isStateDict } = require('./pth.js');
const { sha256 } = require('./tags.js');
const { decodeSystemInfo, decodeVersion } = require('./texts.js');
const { predict } = require('./policy/predict.js');
const { describeReplayBuffer } = require('./replay_buffers.js');
const { readBundledStatistics } = require('./statistics/bundled.js');
const { readPickledStatistics } = require('./statistics/pickled.js');
const { describeStatistics } = require('./statistics/statistics.js');
const { printTree } = require('./tree.js');
const { openZip } = require('./zip.js');

const HEAD_BYTES = 512;
const MAGIC_BYTES = 32;
const LEGACY_MAGIC = Buffer.from('8a0a6cfc9c46f9206aa850192e', 'hex');
const HIGHEST_PROTOCOL = 5;
const LONE_STATE_DICT = 'policy.pth';
const DATA = 'data';
const VERSION = '_stable_baselines3_version';
const SYSTEM_INFO = 'system_info.txt';
const STATISTICS = ['vecnormalize.json', 'vecnormalize.safetensors'];
const TORCH_RECORDS = ['data.pkl', 'version', '.data/version', 'constants.pkl'];

/** Whether a file begins as a .safetensors: the size of a JSON header that fits in it, and the header's start. */
function isSafetensors(head, size) {
  if (!/^\{[^]{0,6}"/.test(head.toString('latin1', 8))) return false;
  const header = head.readBigUInt64LE();
  return header >= 2n && header + 8n <= BigInt(size);
}

/** The kind of a file, identified by its first bytes in the order of 1.1. */
function identifyFile(bytes) {
  const head = bytes.subarray(0, HEAD_BYTES);
  const text = head.toString('latin1');
  const trimmed = text.replace(/^[ \t\r\n]+/, '');
  if (head.length === 0) return 'empty';
  if (text.startsWith('PK\x03\x04')) return 'zip';
  if (isSafetensors(head, bytes.length)) return 'safetensors';
  if (head[0] === 0x80 && (head.length === 1 || head[1] <= HIGHEST_PROTOCOL)) {
    return head.subarray(0, MAGIC_BYTES).includes(LEGACY_MAGIC) ? 'legacy' : 'pickle';
  }
  if (text.startsWith('version https://git-lfs')) return 'lfs';
  if (/^(\xef\xbb\xbf)?\{/.test(trimmed)) return 'data';
  if (/^(<!doctype|<html)/i.test(trimmed)) return 'html';
  return /[^\x20-\xff\t\r\n\f]/.test(text) ? 'unknown' : 'text';
}

/** The kind of a valid zip, identified by its names. */
function identifyZip(names) {
  const [first] = names;
  const folder = first.slice(0, first.indexOf('/') + 1);
  const folded = new Set(names.map(caseFold));
  if (names.includes('parameters') && names.includes('parameter_list')) return 'sb2';
  if (names.includes(DATA) || names.includes(VERSION) || names.some(isStateDict)) return 'sb3';
  if (folder !== '' && TORCH_RECORDS.some((record) => folded.has(caseFold(folder + record)))) return 'pth';
  return names.every((name) => name.endsWith('.npy')) ? 'npz' : 'other';
}

const NOT_READ = new Map([
  ['empty', () => containerFailure('the file is empty')],
  ['html', () => containerFailure('an HTML page: the download failed')],
  ['text', () => containerFailure('a text, not an archive')],
  ['unknown', () => containerFailure('not an archive')],
  ['lfs', () => unsupported('a Git LFS pointer: fetch the file that it refers to')],
  ['safetensors', () => unsupported('a .safetensors file')],
  ['pickle', () => unsupported('a bare pickle: a replay buffer, VecNormalize statistics, or an SB2 agent')],
  ['sb2', () => unsupported('an archive of Stable Baselines 2')],
  ['npz', () => unsupported('a numpy npz file')],
  ['other', () => unsupported('a zip without data and .pth at its top level')],
]);

/** The form of a file and its entries: a map of names to functions that read the bytes. `zips`: the kinds that are archives. */
function openArchive(bytes, budget, zips = ['sb3']) {
  const kind = identifyFile(bytes);
  if (kind === 'data') return { form: 'data', entries: new Map([[DATA, () => bytes]]) };
  if (kind === 'legacy') return { form: 'pth', entries: new Map([[LONE_STATE_DICT, () => bytes]]) };
  if (kind === 'zip') return openArchiveZip(bytes, budget, zips);
  return NOT_READ.get(kind)();
}

function openArchiveZip(bytes, budget, zips) {
  const members = openZip(bytes, budget, 'inner_entries');
  const names = [...members.keys()];
  const kind = identifyZip(names);
  if (kind === 'pth') return { form: 'pth', entries: new Map([[LONE_STATE_DICT, () => bytes]]) };
  if (!zips.includes(kind)) return NOT_READ.get(kind)();
  budget.check('outer_entries', names.length);
  checkPaths(names);
  const reader = new Members(bytes, members, budget);
  return { form: 'zip', entries: new Map(names.map((name) => [name, () => reader.read(name, SIZE_LIMITS.get(name) ?? null)])) };
}

const SIZE_LIMITS = new Map([[VERSION, 'version_bytes'], [SYSTEM_INFO, 'system_info_bytes']]);

function decodeEntry(name, bytes, budget, options) {
  if (name === DATA) return decodeData(bytes, budget);
  if (isStateDict(name)) return decodeStateDict(bytes, budget, options);
  if (name === VERSION) return decodeVersion(bytes);
  if (name === SYSTEM_INFO) return decodeSystemInfo(bytes);
  return { size: bytes.length, sha256: sha256(bytes) };
}

function entryNamed(entries, name) {
  if (!entries.has(name)) missing(`there is no entry ${quoted(name)}`);
  return entries.get(name);
}

/** Settings and arrays of statistics: a pickle, or two entries of an archive (STATISTICS.md 17). */
function readStatistics(bytes, budget) {
  const kind = identifyFile(bytes);
  if (kind === 'pickle') return readPickledStatistics(bytes, budget);
  if (kind === 'data' || kind === 'legacy') unsupported('neither a pickle of statistics nor an archive');
  const { entries } = openArchive(bytes, budget, ['sb3', 'sb2']);
  const [settings, arrays] = STATISTICS.map((name) => entryNamed(entries, name));
  return readBundledStatistics(settings(), arrays(), budget);
}

/** The output of the protocol for an archive. */
function decodeArchive(bytes, budget, options) {
  if (options.statistics) return describeStatistics(readStatistics(bytes, budget), budget);
  if (options.replayBuffer && identifyFile(bytes) === 'pickle') return describeReplayBuffer(bytes, budget);
  const { form, entries } = openArchive(bytes, budget);
  if (options.equal !== null) {
    const second = new Budget(options.limits, options.equal.length);
    return { equal: areEqual([entries, budget], [openArchive(options.equal, second).entries, second], options) };
  }
  if (options.replayBuffer) unsupported('an archive, not the pickle of a replay buffer');
  if (options.algorithm) return inferAlgorithm(entries, budget);
  if (options.predict !== null) return predict(entries, options, budget);
  if (options.blob !== null) {
    const pickle = findBlob(entryNamed(entries, DATA)(), options.blob, budget);
    return printTree(readWholePickle(pickle, budget, asciiText));
  }
  if (options.entry !== null) entryNamed(entries, options.entry);
  const wanted = options.entry === null ? [...entries.keys()] : [options.entry];
  return { form, entries: wanted.map((name) => [name, decodeEntry(name, entries.get(name)(), budget, options)]) };
}

module.exports = { decodeArchive };
