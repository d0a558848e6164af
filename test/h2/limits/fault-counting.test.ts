// Every fault of a peer is counted once, and the log names the peer.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";
import type { RequestStream } from "#h2/exchange.ts";
import { Http2Server } from "#h2/http2-server.ts";
import { MAX_BUFFERED_PER_CONNECTION } from "#h2/limits.ts";
import { ReadScheduler } from "#h2/read-scheduler.ts";
import {
  data,
  END_HEADERS,
  END_STREAM,
  GOAWAY,
  grpcFields,
  HEADERS,
  headers,
  message,
  PREFACE,
  RST_STREAM,
  settings,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { MemoryPeer, memoryServer, turns } from "../../kit/clients/memory-peer.ts";
import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { memoryMeter, portSettings } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

const [CANCEL, CALM] = [8, 11];
const NO_WINDOW = settings([4, 0]);
/** Number of invalid compressed messages that a connection may send at once. */
const IN_VAIN = 20;

const service = {
  name: "test.Counted",
  methods: { Take: { kind: "unary", handle: () => new Uint8Array(0) } },
} as const;
const packed = block(grpcFields("/test.Counted/Take", ["grpc-encoding", "gzip"]));
const broken = message(Buffer.from("no gzip"), 1);

test("logs a message that does not inflate with its peer, and counts it once", async (t) => {
  const { connect, faults, log, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  const send = async (id: number) => {
    await peer.send(headers(id, packed), data(id, broken, END_STREAM));
    const count = (id + 1) / 2;
    await until("it is counted", () => faults.length === count);
    await turns();
  };
  await send(1);
  assert.deepEqual(
    log.lines.map(({ fields }) => fields),
    [{ fault: "inflate", peer: "127.0.0.1", faults_since_last_line: 1 }],
  );
  for (let sent = 1; sent < IN_VAIN; sent++) await send(2 * sent + 1);
  assert.equal(peer.of(GOAWAY).length, 0);
  await send(2 * IN_VAIN + 1);
  assert.equal(peer.of(GOAWAY)[0]?.payload.readUInt32BE(4), CALM);
  assert.deepEqual(
    faults,
    Array(IN_VAIN + 1).fill("inflate"),
    "every message is counted, the last one included",
  );
});

test("counts messages that inflate enormously as one fault, once there are too many", async (t) => {
  const { connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  const grows = message(gzipSync(Buffer.alloc(4 * 1024 * 1024)), 1);
  for (let sent = 0; sent <= IN_VAIN; sent++) {
    assert.deepEqual(faults, []);
    const id = 2 * sent + 1;
    await peer.send(headers(id, packed), data(id, grows, END_STREAM));
    await until("it is answered", () => peer.of(HEADERS, id).length === 2);
    await turns();
  }
  assert.equal(peer.of(GOAWAY)[0]?.payload.readUInt32BE(4), CALM);
  assert.deepEqual(faults, ["inflate"]);
});

/** A stream whose reply waits because the peer does not read. */
async function blockedReply(t: TestContext) {
  const { meter, faults } = memoryMeter();
  const { http, grpc } = portSettings();
  const streams: RequestStream[] = [];
  const scheduler = new ReadScheduler(fakeClock());
  const transport = new Http2Server({
    scheduler,
    settings: { ...http, ...grpc },
    meter,
    clock: fakeClock(),
    log: memoryLog(),
    handleRequest: (stream) => {
      stream.headers([":status", "200"], false);
      assert.equal(stream.write(Buffer.alloc(1_000), false), false);
      streams.push(stream);
      return { data() {}, aborted() {}, drained() {}, timedOut: () => false };
    },
  });
  t.after(() => transport.cut());
  const peer = new MemoryPeer(scheduler);
  t.after(() => peer.socket.destroy());
  transport.accept(peer.socket as unknown as Socket);
  await peer.send(PREFACE, NO_WINDOW, headers(1, packed, END_HEADERS | END_STREAM));
  const [stream] = streams;
  assert.ok(stream);
  const resets = () => peer.of(RST_STREAM, 1).map(({ payload }) => payload.readUInt32BE(0));
  return { stream, faults, resets };
}

test("counts a reply given up after write_timeout as a fault of its reader", async (t) => {
  const { stream, faults, resets } = await blockedReply(t);
  stream.cancel();
  await turns();
  assert.deepEqual(faults, ["slow_reader"]);
  assert.deepEqual(resets(), [CANCEL]);
});

test("counts a reply for which there is no buffer space as one fault", async (t) => {
  const { stream, faults, resets } = await blockedReply(t);
  assert.equal(stream.reserve(MAX_BUFFERED_PER_CONNECTION), false);
  stream.cancel();
  await turns();
  assert.deepEqual(faults, ["too_many_bytes"]);
  assert.deepEqual(resets(), [CANCEL]);
});
