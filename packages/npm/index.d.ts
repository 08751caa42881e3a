/** The path of the tool in this package. */
export const tool: string;

/** The document that `creel topo --format json` prints. docs/schema.md describes all its fields. */
export interface Topology {
  budget: { workers: number; [key: string]: unknown };
  [key: string]: unknown;
}

/**
 * Returns the machine and the budget. With `root`, it reads the files below that folder, which is
 * meant for tests. Throws an error if the tool is missing or fails, and a TypeError if an argument is
 * invalid.
 */
export function topo(options?: { root?: string }): Topology;

/**
 * Returns the number of usable cores, with quotas rounded down. It is at least 1, and at most the
 * number in the variable CREEL_JOBS. This function starts a process, which takes some milliseconds,
 * so keep the result. Throws an error if the tool is missing or fails.
 */
export function workers(): number;
