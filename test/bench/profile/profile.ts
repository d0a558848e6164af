// Profiles where a check spends its processor time, or allocates bytes on the heap: drives one Sluice as the bench
// does and prints the share of each place as a Markdown table. `profile.ts [--transport own|grpc-js] [--json]
// [--baggage] [--allocations] [--seconds N] [--functions N] [--keep FILE]`

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { runOnce, type SHAPE, warm } from "../measure/rounds.ts";
import { writePolicies } from "../servers/policies.ts";
import { freeTarget, pinLoad } from "../servers/processes.ts";
import { startSluice } from "../servers/sluice.ts";
import { placeOf } from "./places.ts";

const { values: options } = parseArgs({
  options: {
    transport: { type: "string", default: "own" },
    json: { type: "boolean", default: false },
    baggage: { type: "boolean", default: false },
    allocations: { type: "boolean", default: false },
    seconds: { type: "string", default: "5" },
    functions: { type: "string", default: "25" },
    keep: { type: "string" },
  },
});

export interface Node {
  readonly id: number;
  readonly callFrame: {
    readonly functionName: string;
    readonly url: string;
    readonly lineNumber: number;
  };
  readonly children?: readonly number[];
}

/** A CPU profile; `timeDeltas` are microseconds, or bytes for a profile of allocations. */
interface Profile {
  readonly nodes: readonly Node[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

async function profiled(file: string): Promise<Profile> {
  const folders = writePolicies(0);
  const server = await startSluice({
    target: await freeTarget(),
    policies: folders.one,
    transport: options.transport === "grpc-js" ? "grpc-js" : "own",
  });
  const door = options.json ? "json" : "auth";
  const shape: keyof typeof SHAPE = options.baggage ? `${door} with 180 baggage members` : door;
  const requests = await warm({ name: "profile", shape, server }, Number(options.seconds));
  const [begin, end] = options.allocations ? ["allocations", "allocated"] : ["profile", "profiled"];
  const { cost } = await runOnce({ shape, server }, requests, {
    opened: async () => {
      await server.probe(begin);
    },
    answered: async () => {
      await server.probe(`${end} ${file}`);
    },
  });
  await server.stop();
  folders.remove();
  process.stdout.write(`${requests} requests, ${cost.toFixed(1)} µs each\n\n`);
  const profile = JSON.parse(readFileSync(file, "utf8"));
  return options.allocations ? flattened(profile.head) : profile;
}

interface Allocation extends Pick<Node, "id" | "callFrame"> {
  readonly selfSize: number;
  readonly children: readonly Allocation[];
}

function flattened(root: Allocation): Profile {
  const all = (node: Allocation): readonly Allocation[] => [node, ...node.children.flatMap(all)];
  const found = all(root);
  return {
    nodes: found.map((node) => ({ ...node, children: node.children.map(({ id }) => id) })),
    samples: found.map(({ id }) => id),
    timeDeltas: found.map(({ selfSize }) => selfSize),
  };
}

/** Name of the samples that belong to starting and ending the profile itself. */
const OURS = "profiler";

/** Adds up samples by name. A native function belongs to the place of its caller. */
function shares(profile: Profile, nameOf: (node: Node, callers: readonly Node[]) => string) {
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const parents = new Map<number, Node>();
  for (const node of profile.nodes) for (const id of node.children ?? []) parents.set(id, node);
  const callersOf = (node: Node): readonly Node[] => {
    const caller = parents.get(node.id);
    return caller === undefined ? [] : [caller, ...callersOf(caller)];
  };
  const named = (node: Node): string => {
    const callers = callersOf(node);
    const ours = [node, ...callers].some(({ callFrame: { url } }) =>
      url.startsWith("node:inspector"),
    );
    return ours ? OURS : nameOf(node, callers);
  };
  const names = new Map<number, string>();
  const found = new Map<string, number>();
  let all = 0;
  for (const [at, id] of profile.samples.entries()) {
    const node = nodes.get(id);
    if (node === undefined || node.callFrame.functionName === "(idle)") continue;
    const name = names.get(id) ?? named(node);
    names.set(id, name);
    if (name === OURS) continue;
    const weight = profile.timeDeltas[at] ?? 0;
    found.set(name, (found.get(name) ?? 0) + weight);
    all += weight;
  }
  return [...found].map(([name, weight]) => ({ name, share: (100 * weight) / all }));
}

function print(title: string, rows: readonly { name: string; share: number }[], most: number) {
  process.stdout.write(`| ${title} | Share |\n|---|---|\n`);
  for (const { name, share } of [...rows].sort((a, b) => b.share - a.share).slice(0, most)) {
    if (share >= 0.3) process.stdout.write(`| ${name} | ${share.toFixed(1)} % |\n`);
  }
  process.stdout.write("\n");
}

/** Name of a function with its place in the source, or with its caller for a native function. */
function functionOf(node: Node, callers: readonly Node[]): string {
  const { functionName, url, lineNumber } = node.callFrame;
  const name = functionName === "" ? "(anonymous)" : functionName;
  if (url !== "")
    return `${name} ${url.replace(/^.*\/(?=src\/|node_modules\/)/, "")}:${lineNumber + 1}`;
  const caller = callers[0]?.callFrame.functionName ?? "";
  return name.startsWith("(") ? name : `${name} (native) < ${caller}`;
}

pinLoad();
const folder = mkdtempSync(join(tmpdir(), "sluice-profile-"));
const found = await profiled(options.keep ?? join(folder, "hot.cpuprofile"));
rmSync(folder, { recursive: true });
print("Place", shares(found, placeOf), 40);
print("Function, by itself", shares(found, functionOf), Number(options.functions));
