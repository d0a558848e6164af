// Interleaved rounds: every contestant runs once per round, so that a disturbance of the machine hits all of them
// alike, and each figure is a median over rounds. A run fails when it cannot prove that its requests were decided.

import assert from "node:assert/strict";
import { closedLoop, type Load, type Outcome } from "../load/loops.ts";
import {
  authConnections,
  baggageConnections,
  jsonBaggageConnections,
  jsonConnections,
  judgeAuthReply,
  judgeJsonReply,
  judgeTenDecisions,
} from "../load/requests.ts";
import type { Running } from "../servers/processes.ts";
import type { Sluice } from "../servers/sluice.ts";

/** Shapes of load: number of connections, and most calls in flight on each. HTTP/1.1 allows one. */
export const SHAPE = {
  auth: { open: authConnections, connections: 8, callsEach: 16, judge: judgeAuthReply },
  "auth with ten limiters": {
    open: authConnections,
    connections: 8,
    callsEach: 16,
    judge: judgeTenDecisions,
  },
  "auth on 500 connections": {
    open: authConnections,
    connections: 500,
    callsEach: 16,
    judge: judgeAuthReply,
  },
  "auth one by one": {
    open: authConnections,
    connections: 500,
    callsEach: 1,
    judge: judgeAuthReply,
  },
  "auth on one connection": {
    open: authConnections,
    connections: 1,
    callsEach: 1_000,
    judge: judgeAuthReply,
  },
  "auth with 180 baggage members": {
    open: baggageConnections,
    connections: 8,
    callsEach: 16,
    judge: judgeAuthReply,
  },
  json: { open: jsonConnections, connections: 64, callsEach: 1, judge: judgeJsonReply },
  "json with 180 baggage members": {
    open: jsonBaggageConnections,
    connections: 64,
    callsEach: 1,
    judge: judgeJsonReply,
  },
} as const;

/** Bytes of Sluice's replies to the bench's requests. The no-op servers answer with as many. */
export const REPLY = { auth: 1_269, json: 2_789 } as const;
/** Number of users whose requests take turns; each user is one key of the limiter. */
export const KEYS = 10_000;

export interface Contestant {
  readonly name: string;
  readonly shape: keyof typeof SHAPE;
  readonly server: Running | Sluice;
}

export interface Figures {
  /** Requests per second. */
  readonly rate: number;
  /** Microseconds of the server's processor time per request. */
  readonly cost: number;
  /** Share of its core that the server used, 0 to 1. */
  readonly use: number;
  /** Microseconds of the load's processor time per request. Where it exceeds `cost`, the load limits the rate. */
  readonly loadCost: number;
}

export async function runOnce(
  { shape, server }: Omit<Contestant, "name">,
  requests: number,
  options: Partial<Pick<Load, "keys" | "opened" | "answered">> = {},
): Promise<Figures> {
  const { judge, ...connections } = SHAPE[shape];
  const decided = "decided" in server ? await server.decided() : 0;
  let before = 0;
  let spent = 0;
  const outcome = await closedLoop({
    keys: KEYS,
    ...connections,
    target: server.target,
    requests,
    ...options,
    async opened() {
      await options.opened?.();
      before = server.cpu();
    },
    async answered() {
      spent = server.cpu() - before;
      await options.answered?.();
    },
  });
  if ("decided" in server) await prove(server, decided, outcome, judge);
  else proveSize(outcome, shape === "json" ? REPLY.json : REPLY.auth);
  return {
    rate: requests / outcome.seconds,
    cost: (spent / requests) * 1e6,
    use: spent / outcome.seconds,
    loadCost: (outcome.worked / requests) * 1e6,
  };
}

/** Asserts that the server decided exactly these requests, and that the sampled replies are right. */
export async function prove(
  server: Sluice,
  before: number,
  { calls, samples }: Outcome,
  judge: (sample: Buffer) => void,
): Promise<void> {
  assert.equal((await server.decided()) - before, calls, "decisions counted by the server");
  assert.ok(samples.length > 0, "no reply was sampled");
  for (const sample of samples) judge(sample);
}

/** Asserts that a server that decides nothing answers with as many bytes as Sluice. */
export function proveSize({ replyBytes }: Outcome, wanted: number): void {
  assert.equal(replyBytes, wanted, "bytes of a reply");
}

/** Figures of every contestant by its name, one per round. A turn lasts about this many seconds. */
export async function runRounds<Name extends string>(
  contestants: readonly (Contestant & { readonly name: Name })[],
  rounds: number,
  seconds: number,
): Promise<Readonly<Record<Name, readonly Figures[]>>> {
  const turns: { readonly contestant: (typeof contestants)[number]; readonly requests: number }[] =
    [];
  for (const contestant of contestants) {
    turns.push({ contestant, requests: await warm(contestant, seconds) });
  }
  const found = {} as Record<Name, Figures[]>;
  for (let round = 0; round < rounds; round++) {
    for (const { contestant, requests } of turns) {
      const figures = await runOnce(contestant, requests);
      const { name } = contestant;
      found[name] = [...(found[name] ?? []), figures];
    }
  }
  return found;
}

const FIRST_REQUESTS = 3_000;

/** Runs until the runtime has compiled the hot code. Returns how many requests take that many seconds. */
export async function warm(contestant: Contestant, seconds: number): Promise<number> {
  const first = await runOnce(contestant, FIRST_REQUESTS);
  const second = await runOnce(contestant, Math.ceil(first.rate));
  return Math.ceil(second.rate * seconds);
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [upper = Number.NaN, lower = upper] = [sorted[middle], sorted[middle - 1]];
  return sorted.length % 2 === 1 ? upper : (lower + upper) / 2;
}

/** Median over rounds of one contestant's figure divided by the other's in the same round. */
export function ratio(
  mine: readonly Figures[],
  theirs: readonly Figures[],
  figure: "rate" | "cost",
): number {
  return median(mine.map((own, round) => own[figure] / (theirs[round]?.[figure] ?? Number.NaN)));
}
