// Cost of a check under a limit in Redis for the process that decides: Sluice that leases tokens, Sluice that counts each
// flow, and the rate limit service of the Envoy project, all over the same Redis.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { redis as installed } from "../../../deploy/tools/install.ts";
import { dial, KEY_PLACE, type OpenConnection } from "../load/connection.ts";
import { grpcConnections } from "../load/http2.ts";
import { closedLoop } from "../load/loops.ts";
import { authConnections, judgeAuthReply } from "../load/requests.ts";
import { printAlone, printRow, times } from "../measure/report.ts";
import { type Figures, prove, ratio } from "../measure/rounds.ts";
import type { Size } from "../measure/size.ts";
import { DOMAIN, startRatelimit, USER } from "../servers/go/ratelimit.ts";
import type { ServerPool } from "../servers/pool.ts";
import { freeTarget, killOnExit, type Running } from "../servers/processes.ts";
import { type Sluice, startSluice } from "../servers/sluice.ts";

/** Users whose requests take turns: each of them is used often enough for a lease. */
const HOT_KEYS = 100;
const SHAPE = { connections: 8, callsEach: 16, keys: HOT_KEYS } as const;
const FIRST_REQUESTS = 3_000;
/** Requests before each turn. */
const IN_USE = 5_000;

/** `envoy.service.ratelimit.v3.RateLimitRequest`: domain, and a descriptor with one entry. */
const RATELIMIT_MESSAGE = field(
  1,
  DOMAIN,
  field(2, field(1, field(1, USER, field(2, `user-${KEY_PLACE}`)))),
);

interface Contestant {
  readonly name: string;
  readonly server: Running | Sluice;
  readonly open: OpenConnection;
}

export async function sharedLimits(pool: ServerPool, size: Size): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-shared-"));
  const redis = await startRedis(folder);
  const sluice = async (name: string, env: Readonly<Record<string, string>>) => ({
    name,
    open: authConnections,
    server: await startSluice({
      target: await freeTarget(),
      policies: pool.folders.one,
      env: {
        SVC_AGENT_COUNTERS_ENGINE: "redis",
        SVC_AGENT_COUNTERS_REDIS_URL: redis.url,
        // A busy machine is no outage.
        SVC_AGENT_COUNTERS_REDIS_TIMEOUT: "10s",
        ...env,
      },
    }),
  });
  const contestants: readonly Contestant[] = [
    await sluice("leased", {}),
    await sluice("each flow counted", { SVC_AGENT_COUNTERS_LEASE_ENABLED: "false" }),
    {
      name: "envoyproxy/ratelimit",
      open: grpcConnections({
        path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        metadata: {},
        message: RATELIMIT_MESSAGE,
      }),
      server: await startRatelimit(folder, redis.address),
    },
    { name: "counted in process", open: authConnections, server: await pool.sluice() },
  ];
  try {
    const requests: number[] = [];
    for (const contestant of contestants) {
      await turn(contestant, FIRST_REQUESTS);
      const { rate } = await turn(contestant, FIRST_REQUESTS * 2);
      requests.push(Math.ceil(rate * size.turn));
    }
    const found = contestants.map((): Figures[] => []);
    for (let round = 0; round < size.rounds; round++) {
      for (const [at, contestant] of contestants.entries()) {
        found[at]?.push(await turn(contestant, requests[at] ?? FIRST_REQUESTS));
      }
    }
    const [leased = [], exact = [], ratelimit = [], local = []] = found;
    const per = (mine: readonly Figures[], theirs: readonly Figures[]) =>
      times(1 / ratio(mine, theirs, "cost"));
    const what = "checks per second of processor time";
    printRow(
      `leased tokens of Redis vs envoyproxy/ratelimit, ${what}`,
      "≥ 5",
      per(leased, ratelimit),
    );
    printRow(`each flow counted in Redis vs envoyproxy/ratelimit`, "≥ 1.5", per(exact, ratelimit));
    printRow("leased tokens of Redis vs counted in process", "", per(leased, local));
    for (const [at, { name }] of contestants.entries()) printAlone(name, found[at] ?? []);
  } finally {
    for (const { server } of contestants.slice(0, 3)) await server.stop();
    await redis.stop();
    rmSync(folder, { recursive: true });
  }
}

async function turn({ server, open }: Contestant, requests: number): Promise<Figures> {
  // Keys that are in use: leases end while others have their turns.
  await closedLoop({ ...SHAPE, open, target: server.target, requests: IN_USE });
  const decided = "decided" in server ? await server.decided() : 0;
  let before = 0;
  let spent = 0;
  const outcome = await closedLoop({
    ...SHAPE,
    open,
    requests,
    target: server.target,
    opened() {
      before = server.cpu();
    },
    answered() {
      spent = server.cpu() - before;
    },
  });
  if ("decided" in server) await prove(server, decided, outcome, judgeAuthReply);
  else {
    assert.ok(outcome.samples.length > 0, "no reply was sampled");
    // `overall_code` is OK.
    for (const sample of outcome.samples) assert.deepEqual([...sample.subarray(0, 2)], [8, 1]);
  }
  return {
    rate: requests / outcome.seconds,
    cost: (spent / requests) * 1e6,
    use: spent / outcome.seconds,
    loadCost: (outcome.worked / requests) * 1e6,
  };
}

/** A Redis that keeps nothing on disk, on any core: only what the processes spend that ask it is measured. */
async function startRedis(folder: string) {
  const address = await freeTarget();
  const port = address.slice(address.lastIndexOf(":") + 1);
  const args = ["--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", ""];
  const child = spawn("taskset", ["-c", "0-1", installed(), ...args], { stdio: "ignore" });
  killOnExit(child);
  while (
    !(await dial(address).then(
      (socket) => socket.destroy(),
      () => undefined,
    ))
  )
    await new Promise((resolve) => setTimeout(resolve, 10));
  return {
    address,
    url: `redis://${address}`,
    async stop() {
      const ended = once(child, "exit");
      child.kill();
      await ended;
    },
  };
}

/** A field of a message with a text or a message in it, and what follows. Lengths are below 128. */
function field(number: number, content: string | Buffer, next: Buffer = Buffer.alloc(0)): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes, next]);
}
