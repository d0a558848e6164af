// The bench: what a check costs beside servers that do nothing. Prints ratios, each next to its goal; judges
// none of them: a slow machine is no failure, a run that cannot prove its requests is.
// `bench.ts [--quick] [--only PART,…]`

import { parseArgs } from "node:util";
import { idleConnections, shapes } from "./connections.ts";
import { latency, throughEnvoy } from "./latency.ts";
import { allocated, keys, loaded } from "./memory.ts";
import { pauses } from "./pause.ts";
import { say } from "./report.ts";
import { takeLoadCore } from "./servers.ts";
import { FULL, QUICK, type Size } from "./size.ts";
import { Stage } from "./stage.ts";
import { start } from "./start.ts";
import { throughput, witnesses } from "./throughput.ts";

/** In the order of the run. What measures memory comes before what fills it. */
const PARTS = {
  throughput,
  witness: witnesses,
  shapes,
  latency,
  envoy: throughEnvoy,
  pauses,
  loaded,
  allocated,
  connections: idleConnections,
  keys,
  start,
} satisfies Readonly<Record<string, (stage: Stage, size: Size) => Promise<void>>>;

const { values } = parseArgs({
  options: { quick: { type: "boolean", default: false }, only: { type: "string" } },
});
const wanted = values.only?.split(",");
for (const part of wanted ?? []) {
  if (!(part in PARTS))
    throw new Error(`no part ${part}; there are ${Object.keys(PARTS).join(", ")}`);
}
const size = values.quick ? QUICK : FULL;
takeLoadCore();
say("", "goal", "result");
const stage = new Stage(size.policies);
try {
  for (const [name, part] of Object.entries(PARTS)) {
    if (wanted?.includes(name) ?? true) await part(stage, size);
  }
} finally {
  await stage.close();
}
