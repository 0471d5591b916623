// Compile the JSON Schemas with ajv in strict mode, and check files that each has to accept or refuse.
//
//     node ajv_strict.mjs NODE_MODULES ROOT FOLDER
//
// NODE_MODULES has the packages ajv and ajv-formats, ROOT is the repository, and FOLDER is what schema/schemastore.py
// writes. One line for each complaint is printed, and the exit code is 1 if there is one.

import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const [modules, root, folder] = process.argv.slice(2).map((one) => path.resolve(one));
const require = createRequire(path.join(modules, 'package.json'));
const Ajv = require('ajv/dist/2020').default;
const addFormats = require('ajv-formats').default;

const FOLDERS = ['schema', 'schema/tables', 'conformance'];
const STRICT = { strict: true, strictTypes: true, strictTuple: true, strictRequired: true };
const readJson = (file) => JSON.parse(fs.readFileSync(file, 'utf8'));
const listFiles = (directory, ending) => fs.readdirSync(directory).filter((name) => name.endsWith(ending)).map((name) => path.join(directory, name));

const complaints = [];
const schemas = FOLDERS.flatMap((name) => listFiles(path.join(root, name), '.schema.json'));
for (const file of schemas) {
  const ajv = new Ajv({ ...STRICT, allErrors: true, logger: false });
  addFormats(ajv);
  const schema = readJson(file);
  const compile = (pointer) => {
    try {
      return ajv.compile({ $ref: `${schema.$id}#${pointer}` });
    } catch (error) {
      complaints.push(`${file}#${pointer}: ${error.message}`);
      return null;
    }
  };
  ajv.addSchema(schema);
  const validate = compile('');
  for (const definition of Object.keys(schema.$defs ?? {})) compile(`/$defs/${definition}`);
  const name = path.basename(file, '.schema.json');
  for (const [kind, wanted] of [['test', true], ['negative_test', false]]) {
    const documents = path.join(folder, kind, name);
    if (validate === null || !fs.existsSync(documents)) continue;
    for (const document of listFiles(documents, '.json')) {
      if (validate(readJson(document)) !== wanted) complaints.push(`${document}: expected ${wanted}, ${JSON.stringify(validate.errors)}`);
    }
  }
}
for (const complaint of complaints) console.log(complaint);
console.log(`${schemas.length} schemas, ${complaints.length} complaints`);
process.exit(complaints.length === 0 && schemas.length > 0 ? 0 : 1);
