#!/usr/bin/env node
'use strict';

// The decoder of conformance/README.md: one file on standard input, one JSON text on standard output. Exit
// codes: 0 accepted, 1 refused, 2 wrong arguments, 70 a fault of this program.

const fs = require('node:fs');
const { decodeArchive } = require('./archive.js');
const { Refusal } = require('./errors.js');
const { Budget, DEFAULTS } = require('./limits.js');
const { printJson } = require('./tags.js');

const EXIT_REFUSED = 1;
const EXIT_USAGE = 2;
const EXIT_FAULT = 70;

function usage(message) {
  process.stderr.write(`${message}\nusage: decode.js [--entry NAME] [--blob KEY] [--limit NAME=VALUE]... [--unchecked-crc] [--predict FILE]\n`);
  process.exit(EXIT_USAGE);
}

function readLimit(text, limits) {
  const [, name, value] = /^([a-z_]+)=([0-9]+)$/.exec(text) ?? usage(`--limit ${text}`);
  if (!DEFAULTS.has(name)) usage(`unknown limit ${name}`);
  limits.set(name, Number(value));
}

function parseArguments(words) {
  const options = { entry: null, blob: null, limits: new Map(), unchecked: false, predict: null };
  const given = [...words];
  const next = () => (given.length > 0 ? given.shift() : usage('an argument lacks its value'));
  while (given.length > 0) {
    const word = given.shift();
    if (word === '--entry') options.entry = next();
    else if (word === '--blob') options.blob = next();
    else if (word === '--limit') readLimit(next(), options.limits);
    else if (word === '--unchecked-crc') options.unchecked = true;
    else if (word === '--predict') options.predict = JSON.parse(fs.readFileSync(next(), 'utf8'));
    else usage(`unknown argument ${word}`);
  }
  return options;
}

/** The result as [exit code, output]. */
function answer(bytes, options) {
  try {
    return [0, decodeArchive(bytes, new Budget(options.limits, bytes.length), options)];
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return [EXIT_REFUSED, { outcome: error.outcome, message: error.message.slice(0, 2048) }];
  }
}

function main() {
  const options = parseArguments(process.argv.slice(2));
  try {
    const [code, printed] = answer(fs.readFileSync(0), options);
    process.exitCode = code;
    process.stdout.write(`${printJson(printed)}\n`);
  } catch (error) {
    process.stderr.write(`${error.stack}\n`);
    process.exitCode = EXIT_FAULT;
  }
}

main();
