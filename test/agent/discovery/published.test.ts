// An agent that has no right on the Kubernetes API: it knows what a controller publishes in the store about its own pod and
// about the addresses of others.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { memoryStore } from "#store/memory.ts";
import type { Store, StoreUpdate } from "#store/store.ts";
import { writeEntity } from "#sync/entities.ts";
import { DISCOVERED, DISCOVERY, ENTITIES, entityKey } from "#sync/keys.ts";
import { checked } from "../../kit/kube/fake-cluster.ts";
import { call } from "../../kit/sluice/check.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { storeWith } from "../../kit/sluice/stored.ts";
import { until } from "../../kit/until.ts";
import { degraded, get, labelsOf, metric, startAgent } from "./kit.ts";

const OWN = "10.0.0.1";
const OWN6 = "2001:db8::1";

const put = (address: string, name: string, services: readonly string[] = [`${name}.a.svc`]) => {
  const entity = { uid: name, ipAddress: address, name, namespace: "a", nodeName: "n", services };
  return { kind: "put", key: entityKey(address), value: writeEntity(entity) } as const;
};
const COMPLETE = { kind: "put", key: DISCOVERED, value: Buffer.from("now") } as const;

/** An agent in the pod with these addresses. */
const sidecar = (
  t: TestContext,
  store: Store,
  env: Readonly<Record<string, string>>,
  log = memoryLog(),
) =>
  startAgent(t, {
    store,
    log,
    keys: { SERVICE_DISCOVERY_KUBERNETES_SOURCE: "controller" },
    env: { KUBERNETES_SERVICE_HOST: "10.96.0.1", ...env },
  });

const statusOf = async (address: string) => {
  const { body } = await call(address, "GET", "/v1/status/system/readiness/component/discovery");
  return body;
};

test("a sidecar knows its own services, looks up those of others, and follows changes", async (t) => {
  const store = memoryStore();
  await store.commit([
    put(OWN, "web"),
    put("10.0.0.10", "neighbour"),
    put("10.0.0.2", "client"),
    COMPLETE,
  ]);
  const address = await sidecar(t, store, { POD_IP: OWN });
  assert.equal(await degraded(address), "0");
  assert.match(await statusOf(address), /10\.0\.0\.1: this pod belongs to web\.a\.svc/);
  const first = await labelsOf(address, "10.0.0.2", OWN);
  assert.deepEqual(first, { services: ["web.a.svc"], source: "UNKNOWN", destination: "web.a.svc" });
  await until("the source is known", async () => {
    return (await checked(address, "10.0.0.2", OWN)).source === "client.a.svc";
  });
  assert.equal(await metric(address, "sluice_discovery_addresses"), "2");
  assert.equal(await metric(address, 'sluice_discovery_lookups_total{result="found"}'), "1");
  const at = "/v1/discovery/entities/ip-address";
  for (const [ip, name] of [
    [OWN, "web"],
    ["10.0.0.2", "client"],
  ])
    assert.equal((await get(address, `${at}/${ip}`)).body.name, name);
  const { body } = await get(address, "/v1/discovery/entities");
  assert.deepEqual(Object.keys(body.entities_by_ip_address.entities).toSorted(), [OWN, "10.0.0.2"]);
  assert.deepEqual(Object.keys(body.entities_by_name.entities).toSorted(), ["a/client", "a/web"]);

  await store.commit([put(OWN, "web", ["shop.a.svc", "web.a.svc"])]);
  await until("the change is known", async () => {
    return (await checked(address, "10.0.0.2", OWN)).destination === "shop.a.svc,web.a.svc";
  });
  await store.commit([{ kind: "delete", key: entityKey(OWN) }]);
  await until("the pod belongs to nothing", async () => {
    return (await checked(address, "10.0.0.2", OWN)).destination === "UNKNOWN";
  });
  assert.match(await statusOf(address), /belongs to no service/);
  // Another pod has the address by now.
  await store.commit([put(OWN, "other")]);
  await until("it has the services of its new pod", async () => {
    return (await checked(address, "10.0.0.2", OWN)).destination === "other.a.svc";
  });
});

test("both addresses of a pod and its loopback addresses are its own, and none of them is looked up", async (t) => {
  const store = memoryStore();
  const lists: string[] = [];
  const watched = storeWith(store, {
    list(prefix, options) {
      lists.push(prefix);
      return store.list(prefix, options);
    },
  });
  await store.commit([put(OWN, "web"), put(OWN6, "web", ["web6.a.svc"]), COMPLETE]);
  const address = await sidecar(t, watched, { POD_IPS: `${OWN},2001:DB8:0::1`, POD_IP: OWN });
  assert.deepEqual(await labelsOf(address, "127.0.0.1", OWN6), {
    services: ["web6.a.svc"],
    source: "web.a.svc,web6.a.svc",
    destination: "web6.a.svc",
  });
  assert.equal((await checked(address, "::1", "::ffff:10.0.0.1")).destination, "web.a.svc");
  assert.deepEqual(
    lists.filter((prefix) => prefix.startsWith(DISCOVERY)),
    [],
  );
});

test("without a controller that publishes, a sidecar judges, is ready, and says what is missing", async (t) => {
  const store = memoryStore();
  const log = memoryLog();
  const address = await sidecar(t, store, {}, log);
  assert.equal((await call(address, "GET", "/v1/status/system/readiness")).status, 200);
  assert.equal(await degraded(address), "1");
  assert.match(await statusOf(address), /no controller publishes services/);
  assert.match(await statusOf(address), /POD_IPS and POD_IP name no address/);
  assert.equal((await checked(address, "192.0.2.9", "127.0.0.1")).destination, "UNKNOWN");
  await store.commit([put(OWN, "web"), COMPLETE]);
  await until("it says what is left", async () => !/no controller/.test(await statusOf(address)));
  const warned = log.lines.filter(({ message }) => message.includes("name no address"));
  assert.deepEqual(
    warned.map(({ level }) => level),
    ["warn", "warn"],
  );
  assert.match(await statusOf(address), /POD_IPS and POD_IP name no address/);
  // Without an address of its own, it looks all of them up.
  await until("it is found", async () => {
    return (await checked(address, "192.0.2.1", OWN)).destination === "web.a.svc";
  });
});

test("a store that does not answer delays the start for a while and no check", async (t) => {
  const store = memoryStore();
  await store.commit([put(OWN, "web"), put("10.0.0.2", "client"), COMPLETE]);
  const stuck = storeWith(store, {
    async *watch(prefixes, signal) {
      if (!prefixes.includes(DISCOVERED)) yield* store.watch(prefixes, signal);
      else await aborted(signal);
    },
    list: (prefix, options) =>
      prefix.startsWith(ENTITIES) ? new Promise(() => undefined) : store.list(prefix, options),
  });
  const address = await sidecar(t, stuck, { POD_IP: OWN });
  assert.equal((await call(address, "GET", "/v1/status/system/readiness")).status, 200);
  assert.equal((await checked(address, "10.0.0.2", OWN)).source, "UNKNOWN");
});

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
}

test("what the store lost, and what cannot be read, stays until a controller has written again", async (t) => {
  const store = memoryStore();
  await store.commit([put(OWN, "web"), COMPLETE]);
  const resets: ((batch: StoreUpdate) => void)[] = [];
  const losing = storeWith(store, {
    async *watch(prefixes, signal) {
      const own = store.watch(prefixes, signal);
      if (!prefixes.includes(DISCOVERED)) {
        yield* own;
        return;
      }
      for await (const batch of own) {
        yield batch;
        if (resets.length > 0) continue;
        const reset = new Promise<StoreUpdate>((resolve) => resets.push(resolve));
        const lost = await Promise.race([reset, aborted(signal)]);
        if (lost !== undefined) yield lost;
      }
    },
  });
  const address = await sidecar(t, losing, { POD_IP: OWN });
  assert.equal((await checked(address, "192.0.2.1", OWN)).destination, "web.a.svc");
  await until("it follows", () => resets.length === 1);
  resets[0]?.({ revision: 1, puts: [], deletes: [entityKey(OWN), DISCOVERED], reset: true });
  await until("it says so", async () => /the store lost/.test(await statusOf(address)));
  assert.equal(await degraded(address), "1");
  assert.equal((await checked(address, "192.0.2.1", OWN)).destination, "web.a.svc");
  // A controller that writes the key last: the pod has gone from its service in between.
  await store.commit([COMPLETE]);
  await until("it is complete", async () => (await degraded(address)) === "0");
  assert.equal((await checked(address, "192.0.2.1", OWN)).destination, "UNKNOWN");
});

test("a value that cannot be read changes nothing", async (t) => {
  const store = memoryStore();
  await store.commit([put(OWN, "web"), COMPLETE]);
  const address = await sidecar(t, store, { POD_IP: OWN });
  await store.commit([{ kind: "put", key: entityKey(OWN), value: Buffer.from([0xff, 0xff]) }]);
  await store.commit([put("10.0.0.2", "client")]);
  await until("later writes are followed", async () => {
    return (await checked(address, "10.0.0.2", OWN)).source === "client.a.svc";
  });
  assert.equal((await checked(address, "192.0.2.1", OWN)).destination, "web.a.svc");
  await store.commit([put(OWN, "shop")]);
  await until("it is readable again", async () => {
    return (await checked(address, "192.0.2.1", OWN)).destination === "shop.a.svc";
  });
});

test("an address of the pod that is none refuses the start, and is named with its variable", async (t) => {
  for (const [env, got] of [
    [{ POD_IPS: `${OWN}, 10.0.0.300` }, /^POD_IPS: wanted IP addresses .* got "10\.0\.0\.300"$/],
    [{ POD_IP: "web-1" }, /^POD_IP: wanted IP addresses separated by commas, got "web-1"$/],
  ] as const)
    await assert.rejects(sidecar(t, memoryStore(), env), {
      code: "INVALID_ARGUMENT",
      message: got,
    });
  await sidecar(t, memoryStore(), { POD_IPS: `${OWN},`, POD_IP: "" });
});
