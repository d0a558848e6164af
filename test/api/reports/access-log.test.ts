// The service of Envoy's access log on a real port, with a real client that keeps its stream open.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Client, type ClientWritableStream, credentials } from "@grpc/grpc-js";
import { accessLogService } from "#api/reports/access-log.ts";
import { fakeClock } from "../../kit/clock.ts";
import { entryOf, httpMessage } from "../../kit/messages/access-log.ts";
import { realClock, testPort } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

const METHOD = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";
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

test("at most 1 000 streams are open, and further ones are refused", async () => {
  const { methods, drain } = accessLogService({ entry() {}, unread() {} });
  const method = methods["StreamAccessLogs"];
  assert.ok(method?.kind === "stream");
  const sent: Uint8Array[] = [];
  const never = { next: () => new Promise<never>(() => undefined) };
  const stream = {
    messages: { [Symbol.asyncIterator]: () => never },
    send: async (reply: Uint8Array) => void sent.push(reply),
  };
  const handle = () => method.handle(stream, undefined as never);
  const open = Array.from({ length: 1_000 }, handle);
  await assert.rejects(handle(), { code: "RESOURCE_EXHAUSTED" });
  drain?.();
  await Promise.all(open);
  assert.equal(sent.length, 1_000);
  await handle();
  assert.equal(sent.length, 1_001, "one that is opened during a drain ends at once");
});
