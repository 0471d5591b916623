'use strict';

// The zip layer (FORMAT.md 2), for the archive and for each torch zip in it.

const { containerFailure } = require('./errors.js');
const { decodeName, quoted } = require('./names.js');

const LOCAL_SIGNATURE = 0x04034b50;
const CENTRAL_SIGNATURE = 0x02014b50;
const DESCRIPTOR_SIGNATURE = 0x08074b50;
const END_SIGNATURE = Buffer.from('PK\x05\x06', 'latin1');
const LOCATOR_SIGNATURE = 0x07064b50;
const RECORD_SIGNATURE = 0x06064b50;

const END_BYTES = 22;
const LOCATOR_BYTES = 20;
const RECORD_BYTES = 56;
const CENTRAL_BYTES = 46;
const LOCAL_BYTES = 30;
const SENTINEL16 = 0xffff;
const SENTINEL32 = 0xffffffff;

const FLAG_DESCRIPTOR = 0x8;
const KNOWN_FLAGS = 0x2 | 0x4 | FLAG_DESCRIPTOR | 0x800;
const STORED = 0;
const DEFLATED = 8;

const ID_ZIP64 = 0x0001;
const ID_PADDING = 0x4246;
const ID_UNICODE_PATH = 0x7075;

// Sizes and offsets are bigints until it is known that they are within the file.
const u4 = (bytes, at) => BigInt(bytes.readUInt32LE(at));
const u8 = (bytes, at) => bytes.readBigUInt64LE(at);

/** Offset of the end record: the last signature, whose comment ends the file (2.1). */
function findEnd(bytes) {
  const at = bytes.lastIndexOf(END_SIGNATURE);
  if (at < 0) containerFailure('there is no end record');
  if (at + END_BYTES > bytes.length || at + END_BYTES + bytes.readUInt16LE(at + 20) !== bytes.length) {
    containerFailure('the end record does not end the file');
  }
  if (bytes.readUInt16LE(at + 4) !== 0 || bytes.readUInt16LE(at + 6) !== 0) containerFailure('the zip has several disks');
  if (bytes.readUInt16LE(at + 8) !== bytes.readUInt16LE(at + 10)) containerFailure('the end record has two different counts of entries');
  return at;
}

/** The zip64 record before the locator (2.2), or null without one. */
function zip64Record(bytes, end) {
  const locator = end - LOCATOR_BYTES;
  if (locator < 0 || bytes.readUInt32LE(locator) !== LOCATOR_SIGNATURE) return null;
  const at = locator - RECORD_BYTES;
  if (bytes.readUInt32LE(locator + 4) !== 0 || u8(bytes, locator + 8) !== BigInt(at)
      || bytes.readUInt32LE(locator + 16) > 1) {
    containerFailure('the zip64 locator is wrong');
  }
  if (bytes.readUInt32LE(at) !== RECORD_SIGNATURE || u8(bytes, at + 4) !== 44n
      || bytes.readUInt32LE(at + 16) !== 0 || bytes.readUInt32LE(at + 20) !== 0
      || u8(bytes, at + 24) !== u8(bytes, at + 32)) {
    containerFailure('the zip64 end record is wrong');
  }
  return { at, count: u8(bytes, at + 32), size: u8(bytes, at + 40), start: u8(bytes, at + 48) };
}

/** Offset and size of the directory, and the number of entries. */
function findDirectory(bytes, budget, countLimit) {
  const end = findEnd(bytes);
  const fields = [
    ['count', BigInt(bytes.readUInt16LE(end + 10)), BigInt(SENTINEL16)],
    ['size', u4(bytes, end + 12), BigInt(SENTINEL32)],
    ['start', u4(bytes, end + 16), BigInt(SENTINEL32)],
  ];
  const record = zip64Record(bytes, end);
  const directory = record ?? { at: end };
  for (const [name, value, sentinel] of fields) {
    if (record === null) {
      if (value === sentinel) containerFailure('a sentinel without a zip64 record');
      directory[name] = value;
    } else if (value !== sentinel && value !== record[name]) {
      containerFailure('the end record contradicts the zip64 record');
    }
  }
  const { at, count, size, start } = directory;
  if (start + size !== BigInt(at)) containerFailure('the directory does not end at the end record');
  if (count < 1n) containerFailure('there are no entries');
  if (count * BigInt(CENTRAL_BYTES) > size) containerFailure('the directory is too small for its count');
  budget.check('directory_bytes', size);
  budget.check(countLimit, count);
  return { start: Number(start), stop: at, count: Number(count) };
}

/** Check the extra fields of a header. Returns a map by id (2.4). */
function readExtra(bytes, nameBytes) {
  const fields = new Map();
  let at = 0;
  while (at < bytes.length) {
    if (at + 4 > bytes.length) containerFailure('an extra field is truncated');
    const id = bytes.readUInt16LE(at);
    const stop = at + 4 + bytes.readUInt16LE(at + 2);
    if (stop > bytes.length) containerFailure('an extra field is truncated');
    if (fields.has(id) && id !== ID_PADDING) containerFailure('an extra field occurs twice');
    fields.set(id, bytes.subarray(at + 4, stop));
    at = stop;
  }
  const path = fields.get(ID_UNICODE_PATH);
  if (path !== undefined && !path.subarray(5).equals(nameBytes)) {
    containerFailure('the Unicode path differs from the name');
  }
  return fields;
}

/** Sizes and offset of a directory record, from the zip64 extra field if they are sentinels (2.3). */
function centralSizes(bytes, at, extra) {
  const values = { size: u4(bytes, at + 24), compressed: u4(bytes, at + 20), offset: u4(bytes, at + 42) };
  const wanted = Object.keys(values).filter((name) => values[name] === BigInt(SENTINEL32));
  const zip64 = extra.get(ID_ZIP64);
  if ((zip64?.length ?? 0) !== wanted.length * 8 || (zip64 !== undefined && wanted.length === 0)) {
    containerFailure('the zip64 extra field does not match the sentinels');
  }
  wanted.forEach((name, index) => { values[name] = u8(zip64, index * 8); });
  return values;
}

/** The file type must be that of a regular file, or of a folder if the name ends with a slash (2.6). */
function checkType(member, attributes) {
  const type = attributes >>> 28;
  const isFolder = member.name.endsWith('/');
  if (isFolder && (member.size !== 0n || member.compressed !== 0n)) containerFailure('a folder has content');
  if (type !== 0 && type !== (isFolder ? 4 : 8)) containerFailure(`${quoted(member.name)} is not a regular file`);
  if (!isFolder && (attributes & 0x10) !== 0) containerFailure(`${quoted(member.name)} has the attributes of a folder`);
}

/** Read one record of the directory. Returns [member, offset of the next record]. */
function readCentral(bytes, at, stop) {
  if (at + CENTRAL_BYTES > stop || bytes.readUInt32LE(at) !== CENTRAL_SIGNATURE) {
    containerFailure('a directory record is truncated or has no signature');
  }
  const nameStop = at + CENTRAL_BYTES + bytes.readUInt16LE(at + 28);
  const extraStop = nameStop + bytes.readUInt16LE(at + 30);
  const next = extraStop + bytes.readUInt16LE(at + 32);
  if (next > stop) containerFailure('a directory record extends past the directory');
  const nameBytes = bytes.subarray(at + CENTRAL_BYTES, nameStop);
  const member = {
    nameBytes,
    name: decodeName(nameBytes),
    flags: bytes.readUInt16LE(at + 8),
    method: bytes.readUInt16LE(at + 10),
    crc: bytes.readUInt32LE(at + 16),
    ...centralSizes(bytes, at, readExtra(bytes.subarray(nameStop, extraStop), nameBytes)),
  };
  if ((member.flags & ~KNOWN_FLAGS) !== 0) containerFailure('unknown flags');
  if (member.method !== STORED && member.method !== DEFLATED) containerFailure('unknown method');
  if (member.method === STORED && member.size !== member.compressed) containerFailure('the two sizes of a stored member differ');
  if (bytes.readUInt16LE(at + 34) !== 0) containerFailure('the zip has several disks');
  checkType(member, bytes.readUInt32LE(at + 38));
  return [member, next];
}

function readDirectory(bytes, directory) {
  const members = new Map();
  let at = directory.start;
  for (let i = 0; i < directory.count; i += 1) {
    const [member, next] = readCentral(bytes, at, directory.stop);
    if (members.has(member.name)) containerFailure(`two members have the name ${quoted(member.name)}`);
    members.set(member.name, member);
    at = next;
  }
  if (at !== directory.stop) containerFailure('the directory contains bytes after its records');
  return members;
}

/** Sizes of a local header, after its zip64 extra field is applied or checked (2.4). */
function localSizes(bytes, at, extra, member) {
  const sizes = { compressed: u4(bytes, at + 18), size: u4(bytes, at + 22) };
  const bothSentinels = sizes.compressed === BigInt(SENTINEL32) && sizes.size === BigInt(SENTINEL32);
  const zip64 = extra.get(ID_ZIP64);
  const room = zip64?.length ?? 0;
  if (zip64 !== undefined && ![8, 16, 24].includes(room)) containerFailure('a zip64 extra field has an invalid size');
  if (room % 16 === 8 && u8(zip64, room - 8) !== member.offset) containerFailure('a zip64 extra field has another offset');
  if (room < 16) return sizes;
  const extended = { size: u8(zip64, 0), compressed: u8(zip64, 8) };
  if (bothSentinels) return extended;
  const mayBeZero = (member.flags & FLAG_DESCRIPTOR) !== 0;
  for (const name of ['size', 'compressed']) {
    if (extended[name] !== member[name] && !(mayBeZero && extended[name] === 0n)) {
      containerFailure('a redundant zip64 extra field contradicts the directory');
    }
  }
  return sizes;
}

/** Check one local header against the directory. Returns the offset of the member's bytes. */
function readLocal(bytes, at, member, stop) {
  if (at + LOCAL_BYTES > stop || bytes.readUInt32LE(at) !== LOCAL_SIGNATURE) containerFailure('a local header has no signature');
  const nameStop = at + LOCAL_BYTES + bytes.readUInt16LE(at + 26);
  const start = nameStop + bytes.readUInt16LE(at + 28);
  if (start > stop) containerFailure('a local header is truncated');
  if (!bytes.subarray(at + LOCAL_BYTES, nameStop).equals(member.nameBytes)
      || bytes.readUInt16LE(at + 6) !== member.flags || bytes.readUInt16LE(at + 8) !== member.method) {
    containerFailure('a local header contradicts the directory');
  }
  const extra = readExtra(bytes.subarray(nameStop, start), member.nameBytes);
  const { size, compressed } = localSizes(bytes, at, extra, member);
  const mayBeZero = (member.flags & FLAG_DESCRIPTOR) !== 0;
  const pairs = [[BigInt(bytes.readUInt32LE(at + 14)), BigInt(member.crc)], [size, member.size], [compressed, member.compressed]];
  if (!pairs.every(([local, central]) => local === central || (mayBeZero && local === 0n))) {
    containerFailure('CRC or sizes of a local header contradict the directory');
  }
  return start;
}

/** Whether the bytes from `at` to `stop` are exactly the descriptor of `member`. */
function isDescriptor(bytes, at, stop, member) {
  const room = stop - at;
  if (room !== 16 && room !== 24) return false;
  const read = room === 16 ? u4 : u8;
  return bytes.readUInt32LE(at) === DESCRIPTOR_SIGNATURE && bytes.readUInt32LE(at + 4) === member.crc
    && read(bytes, at + 8) === member.compressed && read(bytes, at + (room === 16 ? 12 : 16)) === member.size;
}

/** Check that the local headers tile the file up to the directory (2.4). */
function checkTiling(bytes, members, directoryStart) {
  const sorted = [...members.values()].sort((a, b) => Number(a.offset - b.offset));
  if (sorted[0].offset !== 0n) containerFailure('the first member is not at the start');
  sorted.forEach((member, index) => {
    const next = sorted[index + 1]?.offset ?? BigInt(directoryStart);
    const stop = Number(next);
    member.start = readLocal(bytes, Number(member.offset), member, stop);
    member.stop = member.start + Number(member.compressed);
    const closed = (member.flags & FLAG_DESCRIPTOR) !== 0
      ? isDescriptor(bytes, member.stop, stop, member) : member.stop === stop;
    if (!closed) containerFailure(`unexpected bytes follow ${quoted(member.name)}`);
  });
}

/** A map of name to member, in the order of the directory. The file starts with the signature of a local header. */
function openZip(bytes, budget, countLimit) {
  const directory = findDirectory(bytes, budget, countLimit);
  const members = readDirectory(bytes, directory);
  checkTiling(bytes, members, directory.start);
  return members;
}

module.exports = { STORED, openZip };
