// The settings of `kubernetes_client.http_client`, as the client of the API uses them for calls and for watches.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { HttpClientSettings, ProxySettings } from "#client/http-settings.ts";
import type { Access } from "#kube/api/access.ts";
import { KubeClient } from "#kube/api/client.ts";
import { fixedToken } from "#kube/api/credentials.ts";
import { fakeClock } from "../../kit/clock.ts";
import { THINGS } from "../../kit/kube/fake-api.ts";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { until } from "../../kit/until.ts";
import {
  type Answering,
  clientSettings,
  fakeProxy,
  fakeServer,
  NO_PROXY,
} from "../../prometheus/kit.ts";

const EMPTY: Answering = ({ url }, reply) => {
  // A watch stays open.
  if (url.includes("watch=true")) reply.writeHead(200).flushHeaders();
  else reply.end(JSON.stringify({ metadata: { resourceVersion: "1" }, items: [] }));
};

const NO_FILES = { ca_file: "", cert_file: "", key_file: "" };

function clientFor(
  t: TestContext,
  url: string,
  settings: HttpClientSettings,
  {
    proxy = NO_PROXY,
    access = {},
    clock = fakeClock(0, Date.now()),
  }: {
    readonly proxy?: ProxySettings;
    readonly access?: Partial<Access>;
    readonly clock?: ReturnType<typeof fakeClock>;
  } = {},
) {
  const client = new KubeClient({
    access: {
      url,
      namespace: "a",
      credentials: fixedToken(undefined),
      files: NO_FILES,
      material: {},
      insecure: false,
      ...access,
    },
    settings,
    proxy,
    env: {},
    clock,
  });
  t.after(() => client.close());
  const watch = async () => {
    const stop = new AbortController();
    t.after(() => stop.abort());
    const { signal } = stop;
    return client.watch(THINGS, { resourceVersion: "1", seconds: 300, signal });
  };
  return { client, watch };
}

test("compression, kept connections and the time limit", async (t) => {
  const server = await fakeServer(t, EMPTY);
  const settings = clientSettings({ disable_compression: true, disable_keep_alives: true });
  const { client } = clientFor(t, server.url, settings);
  await client.page(THINGS, {});
  await client.page(THINGS, {});
  assert.ok(server.heard.every(({ headers }) => headers["accept-encoding"] === undefined));
  assert.equal(server.made, 2);

  const silent = await fakeServer(t, () => undefined);
  const clock = fakeClock();
  const patient = clientFor(t, silent.url, clientSettings({ timeout: 200 }), { clock });
  const call = patient.client.page(THINGS, {});
  const refused = assert.rejects(call, /no reply within 200 ms/);
  await until("it was called", () => silent.heard.length === 1);
  clock.advance(200);
  await refused;
});

test("a limit of connections is for calls: a watch never makes them wait", async (t) => {
  const server = await fakeServer(t, EMPTY);
  const settings = clientSettings({ max_conns_per_host: 1 });
  const { client, watch } = clientFor(t, server.url, settings);
  await watch();
  await watch();
  await Promise.all([client.page(THINGS, {}), client.page(THINGS, {})]);
  assert.equal(server.made, 3);
});

test("a watch outlasts the time limit of calls", async (t) => {
  const server = await fakeServer(t, (heard, reply) => {
    EMPTY(heard, reply);
    setImmediate(() => reply.write('{"type":"BOOKMARK"}\n'));
  });
  const clock = fakeClock();
  const { watch } = clientFor(t, server.url, clientSettings({ timeout: 200 }), { clock });
  const lines = await watch();
  clock.advance(100_000);
  assert.equal((await lines.next()).value, '{"type":"BOOKMARK"}');
});

test("certificates, key log and proxy of the settings", async (t) => {
  const folder = temporaryFolder(t);
  const ca = authority(folder, "ca");
  const server = ca.issue("localhost");
  const client = ca.issue("sluice");
  const other = authority(folder, "other");
  const tls = {
    cert: server.cert,
    key: server.key,
    ca: ca.cert,
    requestCert: true,
    rejectUnauthorized: true,
  };
  const secure = await fakeServer(t, EMPTY, tls);
  const proxy = await fakeProxy(t);
  const keys = join(folder, "keys");
  const settings = clientSettings({
    use_proxy: true,
    proxy_connect_header: { "X-From": ["sluice"] },
    tls: {
      ca_file: ca.certFile,
      cert_file: client.certFile,
      key_file: client.keyFile,
      key_log_file: keys,
    },
  });
  // The settings count before what the service account or the kubeconfig brings.
  const { client: kube, watch } = clientFor(t, `https://localhost:${secure.port}`, settings, {
    proxy: { ...NO_PROXY, https: `http://127.0.0.1:${proxy.port}` },
    access: { files: { ...NO_FILES, ca_file: other.certFile } },
  });
  await kube.page(THINGS, {});
  await watch();
  assert.match(readFileSync(keys, "utf8"), /TRAFFIC_SECRET/);
  assert.deepEqual(
    proxy.tunnels.map(({ headers }) => headers["x-from"]),
    ["sluice", "sluice"],
  );
});

test("a server whose certificate nobody vouches for is refused, unless the kubeconfig accepts any", async (t) => {
  const own = authority(temporaryFolder(t), "ca").issue("localhost");
  const secure = await fakeServer(t, EMPTY, { cert: own.cert, key: own.key });
  const url = `https://localhost:${secure.port}`;
  const strict = clientFor(t, url, clientSettings());
  await assert.rejects(strict.client.page(THINGS, {}), /TLS: /);
  const lax = clientFor(t, url, clientSettings(), { access: { insecure: true } });
  await lax.client.page(THINGS, {});
});
