#!/usr/bin/env node
'use strict';

// The decoder of conformance/README.md: one file on standard input and one JSON text on standard output, or
// many files in one process (--batch). Exit codes: 0 accepted, 1 refused, 2 wrong arguments, 70 a fault of
// this program. A single run and each request of a batch call `respond`.

const fs = require('node:fs');
const { decodeArchive } = require('./archive.js');
const { Refusal } = require('./errors.js');
const { Budget, DEFAULTS } = require('./limits.js');

const EXIT_REFUSED = 1;
const EXIT_USAGE = 2;
const EXIT_FAULT = 70;

const USAGE =
  'decode.js [--entry NAME] [--blob KEY] [--limit NAME=VALUE]... [--unchecked-crc] ' +
  '[--algorithm | --equal FILE | --predict FILE | --replay-buffer | --statistics] | --batch';
const CHUNK_BYTES = 1 << 16;
const NEWLINE = 0x0a;

/** An argument that this decoder does not know, or whose value is malformed. */
class WrongArguments extends Error {}

function usage(message) {
  throw new WrongArguments(message);
}

function readLimit(text, limits) {
  const [, name, value] = /^([a-z_]+)=([0-9]+)$/.exec(text) ?? usage(`--limit ${text}`);
  if (!DEFAULTS.has(name)) usage(`unknown limit ${name}`);
  limits.set(name, Number(value));
}

function parseArguments(words) {
  const options = {
    entry: null, blob: null, limits: new Map(), unchecked: false,
    algorithm: false, equal: null, predict: null, replayBuffer: false, statistics: false,
  };
  const given = [...words];
  const next = () => (given.length > 0 ? given.shift() : usage('an argument lacks its value'));
  while (given.length > 0) {
    const word = given.shift();
    if (word === '--entry') options.entry = next();
    else if (word === '--blob') options.blob = next();
    else if (word === '--equal') options.equal = fs.readFileSync(next());
    else if (word === '--limit') readLimit(next(), options.limits);
    else if (word === '--unchecked-crc') options.unchecked = true;
    else if (word === '--algorithm') options.algorithm = true;
    else if (word === '--replay-buffer') options.replayBuffer = true;
    else if (word === '--statistics') options.statistics = true;
    else if (word === '--predict') options.predict = JSON.parse(fs.readFileSync(next(), 'utf8'));
    else usage(`unknown argument ${word}`);
  }
  return options;
}

/** The exit code of a single run on one file, and what it prints: an object, or a message if the code is neither 0 nor 1. */
function respond(bytes, words) {
  try {
    const options = parseArguments(words);
    return { code: 0, text: JSON.stringify(decodeArchive(bytes, new Budget(options.limits, bytes.length), options)) };
  } catch (error) {
    if (error instanceof Refusal) return { code: EXIT_REFUSED, text: JSON.stringify({ outcome: error.outcome, message: error.message.slice(0, 2048) }) };
    if (error instanceof WrongArguments) return { code: EXIT_USAGE, message: error.message };
    process.stderr.write(`${error.stack}\n`);
    return { code: EXIT_FAULT, message: String(error).slice(0, 2048) };
  }
}

/** The response to one line of a batch. */
function respondToRequest(line) {
  let bytes;
  let words;
  try {
    const request = JSON.parse(line);
    bytes = 'base64' in request ? Buffer.from(request.base64, 'base64') : fs.readFileSync(request.file);
    words = request.arguments;
  } catch (error) {
    return { code: EXIT_FAULT, message: `the request cannot be read: ${error.message}` };
  }
  return respond(bytes, words);
}

function writeAll(text) {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length;) at += fs.writeSync(1, bytes, at);
}

/** The lines of standard input. */
function* readLines() {
  let parts = [];
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (let size = fs.readSync(0, chunk); size > 0; size = fs.readSync(0, chunk)) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0 && end < size; end = chunk.indexOf(NEWLINE, start)) {
      yield Buffer.concat([...parts, chunk.subarray(start, end)]).toString('utf8');
      parts = [];
      start = end + 1;
    }
    if (start < size) parts.push(Buffer.from(chunk.subarray(start, size)));
  }
  if (parts.length > 0) yield Buffer.concat(parts).toString('utf8');
}

/** Answer each line of standard input with a line. */
function runBatch() {
  for (const line of readLines()) {
    const { code, text, message } = respondToRequest(line);
    writeAll(text === undefined ? `${JSON.stringify({ code, message })}\n` : `{"code": ${code}, "answer": ${text}}\n`);
  }
}

function main() {
  const words = process.argv.slice(2);
  if (words.length === 1 && words[0] === '--batch') {
    runBatch();
    return;
  }
  const { code, text, message } = respond(fs.readFileSync(0), words);
  process.exitCode = code;
  if (text !== undefined) process.stdout.write(`${text}\n`);
  else if (code === EXIT_USAGE) process.stderr.write(`${message}\nusage: ${USAGE}\n`);
}

if (require.main === module) main();

module.exports = { respond };
