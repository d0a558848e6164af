// Access to the counters of an agent: only agents of its group are let in, by the secret that the first of them left in
// etcd or by certificates, and nothing is sent in clear.

import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { type TestContext, test } from "node:test";
import { GrpcClient } from "#client/grpc.ts";
import { TlsFiles } from "#client/tls-files.ts";
import { GroupSecret } from "#counters/peers/membership/secret.ts";
import { realClock } from "#runtime/life/clock.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../../kit/etcd/store.ts";
import { folderOf } from "../../kit/folder.ts";
import { listening, type SluiceChild, startSluice } from "../../kit/servers/sluice.ts";
import { authority } from "../../kit/servers/tls.ts";
import { call } from "../../kit/sluice/check.ts";
import { counted, scraped } from "../../kit/sluice/scrape.ts";
import { until } from "../../kit/until.ts";

const ENV = {
  COUNTERS_ENGINE: "peers",
  DIST_CACHE_BIND_ADDR: "127.0.0.1:0",
  DIST_CACHE_MEMBERLIST_BIND_ADDR: "127.0.0.1:0",
};

const TAKE = "/sluice.fleet.v1.Counters/Take";
const LIMITER = { policyName: "p", name: "l", capacity: 10, amount: 0, intervalMs: 1_000 };
const ONE = encode("sluice.fleet.v1.TakeRequest", {
  limiters: [LIMITER],
  limiter: [0],
  keyLo: [1],
  keyHi: [1],
  amount: [1],
});

/** Addresses that an agent announces. */
async function announced(agent: SluiceChild): Promise<{ counters: string; probes: string }> {
  let services: Record<string, string> = {};
  await until("the agent is announced", async () => {
    const { body } = await call(agent.address(), "GET", "/v1/peers");
    services = JSON.parse(body).self_peer?.services ?? {};
    return services["sluice-counters"] !== undefined;
  });
  return {
    counters: services["sluice-counters"] ?? "",
    probes: services["sluice-counters-probes"] ?? "",
  };
}

/** Result of one take: its outcome, or the code of the error. */
async function take(t: TestContext, settings: ConstructorParameters<typeof GrpcClient>[0]) {
  const client = new GrpcClient(settings);
  t.after(() => client.close());
  try {
    const reply = await client.call(TAKE, ONE, { timeoutMs: 20_000 });
    return decode("sluice.fleet.v1.TakeResponse", reply).outcome[0];
  } catch (thrown) {
    return (thrown as { readonly code: string }).code;
  }
}

test("who does not know the secret of the group is refused, counted, and logged once", async (t) => {
  const { endpoints } = await startEtcd(t);
  const agent = startSluice(t, "agent", endpoints, [], ENV);
  await listening(agent);
  const { counters: address, probes } = await announced(agent);
  const store = openEtcd(t, etcdSettings(endpoints));
  const { entries } = await store.list("/secrets/");
  const [secret] = entries;
  assert.deepEqual(
    entries.map(({ key, value }) => [key, value.length]),
    [["/secrets/aperture-agent/default", 32]],
  );
  const known = new GroupSecret(secret?.value ?? new Uint8Array()).connections;
  assert.equal(await take(t, { address, sharedKey: known }), 1, "granted");

  const wrong = new GroupSecret(new Uint8Array(32)).connections;
  assert.equal(await take(t, { address, sharedKey: wrong }), "UNAVAILABLE");
  assert.equal(await take(t, { address, sharedKey: { ...known, identity: "x" } }), "UNAVAILABLE");
  assert.equal(await take(t, { address }), "UNAVAILABLE", "in clear");
  await until("the refusals are counted", async () => {
    const refused = await counted(agent.address(), "server_refused_connections_total", "reason");
    const handshakes = refused["broken_tls_handshake"] ?? 0;
    return handshakes >= 2 && (refused["cleartext_on_tls"] ?? 0) >= 1;
  });
  const line = "it did not prove that it knows the shared key";
  assert.equal(agent.printed().split(line).length, 2);

  const socket = createSocket("udp4");
  t.after(() => socket.close());
  let answers = 0;
  socket.on("message", () => answers++);
  const [host = "", port = ""] = probes.split(":");
  for (const length of [0, 1, 49, 85, 1_400]) {
    socket.send(Buffer.alloc(length, 1), Number(port), host);
  }
  await until("the datagrams are counted", async () =>
    /^sluice_counter_probes_refused_total [45]$/m.test(await scraped(agent.address())),
  );
  assert.equal(answers, 0);
});

test("with certificates, agents share a limit and nobody else is let in, not even with the secret", async (t) => {
  const { endpoints } = await startEtcd(t);
  const folder = folderOf(t);
  const root = authority(folder, "root");
  const own = root.issue("agents");
  const other = root.issue("others");
  const env = {
    ...ENV,
    DIST_CACHE_TLS_CA_FILE: root.certFile,
    DIST_CACHE_TLS_CERT_FILE: own.certFile,
    DIST_CACHE_TLS_KEY_FILE: own.keyFile,
    DIST_CACHE_TLS_ALLOWED_CN: "agents",
  };
  const agents = [1, 2].map(() => startSluice(t, "agent", endpoints, [], env));
  await listening(...agents);
  for (const agent of agents) {
    await until("both count, and neither lost a hand-over", async () => {
      const { body } = await call(agent.address(), "GET", "/v1/distcache/stats");
      const { members, joining, moved } = JSON.parse(body);
      return members.length === 2 && !joining && moved.unheard === 0;
    });
  }
  const [agent] = agents;
  if (agent === undefined) throw new Error("no agent");
  const { counters: address } = await announced(agent);
  const clock = realClock();
  const files = (cert_file: string, key_file: string) =>
    new TlsFiles({ ca_file: root.certFile, cert_file, key_file }, { clock, key: "test" });
  const allowed = await take(t, { address, tls: files(own.certFile, own.keyFile) });
  assert.ok(allowed === 1 || allowed === 2, `${allowed}: granted, or another agent counts it`);
  assert.equal(await take(t, { address, tls: files("", "") }), "UNAVAILABLE", "no certificate");
  const named = { address, tls: files(other.certFile, other.keyFile) };
  assert.equal(await take(t, named), "UNAVAILABLE", "another name");
  const store = openEtcd(t, etcdSettings(endpoints));
  const [secret] = (await store.list("/secrets/")).entries;
  const sharedKey = new GroupSecret(secret?.value ?? new Uint8Array()).connections;
  assert.equal(await take(t, { address, sharedKey }), "UNAVAILABLE");
});

test("a port that a person chose must be had; where a default one is taken, another one does", async (t) => {
  const { endpoints } = await startEtcd(t);
  const first = startSluice(t, "agent", endpoints, [], ENV);
  await listening(first);
  const { counters, probes } = await announced(first);
  for (const [key, taken] of [
    ["DIST_CACHE_BIND_ADDR", counters],
    ["DIST_CACHE_MEMBERLIST_BIND_ADDR", probes],
  ] as const) {
    const refused = startSluice(t, "agent", endpoints, [], { ...ENV, [key]: taken });
    assert.notEqual(await refused.ended, 0);
    const name = key.toLowerCase().replace("cache_", "cache.");
    const told = `cannot listen on ${name}: the address is in use (${taken}); stop the process`;
    assert.ok(refused.printed().includes(told), refused.printed());
  }
  // Whichever of these starts first has the default ports.
  const both = [1, 2].map(() => startSluice(t, "agent", endpoints));
  await listening(...both);
  const ports = await Promise.all(both.map(announced));
  assert.notEqual(ports[0]?.counters, ports[1]?.counters);
  const printed = both.map((each) => each.printed()).join("");
  assert.match(printed, /using another port: cannot listen on dist_cache\.bind_addr/);
  assert.match(printed, /using another port: cannot listen on dist_cache\.memberlist_bind_addr/);
});
