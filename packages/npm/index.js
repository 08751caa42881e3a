'use strict';

const { execFileSync } = require('node:child_process');
const os = require('node:os');
const { join } = require('node:path');

/** The path of the tool in this package. */
const tool = join(__dirname, 'bin', 'creel');

/** Returns the machine and the budget, as `creel topo --format json` prints them. */
function topo(stdio = ['ignore', 'pipe', 'inherit']) {
  const options = { encoding: 'utf8', stdio };
  return JSON.parse(execFileSync(tool, ['topo', '--format', 'json'], options));
}

/** Returns the number of usable cores, or the size of the affinity mask if the tool fails. */
function usable() {
  try {
    return topo(['ignore', 'pipe', 'ignore']).budget.workers;
  } catch {
    return os.availableParallelism ? os.availableParallelism() : Math.max(1, os.cpus().length);
  }
}

/**
 * Returns the number of usable cores, with quotas rounded down.
 *
 * The number is at least 1. It never exceeds that of `creel run --jobs`. This function starts a
 * process. If the machine cannot be read or the tool is missing, it returns the size of the affinity
 * mask.
 */
function workers() {
  const given = Number.parseInt(process.env.CREEL_JOBS, 10);
  return given > 0 ? Math.min(given, usable()) : usable();
}

module.exports = { tool, topo, workers };
