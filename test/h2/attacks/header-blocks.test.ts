// Attacks with field blocks: endless blocks (CONTINUATION flood, CVE-2024-27316), small blocks that decode to large
// lists (HPACK bombs), lists that are too long, and abuse of the dynamic table.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { MAX_FRAMES_PER_BLOCK } from "#h2/limits.ts";
import { startTarget } from "../../kit/attack/measure.ts";
import {
  CONTINUATION,
  data,
  END_HEADERS,
  END_STREAM,
  frame,
  grpcFields,
  headerFrames,
  headers,
  httpFields,
  MAX_FRAME_SIZE,
  message,
  ping,
  type RawPeer,
  repeated,
} from "../../kit/clients/h2.ts";
import { block, indexed, integer, literal, rawString, tableSize } from "../../kit/clients/hpack.ts";

const SAY = "/test.Target/Say";
const MB = 1024 * 1024;
const get = block(httpFields("GET", "/hello"));
const say = block(grpcFields(SAY));
const WHOLE = END_HEADERS | END_STREAM;
/** CPU cost that a connection may have, in honest calls. */
const CONNECTION = 50;

const more = (payload: Uint8Array, stream = 1, flags = 0) =>
  frame(CONTINUATION, flags, stream, payload);

async function assertCalmed(peer: RawPeer): Promise<void> {
  assert.equal(await peer.goaway(), "ENHANCE_YOUR_CALM", peer.describeFrames());
  await peer.closed;
}

/** A literal field that becomes a table entry of almost the table's full size. */
const HUGE = literal(["x-bomb", "b".repeat(4_000)], true);
/** The newest entry of the dynamic table. */
const NEWEST = indexed(62);

test("ends endless field blocks at low cost", async (t) => {
  const server = await startTarget(t);
  // Large frames are still read and discarded until the peer has seen the GOAWAY.
  const floods = [
    ["empty", new Uint8Array(), 100_000, MAX_FRAMES_PER_BLOCK],
    ["of one byte", Buffer.of(0x82), 100_000, MAX_FRAMES_PER_BLOCK],
    ["of the maximum size", Buffer.alloc(MAX_FRAME_SIZE, 0x82), 5_000, 2_500],
  ] as const;
  for (const [how, payload, frames, taken] of floods) {
    await t.test(`CONTINUATION flood: frames ${how}`, async (t) => {
      const connections = 4;
      const kinds = { continuation_flood: 0, header_list: 0 };
      const cost = await server.withstand(t, { frames: taken * connections }, async () => {
        for (let made = 0; made < connections; made++) {
          const peer = await server.peer(t);
          const begun = headers(1, get.subarray(0, 3), END_STREAM);
          void peer.send(begun, repeated(more(payload), frames));
          await assertCalmed(peer);
        }
      });
      const { continuation_flood, header_list } = { ...kinds, ...cost.faults };
      assert.equal(continuation_flood + header_list, connections);
    });
  }

  await t.test("CONTINUATION flood in trailers", async (t) => {
    const bound = { frames: MAX_FRAMES_PER_BLOCK, faults: { continuation_flood: 1 } };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t);
      const begun = [headers(1, say), headers(1, block([["x", "y"]]), END_STREAM)];
      void peer.send(...begun, repeated(more(new Uint8Array()), 100_000));
      await assertCalmed(peer);
    });
  });

  await t.test("blocks that end just below the limit cost no more than their size", async (t) => {
    const pieces = 40;
    const calls = 500;
    const bound = { frames: calls * pieces, callsPerFrame: 0.4, statuses: { 200: calls } };
    const cost = await server.withstand(t, bound, async () => {
      const peer = await server.peer(t);
      const make = (id: number) =>
        Buffer.concat([
          headers(id, get, END_STREAM),
          repeated(more(new Uint8Array(), id), pieces - 2),
          more(new Uint8Array(), id, END_HEADERS),
        ]);
      await peer.send(peer.onNewStreams(calls, make));
      assert.equal(
        (await peer.outcome(peer.lastStream)).head[":status"],
        "200",
        peer.describeFrames(),
      );
    });
    assert.deepEqual(cost.faults, {});
  });

  const broken: readonly (readonly [how: string, ...bytes: Uint8Array[]])[] = [
    ["a ping", ping()],
    ["HEADERS of another stream", headers(3, get, WHOLE)],
    ["a CONTINUATION of another stream", more(get, 3, END_HEADERS)],
    ["a frame of an unknown type", frame(0x42, 0, 1)],
    ["DATA of the same stream", data(1, message())],
  ];
  for (const [how, ...bytes] of broken) {
    await t.test(`inside a field block: ${how}`, async (t) => {
      await server.withstand(
        t,
        { frames: 1, callsPerFrame: CONNECTION, faults: { protocol: 1 } },
        async () => {
          const peer = await server.peer(t);
          await peer.send(headers(1, get, END_STREAM), ...bytes);
          assert.equal(await peer.goaway(), "PROTOCOL_ERROR");
          await peer.closed;
        },
      );
    });
  }

  await t.test("CONTINUATION without a field block before it", async (t) => {
    await server.withstand(
      t,
      { frames: 2, callsPerFrame: CONNECTION, faults: { protocol: 2 } },
      async () => {
        for (const begun of [[], [headers(1, get, WHOLE)]]) {
          const peer = await server.peer(t);
          await peer.send(...begun, more(get, 1, END_HEADERS));
          assert.equal(await peer.goaway(), "PROTOCOL_ERROR");
        }
      },
    );
  });
});

test("bounds the cost of field blocks that decode to large lists", async (t) => {
  const server = await startTarget(t);

  /** Sends many bombs on one connection, each of which must be refused separately. */
  async function bombs(t: TestContext, count: number, bomb: Buffer): Promise<void> {
    // A byte of a bomb may cost half as much as a byte of an honest call, which has about a hundred bytes.
    const bound = {
      frames: count,
      callsPerFrame: bomb.length / 200,
      peak: 96 * MB,
      faults: { header_list: count },
    };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t);
      for (let sent = 0; sent < count; sent++) {
        const id = peer.nextStream();
        await peer.send(headerFrames(id, bomb));
        assert.ok(await refused(peer, id), peer.describeFrames());
      }
    });
  }

  await t.test("HPACK bomb: a thousand references to one large entry, over gRPC", (t) =>
    bombs(t, 300, Buffer.concat([say, HUGE, repeated(NEWEST, 900)])),
  );

  await t.test("HPACK bomb: as many references as a block holds, over HTTP", (t) =>
    bombs(t, 100, Buffer.concat([get, HUGE, repeated(NEWEST, 100_000)])),
  );

  await t.test(
    "HPACK bomb: the entry is inserted by one call and referenced by others",
    async (t) => {
      const calls = 300;
      const bound = { frames: calls, callsPerFrame: 30, faults: { header_list: calls } };
      await server.withstand(t, bound, async () => {
        const peer = await server.peer(t);
        await peer.send(headers(peer.nextStream(), Buffer.concat([get, HUGE]), WHOLE));
        assert.equal((await peer.outcome(1)).head[":status"], "200");
        const bomb = Buffer.concat([get, repeated(NEWEST, MAX_FRAME_SIZE - get.length)]);
        await peer.send(peer.onNewStreams(calls, (id) => headers(id, bomb, WHOLE)));
        assert.ok(await refused(peer, peer.lastStream), peer.describeFrames());
      });
    },
  );

  const small = repeated(literal(["x", "y"], true), 2_500);
  const large = repeated(HUGE, 4);
  const floods = [
    { how: "entries that evict each other", bytes: small, block: [get, small], tooMany: true },
    {
      how: "large entries that evict each other",
      bytes: large,
      block: [get, large],
      tooMany: false,
    },
  ];
  for (const { how, bytes, block, tooMany } of floods) {
    await t.test(`abuse of the dynamic table: ${how}`, async (t) => {
      const calls = 200;
      const each = (bytes.length + get.length) / 250;
      const cost = await server.withstand(t, { frames: calls, callsPerFrame: each }, async () => {
        const peer = await server.peer(t);
        for (let made = 0; made < 10; made++) {
          await peer.send(
            peer.onNewStreams(calls / 10, (id) => headers(id, Buffer.concat(block), WHOLE)),
          );
          await peer.pingRoundTrip();
        }
      });
      // These are ordinary requests, except those with too many fields.
      const { header_list = 0 } = cost.faults;
      const { 200: served = 0, 431: refused = 0 } = cost.statuses;
      assert.equal(served + refused, calls);
      assert.equal(header_list, tooMany ? calls : 0);
      assert.equal(refused, header_list);
    });
  }

  const wrong: readonly (readonly [how: string, bytes: Uint8Array])[] = [
    ["entry 0", Buffer.of(0x80)],
    ["an index beyond both tables", indexed(62)],
    ["a name index beyond both tables", Buffer.concat([integer(70, 6, 0x40), rawString("v")])],
    ["a string longer than the block", Buffer.concat([Buffer.of(0), integer(10, 7), get])],
    ["an endless length", Buffer.concat([Buffer.of(0, 0x7f), Buffer.alloc(64, 0xff)])],
    ["an enormous length", Buffer.from([0, 0x7f, ...Array(9).fill(0xff), 0x7f])],
    ["a table size above the limit", tableSize(4_097)],
    ["a third table size update", Buffer.concat([tableSize(0), tableSize(9), tableSize(0), get])],
    ["many table size updates", Buffer.concat([repeated(tableSize(0), 4_000), get])],
    ["a table size update after a field", Buffer.concat([Buffer.of(0x82), tableSize(0)])],
    ["Huffman padding of a whole byte", Buffer.from([0, 0x81, 0xff, 1, 0x61])],
    ["Huffman padding of zeros", Buffer.from([0, 0x81, 0x18, 1, 0x61])],
    ["the Huffman code of EOS", Buffer.from([0, 0x84, 0xff, 0xff, 0xff, 0xff, 1, 0x61])],
    ["a truncated field", Buffer.of(0x40)],
  ];
  for (const [how, bytes] of wrong) {
    await t.test(`compression error: ${how}`, async (t) => {
      const bound = { frames: 20, callsPerFrame: CONNECTION, faults: { compression: 20 } };
      await server.withstand(t, bound, async () => {
        for (let made = 0; made < 20; made++) {
          const peer = await server.peer(t);
          await peer.send(headers(1, bytes, WHOLE));
          assert.equal(await peer.goaway(), "COMPRESSION_ERROR", peer.describeFrames());
          await peer.closed;
        }
      });
    });
  }
});

/** True if a request was refused for its fields, with a status or by a reset. */
async function refused(peer: RawPeer, stream: number): Promise<boolean> {
  const { head, reset } = await peer.outcome(stream);
  return head[":status"] === "431" || head["grpc-status"] === "8" || reset === "ENHANCE_YOUR_CALM";
}
