// The memory of a server under a steady load that it can take, with ever-new keys and a policy that is loaded again every
// few seconds, before, while and after other processes use the processors that it runs on.
// `node test/bench/soak.ts [--seconds 240] [--beside 8] [--grpc 3200] [--json 2000] [--connections 64]`

import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openLoop } from "./load/loops.ts";
import { authConnections, jsonConnections } from "./load/requests.ts";
import { policy } from "./servers/policies.ts";
import type { Shares } from "./servers/probe.ts";
import { freeTarget, killServersOnSignal, spawnPinned } from "./servers/processes.ts";
import { startSluice } from "./servers/sluice.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "240" },
    beside: { type: "string", default: "8" },
    grpc: { type: "string", default: "3200" },
    json: { type: "string", default: "2000" },
    connections: { type: "string", default: "64" },
  },
});
const seconds = Number(values.seconds);
const CORES = `0-${availableParallelism() - 1}`;
const RELOAD_MS = 3_000;
const LOOK_MS = 5_000;
/** Calls in flight on a connection of gRPC, as many as a server allows, and connections of JSON for each of gRPC. */
const CALLS_EACH = 1_000;
const JSON_EACH = 32;
const connections = Number(values.connections);
/** The load of each protocol. There are enough connections for requests to wait in the server rather than here. */
const LOADS = [
  { open: authConnections, rate: Number(values.grpc), connections, callsEach: CALLS_EACH },
  {
    open: jsonConnections,
    rate: Number(values.json),
    connections: JSON_EACH * connections,
    callsEach: 1,
  },
];
const PHASES = ["alone", "beside others", "alone again"] as const;

interface Look extends Shares {
  readonly phase: (typeof PHASES)[number];
  /** Requests that were due and are not answered yet. */
  readonly waiting: number;
}

const COLUMNS = ["resident", "heap", "young", "free", "external"] as const;

function row(what: string, look: Look): void {
  const sizes = COLUMNS.map((name) => (look[name] / 1e6).toFixed(0).padStart(9));
  const rest = [look.sockets, look.full, look.waiting].map((count) => String(count).padStart(9));
  process.stdout.write(`${what.padEnd(28)}${[...sizes, ...rest].join("")}\n`);
}

killServersOnSignal();
const policies = mkdtempSync(join(tmpdir(), "sluice-soak-"));
let loads = 0;
/** Replaces the file at once, as an editor does. The capacity differs each time, and a used key is full again soon. */
function load(): void {
  const changed = policy("per-user", "ingress", {
    capacity: 1_000 + (loads++ % 2),
    fill: 1_000,
    interval: "60s",
  });
  writeFileSync(join(policies, ".new"), changed);
  renameSync(join(policies, ".new"), join(policies, "per-user.yaml"));
}
load();

const target = await freeTarget();
const sluice = await startSluice({ target, policies, cores: CORES });
const reloading = setInterval(load, RELOAD_MS);
let answered = 0;
let rates = 0;
const looks: Look[] = [];
const others: ReturnType<typeof spawnPinned>[] = [];
/** When the load began. */
let began = 0;
const all = LOADS.filter(({ rate }) => rate > 0).map(({ rate, ...shape }) => {
  rates += rate;
  const requests = rate * seconds;
  const seen = () => answered++;
  const looked = (now: number) => {
    began ||= now;
  };
  const pace = { rate, sleeps: true, seen, looked };
  return openLoop({ ...shape, target, requests, keys: requests }, pace);
});
process.stdout.write(
  `${"MB, seconds".padEnd(28)}${[...COLUMNS, "sockets", "full", "waiting"].map((name) => name.padStart(9)).join("")}\n`,
);
async function look(): Promise<void> {
  const passed = (performance.now() - began) / 1_000;
  const third = Math.min(2, Math.floor((3 * passed) / seconds));
  const phase = PHASES[third] ?? PHASES[2];
  if (third === 1 && others.length === 0) {
    for (let count = Number(values.beside); count > 0; count--)
      others.push(spawnPinned(["--eval", "for (;;);"], {}, CORES));
  } else if (third === 2) for (const other of others) other.kill("SIGKILL");
  const waiting = Math.max(0, Math.round(Math.min(passed, seconds) * rates - answered));
  const found: Look = { ...((await sluice.probe("shares")) as Shares), phase, waiting };
  looks.push(found);
  row(`${passed.toFixed(0).padStart(4)} ${phase}`, found);
}
const looking = setInterval(() => void look(), LOOK_MS);
const outcomes = await Promise.all(all);
clearInterval(looking);
clearInterval(reloading);
for (const phase of PHASES) {
  const of = looks.filter((each) => each.phase === phase);
  const last = of.at(-1);
  const most = of.toSorted((a, b) => b.resident - a.resident)[0];
  if (last === undefined || most === undefined) continue;
  row(`${phase}: most`, most);
  row(`${phase}: last`, last);
}
for (const { latencies } of outcomes) {
  const at = (share: number) => (latencies[Math.floor(latencies.length * share)] ?? 0).toFixed(0);
  process.stdout.write(`answered after ${at(0.5)} ms (p50), ${at(0.99)} ms (p99)\n`);
}
const held = (await sluice.held()) / 1e6;
process.stdout.write(`${loads} reloads, ${held.toFixed(0)} MB held after a full collection, `);
process.stdout.write(`${(sluice.resident() / 1e6).toFixed(0)} MB resident\n`);
await sluice.stop();
rmSync(policies, { recursive: true });
