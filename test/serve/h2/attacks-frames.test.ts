// Frames that RFC 9113 forbids: on the wrong stream, of the wrong length, out of turn, with values that cannot be.
// Each ends the connection with the code of its section, costs next to nothing, and hurts nobody else.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Http2Fault } from "#serve/settings.ts";
import {
  ACK,
  CONTINUATION,
  call,
  data,
  END_HEADERS,
  END_STREAM,
  type ErrorName,
  FULL,
  frame,
  GOAWAY,
  grpcFields,
  grpcStatus,
  HEADERS,
  headers,
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
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { victim } from "../../kit/watch.ts";

const SAY = "/test.Victim/Say";
const say = block(grpcFields(SAY));
const open = headers(1, block(grpcFields("/test.Victim/Gather")));
const CONNECTIONS = 10;
/** What a connection may cost, in honest calls. */
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
  // §5.1.1: ids of streams.
  protocol("an even id", call(2, SAY)),
  protocol("an id below the last", call(5, SAY), call(3, SAY)),
  protocol("an id below the last, of a stream that never was", call(101, SAY), call(51, SAY)),
  row("an id again", "STREAM_CLOSED", "protocol", call(1, SAY), call(1, SAY)),
  protocol("an id after the last of all", call(2 ** 31 - 1, SAY), call(1, SAY)),
  // §5.1: frames of streams that are idle.
  protocol("DATA before a head", data(1, message(), END_STREAM)),
  protocol("RST_STREAM before a head", reset(1)),
  protocol("WINDOW_UPDATE before a head", windowUpdate(1, 1)),
  // §6: stream 0, and only stream 0.
  protocol("DATA on stream 0", data(0, message())),
  protocol("HEADERS on stream 0", headers(0, say)),
  protocol("PRIORITY on stream 0", priority(0)),
  protocol("RST_STREAM on stream 0", reset(0)),
  protocol("CONTINUATION on stream 0", frame(CONTINUATION, END_HEADERS, 0, say)),
  protocol("SETTINGS on a stream", open, frame(SETTINGS, 0, 1)),
  protocol("PING on a stream", open, frame(PING, 0, 1, Buffer.alloc(8))),
  protocol("GOAWAY on a stream", open, frame(GOAWAY, 0, 1, Buffer.alloc(8))),
  // §6.6: only servers push.
  protocol(
    "PUSH_PROMISE",
    open,
    frame(PUSH_PROMISE, END_HEADERS, 1, Buffer.concat([uint32(2), say])),
  ),
  // Lengths.
  size("a frame that is too large", frame(0x42, 0, 0, Buffer.alloc(FULL + 1))),
  size("DATA that is too large", open, data(1, Buffer.alloc(FULL + 1))),
  size("a frame that says it is as large as can be", frame(0, 0, 1, none, 0xff_ffff)),
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
  protocol("DATA of more padding than frame", open, frame(0, PADDED, 1, Buffer.of(5, 0, 0, 0))),
  protocol("DATA of as much padding as frame", open, frame(0, PADDED, 1, Buffer.of(4, 0, 0, 0))),
  protocol(
    "HEADERS of more padding than frame",
    frame(HEADERS, END_HEADERS | PADDED, 1, Buffer.of(9, 0x82)),
  ),
  protocol(
    "HEADERS of more padding than its priority leaves",
    frame(HEADERS, END_HEADERS | PADDED | WITH_PRIORITY, 1, Buffer.of(3, 0, 0, 0, 0, 0, 0x82)),
  ),
  size("padded DATA of no bytes", open, frame(0, PADDED, 1)),
  size("padded HEADERS of no bytes", frame(HEADERS, END_HEADERS | PADDED, 1)),
  // §6.5.2: values of settings.
  protocol("ENABLE_PUSH of 2", settings([2, 2])),
  flow("INITIAL_WINDOW_SIZE of 2^31", settings([INITIAL_WINDOW, 2 ** 31])),
  protocol("MAX_FRAME_SIZE below its least", settings([5, FULL - 1])),
  protocol("MAX_FRAME_SIZE above its most", settings([5, 2 ** 24])),
  protocol("a bad setting behind good ones", settings([3, 1], [0x99, 7], [2, 2])),
  // §6.9: windows.
  protocol("WINDOW_UPDATE of nothing", windowUpdate(0, 0)),
  flow("a connection's window too wide", windowUpdate(0, 2 ** 31 - 1)),
  flow("a connection's window too wide in two steps", repeated(windowUpdate(0, 2 ** 30), 2)),
  flow(
    "settings that make a stream's window too wide",
    open,
    windowUpdate(1, 2 ** 30),
    settings([INITIAL_WINDOW, 2 ** 31 - 1]),
  ),
];

test("frames that are forbidden", async (t) => {
  const server = await victim(t);
  for (const { how, sent, code, fault } of rows) {
    await t.test(how, async (t) => {
      const bound = { frames: CONNECTIONS, each: CONNECTION };
      const cost = await server.under(t, bound, async () => {
        for (let made = 0; made < CONNECTIONS; made++) {
          const peer = await server.peer(t);
          await peer.send(...sent);
          const said = await peer.goaway();
          assert.equal(said, code, peer.told());
          await peer.closed;
        }
      });
      assert.deepEqual(cost.faults, { [fault]: CONNECTIONS });
    });
  }

  await t.test("a greeting whose first frame is no SETTINGS", async (t) => {
    const firsts = [ping(), windowUpdate(0, 1), call(1, SAY), frame(0x42, 0, 0)];
    const bound = { frames: 4, each: CONNECTION, refused: { broken_preface: firsts.length } };
    await server.under(t, bound, async () => {
      for (const first of firsts) {
        const peer = await server.peer(t, { greeting: first });
        await peer.closed;
        assert.equal(peer.outcomeSoFar(1).head[":status"], undefined, "nothing is served");
      }
    });
  });

  await t.test("SETTINGS that say what cannot be, in the greeting", async (t) => {
    const bound = { frames: 1, each: CONNECTION, faults: { flow_control: 1 } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t, { greeting: settings([INITIAL_WINDOW, 2 ** 31]) });
      assert.equal(await peer.goaway(), "FLOW_CONTROL_ERROR");
      await peer.closed;
    });
  });

  await t.test("a client that says goodbye is answered and left", async (t) => {
    const cost = await server.under(t, { frames: 1, each: CONNECTION }, async () => {
      const peer = await server.peer(t);
      const goodbye = frame(GOAWAY, 0, 0, Buffer.concat([uint32(0), uint32(0)]));
      await peer.send(call(1, "/test.Victim/Later"), goodbye);
      assert.equal(grpcStatus(await peer.outcome(1)), "0", peer.told());
      await peer.closed;
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("fine: a hundred of each frame that is allowed at any time", async (t) => {
    const kinds = [
      ...[ping(), settings(), priority(7), windowUpdate(0, 1), frame(0x42, 0, 0)],
      ...[frame(SETTINGS, ACK, 0), frame(PING, ACK, 0, Buffer.alloc(8))],
    ];
    const times = 100;
    const cost = await server.under(t, { frames: times * kinds.length, each: 0.5 }, async () => {
      const peer = await server.peer(t);
      for (const kind of kinds) await peer.send(repeated(kind, times));
      assert.equal(await peer.unary(SAY), "0", peer.told());
    });
    assert.deepEqual(cost.faults, {});
  });

  const fine: readonly (readonly [how: string, ...sent: Uint8Array[]])[] = [
    [
      "a stream id with its reserved bit",
      headers(2 ** 31 + 1, say),
      data(1, message(), END_STREAM),
    ],
    [
      "flags that mean nothing",
      headers(1, say, END_HEADERS | 0x50),
      data(1, message(), END_STREAM | 0xf0),
    ],
    ["settings that nobody knows", settings([0x99, 1], [0, 7]), call(1, SAY)],
    ["a table of nothing", settings([1, 0]), call(1, SAY)],
    ["a table as large as can be", settings([1, 2 ** 32 - 1]), call(1, SAY)],
    ["frames as large as can be", settings([5, 2 ** 24 - 1]), call(1, SAY)],
    ["a header list of nothing", settings([6, 0]), call(1, SAY)],
    ["an id as high as can be", call(2 ** 31 - 1, SAY)],
    ["a priority of a stream to come", priority(1), call(1, SAY)],
  ];
  for (const [how, ...sent] of fine) {
    await t.test(`fine: ${how}`, async (t) => {
      const cost = await server.under(t, { frames: 1, each: CONNECTION }, async () => {
        const peer = await server.peer(t);
        await peer.send(...sent);
        const id = how.includes("as high") ? 2 ** 31 - 1 : 1;
        assert.equal(grpcStatus(await peer.outcome(id)), "0", peer.told());
      });
      assert.deepEqual(cost.faults, {});
    });
  }

  await t.test("fine: a table that shrinks and grows between calls", async (t) => {
    const calls = 2_000;
    const cost = await server.under(t, { frames: calls, each: 2 }, async () => {
      const peer = await server.peer(t);
      const changed = Buffer.concat([settings([1, 0]), settings([1, 2 ** 20])]);
      for (let done = 0; done < 10; done++) {
        // No call that may see the table larger than it was told: the reader of this test has 4096 bytes.
        const make = (id: number) =>
          Buffer.concat([settings([1, 0]), settings([1, 4_096]), call(id, SAY)]);
        await peer.send(peer.each(calls / 10, make), windowUpdate(0, 10_000));
        await peer.outcome(peer.last);
      }
      assert.equal(grpcStatus(await peer.outcome(peer.last)), "0", peer.told());
      await peer.send(repeated(changed, 100));
      await peer.pong();
    });
    assert.deepEqual(cost.faults, {});
  });
});
