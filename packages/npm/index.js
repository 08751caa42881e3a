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

/** What this process may use: by the tool, or what Node itself sees, which is the affinity mask. */
function usable() {
  try {
    return topo(['ignore', 'pipe', 'ignore']).budget.workers;
  } catch {
    return os.availableParallelism ? os.availableParallelism() : Math.max(1, os.cpus().length);
  }
}

/**
 * The usable cores, fractions of a quota cut off; at least 1, and no more than `creel run --jobs`
 * was given. Starts a process. Where the machine cannot be read, or the tool is not there: the
 * affinity mask's.
 */
function workers() {
  const given = Number.parseInt(process.env.CREEL_JOBS, 10);
  return given > 0 ? Math.min(given, usable()) : usable();
}

module.exports = { tool, topo, workers };
