// Tests the package with programs in the place of the tool: node packages/npm/test.js
'use strict';

const assert = require('node:assert');
const { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');

const folder = mkdtempSync(join(tmpdir(), 'creel-npm-'));
process.on('exit', () => rmSync(folder, { recursive: true }));
copyFileSync(join(__dirname, 'index.js'), join(folder, 'index.js'));
mkdirSync(join(folder, 'bin'));
const { tool, topo, workers } = require(folder);

/** Replaces the tool by a shell script. */
function toolIs(script, mode = 0o755) {
  rmSync(tool, { force: true });
  writeFileSync(tool, `#!/bin/sh\n${script}\n`, { mode });
}

function jobs(value) {
  process.env.CREEL_JOBS = value;
  return workers();
}

assert.throws(workers, /^Error: creel: the program .* is missing/);

toolIs('echo \'{"budget": {"workers": 8}}\'');
assert.strictEqual(topo().budget.workers, 8);
for (const value of ['2', ' 2 ', '+2', '02']) assert.strictEqual(jobs(value), 2, value);
for (const value of ['', '0', '-1', '1x', '1.9', '1e0', '0x1', 'many', '99999']) {
  assert.strictEqual(jobs(value), 8, value);
}

assert.throws(() => topo('x'), /^TypeError: creel: topo expects an object .*, not x/);
assert.throws(() => topo(null), /^TypeError: creel: topo expects an object .*, not null/);
assert.throws(() => topo({ root: 3 }), /^TypeError: creel: root must be the path of a folder, not 3/);

for (const output of ['', 'text', '{}', 'null', '{"budget": {}}']) {
  toolIs(`echo '${output}'`);
  assert.throws(topo, /^Error: creel: \/.*\/bin\/creel did not print the number of workers/, output);
}

const failures = [
  ['exit 3', /^Error: creel: \/.*\/bin\/creel failed with exit code 3$/],
  ['echo why >&2; exit 3', /^Error: creel: \/.*\/bin\/creel failed with exit code 3: why$/],
  ['kill -KILL $$', /^Error: creel: \/.*\/bin\/creel was killed by SIGKILL$/],
];
for (const [script, message] of failures) {
  toolIs(script);
  assert.throws(topo, message, script);
}
toolIs('exit 0', 0o644);
assert.throws(topo, /^Error: creel: cannot run \/.*\/bin\/creel: .*EACCES/);

console.log('ok');
