// Publishing metrics by remote write: to a real Prometheus that takes them, is away for a while and comes back, and to
// servers that refuse.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { startAgent } from "#agent/agent.ts";
import { Fault } from "#base/fault.ts";
import { snappy } from "#prometheus/remote-write/encode.ts";
import { RemoteWrite, type RemoteWriteOptions } from "#prometheus/remote-write.ts";
import { fakeClock } from "../kit/clock.ts";
import { processOn } from "../kit/process.ts";
import { startPrometheus } from "../kit/servers/prometheus.ts";
import { configOf } from "../kit/sluice/config.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { until } from "../kit/until.ts";

/** The value of an instant query, or undefined when it has none. */
async function latest(
  address: string,
  query: string,
  at = Date.now(),
): Promise<string | undefined> {
  const parameters = new URLSearchParams({ query, time: String(at / 1_000) });
  const reply = await fetch(`${address}/api/v1/query?${parameters}`);
  const { data } = JSON.parse(await reply.text());
  return data.result[0]?.value[1];
}

async function agentWriting(
  t: TestContext,
  address: string,
  env: Readonly<Record<string, string>> = {},
  seed = 1,
) {
  const clock = fakeClock(0, Date.now());
  const variables = { PROMETHEUS_ADDRESS: address, ...env };
  const started = await processOn(t, "agent", { clock, env: variables, seed });
  const { config } = configOf(
    "agent",
    Object.fromEntries(
      Object.entries(variables).map(([key, value]) => [`SVC_AGENT_${key}`, value]),
    ),
  );
  const agent = await startAgent(started.process, config);
  return { ...started, agent };
}

test("the metrics of an agent arrive at a real Prometheus, wait while it is frozen, and are told apart by agent", async (t) => {
  const prometheus = await startPrometheus(t);
  const agent = await agentWriting(t, prometheus.address, { AGENT_INFO_AGENT_GROUP: "shop" });
  const group = { AGENT_INFO_AGENT_GROUP: "shop" };
  const other = await agentWriting(t, prometheus.address, group, 2);
  other.clock.advance(1_000);
  agent.process.serverMetrics.connectionRefused("too_many");
  agent.clock.advance(1_000);
  const refused =
    'server_refused_connections_total{job="sluice-agent",agent_group="shop",reason="too_many"}';
  await until(
    "both have written",
    async () => (await latest(prometheus.address, `count(${refused})`)) === "2",
  );
  assert.equal(await latest(prometheus.address, `sum(${refused})`), "1");
  assert.equal(await latest(prometheus.address, "count(grpc_server_started_total)"), undefined);
  await prometheus.freeze();
  agent.process.serverMetrics.connectionRefused("too_many");
  // The attempt that meets the frozen server ends, and what comes meanwhile waits.
  for (let second = 0; second < 15; second++) {
    agent.clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await until("the server is known to be away", () =>
    agent.lines.some(({ message }) => /cannot write metrics/.test(message)),
  );
  assert.ok((agent.process.metrics.read("sluice_remote_write_waiting_bytes") ?? 0) > 0);
  prometheus.thaw();
  let polls = 0;
  await until("the value that waited is written", async () => {
    // Now and then, so that an attempt has time to end and the pause after a failed one goes by.
    if (polls++ % 10 === 0) agent.clock.advance(1_000);
    return (await latest(prometheus.address, `sum(${refused})`, agent.clock.wall())) === "2";
  });
  assert.equal(
    agent.process.metrics.read("sluice_remote_write_samples_total", { result: "dropped" }),
    0,
  );
});

test("metrics for each method of gRPC are published only with otel.enable_high_cardinality_platform_metrics", async (t) => {
  const prometheus = await startPrometheus(t);
  const agent = await agentWriting(t, prometheus.address, {
    OTEL_ENABLE_HIGH_CARDINALITY_PLATFORM_METRICS: "true",
  });
  const method = { path: "/a.B/C", service: "a.B", method: "C", type: "unary" } as const;
  agent.process.serverMetrics.grpcStarted(method);
  agent.clock.advance(1_000);
  await until(
    "it is written",
    async () =>
      (await latest(prometheus.address, 'grpc_server_started_total{grpc_method="C"}')) === "1",
  );
});

/** A writer of `series` series to a server that answers with what `status` says; 0: it cannot be reached. */
function writing(t: TestContext, changed: Partial<RemoteWriteOptions> & { series?: number } = {}) {
  const clock = fakeClock();
  const log = memoryLog();
  const server = { status: 204, bodies: [] as Uint8Array[] };
  const { series = 250, ...others } = changed;
  const write = new RemoteWrite({
    address: "metrics:9090",
    http: {
      async call({ url, body }) {
        assert.equal(url, "http://metrics:9090/api/v1/write");
        if (server.status === 0) throw new Fault("UNAVAILABLE", "connection refused");
        if (server.status < 300) server.bodies.push(body as Uint8Array);
        return { status: server.status, headers: {}, body: Buffer.alloc(0) };
      },
    },
    samples: () =>
      Array.from({ length: series }, (_, at) => ({
        labels: { __name__: "up", number: String(at) },
        value: at,
      })),
    labels: { job: "test" },
    everyMs: 1_000,
    maxSeries: 100,
    clock,
    log,
    ...others,
  });
  t.after(() => write.close());
  const second = async () => {
    clock.advance(1_000);
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  return { write, server, log, second };
}

test("a request has at most as many series as otel.batch_postrollup.send_batch_max_size, 0 for no limit", async (t) => {
  for (const [maxSeries, requests] of [
    [100, 3],
    [0, 1],
  ] as const) {
    const { server, second, write } = writing(t, { maxSeries });
    await second();
    assert.equal(server.bodies.length, requests);
    assert.equal(write.counts.sent, 250);
  }
});

test("while the server is away, samples wait in bounded memory, the oldest are dropped, and each transition is logged once", async (t) => {
  const { write, server, log, second } = writing(t, { series: 20_000, maxSeries: 0 });
  server.status = 0;
  for (let at = 0; at < 60; at++) {
    await second();
    assert.ok(write.waitingBytes <= 16 * 1024 * 1024);
  }
  assert.ok(write.counts.dropped > 0);
  assert.ok(write.waitingBytes > 14 * 1024 * 1024);
  assert.deepEqual(
    log.lines.map(({ level, message }) => [level, message]),
    [["warn", "cannot write metrics to the metrics server"]],
  );
  server.status = 204;
  for (let at = 0; at < 31; at++) await second();
  assert.equal(write.waitingBytes, 0);
  const { sent, dropped, refused } = write.counts;
  assert.equal(sent + dropped, 91 * 20_000);
  assert.equal(refused, 0);
  assert.match(log.lines[1]?.message ?? "", /works again/);
  assert.equal(log.lines.length, 2);
});

test("what the server refuses is counted and not sent again; a server in trouble is", async (t) => {
  const { write, server, second } = writing(t);
  server.status = 400;
  await second();
  assert.deepEqual(write.counts, { sent: 0, refused: 250, dropped: 0 });
  assert.equal(write.waitingBytes, 0);
  for (const status of [503, 429, 500, 401]) {
    const other = writing(t);
    other.server.status = status;
    await other.second();
    assert.ok(other.write.waitingBytes > 0, String(status));
  }
});

test("an address that cannot be used is named without its secrets", () => {
  assert.throws(
    () => new RemoteWrite({ address: "ftp://user:hunter2@x" } as RemoteWriteOptions),
    (thrown: Error) =>
      /prometheus\.address: wanted/.test(thrown.message) && !/hunter2/.test(thrown.message),
  );
});

test("a block of Snappy holds literals of at most 64 KiB", () => {
  assert.deepEqual([...snappy(new Uint8Array(0))], [0]);
  assert.deepEqual([...snappy(Uint8Array.of(7, 8))], [2, 0xf4, 1, 0, 7, 8]);
  const long = snappy(new Uint8Array(65_537).fill(9));
  assert.deepEqual([...long.subarray(0, 6)], [0x81, 0x80, 0x04, 0xf4, 0xff, 0xff]);
  assert.deepEqual([...long.subarray(-4)], [0xf4, 0, 0, 9]);
});
