// An agent that discovers services through an API server: what its checks and routes say, and what becomes of them when
// the server is away or refuses.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { memoryStore } from "#store/memory.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { grpcClient } from "../../kit/clients/grpc.ts";
import type { FakeApi } from "../../kit/kube/fake-api.ts";
import {
  checked,
  environmentOf,
  fakeCluster,
  SERVICES,
  SLICES,
  service,
  slice,
} from "../../kit/kube/fake-cluster.ts";
import { call } from "../../kit/sluice/check.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";
import { degraded, get, labelsOf, startAgent } from "./kit.ts";

const agentIn = (t: TestContext, api: Pick<FakeApi, "url">, keys = {}) =>
  startAgent(t, { store: memoryStore(), keys, env: environmentOf(t, api) });

test("checks have the services of their addresses, and changes are followed", async (t) => {
  const { api, watches } = await fakeCluster(t, {
    [SLICES]: [slice("a", "1", { "web-1": "10.0.0.1" }), slice("b", "1", { "web-1": "10.0.0.2" })],
    [SERVICES]: [service("10.96.0.7")],
  });
  const address = await agentIn(t, api);
  const [inA, inB] = ["web.a.svc.cluster.local", "web.b.svc.cluster.local"];
  assert.deepEqual(await labelsOf(address, "10.0.0.2", "10.0.0.1"), {
    services: [inA],
    source: inB,
    destination: inA,
  });
  assert.equal((await checked(address, "10.9.9.9", "10.96.0.7")).destination, inA);
  await until("both kinds are watched", () => watches.has(SLICES) && watches.has(SERVICES));

  watches.get(SLICES)?.send("MODIFIED", slice("a", "2", { "web-1": "10.0.0.3" }));
  await until("the new address is known", async () => {
    return (await checked(address, "192.0.2.1", "10.0.0.3")).destination === inA;
  });
  assert.equal((await checked(address, "192.0.2.1", "10.0.0.1")).destination, "UNKNOWN");
  watches.get(SERVICES)?.send("DELETED", service("10.96.0.7"));
  await until("the address of the service is gone", async () => {
    return (await checked(address, "192.0.2.1", "10.96.0.7")).destination === "UNKNOWN";
  });

  api.away = true;
  await until("it is said", async () => (await degraded(address)) === "1");
  assert.equal((await checked(address, "192.0.2.1", "10.0.0.3")).destination, inA);
  assert.equal((await get(address, "/v1/discovery/entities/ip-address/10.0.0.3")).status, 200);
  api.away = false;
  await until("it is followed again", async () => (await degraded(address)) === "0");
});

test("the routes and the service show entities by address and by name", async (t) => {
  const { api } = await fakeCluster(t, {
    [SLICES]: [
      slice("a", "1", { "web-1": "10.0.0.1", "web-2": "10.0.0.4" }),
      slice("b", "1", { "web-1": "10.0.0.2" }),
    ],
  });
  const address = await agentIn(t, api);
  const web2 = {
    uid: "uid-web-2",
    ip_address: "10.0.0.4",
    name: "web-2",
    namespace: "a",
    node_name: "n1",
    services: ["web.a.svc.cluster.local"],
  };
  const { body } = await get(address, "/v1/discovery/entities");
  assert.deepEqual(Object.keys(body.entities_by_ip_address.entities).toSorted(), [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.4",
  ]);
  assert.deepEqual(body.entities_by_name.entities["a/web-2"], web2);
  assert.equal(body.entities_by_name.entities["b/web-1"].ip_address, "10.0.0.2");
  const at = "/v1/discovery/entities/ip-address";
  assert.deepEqual((await get(address, `${at}/::ffff:10.0.0.4`)).body, web2);
  assert.equal((await get(address, `${at}/10.9.9.9`)).status, 404);
  const named = "/v1/discovery/entities/name";
  for (const name of ["a/web-2", "a%2Fweb-2", "web-2"])
    assert.deepEqual((await get(address, `${named}/${name}`)).body, web2, name);
  assert.equal((await get(address, `${named}/web-3`)).status, 404);
  const ambiguous = await get(address, `${named}/web-1`);
  assert.equal(ambiguous.status, 400);
  assert.match(ambiguous.body.message, /wanted namespace\/name/);

  const grpc = grpcClient(t, address);
  const name = "aperture.discovery.entities.v1";
  const ask = async (method: string, message: Uint8Array) => {
    const reply = await grpc.unary(`/${name}.EntitiesService/${method}`, message);
    return reply.message ?? assert.fail(reply.details);
  };
  const all = await ask("GetEntities", new Uint8Array());
  const { entitiesByName } = decode(`${name}.Entities`, all);
  assert.equal(entitiesByName?.entities["a/web-2"]?.nodeName, "n1");
  const request = encode(`${name}.GetEntityByIPAddressRequest`, { ipAddress: "10.0.0.2" });
  const one = await ask("GetEntityByIPAddress", request);
  assert.equal(decode(`${name}.Entity`, one).namespace, "b");
  const byName = encode(`${name}.GetEntityByNameRequest`, { name: "b/web-1" });
  const other = await ask("GetEntityByName", byName);
  assert.equal(decode(`${name}.Entity`, other).ipAddress, "10.0.0.2");
});

test("an agent without rights judges all the same, and says what is missing", async (t) => {
  const { api } = await fakeCluster(t, {});
  api.before = ({ reply }) => {
    reply(403, { kind: "Status", message: "services is forbidden" });
    return true;
  };
  const address = await agentIn(t, api);
  assert.equal(await degraded(address), "1");
  assert.equal((await checked(address, "192.0.2.1", "10.0.0.1")).destination, "UNKNOWN");
  assert.equal((await call(address, "GET", "/v1/status/system/readiness")).status, 200);
});

test("nothing is asked where discovery is switched off", async (t) => {
  const { api } = await fakeCluster(t, {});
  const address = await agentIn(t, api, { SERVICE_DISCOVERY_KUBERNETES_ENABLED: "false" });
  assert.deepEqual((await get(address, "/v1/discovery/entities")).body, {
    entities_by_ip_address: { entities: {} },
    entities_by_name: { entities: {} },
  });
  assert.equal(await degraded(address), undefined);
  assert.deepEqual(api.asked, []);
});

test("an agent with nothing but a kubeconfig says why it follows nothing", async (t) => {
  const log = memoryLog();
  await startAgent(t, { store: memoryStore(), env: { KUBECONFIG: "/root/.kube/config" }, log });
  const said = log.lines.filter(({ message }) => message.startsWith("KUBECONFIG is set"));
  assert.match(said[0]?.message ?? "", /KUBERNETES_SERVICE_HOST is not/);
  assert.equal(said.length, 1);
});
