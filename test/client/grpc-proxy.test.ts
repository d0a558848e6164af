// gRPC calls through a proxy, by `client.proxy`: which calls take it, with and without TLS, and what cannot be proxied.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { GrpcClient } from "#client/grpc.ts";
import { grpcProxy } from "#client/grpc-proxy.ts";
import type { ProxySettings } from "#client/http-settings.ts";
import { TlsFiles } from "#client/tls-files.ts";
import { realChance, realClock } from "#runtime/life/clock.ts";
import { sharedStore } from "../../src/cli/processes/serve.ts";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { folderOf } from "../kit/folder.ts";
import { freePort } from "../kit/free-port.ts";
import { authority } from "../kit/servers/tls.ts";
import { configOf } from "../kit/sluice/config.ts";
import { memoryLog, silentLog } from "../kit/sluice/log.ts";
import { portSettings, testPort } from "../kit/sluice/port.ts";
import { fakeProxy, NO_PROXY } from "../prometheus/kit.ts";

const ECHO = {
  name: "test.Echo",
  access: "data",
  methods: { Say: { kind: "unary", handle: (bytes: Uint8Array) => bytes } },
} as const;

/** An echo server, and a way to ask it with these settings of `client.proxy`. */
async function echo(t: TestContext, secure = false) {
  const ca = authority(folderOf(t), "ca");
  const { certFile, keyFile } = ca.issue("server");
  const { tls } = portSettings({
    tls: secure ? { enabled: true, cert_file: certFile, key_file: keyFile } : { enabled: false },
  });
  const { port } = await testPort(t, { services: [ECHO], settings: { tls } });
  const address = `localhost:${port}`;
  const files = {
    ca_file: ca.certFile,
    cert_file: "",
    key_file: "",
    key_log_file: "",
    insecure_skip_verify: false,
  };
  const say = async (settings: Partial<ProxySettings>, env: Record<string, string> = {}) => {
    const options = { clock: realClock(), log: silentLog(), key: "tls" };
    const client = new GrpcClient({
      address,
      proxy: grpcProxy(address, secure, { settings: { ...NO_PROXY, ...settings }, env }),
      ...(secure ? { tls: new TlsFiles(files, options) } : {}),
    });
    try {
      const reply = await client.call("/test.Echo/Say", Buffer.from("a"), { timeoutMs: 10_000 });
      return String(reply);
    } finally {
      await client.close();
    }
  };
  return { address, say };
}

test("cleartext and TLS are tunnelled, each by its proxy, with credentials", async (t) => {
  const proxy = await fakeProxy(t);
  const uri = `http://me:p%40ss@127.0.0.1:${proxy.port}`;
  const plain = await echo(t);
  assert.equal(await plain.say({ http: uri }), "a");
  const secure = await echo(t, true);
  assert.equal(await secure.say({ https: uri }), "a", "the certificate is that of the server");
  assert.deepEqual(
    proxy.tunnels.map(({ to }) => to),
    [plain.address, secure.address],
  );
  const basic = `Basic ${Buffer.from("me:p@ss").toString("base64")}`;
  for (const { headers } of proxy.tunnels) assert.equal(headers["proxy-authorization"], basic);
});

test("no proxy for the other scheme, for exceptions, or where the caller has none", async (t) => {
  const proxy = await fakeProxy(t);
  const uri = `http://127.0.0.1:${proxy.port}`;
  const { say, address } = await echo(t);
  assert.equal(await say({ https: uri }), "a");
  assert.equal(await say({ http: uri, no_proxy: ["localhost"] }), "a");
  assert.equal(await say({ no_proxy: ["other"] }, { HTTP_PROXY: uri }), "a");
  const between = new GrpcClient({ address });
  t.after(() => between.close());
  await between.call("/test.Echo/Say", Buffer.from("a"), { timeoutMs: 10_000 });
  assert.equal(proxy.tunnels.length, 0);
  assert.equal(await say({}, { HTTP_PROXY: uri }), "a");
  assert.equal(proxy.tunnels.length, 1, "the environment counts where no setting does");
});

test("a proxy that refuses makes the server unavailable, and one behind TLS is refused by its key", async (t) => {
  const proxy = await fakeProxy(t, 407);
  const { say } = await echo(t);
  const printed = t.mock.method(console, "error");
  for (const port of [proxy.port, await freePort()])
    await assert.rejects(say({ http: `127.0.0.1:${port}` }), {
      code: "UNAVAILABLE",
      message: `cannot connect: the proxy 127.0.0.1:${port} (client.proxy, or HTTP_PROXY and HTTPS_PROXY) is away or refused`,
    });
  assert.equal(printed.mock.callCount(), 0, "the library writes nothing between our lines");
  await assert.rejects(say({ http: "https://me:secret@proxy:443" }), {
    code: "INVALID_ARGUMENT",
    message: "client.proxy.http: wanted an http:// proxy for gRPC, got https://",
  });
});

test("client.proxy governs the calls of an agent and of a controller to etcd", async (t) => {
  const proxy = await fakeProxy(t);
  const { endpoints } = await startEtcd(t);
  for (const name of ["agent", "controller"] as const) {
    const prefix = `SVC_${name.toUpperCase()}`;
    const config = configOf(name, {
      [`${prefix}_ETCD_ENDPOINTS`]: JSON.stringify(endpoints),
      [`${prefix}_CLIENT_PROXY_HTTP`]: `127.0.0.1:${proxy.port}`,
    });
    const before = proxy.tunnels.length;
    const open = await sharedStore(config);
    const store = open({
      clock: realClock(),
      chance: realChance(),
      log: memoryLog(),
      usable: () => undefined,
    });
    assert.deepEqual((await store.list("/")).entries, []);
    await store.close();
    assert.ok(proxy.tunnels.length > before, name);
    assert.equal(`http://${proxy.tunnels.at(-1)?.to}`, endpoints[0]);
  }
});
