// The service of Envoy's access log on a real port, with a real client that keeps its stream open.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Client, type ClientWritableStream, credentials } from "@grpc/grpc-js";
import { accessLogService } from "#api/reports/access-log.ts";
import type { GrpcService } from "#base/handler.ts";
import { callOf } from "../../kit/api/agent.ts";
import { fakeClock } from "../../kit/clock.ts";
import { entryOf, httpMessage } from "../../kit/messages/access-log.ts";
import { realClock, testPort } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

const METHOD = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";
const NOBODY = { entry() {}, unread() {} };
const asIs = (bytes: Buffer): Buffer => bytes;

interface OpenStream {
  readonly stream: ClientWritableStream<Buffer>;
  /** Status of the call, once it has ended. */
  readonly status: Promise<number>;
}

async function house(t: TestContext, transport: "own" | "grpc-js", clock = realClock) {
  const seen: string[] = [];
  const service = accessLogService({
    entry: ({ decision }) => void seen.push(decision),
    unread: (why) => void seen.push(why),
  });
  const drain = { accept_for: 0, grace: 3_600_000 };
  const port = await testPort(t, {
    services: [service],
    clock,
    settings: { drain, grpc: { transport } },
  });
  const client = new Client(port.address, credentials.createInsecure());
  t.after(() => client.close());
  const open = (): OpenStream => {
    const { promise: status, resolve } = Promise.withResolvers<number>();
    const stream = client.makeClientStreamRequest(METHOD, asIs, asIs, (error) =>
      resolve(error?.code ?? 0),
    );
    return { stream, status };
  };
  return { port, open, seen };
}

for (const transport of ["own", "grpc-js"] as const) {
  test(`over ${transport}: nothing in a message ends its stream`, async (t) => {
    const { open, seen } = await house(t, transport);
    const { stream, status } = open();
    stream.write(httpMessage([entryOf("one"), entryOf("two")]));
    stream.write(Buffer.from([0xff]));
    stream.write(Buffer.alloc(0));
    stream.write(httpMessage([entryOf("three")]));
    await until("all are read", () => seen.length === 4);
    assert.deepEqual(seen, ["one", "two", "malformed", "three"]);
    stream.end();
    assert.equal(await status, 0);
  });

  test(`over ${transport}: a drain ends open streams and does not wait for its grace time`, async (t) => {
    const { port, open, seen } = await house(t, transport, fakeClock());
    const streams = [open(), open()];
    for (const { stream } of streams) stream.write(httpMessage([entryOf("one")]));
    await until("both are open", () => seen.length === 2);
    await port.drain();
    assert.deepEqual(await Promise.all(streams.map(({ status }) => status)), [0, 0]);
  });
}

test("a caller that resets its stream leaves nothing behind", async (t) => {
  const { port, open, seen } = await house(t, "own", fakeClock());
  const { stream, status } = open();
  stream.write(httpMessage([entryOf("one")]));
  await until("it is open", () => seen.length === 1);
  stream.cancel();
  assert.equal(await status, 1);
  await port.drain();
});

test("streams are bounded, one client leaves room for others, and those that are refused are counted", async () => {
  const counts = { open: 0, client: 0, all: 0 };
  const meter = {
    opened: () => void counts.open++,
    closed: () => void counts.open--,
    refused: (why: "client" | "all") => void counts[why]++,
  };
  const { methods, drain } = accessLogService(NOBODY, meter);
  const method = methods["StreamAccessLogs"];
  assert.ok(method?.kind === "stream");
  const sent: Uint8Array[] = [];
  const never = { next: () => new Promise<never>(() => undefined) };
  const stream = {
    messages: { [Symbol.asyncIterator]: () => never },
    send: async (reply: Uint8Array) => void sent.push(reply),
  };
  const handle = (peer: string) => method.handle(stream, callOf({}, { peer }));
  const open = Array.from({ length: 1_000 }, () => handle("10.0.0.1"));
  await assert.rejects(handle("10.0.0.1"), { code: "RESOURCE_EXHAUSTED" });
  assert.deepEqual(counts, { open: 1_000, client: 1, all: 0 });
  for (let at = 0; at < 1_000; at++) open.push(handle(`10.1.${at >> 8}.${at & 255}`));
  await assert.rejects(handle("10.0.0.2"), { code: "RESOURCE_EXHAUSTED" });
  assert.deepEqual(counts, { open: 2_000, client: 1, all: 1 });
  drain?.();
  await Promise.all(open);
  assert.equal(sent.length, 2_000);
  assert.deepEqual(counts, { open: 0, client: 1, all: 1 });
  await handle("10.0.0.1");
  assert.equal(sent.length, 2_001, "one that is opened during a drain ends at once");
});

test("a check is answered between the entries of one huge message", async (t) => {
  const ENTRIES = 10_000;
  const METHOD_OF_CHECK = "/test.Checks/Check";
  let read = 0;
  let first = (): void => undefined;
  const begun = new Promise<void>((resolve) => {
    first = resolve;
  });
  const logs = accessLogService({
    entry() {
      read += 1;
      if (read === 1) first();
    },
    unread: (why) => assert.fail(why),
  });
  const checks: GrpcService = {
    name: "test.Checks",
    access: "data",
    methods: { Check: { kind: "unary", handle: (message) => message } },
  };
  const port = await testPort(t, { services: [logs, checks] });
  const client = new Client(port.address, credentials.createInsecure());
  t.after(() => client.close());
  const check = () =>
    new Promise<number>((resolve, reject) =>
      client.makeUnaryRequest(METHOD_OF_CHECK, asIs, asIs, Buffer.of(1), (error) =>
        error === null ? resolve(read) : reject(error),
      ),
    );
  await check();
  const stream = client.makeClientStreamRequest(METHOD, asIs, asIs, () => undefined);
  // As many entries as a message may have.
  stream.write(Buffer.concat(Array(ENTRIES).fill(httpMessage([{}]))));
  await begun;
  const readByThen = [await check(), await check()];
  assert.ok(
    readByThen.every((count) => count < ENTRIES),
    `${readByThen} entries`,
  );
  await until("all are read", () => read === ENTRIES);
  stream.end();
});

test("streams take turns, and none is read on while an entry of it waits", async () => {
  const order: string[] = [];
  const { methods } = accessLogService({
    entry: ({ decision }) => void order.push(decision),
    unread: (why) => assert.fail(why),
  });
  const method = methods["StreamAccessLogs"];
  assert.ok(method?.kind === "stream");
  const asked = { flood: 0 };
  const big = httpMessage(Array.from({ length: 1_000 }, () => entryOf("flood")));
  async function* flood() {
    for (; asked.flood < 2; asked.flood++) yield big;
  }
  async function* one() {
    yield httpMessage([entryOf("one")]);
  }
  const handle = (messages: AsyncIterable<Uint8Array>) =>
    method.handle({ messages, send: async () => undefined }, callOf());
  const all = [handle(flood()), handle(one())];
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(asked.flood, 0, "the second message is not asked for");
  assert.ok(order.length < 1_000);
  await Promise.all(all);
  assert.equal(order.length, 2_001);
  assert.ok(order.indexOf("one") < 1_000, `after ${order.indexOf("one")}`);
});

test("what the consumer throws ends its stream and no other one", async () => {
  const { methods } = accessLogService({
    entry({ decision }) {
      if (decision === "bad") throw new TypeError("a bug");
    },
    unread: (why) => assert.fail(why),
  });
  const method = methods["StreamAccessLogs"];
  assert.ok(method?.kind === "stream");
  async function* messages(decision: string) {
    yield httpMessage([entryOf(decision)]);
  }
  const handle = (decision: string) =>
    method.handle({ messages: messages(decision), send: async () => undefined }, callOf());
  await assert.rejects(handle("bad"), TypeError);
  await handle("good");
});
