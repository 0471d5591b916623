// Writes a copy of the decoder that contains all of its mutants, and the list of them:
//
//     node instrument.mjs NODE_MODULES SOURCE TARGET
//
// In the copy, each mutant is an alternative of the original expression. `globalThis.__stryker__.activeMutant` selects
// one. Standard output is a JSON array of the mutants.

import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, source, target] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(path.join(modules, '@stryker-mutator/instrumenter/dist/src', name)));
const { Instrumenter } = await load('index.js');
const { allMutators } = await load('mutators/index.js');

/** Not part of the format: the program around the decoder, and the tables of Unicode and of Python. */
const UNCHANGED = ['decode.js', 'case_folding.js', 'compat_pickle.js'];

/** Functions that refuse a file. Their arguments are messages for people. */
const REFUSALS = new Set([
  'containerFailure', 'dataFailure', 'pickleFailure', 'tensorFailure', 'limitExceeded', 'unsupported', 'missing', 'invalid',
  'fail',
]);

const messages = {
  shouldIgnore(node) {
    const { parent } = node;
    if (parent?.type === 'VariableDeclarator' && parent.id.name === 'quoted') return 'a part of a message';
    if (parent?.type !== 'CallExpression' || node.listKey !== 'arguments') return undefined;
    const name = parent.callee.name ?? parent.callee.property?.name;
    return REFUSALS.has(name) ? 'a message for people' : undefined;
  },
};

/** The start of the function that counts what is executed: counting takes most of the time. */
const COUNTER = /function stryCov_\w+\(\) \{/;

/** Stryker's mutators leave numbers alone, and a binary format consists of them. */
const numbers = {
  name: 'NumericLiteral',
  *mutate(node) {
    const isKey = node.parent.key === node.node && !node.parent.computed;
    if (isKey) return;
    if (node.isNumericLiteral()) yield { type: 'NumericLiteral', value: node.node.value + 1 };
    if (node.isBigIntLiteral()) yield { type: 'BigIntLiteral', value: String(BigInt(node.node.value) + 1n) };
  },
};
allMutators.push(numbers);

const logger = { debug() {}, info() {}, warn: console.error, error: console.error, isDebugEnabled: () => false };

function describeMutant(mutant, text) {
  const lines = text.split('\n');
  const { start, end } = mutant.location;
  const offset = ({ line, column }) => lines.slice(0, line).reduce((sum, part) => sum + part.length + 1, column);
  const shorten = (code) => code.replace(/\s+/g, ' ').slice(0, 100);
  return {
    id: mutant.id,
    file: path.relative(source, mutant.fileName),
    line: start.line + 1,
    column: start.column + 1,
    mutator: mutant.mutatorName,
    code: lines[start.line].trim(),
    original: shorten(text.slice(offset(start), offset(end))),
    replacement: shorten(mutant.replacement),
  };
}

const names = fs.readdirSync(source, { recursive: true }).filter((name) => name.endsWith('.js')).sort();
const files = names.map((name) => {
  const file = path.join(source, name);
  return { name: file, mutate: !UNCHANGED.includes(name), content: fs.readFileSync(file, 'utf8') };
});
const options = { plugins: null, excludedMutations: [], ignorers: [messages] };
const { files: written, mutants } = await new Instrumenter(logger).instrument(files, options);
for (const { name, content } of written) {
  const file = path.join(target, path.relative(source, name));
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, content.replace(COUNTER, (start) => `${start} if (!globalThis.__stryker__.isCounting) return;`));
}
const texts = new Map(files.map(({ name, content }) => [name, content]));
const rows = mutants.filter(({ status }) => status !== 'Ignored').map((one) => describeMutant(one, texts.get(one.fileName)));
process.stdout.write(JSON.stringify(rows));
