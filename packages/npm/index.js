'use strict';

const { execFileSync } = require('node:child_process');
const { join } = require('node:path');

/** The tool that this package carries. */
const tool = join(__dirname, 'bin', 'creel');

/** The machine and the budget, as `creel topo --format json` tells them. */
function topo() {
  return JSON.parse(execFileSync(tool, ['topo', '--format', 'json'], { encoding: 'utf8' }));
}

/** The usable cores, fractions of a quota cut off; at least 1. Starts a process. */
function workers() {
  return topo().budget.workers;
}

module.exports = { tool, topo, workers };
