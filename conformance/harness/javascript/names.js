'use strict';

// Names of members (FORMAT.md 2.6).

const { SPACE, decodeUtf8 } = require('./bytes.js');
const { caseFold } = require('./case_folding.js');
const { containerFailure } = require('./errors.js');

const MAX_NAME_BYTES = 1024;
const CONTROLS = /[\u0000-\u001f\u007f-\u009f]/;
const LINES_AND_BIDI = /[\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
const DEVICE = new RegExp(`^(con|prn|aux|nul|conin\\$|conout\\$|(com|lpt)[0-9¹²³])${SPACE}*(\\.[^]*)?$`, 'iu');

const quoted = (text) => JSON.stringify(text.slice(0, 200));

/** Decode a name, and check the rules for all zips. */
function decodeName(bytes) {
  if (bytes.length < 1 || bytes.length > MAX_NAME_BYTES) containerFailure(`a name has ${bytes.length} bytes`);
  const name = decodeUtf8(bytes);
  if (name === null) containerFailure('a name is not UTF-8');
  if (CONTROLS.test(name) || LINES_AND_BIDI.test(name)) containerFailure(`the name ${quoted(name)} contains control characters`);
  return name;
}

function checkPart(part, name) {
  if (part === '' || /[. ]$/.test(part)) { // the parts . and .. end with a dot, too
    containerFailure(`a part of the name ${quoted(name)} is empty, or ends with a dot or a space`);
  }
  if (DEVICE.test(part)) containerFailure(`a part of the name ${quoted(name)} is a Windows device name`);
}

function checkPath(path, name) {
  if (/[\\:]/.test(path) || path.startsWith('/')) containerFailure(`the name ${quoted(name)} is not a plain path`);
  const inner = path.endsWith('/') ? path.slice(0, -1) : path;
  for (const part of inner.split('/')) checkPart(part, name);
}

const foldPath = (name) => caseFold(name.normalize('NFKC')).normalize('NFKC');

/** The folders that contain a path, without a slash at the end: `a` and `a/b` for `a/b/c`, `a` for the folder `a/` itself. */
const foldersOf = (path) => [...path.matchAll(/\//g)].map(({ index }) => path.slice(0, index));

/** Check the path rules, for the names of an SB3 archive. */
function checkPaths(names) {
  for (const name of names) {
    checkPath(name, name);
    checkPath(name.normalize('NFKC'), name);
  }
  const folded = new Set(names.map(foldPath));
  if (folded.size !== names.length) containerFailure('two names differ only in case or normalization');
  for (const path of folded) {
    for (const folder of foldersOf(path)) {
      if (folded.has(folder)) containerFailure(`${quoted(folder)} is a file and a folder`);
    }
  }
}

const STRAY_PARTS = /^\/|^[A-Za-z]:|\\|\/\/|(^|\/)\.\.?(\/|$)/;

/** Check the rules for the records of a torch zip. */
function checkRecords(names) {
  for (const name of names) {
    if (STRAY_PARTS.test(name) || STRAY_PARTS.test(name.normalize('NFKC'))) {
      containerFailure(`the record ${quoted(name)} leads out of its folder`);
    }
  }
}

module.exports = { checkPaths, checkRecords, decodeName, quoted };
