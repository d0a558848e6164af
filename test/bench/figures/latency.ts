// Latency of one answer at a steady pace that all servers can keep, alone and behind a real proxy. Times are
// measured from the moment at which a request was due.

import { closedLoop, type Latencies, type Load, openLoop } from "../load/loops.ts";
import {
  authConnections,
  browserConnections,
  judgeAuthReply,
  judgeBrowserReply,
  PASSED,
} from "../load/requests.ts";
import { printRow, times } from "../measure/report.ts";
import { KEYS, median, prove, proveSize, REPLY } from "../measure/rounds.ts";
import type { Size } from "../measure/size.ts";
import { startProxy } from "../servers/envoy.ts";
import type { ServerPool } from "../servers/pool.ts";
import type { Running } from "../servers/processes.ts";
import type { Sluice } from "../servers/sluice.ts";

/** Requests per second: well below the maximum of each server. */
const PACE = 5_000;
const CONNECTIONS = { connections: 8, callsEach: 250, keys: KEYS };
/** Calls that make the runtime compile the hot code before the paced run. */
const WARMING = 6_000;
const SHARES = [0.5, 0.99] as const;

/** The p50 and p99 of one round, in ms. */
type Found = readonly number[];

export async function latency(pool: ServerPool, size: Size): Promise<void> {
  const [sluice, go] = [await pool.sluice(), await pool.noop("grpc-go")];
  const requests = Math.ceil(PACE * size.paced);
  const run = async (server: Running | Sluice): Promise<Found> => {
    const decided = await decisions(server);
    const load: Load = { open: authConnections, target: server.target, requests, ...CONNECTIONS };
    const found = await openLoop(load, { rate: PACE });
    if ("decided" in server) {
      await prove(server, decided, found, judgeAuthReply);
    } else proveSize(found, REPLY.auth);
    return shares(found);
  };
  for (const server of [go, sluice]) {
    const load = { open: authConnections, target: server.target, ...CONNECTIONS, callsEach: 4 };
    await closedLoop({ ...load, requests: WARMING });
  }
  const [theirs, ours] = await interleaved([() => run(go), () => run(sluice)], size.pacedRounds);
  report(`latency at ${PACE}/s vs grpc-go no-op`, "", ours, theirs);
}

export async function throughEnvoy(pool: ServerPool, size: Size): Promise<void> {
  const servers = {
    tcp: { go: await pool.noop("grpc-go"), own: await pool.sluice() },
    unix: { go: await pool.noop("grpc-go", "unix"), own: await pool.sluice("own", "unix") },
    library: await pool.sluice("grpc-js"),
  };
  const { tcp, unix, library } = servers;
  const agents = [tcp.go, tcp.own, unix.go, unix.own, library];
  const requests = Math.ceil(PACE * size.paced);
  const proxy = await startProxy(
    [undefined, ...agents.map(({ target }) => target)],
    pool.folders.root,
  );
  const run = async (server: Running | Sluice | undefined): Promise<Found> => {
    const decided = await decisions(server);
    const target = proxy.target(server?.target);
    const load: Load = { open: browserConnections, target, requests, ...CONNECTIONS };
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
        open: browserConnections,
        target: proxy.target(agent?.target),
        ...CONNECTIONS,
        callsEach: 4,
      };
      await closedLoop({ ...load, requests: WARMING });
    }
    const found = await interleaved(
      [undefined, ...agents].map((server) => () => run(server)),
      size.pacedRounds,
    );
    const [noCheck, goTcp, ownTcp, goUnix, ownUnix, onLibrary] = found;
    report(`through Envoy at ${PACE}/s vs grpc-go no-op`, "≤ 1", ownTcp, goTcp);
    report(`through Envoy at ${PACE}/s, Unix sockets`, "≤ 1", ownUnix, goUnix);
    report(`through Envoy at ${PACE}/s, Sluice on grpc-js`, "", onLibrary, goTcp);
    report(`through Envoy at ${PACE}/s, no check at all`, "", noCheck, goTcp);
  } finally {
    await proxy.stop();
  }
}

async function decisions(server: Running | Sluice | undefined): Promise<number> {
  return server !== undefined && "decided" in server ? server.decided() : 0;
}

/** Results of each run by round, after one round that does not count. */
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
    printRow(`${what}, p${share * 100}`, goal, `${times(against)} ×  (${beside})`);
  }
}
