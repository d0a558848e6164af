// The bench: what a check costs beside a server that does nothing. Prints ratios, each next to its goal;
// judges none of them: a slow machine is no failure, a run that cannot prove its requests is.

import { join } from "node:path";
import { type Latencies, openLoop } from "./load.ts";
import { type Folders, writePolicies } from "./policies.ts";
import { authLanes } from "./requests.ts";
import {
  type Contestant,
  type Figures,
  KEYS,
  median,
  prove,
  ratio,
  runOnce,
  runRounds,
} from "./rounds.ts";
import {
  freeTarget,
  type Running,
  type Sluice,
  startNoop,
  startSluice,
  takeLoadCore,
} from "./servers.ts";
import { firstAnswer, idleMemory, lifeOfImports } from "./start.ts";
import { witness } from "./witness.ts";

const QUICK = process.argv.includes("--quick");
const SIZE = QUICK
  ? { rounds: 5, requests: 3_000, keys: 100_000, latency: 3_000, starts: 3, policies: 1_000 }
  : { rounds: 15, requests: 4_000, keys: 1_000_000, latency: 4_000, starts: 7, policies: 1_000 };
/** Open loop, requests per second: well below what either server answers at most. */
const PACE = 5_000;
/** Bytes of the replies of Sluice to the bench's requests; the no-op servers answer as many. */
const REPLY = { auth: 1_269, json: 2_789 };

function say(what: string, goal: string, result: string): void {
  process.stdout.write(`${what.padEnd(62)} ${goal.padEnd(24)} ${result}\n`);
}

const times = (value: number): string => value.toFixed(2);

interface Stage {
  readonly folders: Folders;
  readonly noop: Running;
  readonly noopHttp: Running;
  readonly noopUnix: Running;
  readonly sluice: Sluice;
  readonly many: Sluice;
  readonly unix: Sluice;
}

async function openStage(): Promise<Stage> {
  const folders = writePolicies(SIZE.policies);
  const socket = (name: string) => `unix:${join(folders.root, name)}`;
  return {
    folders,
    noop: await startNoop("grpc", await freeTarget(), REPLY.auth),
    noopHttp: await startNoop("http", await freeTarget(), REPLY.json),
    noopUnix: await startNoop("grpc", socket("noop"), REPLY.auth),
    sluice: await startSluice(await freeTarget(), folders.one),
    many: await startSluice(await freeTarget(), folders.many),
    unix: await startSluice(socket("sluice"), folders.one),
  };
}

async function closeStage({ folders, ...servers }: Stage): Promise<void> {
  await Promise.all(Object.values(servers).map((server) => server.stop()));
  folders.remove();
}

async function throughput(stage: Stage): Promise<void> {
  const contestants = [
    { name: "noop", kind: "auth", server: stage.noop },
    { name: "check", kind: "auth", server: stage.sluice },
    { name: "many", kind: "auth", server: stage.many },
    { name: "noop http", kind: "json", server: stage.noopHttp },
    { name: "json", kind: "json", server: stage.sluice },
    { name: "noop unix", kind: "auth", server: stage.noopUnix },
    { name: "unix", kind: "auth", server: stage.unix },
  ] as const satisfies readonly Contestant[];
  const found = await runRounds(contestants, SIZE.rounds, SIZE.requests);
  const of = (name: (typeof contestants)[number]["name"]): readonly Figures[] =>
    found.get(name) ?? [];
  const versus = (mine: readonly Figures[], theirs: readonly Figures[]): string =>
    `${times(ratio(mine, theirs, "rate"))}  (by processor time ${times(1 / ratio(mine, theirs, "cost"))})`;
  say(
    "(a) ext_authz, one per-header rate limiter, vs no-op gRPC",
    "≥ 0.6, stretch 0.7",
    versus(of("check"), of("noop")),
  );
  say("(b) JSON route vs no-op HTTP", "≥ 0.5", versus(of("json"), of("noop http")));
  say(
    `(c) cost with ${SIZE.policies} policies elsewhere vs one`,
    "≤ 1.1",
    times(ratio(of("many"), of("check"), "cost")),
  );
  say("(e) Unix socket vs no-op on a Unix socket", "", versus(of("unix"), of("noop unix")));
  say("(e) Unix socket vs TCP", "", versus(of("unix"), of("check")));
}

function witnesses({ sluice, noop, folders }: Stage): void {
  const rounds = Array.from({ length: 3 }, () => {
    const theirs = witness(noop.target, folders.root, SIZE.requests);
    return witness(sluice.target, folders.root, SIZE.requests) / theirs;
  });
  say("(a) as h2load sees it, one key", "", times(median(rounds)));
}

async function latency({ sluice, noop }: Stage): Promise<void> {
  const load = { open: authLanes, lanes: 8, perLane: 0, requests: SIZE.latency, keys: KEYS };
  const theirs: Latencies[] = [];
  const ours: Latencies[] = [];
  for (let round = 0; round < SIZE.rounds; round++) {
    theirs.push(await openLoop({ ...load, target: noop.target }, PACE));
    const decided = await sluice.decided();
    const mine = await openLoop({ ...load, target: sluice.target }, PACE);
    await prove(sluice, decided, SIZE.latency, "auth", mine.samples);
    ours.push(mine);
  }
  for (const share of [0.5, 0.99]) {
    const mine = median(ours.map((one) => at(one, share)));
    const against = mine / median(theirs.map((one) => at(one, share)));
    const name = `latency p${share * 100} at ${PACE}/s, from the intended send time`;
    say(name, "", `${times(against)} × the no-op's  (${mine.toFixed(2)} ms)`);
  }
}

function at({ latencies }: Latencies, share: number): number {
  return latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
}

/** A fresh server, so that the keys are all it has to remember. */
async function keys(folders: Folders): Promise<void> {
  const server = await startSluice(await freeTarget(), folders.one);
  const contestant = { kind: "auth", server } as const;
  await runOnce(contestant, 20_000, 1);
  // Code of the start is set free only now; keys would seem to cost less than nothing.
  await server.held();
  await runOnce(contestant, 20_000, 1);
  const before = await server.held();
  await runOnce(contestant, SIZE.keys, SIZE.keys);
  const perKey = ((await server.held()) - before) / SIZE.keys;
  say(`(d) bytes per key of ${SIZE.keys}, ArrayBuffers included`, "≤ 64", perKey.toFixed(1));
  await server.stop();
}

async function start(folders: Folders): Promise<void> {
  const lives: number[] = [];
  const answers: number[] = [];
  for (let round = 0; round < SIZE.starts; round++) {
    lives.push(await lifeOfImports());
    answers.push(await firstAnswer(folders.one));
  }
  say(
    "start to first answered check vs life of a process that imports",
    "≤ 4",
    times(median(answers) / median(lives)),
  );
  const { sluice, empty } = await idleMemory(folders.one);
  say("idle memory vs an empty gRPC server", "≤ 1.6", times(sluice / empty));
}

takeLoadCore();
process.stdout.write(`${"".padEnd(62)} ${"goal".padEnd(24)} result\n`);
const stage = await openStage();
try {
  await throughput(stage);
  witnesses(stage);
  await latency(stage);
  await keys(stage.folders);
  await start(stage.folders);
} finally {
  await closeStage(stage);
}
