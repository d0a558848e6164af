// Delay of new connections beside a full load: probes open theirs when a server is busiest.

import { get } from "node:http";
import { closedLoop, type Load } from "../load/loops.ts";
import { authConnections, judgeAuthReply } from "../load/requests.ts";
import { printRow, times } from "../measure/report.ts";
import { KEYS, prove, warm } from "../measure/rounds.ts";
import type { Size } from "../measure/size.ts";
import type { ServerPool } from "../servers/pool.ts";

const CONNECTIONS = 8;
const CALLS_EACH = 750;
const PROBES = 100;

export async function newConnections(pool: ServerPool, size: Size): Promise<void> {
  const server = await pool.sluice();
  await warm({ name: "new connections", shape: "auth", server }, 1);
  const decided = await server.decided();
  const waits: number[] = [];
  const requests = CONNECTIONS * CALLS_EACH * 20 * size.watched;
  const load: Load = {
    open: authConnections,
    target: server.target,
    connections: CONNECTIONS,
    callsEach: CALLS_EACH,
    requests,
    keys: KEYS,
  };
  const probes = Promise.withResolvers<void>();
  const start = setTimeout(() => {
    const all = Array.from({ length: PROBES }, async () => waits.push(await probe(server.target)));
    Promise.all(all).then(() => probes.resolve(), probes.reject);
  }, 200);
  const outcome = await closedLoop(load);
  clearTimeout(start);
  await probes.promise;
  await prove(server, decided, outcome, judgeAuthReply);
  waits.sort((left, right) => left - right);
  const at = (share: number) => times(waits[Math.ceil(share * waits.length) - 1] ?? Number.NaN);
  const what = `${PROBES} new connections beside ${CONNECTIONS * CALLS_EACH} calls in flight, p99`;
  printRow(what, "≤ 250 ms", `${at(0.99)} ms  (median ${at(0.5)} ms)`);
}

/** Milliseconds of one probe over a connection of its own. */
function probe(target: string): Promise<number> {
  const began = performance.now();
  return new Promise((resolve, reject) => {
    const sent = get({
      host: "127.0.0.1",
      port: target.split(":")[1],
      path: "/healthz",
      agent: false,
    });
    sent.on("error", reject);
    sent.on("response", (reply) => {
      reply.resume();
      reply.on("end", () => resolve(performance.now() - began));
    });
  });
}
