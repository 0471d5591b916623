'use strict';

// State dicts (FORMAT.md 6): the torch zip; distinguishes it from the legacy stream.

const { decodeUtf8 } = require('./bytes.js');
const { caseFold } = require('./case_folding.js');
const { containerFailure, tensorFailure, unsupported } = require('./errors.js');
const { decodeLegacy } = require('./legacy.js');
const { Members, lacksChecksums } = require('./members.js');
const { readWholePickle } = require('./opcodes.js');
const { utf8Text } = require('./pickle_text.js');
const { checkRecords, quoted } = require('./names.js');
const { Storage, Storages } = require('./storages.js');
const { Values } = require('./values.js');
const { openZip } = require('./zip.js');

const ID_LENGTH = 5;
const RESERVED = [
  'data.pkl', 'version', '.data/version', 'byteorder', 'constants.pkl', '.format_version', '.storage_alignment',
  '.data/serialization_id',
];
const VERSION = /^[0-9]{1,2}\n?$/;
const HIGHEST_VERSION = 10;
const TAR_MAGIC_AT = 257;

/** The folder that contains all records (6.1). */
function folderOf(members) {
  const [first] = members.keys();
  const folder = first.slice(0, first.indexOf('/') + 1);
  if (folder === '') tensorFailure('a torch zip without a folder');
  for (const name of members.keys()) {
    if (!name.startsWith(folder)) tensorFailure(`${quoted(name)} is outside the folder of the others`);
  }
  return folder;
}

/** torch looks up records without regard to case, so case must make no difference. */
function checkCases(names) {
  const folded = new Set();
  for (const name of names) {
    const key = caseFold(name);
    if (folded.has(key)) tensorFailure('two records differ only in case');
    folded.add(key);
    if (RESERVED.includes(key) && name !== key) tensorFailure(`${quoted(name)} is in the wrong case`);
  }
}

class TorchZip {
  constructor(bytes, budget, { unchecked }) {
    this.budget = budget;
    const members = openZip(bytes, budget, 'inner_entries');
    checkRecords([...members.keys()]);
    this.folder = folderOf(members);
    checkCases([...members.keys()].map((name) => name.slice(this.folder.length)));
    const lacking = lacksChecksums(members);
    if (lacking && !unchecked) containerFailure('all CRCs are 0; --unchecked-crc reads it');
    this.members = new Members(bytes, members, budget, { unchecked: lacking });
  }

  has(record) {
    return this.members.has(this.folder + record);
  }

  read(record, sizeLimit) {
    return this.members.read(this.folder + record, sizeLimit);
  }

  checkVersion() {
    const record = ['version', '.data/version'].find((name) => this.has(name));
    if (record === undefined) tensorFailure('there is no version');
    const text = decodeUtf8(this.read(record, 'version_bytes'));
    const number = VERSION.test(text ?? '') ? Number(text) : 0;
    if (number < 1 || number > HIGHEST_VERSION) tensorFailure('unknown version of the torch zip');
  }

  isBigEndian() {
    if (!this.has('byteorder')) return false;
    const text = decodeUtf8(this.read('byteorder', 'version_bytes'));
    if (text !== 'little' && text !== 'big') tensorFailure('unknown byte order');
    return text === 'big';
  }

  decode() {
    if (this.has('constants.pkl')) unsupported('TorchScript, which torch.jit.load reads');
    if (!this.has('data.pkl')) tensorFailure('there is no data.pkl');
    this.checkVersion();
    const isBigEndian = this.isBigEndian();
    const pickle = this.read('data.pkl', 'pickle_bytes');
    const machine = readWholePickle(pickle, this.budget, utf8Text);
    if (machine.flags.size > 0) tensorFailure(`the pickle has the flags ${[...machine.flags]}`);
    const storages = new Storages(ID_LENGTH, (id) => this.openStorage(id, isBigEndian));
    storages.check(machine.discarded);
    return new Values(storages, this.budget, pickle.length).decode(machine.result);
  }

  openStorage({ key, dtype, numel }, isBigEndian) {
    const record = `data/${key}`;
    if (!this.has(record)) tensorFailure(`there is no record ${quoted(record)}`);
    const size = this.members.sizeOf(this.folder + record);
    if (numel * BigInt(dtype?.size ?? 1) !== BigInt(size)) {
      tensorFailure(`the storage ${quoted(key)} has ${size} bytes, and should have ${numel} items`);
    }
    return new Storage(dtype, Number(size), () => this.read(record, null), isBigEndian);
  }
}

/** Decode a state dict to a tagged value. */
function decodeStateDict(bytes, budget, options) {
  if (bytes.subarray(0, 4).toString('latin1') === 'PK\x03\x04') return new TorchZip(bytes, budget, options).decode();
  if (bytes[0] === 0x80) return decodeLegacy(bytes, budget);
  if (bytes.subarray(TAR_MAGIC_AT, TAR_MAGIC_AT + 5).toString('latin1') === 'ustar') {
    unsupported('a tar of torch before 0.1.10, which torch.load reads');
  }
  return tensorFailure('a state dict is neither a zip nor a legacy stream');
}

/** Whether an entry with this name is a state dict (1.2). */
const isStateDict = (name) => name.endsWith('.pth') && name !== '.pth' && !name.includes('/');

module.exports = { decodeStateDict, isStateDict };
