import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Clock } from "#base/clock.ts";
import type { GrpcService } from "#base/handler.ts";
import { grpcClient, type TestClient } from "../../kit/clients/grpc.ts";
import { fakeClock } from "../../kit/clock.ts";
import { realClock, testPort } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

const services: readonly GrpcService[] = [
  {
    name: "test.v1.Check",
    healthNames: ["test.Check"],
    methods: { Say: { kind: "unary", handle: (bytes) => bytes } },
  },
  {
    name: "test.v1.Other",
    methods: { Say: { kind: "unary", handle: (bytes) => bytes } },
  },
];

/** A HealthCheckRequest for the service. */
function request(name: string): Buffer {
  const text = Buffer.from(name);
  return Buffer.concat([Uint8Array.of(0x0a, text.length), text]);
}

/** "SERVING" etc., or the gRPC status code. */
async function health(client: TestClient, name: string): Promise<string | number> {
  const reply = await client.unary("/grpc.health.v1.Health/Check", request(name));
  return reply.message === undefined ? reply.code : statusOf(reply.message);
}

function statusOf(message: Uint8Array): string {
  assert.equal(message[0], 0x08);
  return ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"][message[1] ?? 0] ?? "";
}

function watch(client: TestClient, name: string) {
  const statuses: string[] = [];
  const call = client.serverStream("/grpc.health.v1.Health/Watch", request(name));
  const state = { statuses, code: undefined as number | undefined, cancel: () => call.cancel() };
  call.on("data", (message: Uint8Array) => statuses.push(statusOf(message)));
  call.on("error", (error: { readonly code?: number }) => {
    state.code = error.code;
  });
  return state;
}

async function openTestPort(t: TestContext, clock: Clock = realClock) {
  const drain = { accept_for: 1_000, grace: 2_000 };
  const port = await testPort(t, { services, clock, settings: { drain } });
  return { port, client: grpcClient(t, port.address) };
}

test("reports health for exactly the services that the port has, by every name", async (t) => {
  const { client } = await openTestPort(t);
  for (const name of ["", "test.v1.Check", "test.Check", "test.v1.Other"]) {
    assert.equal(await health(client, name), "SERVING", name);
  }
  assert.equal(await health(client, "test.Other"), 5);
  assert.equal(
    (await client.unary("/grpc.health.v1.Health/Check", Uint8Array.of(0x0a, 9))).code,
    3,
  );
});

test("setting a service sets all of its names and no others", async (t) => {
  const { port, client } = await openTestPort(t);
  port.health.set("test.v1.Check", false);
  assert.equal(await health(client, "test.v1.Check"), "NOT_SERVING");
  assert.equal(await health(client, "test.Check"), "NOT_SERVING");
  assert.equal(await health(client, "test.v1.Other"), "SERVING");
  assert.equal(await health(client, ""), "SERVING");
  port.health.set("", false);
  assert.equal(await health(client, ""), "NOT_SERVING");
  port.health.set("test.v1.Check", true);
  assert.equal(await health(client, "test.Check"), "SERVING");
  assert.throws(() => port.health.set("test.Check", true), /not served/);
});

test("List returns every name", async (t) => {
  const { port, client } = await openTestPort(t);
  port.health.set("test.v1.Other", false);
  const reply = await client.unary("/grpc.health.v1.Health/List", new Uint8Array(0));
  const entry = (name: string, status: number) => {
    const inner = Buffer.concat([request(name), Uint8Array.of(0x12, 2, 0x08, status)]);
    return Buffer.concat([Uint8Array.of(0x0a, inner.length), inner]);
  };
  assert.deepEqual(
    Buffer.from(reply.message ?? []),
    Buffer.concat([
      entry("", 1),
      entry("test.v1.Check", 1),
      entry("test.Check", 1),
      entry("test.v1.Other", 2),
    ]),
  );
});

test("Watch reports the present state, each change and the drain, and then ends", async (t) => {
  const clock = fakeClock();
  const { port, client } = await openTestPort(t, clock);
  const watched = watch(client, "test.Check");
  const unknown = watch(client, "nobody");
  await until("first", () => watched.statuses.length === 1 && unknown.statuses.length === 1);
  port.health.set("test.v1.Check", false);
  await until("change", () => watched.statuses.length === 2);
  port.health.set("test.v1.Other", false);
  port.health.set("test.v1.Check", true);
  await until("change back", () => watched.statuses.length === 3);
  const drained = port.drain();
  await until("drain", () => watched.statuses.length === 4);
  assert.equal(watched.code, undefined, "the watch ended while the port still accepts");
  assert.equal(await health(client, "test.v1.Check"), "NOT_SERVING");
  port.health.set("test.v1.Check", true);
  assert.equal(
    await health(client, "test.v1.Check"),
    "NOT_SERVING",
    "setting a service must not undo a drain",
  );
  clock.advance(1_000);
  await drained;
  await until("end", () => watched.code !== undefined && unknown.code !== undefined);
  assert.deepEqual(watched.statuses, ["SERVING", "NOT_SERVING", "SERVING", "NOT_SERVING"]);
  assert.equal(watched.code, 14);
  assert.deepEqual(unknown.statuses, ["SERVICE_UNKNOWN"]);
});

test("forgets a watcher that cancels", async (t) => {
  const { port, client } = await openTestPort(t);
  const watched = watch(client, "");
  await until("first", () => watched.statuses.length === 1);
  watched.cancel();
  await until("cancelled", () => watched.code === 1);
  port.health.set("", false);
  assert.equal(await health(client, ""), "NOT_SERVING");
  assert.deepEqual(watched.statuses, ["SERVING"]);
});
