// Frames that RFC 9113 forbids: on the wrong stream, of the wrong length, out of order, with invalid values. Each is
// a connection error with the code of its section, costs very little, and affects no other connection.

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Http2Fault } from "#base/server-meter.ts";
import { startTarget } from "../../kit/attack/measure.ts";

import {
  ACK,
  CONTINUATION,
  call,
  data,
  END_HEADERS,
  END_STREAM,
  type ErrorName,
  frame,
  GOAWAY,
  grpcFields,
  grpcStatus,
  HEADERS,
  headers,
  MAX_FRAME_SIZE,
  message,
  PADDED,
  PING,
  PUSH_PROMISE,
  ping,
  priority,
  RST_STREAM,
  repeated,
  reset,
  SETTINGS,
  settings,
  uint32,
  WINDOW_UPDATE,
  WITH_PRIORITY,
  windowUpdate,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";

const SAY = "/test.Target/Say";
const say = block(grpcFields(SAY));
const open = headers(1, block(grpcFields("/test.Target/Gather")));
const CONNECTIONS = 10;
/** CPU cost that a connection may have, in honest calls. */
const CONNECTION = 50;
const none = Buffer.alloc(0);

interface Row {
  readonly how: string;
  readonly sent: readonly Uint8Array[];
  readonly code: ErrorName;
  readonly fault: Http2Fault;
}
const row = (
  how: string,
  code: Row["code"],
  fault: Http2Fault,
  ...sent: readonly Uint8Array[]
): Row => ({ how, sent, code, fault });
const protocol = (how: string, ...sent: readonly Uint8Array[]) =>
  row(how, "PROTOCOL_ERROR", "protocol", ...sent);
const size = (how: string, ...sent: readonly Uint8Array[]) =>
  row(how, "FRAME_SIZE_ERROR", "frame_size", ...sent);
const flow = (how: string, ...sent: readonly Uint8Array[]) =>
  row(how, "FLOW_CONTROL_ERROR", "flow_control", ...sent);

const INITIAL_WINDOW = 4;
const rows: readonly Row[] = [
  // §5.1.1: stream identifiers.
  protocol("an even stream id", call(2, SAY)),
  protocol("a stream id below the last one", call(5, SAY), call(3, SAY)),
  protocol("a stream id below the last one that was never used", call(101, SAY), call(51, SAY)),
  row("a stream id used twice", "STREAM_CLOSED", "protocol", call(1, SAY), call(1, SAY)),
  protocol("a stream id after the highest possible one", call(2 ** 31 - 1, SAY), call(1, SAY)),
  // §5.1: frames on idle streams.
  protocol("DATA before HEADERS", data(1, message(), END_STREAM)),
  protocol("RST_STREAM before HEADERS", reset(1)),
  protocol("WINDOW_UPDATE before HEADERS", windowUpdate(1, 1)),
  // §6: frames that require stream 0, or forbid it.
  protocol("DATA on stream 0", data(0, message())),
  protocol("HEADERS on stream 0", headers(0, say)),
  protocol("PRIORITY on stream 0", priority(0)),
  protocol("RST_STREAM on stream 0", reset(0)),
  protocol("CONTINUATION on stream 0", frame(CONTINUATION, END_HEADERS, 0, say)),
  protocol("SETTINGS on a stream", open, frame(SETTINGS, 0, 1)),
  protocol("PING on a stream", open, frame(PING, 0, 1, Buffer.alloc(8))),
  protocol("GOAWAY on a stream", open, frame(GOAWAY, 0, 1, Buffer.alloc(8))),
  // §6.6: only servers may push.
  protocol(
    "PUSH_PROMISE",
    open,
    frame(PUSH_PROMISE, END_HEADERS, 1, Buffer.concat([uint32(2), say])),
  ),
  // §4.2 and §6: lengths.
  size("a frame that is too large", frame(0x42, 0, 0, Buffer.alloc(MAX_FRAME_SIZE + 1))),
  size("DATA that is too large", open, data(1, Buffer.alloc(MAX_FRAME_SIZE + 1))),
  size("a frame with the highest possible length", frame(0, 0, 1, none, 0xff_ffff)),
  size("PING of seven bytes", frame(PING, 0, 0, Buffer.alloc(7))),
  size("RST_STREAM of three bytes", open, frame(RST_STREAM, 0, 1, Buffer.alloc(3))),
  size("WINDOW_UPDATE of five bytes", frame(WINDOW_UPDATE, 0, 0, Buffer.alloc(5))),
  size("GOAWAY of seven bytes", frame(GOAWAY, 0, 0, Buffer.alloc(7))),
  size("SETTINGS of seven bytes", frame(SETTINGS, 0, 0, Buffer.alloc(7))),
  size("SETTINGS ACK with settings", frame(SETTINGS, ACK, 0, Buffer.alloc(6))),
  size(
    "HEADERS too short for a priority",
    frame(HEADERS, END_HEADERS | WITH_PRIORITY, 1, Buffer.alloc(4)),
  ),
  // Padding.
  protocol("DATA with more padding than payload", open, frame(0, PADDED, 1, Buffer.of(5, 0, 0, 0))),
  protocol(
    "DATA with as much padding as payload",
    open,
    frame(0, PADDED, 1, Buffer.of(4, 0, 0, 0)),
  ),
  protocol(
    "HEADERS with more padding than payload",
    frame(HEADERS, END_HEADERS | PADDED, 1, Buffer.of(9, 0x82)),
  ),
  protocol(
    "HEADERS with more padding than fits after the priority fields",
    frame(HEADERS, END_HEADERS | PADDED | WITH_PRIORITY, 1, Buffer.of(3, 0, 0, 0, 0, 0, 0x82)),
  ),
  size("padded DATA with an empty payload", open, frame(0, PADDED, 1)),
  size("padded HEADERS with an empty payload", frame(HEADERS, END_HEADERS | PADDED, 1)),
  // §6.5.2: values of settings.
  protocol("ENABLE_PUSH of 2", settings([2, 2])),
  flow("INITIAL_WINDOW_SIZE of 2^31", settings([INITIAL_WINDOW, 2 ** 31])),
  protocol("MAX_FRAME_SIZE below its minimum", settings([5, MAX_FRAME_SIZE - 1])),
  protocol("MAX_FRAME_SIZE above its maximum", settings([5, 2 ** 24])),
  protocol("an invalid setting after valid ones", settings([3, 1], [0x99, 7], [2, 2])),
  // §6.9: flow-control windows.
  protocol("WINDOW_UPDATE with increment 0", windowUpdate(0, 0)),
  flow("a connection window above 2^31-1", windowUpdate(0, 2 ** 31 - 1)),
  flow("a connection window above 2^31-1 in two steps", repeated(windowUpdate(0, 2 ** 30), 2)),
  flow(
    "an initial window size that raises a stream window above 2^31-1",
    open,
    windowUpdate(1, 2 ** 30),
    settings([INITIAL_WINDOW, 2 ** 31 - 1]),
  ),
];

test("ends the connection for every forbidden frame", async (t) => {
  const server = await startTarget(t);
  for (const { how, sent, code, fault } of rows) {
    await t.test(how, async (t) => {
      const bound = { frames: CONNECTIONS, callsPerFrame: CONNECTION };
      const cost = await server.withstand(t, bound, async () => {
        for (let made = 0; made < CONNECTIONS; made++) {
          const peer = await server.peer(t);
          await peer.send(...sent);
          const said = await peer.goaway();
          assert.equal(said, code, peer.describeFrames());
          await peer.closed;
        }
      });
      assert.deepEqual(cost.faults, { [fault]: CONNECTIONS });
    });
  }

  await t.test("a preface whose first frame is not SETTINGS", async (t) => {
    const firsts = [ping(), windowUpdate(0, 1), call(1, SAY), frame(0x42, 0, 0)];
    const bound = {
      frames: 4,
      callsPerFrame: CONNECTION,
      refused: { broken_preface: firsts.length },
    };
    await server.withstand(t, bound, async () => {
      for (const first of firsts) {
        const peer = await server.peer(t, { initialFrames: first });
        await peer.closed;
        assert.equal(peer.outcomeSoFar(1).head[":status"], undefined, "the request was served");
      }
    });
  });

  await t.test("an invalid setting in the preface", async (t) => {
    const bound = { frames: 1, callsPerFrame: CONNECTION, faults: { flow_control: 1 } };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { initialFrames: settings([INITIAL_WINDOW, 2 ** 31]) });
      assert.equal(await peer.goaway(), "FLOW_CONTROL_ERROR");
      await peer.closed;
    });
  });

  await t.test(
    "a client that sends GOAWAY gets its replies, then the connection ends",
    async (t) => {
      const cost = await server.withstand(t, { frames: 1, callsPerFrame: CONNECTION }, async () => {
        const peer = await server.peer(t);
        const goodbye = frame(GOAWAY, 0, 0, Buffer.concat([uint32(0), uint32(0)]));
        await peer.send(call(1, "/test.Target/Later"), goodbye);
        assert.equal(grpcStatus(await peer.outcome(1)), "0", peer.describeFrames());
        await peer.closed;
      });
      assert.deepEqual(cost.faults, {});
    },
  );

  await t.test("allowed: a hundred of each frame that may be sent at any time", async (t) => {
    const kinds = [
      ping(),
      settings(),
      priority(7),
      windowUpdate(0, 1),
      frame(0x42, 0, 0),
      frame(SETTINGS, ACK, 0),
      frame(PING, ACK, 0, Buffer.alloc(8)),
    ];
    const times = 100;
    const cost = await server.withstand(
      t,
      { frames: times * kinds.length, callsPerFrame: 0.5 },
      async () => {
        const peer = await server.peer(t);
        for (const kind of kinds) await peer.send(repeated(kind, times));
        assert.equal(await peer.unary(SAY), "0", peer.describeFrames());
      },
    );
    assert.deepEqual(cost.faults, {});
  });

  const HIGHEST_ID = "the highest stream id";
  const fine: readonly (readonly [how: string, ...sent: Uint8Array[]])[] = [
    [
      "a stream id with the reserved bit set",
      headers(2 ** 31 + 1, say),
      data(1, message(), END_STREAM),
    ],
    ["undefined flags", headers(1, say, END_HEADERS | 0x50), data(1, message(), END_STREAM | 0xf0)],
    ["unknown settings", settings([0x99, 1], [0, 7]), call(1, SAY)],
    ["a HEADER_TABLE_SIZE of 0", settings([1, 0]), call(1, SAY)],
    ["the largest HEADER_TABLE_SIZE", settings([1, 2 ** 32 - 1]), call(1, SAY)],
    ["the largest MAX_FRAME_SIZE", settings([5, 2 ** 24 - 1]), call(1, SAY)],
    ["a MAX_HEADER_LIST_SIZE of 0", settings([6, 0]), call(1, SAY)],
    [HIGHEST_ID, call(2 ** 31 - 1, SAY)],
    ["PRIORITY of a future stream", priority(1), call(1, SAY)],
  ];
  for (const [how, ...sent] of fine) {
    await t.test(`allowed: ${how}`, async (t) => {
      const cost = await server.withstand(t, { frames: 1, callsPerFrame: CONNECTION }, async () => {
        const peer = await server.peer(t);
        await peer.send(...sent);
        const id = how === HIGHEST_ID ? 2 ** 31 - 1 : 1;
        assert.equal(grpcStatus(await peer.outcome(id)), "0", peer.describeFrames());
      });
      assert.deepEqual(cost.faults, {});
    });
  }

  await t.test("allowed: a HEADER_TABLE_SIZE that shrinks and grows between calls", async (t) => {
    const calls = 2_000;
    const cost = await server.withstand(t, { frames: calls, callsPerFrame: 2 }, async () => {
      const peer = await server.peer(t);
      const changed = Buffer.concat([settings([1, 0]), settings([1, 2 ** 20])]);
      for (let done = 0; done < 10; done++) {
        // No call while the table may exceed 4 096 bytes, which is all that this test's decoder has.
        const make = (id: number) =>
          Buffer.concat([settings([1, 0]), settings([1, 4_096]), call(id, SAY)]);
        await peer.send(peer.onNewStreams(calls / 10, make), windowUpdate(0, 10_000));
        await peer.outcome(peer.lastStream);
      }
      assert.equal(grpcStatus(await peer.outcome(peer.lastStream)), "0", peer.describeFrames());
      await peer.send(repeated(changed, 100));
      await peer.pingRoundTrip();
    });
    assert.deepEqual(cost.faults, {});
  });
});
