// Interleaved rounds: every contestant runs once per round, so that what disturbs the machine disturbs all
// alike, and figures are medians over rounds. A run that cannot prove its requests does not count.

import assert from "node:assert/strict";
import { closedLoop, type Load } from "./load.ts";
import { authLanes, jsonLanes, judgeAuthReply, judgeJsonReply } from "./requests.ts";
import type { Running, Sluice } from "./servers.ts";

/** Most calls in flight in all, over several connections. HTTP/1.1 has one per connection. */
const SHAPE = {
  auth: { open: authLanes, lanes: 8, perLane: 16 },
  json: { open: jsonLanes, lanes: 64, perLane: 1 },
} as const;
/** Users that take turns. */
export const KEYS = 10_000;

export interface Contestant {
  readonly name: string;
  readonly kind: keyof typeof SHAPE;
  readonly server: Running | Sluice;
}

export interface Figures {
  /** Requests per second. */
  readonly rate: number;
  /** Microseconds of the server's processor per request. */
  readonly cost: number;
}

export async function runOnce(
  { kind, server }: Omit<Contestant, "name">,
  requests: number,
  keys = KEYS,
): Promise<Figures> {
  const load: Load = { ...SHAPE[kind], target: server.target, requests, keys };
  const cpu = server.cpu();
  const decided = "decided" in server ? await server.decided() : 0;
  const outcome = await closedLoop(load);
  if ("decided" in server) await prove(server, decided, requests, kind, outcome.samples);
  return {
    rate: requests / outcome.seconds,
    cost: ((server.cpu() - cpu) / requests) * 1e6,
  };
}

/** The server decided exactly these requests, and the sampled replies say what they must. */
export async function prove(
  server: Sluice,
  before: number,
  requests: number,
  kind: keyof typeof SHAPE,
  samples: readonly Buffer[],
): Promise<void> {
  assert.equal((await server.decided()) - before, requests, "decisions counted by the server");
  assert.ok(samples.length > 0, "no reply was sampled");
  for (const sample of samples) (kind === "auth" ? judgeAuthReply : judgeJsonReply)(sample);
}

/** Figures of every contestant by its name, one per round. */
export async function runRounds(
  contestants: readonly Contestant[],
  rounds: number,
  requests: number,
): Promise<ReadonlyMap<string, readonly Figures[]>> {
  const found = new Map(contestants.map(({ name }) => [name, [] as Figures[]]));
  for (const contestant of contestants) await runOnce(contestant, requests);
  for (let round = 0; round < rounds; round++) {
    for (const contestant of contestants) {
      found.get(contestant.name)?.push(await runOnce(contestant, requests));
    }
  }
  return found;
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
