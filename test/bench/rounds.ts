// Interleaved rounds: every contestant runs once per round, so that what disturbs the machine disturbs all
// alike, and figures are medians over rounds. A run that cannot prove its requests does not count.

import assert from "node:assert/strict";
import { closedLoop, type Load, type Outcome } from "./load.ts";
import { authLanes, jsonLanes, judgeAuthReply, judgeJsonReply } from "./requests.ts";
import type { Running, Sluice } from "./servers.ts";

/** Connections, and most calls in flight on each. HTTP/1.1 has one. */
export const SHAPE = {
  auth: { open: authLanes, lanes: 8, perLane: 16, judge: judgeAuthReply },
  "auth on 500 connections": { open: authLanes, lanes: 500, perLane: 16, judge: judgeAuthReply },
  "auth one by one": { open: authLanes, lanes: 500, perLane: 1, judge: judgeAuthReply },
  "auth on one connection": { open: authLanes, lanes: 1, perLane: 1_000, judge: judgeAuthReply },
  json: { open: jsonLanes, lanes: 64, perLane: 1, judge: judgeJsonReply },
} as const;

/** Bytes of Sluice's replies to the bench's requests; the no-op servers answer as many. */
export const REPLY = { auth: 1_269, json: 2_789 } as const;
/** Users that take turns. */
export const KEYS = 10_000;

export interface Contestant {
  readonly name: string;
  readonly shape: keyof typeof SHAPE;
  readonly server: Running | Sluice;
}

export interface Figures {
  /** Requests per second. */
  readonly rate: number;
  /** Microseconds of the server's processor per request. */
  readonly cost: number;
  /** Share of its core that the server had. */
  readonly use: number;
  /** Microseconds of the load's processor per request. Where it is more than `cost`, the rate is the load's. */
  readonly loadCost: number;
}

export async function runOnce(
  { shape, server }: Omit<Contestant, "name">,
  requests: number,
  options: Partial<Pick<Load, "keys" | "opened" | "answered">> = {},
): Promise<Figures> {
  const { judge, ...lanes } = SHAPE[shape];
  const decided = "decided" in server ? await server.decided() : 0;
  let before = 0;
  let spent = 0;
  const outcome = await closedLoop({
    ...{ keys: KEYS, ...lanes, target: server.target, requests },
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

/** The server decided exactly these requests, and the sampled replies say what they must. */
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

/** A server that decides nothing at least says as much as Sluice. */
export function proveSize({ replyBytes }: Outcome, wanted: number): void {
  assert.equal(replyBytes, wanted, "bytes of a reply");
}

/** Figures of every contestant by its name, one per round. */
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

/** Runs until the runtime has compiled what is hot; returns how many requests fill that many seconds. */
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

/** Median over rounds of one contestant's figure against another's of the same round. */
export function ratio(
  mine: readonly Figures[],
  theirs: readonly Figures[],
  figure: "rate" | "cost",
): number {
  return median(mine.map((own, round) => own[figure] / (theirs[round]?.[figure] ?? Number.NaN)));
}
