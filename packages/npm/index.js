'use strict';

const { execFileSync } = require('node:child_process');
const { existsSync } = require('node:fs');
const { join } = require('node:path');

/** The path of the tool in this package. */
const tool = join(__dirname, 'bin', 'creel');

/**
 * Returns the machine and the budget, as `creel topo --format json` prints them.
 *
 * With `root`, it reads the files below that folder, which is meant for tests. Throws an error if
 * the tool is missing or fails.
 */
function topo({ root } = {}) {
  const args = ['topo', '--format', 'json', ...(root === undefined ? [] : ['--root', root])];
  let text;
  try {
    text = execFileSync(tool, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    throw new Error(reason(error), { cause: error });
  }
  return JSON.parse(text);
}

/** Returns why the tool could not run, and what to do about it. */
function reason(error) {
  if (!existsSync(tool)) {
    return `creel: the program ${tool} is missing. Install a package that was built for this ` +
      `platform (${process.platform}-${process.arch}), or build it with packages/npm/build`;
  }
  const output = String(error.stderr || '').trim();
  return `creel: cannot run ${tool}: ${output || error.message}`;
}

/**
 * Returns the number of usable cores, with quotas rounded down.
 *
 * The number is at least 1. It never exceeds that of `creel run --jobs`. This function starts a
 * process, which takes some milliseconds, so keep the result. Throws an error if the tool is missing
 * or fails.
 */
function workers() {
  const { workers } = topo().budget;
  const given = Number.parseInt(process.env.CREEL_JOBS, 10);
  return given > 0 ? Math.min(given, workers) : workers;
}

module.exports = { tool, topo, workers };
