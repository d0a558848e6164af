// Duration and number of runs of each figure of the bench.

export interface Size {
  /** Rounds in which every contestant takes one turn. */
  readonly rounds: number;
  /** Seconds that a turn lasts. */
  readonly turn: number;
  /** Number of policies that no check meets. */
  readonly policies: number;
  /** Rounds of h2load. */
  readonly h2loadRounds: number;
  /** Requests that h2load sends in each round. */
  readonly h2loadRequests: number;
  /** Seconds at a steady pace, per round and contestant. */
  readonly paced: number;
  readonly pacedRounds: number;
  /** Seconds during which the longest wait is looked for. */
  readonly watched: number;
  readonly keys: number;
  readonly idleConnections: number;
  readonly starts: number;
}

export const FULL: Size = {
  rounds: 11,
  turn: 0.5,
  policies: 1_000,
  h2loadRounds: 3,
  h2loadRequests: 50_000,
  paced: 1.5,
  pacedRounds: 11,
  watched: 60,
  keys: 1_000_000,
  idleConnections: 2_000,
  starts: 7,
};

export const QUICK: Size = {
  rounds: 3,
  turn: 0.25,
  policies: 1_000,
  h2loadRounds: 1,
  h2loadRequests: 20_000,
  paced: 0.6,
  pacedRounds: 3,
  watched: 5,
  keys: 100_000,
  idleConnections: 1_000,
  starts: 3,
};
