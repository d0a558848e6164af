// Throughput: how many requests one core answers, for checks over gRPC and JSON and for servers that decide nothing.

import { h2loadRate } from "../load/h2load.ts";
import { printAlone, printRow, times, versus } from "../measure/report.ts";
import { type Contestant, median, ratio, runRounds } from "../measure/rounds.ts";
import type { Size } from "../measure/size.ts";
import type { ServerPool } from "../servers/pool.ts";

export async function throughput(pool: ServerPool, size: Size): Promise<void> {
  const contestants = [
    { name: "own", shape: "auth", server: await pool.sluice() },
    { name: "own no-op", shape: "auth", server: await pool.noop("own") },
    { name: "grpc-go no-op", shape: "auth", server: await pool.noop("grpc-go") },
    { name: "grpc-js", shape: "auth", server: await pool.sluice("grpc-js") },
    { name: "grpc-js no-op", shape: "auth", server: await pool.noop("grpc-js") },
    { name: "node:http2 no-op", shape: "auth", server: await pool.noop("http2") },
    { name: "own, Unix socket", shape: "auth", server: await pool.sluice("own", "unix") },
    {
      name: "grpc-go no-op, Unix socket",
      shape: "auth",
      server: await pool.noop("grpc-go", "unix"),
    },
    { name: "1 000 policies", shape: "auth", server: await pool.sluice("own", "tcp", "many") },
    { name: "JSON", shape: "json", server: await pool.sluice() },
    { name: "node:http no-op", shape: "json", server: await pool.noop("http") },
  ] as const satisfies readonly Contestant[];
  const found = await runRounds(contestants, size.rounds, size.turn);
  const { own, "grpc-go no-op": go, "own no-op": noop, "grpc-js": library } = found;
  printRow("(a) ext_authz, own transport vs grpc-go no-op", "≥ 2, stretch 3", versus(own, go));
  printRow("    own transport vs own no-op", "≥ 0.5", versus(own, noop));
  printRow("    own no-op vs grpc-go no-op", "≥ 4", versus(noop, go));
  printRow("    own transport vs Sluice on grpc-js", "≥ 4", versus(own, library));
  printRow("    Sluice on grpc-js vs grpc-js no-op", "", versus(library, found["grpc-js no-op"]));
  printRow("    own transport vs node:http2 no-op", "", versus(own, found["node:http2 no-op"]));
  const unix = found["own, Unix socket"];
  const goUnix = found["grpc-go no-op, Unix socket"];
  printRow("(b) JSON vs node:http no-op", "≥ 0.6", versus(found["JSON"], found["node:http no-op"]));
  const growth = ratio(found["1 000 policies"], own, "cost");
  printRow(`(c) cost with ${size.policies} policies elsewhere vs one`, "≤ 1.1", times(growth));
  printRow("(e) Unix socket vs grpc-go no-op on one", "≥ 2", versus(unix, goUnix));
  printRow("    Unix socket vs TCP", "", versus(unix, own));
  for (const { name } of contestants) printAlone(name, found[name]);
}

/** The ratio that h2load sees, which must be about that of the bench's own load generator. */
export async function h2loadThroughput(pool: ServerPool, size: Size): Promise<void> {
  const [sluice, go] = [await pool.sluice(), await pool.noop("grpc-go")];
  const rounds = Array.from({ length: size.h2loadRounds }, () => {
    const theirs = h2loadRate(go.target, pool.folders.root, size.h2loadRequests);
    return h2loadRate(sluice.target, pool.folders.root, size.h2loadRequests) / theirs;
  });
  printRow("(a) as h2load sees it, one key", "", times(median(rounds)));
}
