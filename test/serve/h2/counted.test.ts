// Whatever a peer does wrong is counted once, and the log can say whose doing it was.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";
import type { Stream } from "#serve/h2/exchange.ts";
import { MAX_HELD } from "#serve/h2/limits.ts";
import { h2Transport } from "#serve/h2/transport.ts";
import { fakeClock } from "../../kit/clock.ts";
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
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { MemoryPeer, memoryServer, turns } from "../../kit/memory-peer.ts";
import { memoryLog, memoryMeter, portSettings, until } from "../../kit/port.ts";

const [CANCEL, CALM] = [8, 11];
const NO_WINDOW = settings([4, 0]);
/** What a connection may inflate in vain at once. */
const IN_VAIN = 20;

const service = {
  name: "test.Counted",
  healthNames: [],
  methods: { Take: { kind: "unary", handle: () => new Uint8Array(0) } },
} as const;
const packed = block(grpcFields("/test.Counted/Take", ["grpc-encoding", "gzip"]));
const broken = message(Buffer.from("no gzip"), 1);

test("a message that does not inflate is in the log with its peer, and counted once", async (t) => {
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
  assert.deepEqual(faults, Array(IN_VAIN + 1).fill("inflate"), "the last one, too");
});

test("messages that grow enormously are one fault, when there were too many", async (t) => {
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

/** A stream that waits with a part of its reply, as its peer takes nothing. */
async function stuck(t: TestContext) {
  const { meter, faults } = memoryMeter();
  const { http, grpc } = portSettings();
  const streams: Stream[] = [];
  const transport = h2Transport({
    ...{ http, grpc, meter, clock: fakeClock(), log: memoryLog() },
    answer: (stream) => {
      stream.headers([":status", "200"], false);
      assert.equal(stream.write(Buffer.alloc(1_000), false), false);
      streams.push(stream);
      return { data() {}, gone() {}, drained() {}, slow: () => false };
    },
  });
  t.after(() => transport.cut());
  const peer = new MemoryPeer();
  t.after(() => peer.socket.destroy());
  transport.inject(peer.socket as unknown as Socket);
  await peer.send(PREFACE, NO_WINDOW, headers(1, packed, END_HEADERS | END_STREAM));
  const [stream] = streams;
  assert.ok(stream);
  const resets = () => peer.of(RST_STREAM, 1).map(({ payload }) => payload.readUInt32BE(0));
  return { stream, faults, resets };
}

test("a reply that is given up while it waits is its reader's fault", async (t) => {
  const { stream, faults, resets } = await stuck(t);
  stream.reset(CANCEL);
  await turns();
  assert.deepEqual(faults, ["slow_reader"]);
  assert.deepEqual(resets(), [CANCEL]);
});

test("a reply of which too much is to be kept is one fault", async (t) => {
  const { stream, faults, resets } = await stuck(t);
  assert.equal(stream.hold(MAX_HELD), false);
  stream.reset(CANCEL);
  await turns();
  assert.deepEqual(faults, ["too_many_bytes"]);
  assert.deepEqual(resets(), [CANCEL]);
});
