// As many requests as a core can answer: the checks over gRPC and JSON, and the servers that do nothing.

import { say, tellAlone, times, versus } from "./report.ts";
import { type Contestant, median, ratio, runRounds } from "./rounds.ts";
import type { Size } from "./size.ts";
import type { Stage } from "./stage.ts";
import { witness } from "./witness.ts";

export async function throughput(stage: Stage, size: Size): Promise<void> {
  const contestants = [
    { name: "own", shape: "auth", server: await stage.sluice() },
    { name: "own no-op", shape: "auth", server: await stage.noop("own") },
    { name: "grpc-go no-op", shape: "auth", server: await stage.noop("grpc-go") },
    { name: "grpc-js", shape: "auth", server: await stage.sluice("grpc-js") },
    { name: "grpc-js no-op", shape: "auth", server: await stage.noop("grpc-js") },
    { name: "node:http2 no-op", shape: "auth", server: await stage.noop("http2") },
    { name: "own, Unix socket", shape: "auth", server: await stage.sluice("own", "unix") },
    {
      name: "grpc-go no-op, Unix socket",
      shape: "auth",
      server: await stage.noop("grpc-go", "unix"),
    },
    { name: "1 000 policies", shape: "auth", server: await stage.sluice("own", "tcp", "many") },
    { name: "JSON", shape: "json", server: await stage.sluice() },
    { name: "node:http no-op", shape: "json", server: await stage.noop("http") },
  ] as const satisfies readonly Contestant[];
  const found = await runRounds(contestants, size.rounds, size.turn);
  const { own, "grpc-go no-op": go, "own no-op": noop, "grpc-js": library } = found;
  say("(a) ext_authz, own transport vs grpc-go no-op", "≥ 2, stretch 3", versus(own, go));
  say("    own transport vs own no-op", "≥ 0.5", versus(own, noop));
  say("    own no-op vs grpc-go no-op", "≥ 4", versus(noop, go));
  say("    own transport vs Sluice on grpc-js", "≥ 4", versus(own, library));
  say("    Sluice on grpc-js vs grpc-js no-op", "", versus(library, found["grpc-js no-op"]));
  say("    own transport vs node:http2 no-op", "", versus(own, found["node:http2 no-op"]));
  const unix = found["own, Unix socket"];
  const goUnix = found["grpc-go no-op, Unix socket"];
  say("(b) JSON vs node:http no-op", "≥ 0.6", versus(found["JSON"], found["node:http no-op"]));
  const growth = ratio(found["1 000 policies"], own, "cost");
  say(`(c) cost with ${size.policies} policies elsewhere vs one`, "≤ 1.1", times(growth));
  say("(e) Unix socket vs grpc-go no-op on one", "≥ 2", versus(unix, goUnix));
  say("    Unix socket vs TCP", "", versus(unix, own));
  for (const { name } of contestants) tellAlone(name, found[name]);
}

/** h2load must see about the same ratio as the bench's own generator. */
export async function witnesses(stage: Stage, size: Size): Promise<void> {
  const [sluice, go] = [await stage.sluice(), await stage.noop("grpc-go")];
  const rounds = Array.from({ length: size.witnesses }, () => {
    const theirs = witness(go.target, stage.folders.root, size.witnessed);
    return witness(sluice.target, stage.folders.root, size.witnessed) / theirs;
  });
  say("(a) as h2load sees it, one key", "", times(median(rounds)));
}
