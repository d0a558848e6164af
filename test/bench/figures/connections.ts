// Throughput by the number of connections, and the memory of an idle connection.

import { closedLoop } from "../load/loops.ts";
import { authConnections, judgeAuthReply } from "../load/requests.ts";
import { kilobytes, printAlone, printRow, versus } from "../measure/report.ts";
import { type Contestant, KEYS, prove, runRounds, warm } from "../measure/rounds.ts";
import type { Size } from "../measure/size.ts";
import type { ServerPool } from "../servers/pool.ts";
import { freeTarget } from "../servers/processes.ts";
import { startSluice } from "../servers/sluice.ts";

export async function shapes(pool: ServerPool, size: Size): Promise<void> {
  const server = await pool.sluice();
  const go = await pool.noop("grpc-go");
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
    printRow(`${name} vs 8 of 16`, "≥ 0.8", versus(found[name], peak));
  }
  // Nothing can be read or written in batches here, so this shows what a single call costs.
  const alone = found["500 connections of one call"];
  const theirs = found["500 connections of one call, grpc-go no-op"];
  printRow("500 connections of one call vs grpc-go no-op", "", versus(alone, theirs));
  for (const { name } of contestants) printAlone(name, found[name]);
}

/** Measured after a full collection; resident memory also has room that the collector keeps for later. */
export async function idleConnections({ folders }: ServerPool, size: Size): Promise<void> {
  const server = await startSluice({ target: await freeTarget(), policies: folders.one });
  await warm({ name: "warm", shape: "auth", server }, 1);
  const heldBefore = await server.held();
  const residentBefore = server.resident();
  const decided = await server.decided();
  const count = size.idleConnections;
  const outcome = await closedLoop({
    open: authConnections,
    target: server.target,
    connections: count,
    callsEach: 1,
    keys: KEYS,
    requests: 0,
    async opened() {
      const held = ((await server.held()) - heldBefore) / count;
      const resident = (server.resident() - residentBefore) / count;
      const result = `${kilobytes(held)}  (resident ${kilobytes(resident)})`;
      printRow(`heap and external memory per idle connection of ${count}`, "≤ 20 kB", result);
    },
  });
  await prove(server, decided, outcome, judgeAuthReply);
  await server.stop();
}
