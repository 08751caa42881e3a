'use strict';

const { execFileSync } = require('node:child_process');
const os = require('node:os');
const { join } = require('node:path');

/** The tool that this package carries. */
const tool = join(__dirname, 'bin', 'creel');

/** The machine and the budget, as `creel topo --format json` tells them. */
function topo(stdio = ['ignore', 'pipe', 'inherit']) {
  const options = { encoding: 'utf8', stdio };
  return JSON.parse(execFileSync(tool, ['topo', '--format', 'json'], options));
}

/**
 * The usable cores, fractions of a quota cut off; at least 1. Starts a process. Where the machine
 * cannot be read, or the tool is not there: what Node itself sees, which is the affinity mask.
 */
function workers() {
  try {
    return topo(['ignore', 'pipe', 'ignore']).budget.workers;
  } catch {
    return os.availableParallelism ? os.availableParallelism() : Math.max(1, os.cpus().length);
  }
}

module.exports = { tool, topo, workers };
