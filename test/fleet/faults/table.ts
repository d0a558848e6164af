// The fault matrix: all rows, and how one is run.

import assert from "node:assert/strict";
import type { Ending } from "../../kit/ending.ts";
import { startFleet } from "./fleet.ts";
import { LIMITS, type LimitName } from "./limits.ts";
import { Load } from "./load.ts";
import { type Observations, type Row, type Seen, sum } from "./row.ts";
import { AGENTS } from "./rows/agents.ts";
import { CONTROLLERS } from "./rows/controllers.ts";
import { ETCD } from "./rows/etcd.ts";
import { PEERS } from "./rows/peers.ts";
import { REDIS } from "./rows/redis.ts";

export const ROWS: readonly Row[] = [...ETCD, ...CONTROLLERS, ...AGENTS, ...REDIS, ...PEERS];

/** The limits that a row runs, in the order in which it states their bounds. */
export const limitsOf = ({ bounds }: Row) => Object.keys(bounds) as readonly LimitName[];

/** Most flows that may be admitted for each key beyond capacity + refill. */
export const mostBeyond = ({ bounds }: Row, name: LimitName): number =>
  (bounds[name] ?? 0) * LIMITS[name].capacity;

/** Runs a row with processes of its own. Rejects when something that the row expects does not happen. */
export async function observe(test: Ending, row: Row): Promise<Observations> {
  const fleet = await startFleet(test, row.fleet);
  await row.prepare?.(fleet);
  const addresses = () => fleet.agents.map((agent) => agent.address());
  const load = new Load(test, addresses, limitsOf(row), row.sides);
  const observed = await load.through(() => row.happens(fleet, load));
  fleet.alive();
  return observed;
}

/** Fails when more was admitted than the row allows, or when there was less load than it promises. */
export function judge(row: Row, observed: Observations): void {
  let checks = 0;
  for (const name of limitsOf(row)) {
    const { seen, beyond, keys } = observed[name] ?? assert.fail(`${name} was not observed`);
    checks += sum(seen);
    assert.ok(keys > 1, `${name}: only ${keys} keys were asked for`);
    const most = mostBeyond(row, name);
    const told = JSON.stringify(seen satisfies Seen);
    assert.ok(
      beyond <= most,
      `${name}: ${beyond} beyond capacity + refill, at most ${most}; ${told}`,
    );
  }
  assert.ok(checks >= row.checks, `${checks} checks while the fault lasted, wanted ${row.checks}`);
}
