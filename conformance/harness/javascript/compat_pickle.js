'use strict';

// Python 2's names and the corresponding names in Python 3 (FORMAT.md 5.4).

const { rowsOf } = require('./tables.js');

// A module's name has no newline in GLOBAL and INST, but may in STACK_GLOBAL: two levels of maps.
const NAMES = new Map();
for (const row of rowsOf('renamed-names')) {
  if (!NAMES.has(row.module)) NAMES.set(row.module, new Map());
  NAMES.get(row.module).set(row.name, [row.new_module, row.new_name]);
}
const MODULES = new Map(rowsOf('renamed-modules').map((row) => [row.module, row.new_module]));

/** The name that Python 3 imports for a name that Python 2 wrote. */
function renamed(module, name) {
  return NAMES.get(module)?.get(name) ?? [MODULES.get(module) ?? module, name];
}

module.exports = { renamed };
