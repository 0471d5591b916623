'use strict';

// The bytes of members (FORMAT.md 2.5).

const zlib = require('node:zlib');
const { crc32 } = require('./bytes.js');
const { containerFailure } = require('./errors.js');
const { quoted } = require('./names.js');
const { STORED } = require('./zip.js');

/** Inflate one raw deflate stream, which must end with its bytes and produce exactly `size` bytes. */
function inflate(compressed, size) {
  try {
    // Output beyond the declared size is never produced.
    const { buffer, engine } = zlib.inflateRawSync(compressed, { maxOutputLength: Math.max(size, 1), info: true });
    return engine.bytesWritten === compressed.length && buffer.length === size ? buffer : null;
  } catch (error) {
    if (error.code === 'ERR_BUFFER_TOO_LARGE' || /^Z_/.test(error.code)) return null;
    throw error;
  }
}

/** Reads the members of a zip. A stored member is a view, so only inflation is charged. */
class Members {
  constructor(bytes, members, budget, { unchecked = false } = {}) {
    this.bytes = bytes;
    this.members = members;
    this.budget = budget;
    this.unchecked = unchecked;
  }

  has(name) {
    return this.members.has(name);
  }

  sizeOf(name) {
    return this.members.get(name).size;
  }

  read(name, sizeLimit = null) {
    const member = this.members.get(name);
    if (sizeLimit !== null) this.budget.check(sizeLimit, member.size);
    const content = this.content(member);
    if (!this.unchecked && crc32(content) !== member.crc) containerFailure(`the CRC of ${quoted(name)} is wrong`);
    return content;
  }

  content(member) {
    const view = this.bytes.subarray(member.start, member.stop);
    if (member.method === STORED) return view;
    this.budget.chargeInflation(Number(member.size), view.length);
    const content = inflate(view, Number(member.size));
    if (content === null) containerFailure(`${quoted(member.name)} does not inflate to its size`);
    return content;
  }
}

/** Whether torch wrote the zip without CRCs: all are 0 although members have content. */
function lacksChecksums(members) {
  const all = [...members.values()];
  return all.every((member) => member.crc === 0) && all.some((member) => member.size > 0n);
}

module.exports = { Members, lacksChecksums };
