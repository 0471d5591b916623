'use strict';

// Runs vectors against the decoder that instrument.mjs wrote, all in one process:
//
//     node worker.js DECODER VECTORS              prints the baseline: of the decoder without a mutant
//     node worker.js DECODER VECTORS BASELINE     answers each line of standard input with a line
//
// VECTORS is a file with a JSON array of requests of the batch protocol. The baseline has the answers, the time of each
// vector, and the mutants that each vector reaches. A line of standard input names a mutant and the vectors to run:
//
//     {"mutant": "5", "vectors": [3, 8]}
//
// Before the first line it prints {}. The answer is the first vector whose answer differs from the baseline, or {"vector": null}. The decoder's modules are
// loaded again for a mutant of what runs when they are loaded, and after a mutant that changed what they keep.

const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');

const HITS_ALLOWED = 100000;
const TIMES_ALLOWED = 10;

const [decoder, list, known] = process.argv.slice(2);
const readJson = (file) => JSON.parse(fs.readFileSync(file, 'utf8'));
const vectors = readJson(list).map((row) => ({ ...row, bytes: Buffer.from(row.base64, 'base64') }));
const namespace = {};
globalThis.__stryker__ = namespace;

function loadDecoder() {
  for (const name of Object.keys(require.cache)) {
    if (name.startsWith(path.dirname(decoder))) delete require.cache[name];
  }
  return require(decoder).respond;
}

/** The answer to a vector. Messages are for people. */
function answer(respond, { bytes, arguments: words }) {
  const { code, text = null } = respond(bytes, words);
  return { code, text: code === 1 ? JSON.parse(text).outcome : text };
}

function makeBaseline() {
  const plain = loadDecoder();
  const answers = [];
  const times = vectors.map((vector) => {
    const start = performance.now();
    answers.push(answer(plain, vector));
    return performance.now() - start;
  });
  namespace.isCounting = true;
  const counting = loadDecoder();
  vectors.forEach((vector, index) => {
    namespace.currentTestId = String(index);
    answer(counting, vector);
  });
  const reached = {};
  const hits = {};
  for (const [index, counts] of Object.entries(namespace.mutantCoverage.perTest)) {
    for (const [id, count] of Object.entries(counts)) {
      (reached[id] ??= []).push(Number(index));
      hits[id] = Math.max(hits[id] ?? 0, count);
    }
  }
  return { answers, times, atLoad: Object.keys(namespace.mutantCoverage.static), reached, hits };
}

const isSame = (one, other) => one.code === other.code && one.text === other.text;

/** Activate a mutant, or none. A loop that no longer ends exceeds the limit of hits. */
function activate(mutant, hits = 0) {
  Object.assign(namespace, { activeMutant: mutant, hitCount: 0, hitLimit: HITS_ALLOWED + TIMES_ALLOWED * hits });
}

function findDifference(respond, { answers }, indexes) {
  for (const index of indexes) {
    namespace.hitCount = 0;
    const found = answer(respond, vectors[index]);
    if (!isSame(found, answers[index])) return { vector: index, ...found };
  }
  return { vector: null };
}

/** The decoder that was loaded without a mutant; null if a mutant may have changed what its modules keep. */
let loaded = null;

function runOnce(respond, baseline, { mutant, vectors: indexes }) {
  activate(mutant, baseline.hits[mutant]);
  const found = findDifference(respond, baseline, indexes);
  activate(null);
  return found;
}

function runMutant(baseline, request) {
  if (baseline.atLoad.includes(request.mutant)) {
    activate(request.mutant);
    return runOnce(loadDecoder(), baseline, request);
  }
  for (;;) {
    const isNew = loaded === null;
    loaded ??= loadDecoder();
    const found = runOnce(loaded, baseline, request);
    const { vector } = found;
    if (vector === null || isSame(answer(loaded, vectors[vector]), baseline.answers[vector])) return found;
    loaded = null;
    if (isNew) return found; // otherwise an earlier mutant may be the cause
  }
}

function respondTo(baseline, line) {
  try {
    return runMutant(baseline, JSON.parse(line));
  } catch (error) {
    activate(null);
    loaded = null;
    return { crash: String(error).slice(0, 200) };
  }
}

if (known === undefined) {
  process.stdout.write(JSON.stringify(makeBaseline()));
} else {
  const baseline = readJson(known);
  process.stdout.write('{}\n'); // ready
  readline.createInterface({ input: process.stdin }).on('line', (line) => {
    process.stdout.write(`${JSON.stringify(respondTo(baseline, line))}\n`);
  });
}
