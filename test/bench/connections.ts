// What the number of connections does to throughput, and what one holds while nobody uses it.

import { closedLoop } from "./load.ts";
import { kilobytes, say, tellAlone, versus } from "./report.ts";
import { authLanes, judgeAuthReply } from "./requests.ts";
import { type Contestant, KEYS, prove, runRounds, warm } from "./rounds.ts";
import { freeTarget, startSluice } from "./servers.ts";
import type { Size } from "./size.ts";
import type { Stage } from "./stage.ts";

export async function shapes(stage: Stage, size: Size): Promise<void> {
  const server = await stage.sluice();
  const go = await stage.noop("grpc-go");
  const contestants = [
    { name: "8 connections of 16 calls", shape: "auth", server },
    { name: "500 connections of 16 calls", shape: "auth on 500 connections", server },
    { name: "one connection of 1 000 calls", shape: "auth on one connection", server },
    { name: "500 connections of one call", shape: "auth one by one", server },
    { name: "500 connections of one call, grpc-go no-op", shape: "auth one by one", server: go },
  ] as const satisfies readonly Contestant[];
  const found = await runRounds(contestants, size.rounds, size.turn);
  const peak = found["8 connections of 16 calls"];
  for (const name of ["500 connections of 16 calls", "one connection of 1 000 calls"] as const) {
    say(`${name} vs 8 of 16`, "≥ 0.8", versus(found[name], peak));
  }
  // Nothing can be read or written together here: it shows what a call costs by itself.
  const alone = found["500 connections of one call"];
  const theirs = found["500 connections of one call, grpc-go no-op"];
  say("500 connections of one call vs grpc-go no-op", "", versus(alone, theirs));
  for (const { name } of contestants) tellAlone(name, found[name]);
}

/** By what a server holds after a full collection; resident memory also has what the collector keeps for later. */
export async function idleConnections({ folders }: Stage, size: Size): Promise<void> {
  const server = await startSluice({ target: await freeTarget(), policies: folders.one });
  await warm({ name: "warm", shape: "auth", server }, 1);
  const heldBefore = await server.held();
  const residentBefore = server.resident();
  const decided = await server.decided();
  const count = size.idleConnections;
  const outcome = await closedLoop({
    ...{
      open: authLanes,
      target: server.target,
      lanes: count,
      perLane: 1,
      keys: KEYS,
      requests: 0,
    },
    async opened() {
      const held = ((await server.held()) - heldBefore) / count;
      const resident = (server.resident() - residentBefore) / count;
      const result = `${kilobytes(held)}  (resident ${kilobytes(resident)})`;
      say(`heap and external memory per idle connection of ${count}`, "≤ 20 kB", result);
    },
  });
  await prove(server, decided, outcome, judgeAuthReply);
  await server.stop();
}
