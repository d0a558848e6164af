import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Clock } from "#base/clock.ts";
import type { Service } from "#serve/handler.ts";
import { fakeClock } from "../kit/clock.ts";
import { grpcClient, type TestClient } from "../kit/grpc-client.ts";
import { realClock, testPort, until } from "../kit/port.ts";

const services: readonly Service[] = [
  {
    name: "test.v1.Check",
    healthNames: ["test.Check"],
    methods: { Say: { kind: "unary", handle: (bytes) => bytes } },
  },
  {
    name: "test.v1.Other",
    healthNames: [],
    methods: { Say: { kind: "unary", handle: (bytes) => bytes } },
  },
];

/** HealthCheckRequest */
function asked(name: string): Buffer {
  const text = Buffer.from(name);
  return Buffer.concat([Uint8Array.of(0x0a, text.length), text]);
}

/** "SERVING" and so on, or the gRPC code. */
async function health(client: TestClient, name: string): Promise<string | number> {
  const reply = await client.unary("/grpc.health.v1.Health/Check", asked(name));
  return reply.message === undefined ? reply.code : shown(reply.message);
}

function shown(message: Uint8Array): string {
  assert.equal(message[0], 0x08);
  return ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"][message[1] ?? 0] ?? "";
}

function watch(client: TestClient, name: string) {
  const seen: string[] = [];
  const call = client.serverStream("/grpc.health.v1.Health/Watch", asked(name));
  const state = { seen, code: undefined as number | undefined, cancel: () => call.cancel() };
  call.on("data", (message: Uint8Array) => seen.push(shown(message)));
  call.on("error", (error: { readonly code?: number }) => {
    state.code = error.code;
  });
  return state;
}

async function serving(t: TestContext, clock: Clock = realClock) {
  const drain = { accept_for: 1_000, grace: 2_000 };
  const port = await testPort(t, { services, clock, settings: { drain } });
  return { port, client: grpcClient(t, port.address) };
}

test("health knows exactly what is served, by every name", async (t) => {
  const { client } = await serving(t);
  for (const name of ["", "test.v1.Check", "test.Check", "test.v1.Other"]) {
    assert.equal(await health(client, name), "SERVING", name);
  }
  assert.equal(await health(client, "test.Other"), 5);
  assert.equal(
    (await client.unary("/grpc.health.v1.Health/Check", Uint8Array.of(0x0a, 9))).code,
    3,
  );
});

test("setting a service sets all its names and no other", async (t) => {
  const { port, client } = await serving(t);
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

test("List names everything", async (t) => {
  const { port, client } = await serving(t);
  port.health.set("test.v1.Other", false);
  const reply = await client.unary("/grpc.health.v1.Health/List", new Uint8Array(0));
  const entry = (name: string, status: number) => {
    const inner = Buffer.concat([asked(name), Uint8Array.of(0x12, 2, 0x08, status)]);
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

test("Watch tells now, at each change, and of the drain; then it ends", async (t) => {
  const clock = fakeClock();
  const { port, client } = await serving(t, clock);
  const watched = watch(client, "test.Check");
  const unknown = watch(client, "nobody");
  await until("first", () => watched.seen.length === 1 && unknown.seen.length === 1);
  port.health.set("test.v1.Check", false);
  await until("change", () => watched.seen.length === 2);
  port.health.set("test.v1.Other", false);
  port.health.set("test.v1.Check", true);
  await until("change back", () => watched.seen.length === 3);
  const drained = port.drain();
  await until("drain", () => watched.seen.length === 4);
  assert.equal(watched.code, undefined, "still accepting");
  assert.equal(await health(client, "test.v1.Check"), "NOT_SERVING");
  port.health.set("test.v1.Check", true);
  assert.equal(await health(client, "test.v1.Check"), "NOT_SERVING", "a drain is not undone");
  clock.advance(1_000);
  await drained;
  await until("end", () => watched.code !== undefined && unknown.code !== undefined);
  assert.deepEqual(watched.seen, ["SERVING", "NOT_SERVING", "SERVING", "NOT_SERVING"]);
  assert.equal(watched.code, 14);
  assert.deepEqual(unknown.seen, ["SERVICE_UNKNOWN"]);
});

test("a watcher that leaves is forgotten", async (t) => {
  const { port, client } = await serving(t);
  const watched = watch(client, "");
  await until("first", () => watched.seen.length === 1);
  watched.cancel();
  await until("cancelled", () => watched.code === 1);
  port.health.set("", false);
  assert.equal(await health(client, ""), "NOT_SERVING");
  assert.deepEqual(watched.seen, ["SERVING"]);
});
