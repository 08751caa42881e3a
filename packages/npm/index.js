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
 * the tool is missing or fails, and a TypeError if an argument is invalid.
 */
function topo(options = {}) {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`creel: topo expects an object such as { root: '/' }, not ${options}`);
  }
  const { root } = options;
  if (root !== undefined && typeof root !== 'string') {
    throw new TypeError(`creel: root must be the path of a folder, not ${root}`);
  }
  const args = ['topo', '--format', 'json', ...(root === undefined ? [] : ['--root', root])];
  let text;
  try {
    text = execFileSync(tool, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    throw new Error(reason(error), { cause: error });
  }
  let document;
  try {
    document = JSON.parse(text);
  } catch {
    // The check below reports it.
  }
  if (!(document?.budget?.workers > 0)) {
    throw new Error(`creel: ${tool} did not print the number of workers. Install the package again`);
  }
  return document;
}

/** Returns why the tool could not run, and what to do about it. */
function reason(error) {
  if (!existsSync(tool)) {
    return `creel: the program ${tool} is missing. Install a package that was built for this ` +
      `platform (${process.platform}-${process.arch}), or build it with packages/npm/build`;
  }
  const output = String(error.stderr || '').trim();
  const details = output && `: ${output}`;
  if (error.signal) return `creel: ${tool} was killed by ${error.signal}${details}`;
  if (error.status) return `creel: ${tool} failed with exit code ${error.status}${details}`;
  return `creel: cannot run ${tool}: ${error.message}`;
}

/**
 * Returns the number of usable cores, with quotas rounded down.
 *
 * The number is at least 1. It never exceeds that of `creel run --jobs`, which is in the variable
 * CREEL_JOBS. This function starts a process, which takes some milliseconds, so keep the result.
 * Throws an error if the tool is missing or fails.
 */
function workers() {
  const { workers } = topo().budget;
  const given = (process.env.CREEL_JOBS || '').trim();
  // We read the variable as the packages for other languages do: anything but a number is ignored.
  const jobs = /^\+?[0-9]+$/.test(given) ? Number(given) : 0;
  return jobs > 0 ? Math.min(jobs, workers) : workers;
}

module.exports = { tool, topo, workers };
