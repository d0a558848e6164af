// The bench: what a check costs beside servers that decide nothing. It prints each figure next to its goal and
// judges none, because a slow machine is no failure. It fails when a run cannot prove that its requests were
// decided.
// `bench.ts [--quick] [--only PART,…]`

import { parseArgs } from "node:util";
import { idleConnections, shapes } from "./figures/connections.ts";
import { latency, throughEnvoy } from "./figures/latency.ts";
import { limiterMemory, matchingLimiters } from "./figures/limiters.ts";
import { longestWait } from "./figures/longest-wait.ts";
import { allocated, keys, loaded } from "./figures/memory.ts";
import { newConnections } from "./figures/new-connections.ts";
import { reloads } from "./figures/reload.ts";
import { sharedLimits } from "./figures/shared-limits.ts";
import { agentMemory, idleMemory, start } from "./figures/startup.ts";
import { h2loadThroughput, throughput } from "./figures/throughput.ts";
import { printRow } from "./measure/report.ts";
import { FULL, QUICK, type Size } from "./measure/size.ts";
import { ServerPool } from "./servers/pool.ts";
import { pinLoad } from "./servers/processes.ts";

/** In the order of the run. Parts that measure memory come before the part that fills it. */
const PARTS = {
  throughput,
  h2load: h2loadThroughput,
  shapes,
  limiters: matchingLimiters,
  shared: sharedLimits,
  latency,
  envoy: throughEnvoy,
  "longest-wait": longestWait,
  reloads,
  "new-connections": newConnections,
  loaded,
  allocated,
  "idle-memory": idleMemory,
  "agent-memory": agentMemory,
  "limiter-memory": limiterMemory,
  connections: idleConnections,
  keys,
  start,
} satisfies Readonly<Record<string, (pool: ServerPool, size: Size) => Promise<void>>>;

const { values } = parseArgs({
  options: { quick: { type: "boolean", default: false }, only: { type: "string" } },
});
const wanted = values.only?.split(",");
for (const part of wanted ?? []) {
  if (!(part in PARTS))
    throw new Error(`no part ${part}; there are ${Object.keys(PARTS).join(", ")}`);
}
const size = values.quick ? QUICK : FULL;
pinLoad();
printRow("", "goal", "result");
const pool = new ServerPool(size.policies);
try {
  for (const [name, part] of Object.entries(PARTS)) {
    if (wanted?.includes(name) ?? true) await part(pool, size);
  }
} finally {
  await pool.close();
}
