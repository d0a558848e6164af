// Compares the processor time of a check with that of another checkout, by pairs of runs in turn.
// `compare.ts DIR [--pairs 15] [--processes 5] [--seconds 2] [--only NAME,…]`, NAME as in `SHAPES`
// DIR is another checkout with its packages installed, for example a git worktree of the commit before.

import { parseArgs } from "node:util";
import { printRow, times } from "./measure/report.ts";
import { median, runOnce, type SHAPE, warm } from "./measure/rounds.ts";
import { writePolicies } from "./servers/policies.ts";
import { freeTarget, pinLoad } from "./servers/processes.ts";
import { type Sluice, startSluice } from "./servers/sluice.ts";

const GOAL = "≥ 0.97";
const SHAPES = {
  grpc: "auth",
  json: "json",
  "grpc-baggage": "auth with 180 baggage members",
  "json-baggage": "json with 180 baggage members",
} as const satisfies Readonly<Record<string, keyof typeof SHAPE>>;
/** Compared where `--only` names none. */
const USUAL = "grpc,json";
const USAGE = `usage: compare.ts DIR [--pairs N] [--processes N] [--seconds N] [--only ${Object.keys(SHAPES).join()}]`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    pairs: { type: "string", default: "15" },
    processes: { type: "string", default: "5" },
    seconds: { type: "string", default: "2" },
    only: { type: "string", default: USUAL },
  },
});
const [before, ...more] = positionals;
if (before === undefined || more.length > 0) throw new Error(USAGE);
const [pairs, processes, seconds] = [
  Number(values.pairs),
  Number(values.processes),
  Number(values.seconds),
];
if (!(pairs && processes && seconds)) throw new Error(USAGE);
const names = values.only.split(",");
if (names.some((name) => !Object.hasOwn(SHAPES, name))) throw new Error(USAGE);

pinLoad();
const folders = writePolicies(0);
printRow("", "goal", "result");
try {
  for (const name of names as (keyof typeof SHAPES)[]) await compare(name, before);
} finally {
  folders.remove();
}

/**
 * Prints the median, over pairs, of the other checkout's processor time per check divided by this one's: more
 * than 1 means that this checkout is cheaper. What the runtime compiled differs between two processes of one
 * checkout, so the pairs are spread over several fresh processes.
 */
async function compare(name: keyof typeof SHAPES, tree: string): Promise<void> {
  const shape = SHAPES[name];
  const ratios: number[] = [];
  const costs: { readonly before: number; readonly now: number }[] = [];
  for (let process = 0; process < processes; process++) {
    const servers = [await started(tree), await started()] as const;
    let requests = 0;
    for (const server of servers)
      requests = Math.max(requests, await warm({ name, shape, server }, seconds));
    const share = Math.ceil((pairs - ratios.length) / (processes - process));
    for (let pair = 0; pair < share; pair++) {
      const found = { before: Number.NaN, now: Number.NaN };
      const turns = [
        ["before", servers[0]],
        ["now", servers[1]],
      ] as const;
      for (const [which, server] of pair % 2 === 0 ? turns : turns.toReversed())
        found[which] = (await runOnce({ shape, server }, requests)).cost;
      costs.push(found);
      ratios.push(found.before / found.now);
    }
    for (const server of servers) await server.stop();
  }
  const sorted = ratios.toSorted((left, right) => left - right);
  const range = `${times(sorted[0] ?? Number.NaN)} to ${times(sorted.at(-1) ?? Number.NaN)}`;
  const micros = (which: "before" | "now") => median(costs.map((each) => each[which])).toFixed(2);
  printRow(
    `${name} check: processor time there vs here, ${ratios.length} pairs`,
    GOAL,
    `${median(ratios).toFixed(3)}  (${range}; ${micros("before")} µs there, ${micros("now")} µs here)`,
  );
}

async function started(tree?: string): Promise<Sluice> {
  const options = { target: await freeTarget(), policies: folders.one };
  return startSluice(tree === undefined ? options : { ...options, tree });
}
