// How long one answer takes at a steady pace that any of the servers can keep, alone and behind a real proxy.
// Times run from the moment at which a request was meant to be sent.

import { closedLoop, type Latencies, type Load, openLoop } from "./load.ts";
import { startProxy } from "./proxy.ts";
import { say, times } from "./report.ts";
import { authLanes, browserLanes, judgeAuthReply, judgeBrowserReply, PASSED } from "./requests.ts";
import { KEYS, median, prove, proveSize, REPLY } from "./rounds.ts";
import type { Running, Sluice } from "./servers.ts";
import type { Size } from "./size.ts";
import type { Stage } from "./stage.ts";

/** Requests per second: well below what any of the servers answers at most. */
const PACE = 5_000;
const LANES = { lanes: 8, perLane: 250, keys: KEYS };
/** Calls that make a runtime compile what is hot, before it is asked to keep a pace. */
const WARMING = 6_000;
const SHARES = [0.5, 0.99] as const;

/** A round's p50 and p99, in ms. */
type Found = readonly number[];

export async function latency(stage: Stage, size: Size): Promise<void> {
  const [sluice, go] = [await stage.sluice(), await stage.noop("grpc-go")];
  const requests = Math.ceil(PACE * size.paced);
  const run = async (server: Running | Sluice): Promise<Found> => {
    const decided = await decisions(server);
    const load: Load = { open: authLanes, target: server.target, requests, ...LANES };
    const found = await openLoop(load, { rate: PACE });
    if ("decided" in server) {
      await prove(server, decided, found, judgeAuthReply);
    } else proveSize(found, REPLY.auth);
    return shares(found);
  };
  for (const server of [go, sluice]) {
    const load = { open: authLanes, target: server.target, ...LANES, perLane: 4 };
    await closedLoop({ ...load, requests: WARMING });
  }
  const [theirs, ours] = await interleaved([() => run(go), () => run(sluice)], size.pacedRounds);
  report(`latency at ${PACE}/s vs grpc-go no-op`, "", ours, theirs);
}

export async function throughEnvoy(stage: Stage, size: Size): Promise<void> {
  const servers = {
    tcp: { go: await stage.noop("grpc-go"), own: await stage.sluice() },
    unix: { go: await stage.noop("grpc-go", "unix"), own: await stage.sluice("own", "unix") },
    library: await stage.sluice("grpc-js"),
  };
  const { tcp, unix, library } = servers;
  const agents = [tcp.go, tcp.own, unix.go, unix.own, library];
  const requests = Math.ceil(PACE * size.paced);
  const proxy = await startProxy(
    [undefined, ...agents.map(({ target }) => target)],
    stage.folders.root,
  );
  const run = async (server: Running | Sluice | undefined): Promise<Found> => {
    const decided = await decisions(server);
    const target = proxy.target(server?.target);
    const load: Load = { open: browserLanes, target, requests, ...LANES };
    const found = await openLoop(load, { rate: PACE, sleeps: true });
    proveSize(found, PASSED.length);
    if (server !== undefined && "decided" in server) {
      await prove(server, decided, found, judgeBrowserReply);
    }
    return shares(found);
  };
  try {
    for (const agent of [undefined, ...agents]) {
      const load = {
        open: browserLanes,
        target: proxy.target(agent?.target),
        ...LANES,
        perLane: 4,
      };
      await closedLoop({ ...load, requests: WARMING });
    }
    const found = await interleaved(
      [undefined, ...agents].map((server) => () => run(server)),
      size.pacedRounds,
    );
    const [nobody, goTcp, ownTcp, goUnix, ownUnix, onLibrary] = found;
    report(`through Envoy at ${PACE}/s vs grpc-go no-op`, "≤ 1", ownTcp, goTcp);
    report(`through Envoy at ${PACE}/s, Unix sockets`, "≤ 1", ownUnix, goUnix);
    report(`through Envoy at ${PACE}/s, Sluice on grpc-js`, "", onLibrary, goTcp);
    report(`through Envoy at ${PACE}/s, no check at all`, "", nobody, goTcp);
  } finally {
    await proxy.stop();
  }
}

async function decisions(server: Running | Sluice | undefined): Promise<number> {
  return server !== undefined && "decided" in server ? server.decided() : 0;
}

/** What each gave in every round, after one that does not count. */
async function interleaved(
  runs: readonly (() => Promise<Found>)[],
  rounds: number,
): Promise<readonly (readonly Found[])[]> {
  for (const run of runs) await run();
  const found: Found[][] = runs.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [index, run] of runs.entries()) found[index]?.push(await run());
  }
  return found;
}

function shares({ latencies }: Latencies): Found {
  return SHARES.map((share) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN);
}

function report(
  what: string,
  goal: string,
  mine: readonly Found[] = [],
  theirs: readonly Found[] = [],
): void {
  for (const [index, share] of SHARES.entries()) {
    const of = (found: readonly Found[]) => found.map((round) => round[index] ?? Number.NaN);
    const [own, other] = [of(mine), of(theirs)];
    const against = median(own.map((ms, round) => ms / (other[round] ?? Number.NaN)));
    const beside = `${times(median(own))} ms beside ${times(median(other))}`;
    say(`${what}, p${share * 100}`, goal, `${times(against)} ×  (${beside})`);
  }
}
