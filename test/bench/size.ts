// How much the bench runs of each.

export interface Size {
  /** In which everyone takes a turn of so many seconds. */
  readonly rounds: number;
  readonly turn: number;
  /** Policies that no check meets. */
  readonly policies: number;
  readonly witnesses: number;
  readonly witnessed: number;
  /** Seconds at a steady pace, per round and contestant. */
  readonly paced: number;
  readonly pacedRounds: number;
  /** Seconds in which pauses are looked for. */
  readonly watched: number;
  readonly keys: number;
  readonly idleConnections: number;
  readonly starts: number;
}

export const FULL: Size = {
  rounds: 11,
  turn: 0.5,
  policies: 1_000,
  witnesses: 3,
  witnessed: 50_000,
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
  witnesses: 1,
  witnessed: 20_000,
  paced: 0.6,
  pacedRounds: 3,
  watched: 5,
  keys: 100_000,
  idleConnections: 1_000,
  starts: 3,
};
