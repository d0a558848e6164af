// `prometheus.*` of both trees in one process, at a server that keeps what it gets: the agent's metrics arrive, the
// controller's queries do, and both calls are made as their own settings say.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { authority, temporaryFolder } from "../kit/servers/tls.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";
import { fakeProxy, fakeServer } from "../prometheus/kit.ts";

type Env = Readonly<Record<string, string>>;

const ASKING = `circuit:
  evaluation_interval: 0.05s
  components:
    - query: { promql: { query_string: up, evaluation_interval: 0.05s, out_ports: { output: { signal_name: UP } } } }
`;

const WRITE = "/api/v1/write";
const QUERY = "/api/v1/query";
const EMPTY = { status: "success", data: { resultType: "vector", result: [] } };

/** A process whose halves use the same server; `own` has settings of `prometheus` for each half. */
async function running(
  t: TestContext,
  address: string,
  shared: Env,
  own: readonly [Env, Env] = [{}, {}],
) {
  const settings = (["AGENT", "CONTROLLER"] as const).flatMap((name, at) =>
    Object.entries({ PROMETHEUS_ADDRESS: address, ...shared, ...own[at] }).map(
      ([key, value]) => [`SVC_${name}_${key}`, value] as const,
    ),
  );
  return standaloneProcess(t, {
    policies: { "asking.yaml": ASKING },
    env: { ...Object.fromEntries(settings), SVC_AGENT_OTEL_BATCH_POSTROLLUP_TIMEOUT: "0.1s" },
  });
}

const pathOf = (url: string) => url.replace(/\?.*/, "");

test("TLS files, key log, proxy and headers of both halves", async (t) => {
  const folder = temporaryFolder(t);
  const ca = authority(folder, "ca");
  const server = ca.issue("localhost");
  const client = ca.issue("sluice");
  const secure = await fakeServer(t, (_, reply) => reply.end(JSON.stringify(EMPTY)), {
    cert: server.cert,
    key: server.key,
    ca: ca.cert,
    requestCert: true,
    rejectUnauthorized: true,
  });
  const proxy = await fakeProxy(t);
  const own = (name: string): Env => ({
    PROMETHEUS_HTTP_CLIENT_TLS_KEY_LOG_FILE: join(folder, `keys-${name}`),
    PROMETHEUS_HTTP_CLIENT_PROXY_CONNECT_HEADER: JSON.stringify({ "X-Half": [name] }),
  });
  const shared = {
    PROMETHEUS_HTTP_CLIENT_TLS_CA_FILE: ca.certFile,
    PROMETHEUS_HTTP_CLIENT_TLS_CERT_FILE: client.certFile,
    PROMETHEUS_HTTP_CLIENT_TLS_KEY_FILE: client.keyFile,
    PROMETHEUS_HTTP_CLIENT_USE_PROXY: "true",
    CLIENT_PROXY_HTTPS: `http://127.0.0.1:${proxy.port}`,
  };
  await running(t, `https://localhost:${secure.port}`, shared, [own("agent"), own("controller")]);
  for (const path of [WRITE, QUERY])
    await until(`${path} is called`, () => secure.heard.some(({ url }) => pathOf(url) === path));
  for (const name of ["agent", "controller"]) {
    assert.match(readFileSync(join(folder, `keys-${name}`), "utf8"), /TRAFFIC_SECRET/);
    assert.ok(
      proxy.tunnels.some(({ headers }) => headers["x-half"] === name),
      name,
    );
  }
});

test("compression, kept connections and time limits of both halves", async (t) => {
  const open = await fakeServer(t, (_, reply) => reply.end(JSON.stringify(EMPTY)));
  await running(t, open.url, {
    PROMETHEUS_HTTP_CLIENT_DISABLE_COMPRESSION: "true",
    PROMETHEUS_HTTP_CLIENT_DISABLE_KEEP_ALIVES: "true",
  });
  const calls = (path: string) => open.heard.filter(({ url }) => pathOf(url) === path);
  for (const path of [WRITE, QUERY]) {
    await until(`${path} is called twice`, () => calls(path).length >= 2);
    for (const { headers } of calls(path)) assert.equal(headers["accept-encoding"], undefined);
  }
  assert.ok(open.made >= open.heard.length, "a connection for each call");

  const silent = await fakeServer(t, () => undefined);
  const { child } = await running(t, silent.url, { PROMETHEUS_HTTP_CLIENT_TIMEOUT: "0.2s" });
  const said = (words: RegExp) => words.test(child.out() + child.err());
  for (const path of [WRITE, QUERY])
    await until(`${path} is called`, () => silent.heard.some(({ url }) => pathOf(url) === path));
  await until("a call is given up", () => said(/no reply within 200 ms/));
});

test("the agent's requests have at most as many series as otel.batch_postrollup.send_batch_max_size", async (t) => {
  const server = await fakeServer(t, (_, reply) => reply.end(JSON.stringify(EMPTY)));
  const batches = { OTEL_BATCH_POSTROLLUP_SEND_BATCH_MAX_SIZE: "7" };
  await running(t, server.url, {}, [batches, {}]);
  const series = () =>
    server.heard
      .filter(({ url }) => pathOf(url) === WRITE)
      .map(({ body }) => body.split("__name__").length - 1);
  await until("ten requests have come", () => series().length >= 10);
  assert.equal(Math.max(...series()), 7);
});
