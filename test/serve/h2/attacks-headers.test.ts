// Header blocks as weapons: blocks without end (CVE-2024-27316), small blocks that mean large lists (HPACK
// bombs), lists that are too long, and games with the table.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { MAX_BLOCK_FRAMES } from "#serve/h2/limits.ts";
import {
  CONTINUATION,
  data,
  END_HEADERS,
  END_STREAM,
  FULL,
  frame,
  grpcFields,
  headers,
  httpFields,
  inFrames,
  message,
  ping,
  type RawPeer,
  repeated,
} from "../../kit/h2.ts";
import { block, indexed, integer, literal, plain, tableSize } from "../../kit/hpack-raw.ts";
import { victim } from "../../kit/watch.ts";

const SAY = "/test.Victim/Say";
const MB = 1024 * 1024;
const get = block(httpFields("GET", "/hello"));
const say = block(grpcFields(SAY));
const WHOLE = END_HEADERS | END_STREAM;
/** What a connection may cost, in honest calls. */
const CONNECTION = 50;

const more = (payload: Uint8Array, stream = 1, flags = 0) =>
  frame(CONTINUATION, flags, stream, payload);

async function calm(peer: RawPeer): Promise<void> {
  assert.equal(await peer.goaway(), "ENHANCE_YOUR_CALM", peer.told());
  await peer.closed;
}

/** An entry of the table that is as large as the table lets it be, as a field to begin with. */
const HUGE = literal(["x-bomb", "b".repeat(4_000)], true);
/** The newest entry of the dynamic table. */
const NEWEST = indexed(62);

test("header blocks without end", async (t) => {
  const server = await victim(t);
  // Large ones are still read, and dropped, until the peer has seen that it is over.
  const floods = [
    ["empty", new Uint8Array(), 100_000, MAX_BLOCK_FRAMES],
    ["of one byte", Buffer.of(0x82), 100_000, MAX_BLOCK_FRAMES],
    ["as large as may be", Buffer.alloc(FULL, 0x82), 5_000, 2_500],
  ] as const;
  for (const [how, payload, frames, taken] of floods) {
    await t.test(`CONTINUATION flood: frames ${how}`, async (t) => {
      const connections = 4;
      const kinds = { continuation_flood: 0, header_list: 0 };
      const cost = await server.under(t, { frames: taken * connections }, async () => {
        for (let made = 0; made < connections; made++) {
          const peer = await server.peer(t);
          const begun = headers(1, get.subarray(0, 3), END_STREAM);
          void peer.send(begun, repeated(more(payload), frames));
          await calm(peer);
        }
      });
      const { continuation_flood, header_list } = { ...kinds, ...cost.faults };
      assert.equal(continuation_flood + header_list, connections);
    });
  }

  await t.test("CONTINUATION flood in trailers", async (t) => {
    const bound = { frames: MAX_BLOCK_FRAMES, faults: { continuation_flood: 1 } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t);
      const begun = [headers(1, say), headers(1, block([["x", "y"]]), END_STREAM)];
      void peer.send(...begun, repeated(more(new Uint8Array()), 100_000));
      await calm(peer);
    });
  });

  await t.test("blocks that end just below the bound cost no more than they are", async (t) => {
    const pieces = 40;
    const calls = 500;
    const bound = { frames: calls * pieces, each: 0.4, statuses: { 200: calls } };
    const cost = await server.under(t, bound, async () => {
      const peer = await server.peer(t);
      const make = (id: number) =>
        Buffer.concat([
          headers(id, get, END_STREAM),
          repeated(more(new Uint8Array(), id), pieces - 2),
          more(new Uint8Array(), id, END_HEADERS),
        ]);
      await peer.send(peer.each(calls, make));
      assert.equal((await peer.outcome(peer.last)).head[":status"], "200", peer.told());
    });
    assert.deepEqual(cost.faults, {});
  });

  const broken: readonly (readonly [how: string, ...bytes: Uint8Array[]])[] = [
    ["a ping", ping()],
    ["another stream's head", headers(3, get, WHOLE)],
    ["a CONTINUATION of another stream", more(get, 3, END_HEADERS)],
    ["a frame of an unknown kind", frame(0x42, 0, 1)],
    ["data of the same stream", data(1, message())],
  ];
  for (const [how, ...bytes] of broken) {
    await t.test(`inside a header block: ${how}`, async (t) => {
      await server.under(t, { frames: 1, each: CONNECTION, faults: { protocol: 1 } }, async () => {
        const peer = await server.peer(t);
        await peer.send(headers(1, get, END_STREAM), ...bytes);
        assert.equal(await peer.goaway(), "PROTOCOL_ERROR");
        await peer.closed;
      });
    });
  }

  await t.test("CONTINUATION without a header block before it", async (t) => {
    await server.under(t, { frames: 2, each: CONNECTION, faults: { protocol: 2 } }, async () => {
      for (const begun of [[], [headers(1, get, WHOLE)]]) {
        const peer = await server.peer(t);
        await peer.send(...begun, more(get, 1, END_HEADERS));
        assert.equal(await peer.goaway(), "PROTOCOL_ERROR");
      }
    });
  });
});

test("header blocks that mean more than they are", async (t) => {
  const server = await victim(t);

  /** Sends many bombs on one connection, each of which must be refused on its own. */
  async function bombs(t: TestContext, count: number, bomb: Buffer): Promise<void> {
    // A byte of a bomb may cost half of a byte of an honest call, which has about a hundred.
    const bound = {
      frames: count,
      each: bomb.length / 200,
      peak: 96 * MB,
      faults: { header_list: count },
    };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t);
      for (let sent = 0; sent < count; sent++) {
        const id = peer.next();
        await peer.send(inFrames(id, bomb));
        assert.ok(await refused(peer, id), peer.told());
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
    "HPACK bomb: the entry is put in at one call and referred to by others",
    async (t) => {
      const calls = 300;
      const bound = { frames: calls, each: 30, faults: { header_list: calls } };
      await server.under(t, bound, async () => {
        const peer = await server.peer(t);
        await peer.send(headers(peer.next(), Buffer.concat([get, HUGE]), WHOLE));
        assert.equal((await peer.outcome(1)).head[":status"], "200");
        const bomb = Buffer.concat([get, repeated(NEWEST, FULL - get.length)]);
        await peer.send(peer.each(calls, (id) => headers(id, bomb, WHOLE)));
        assert.ok(await refused(peer, peer.last), peer.told());
      });
    },
  );

  const floods = [
    [
      "sizes of the table in turn",
      repeated(Buffer.concat([tableSize(0), tableSize(4_096)]), 2_000),
    ],
    ["entries that push each other out", repeated(literal(["x", "y"], true), 2_500)],
    ["large entries that push each other out", repeated(HUGE, 4)],
  ] as const;
  for (const [how, bytes] of floods) {
    await t.test(`games with the table: ${how}`, async (t) => {
      const calls = 200;
      const each = (bytes.length + get.length) / 250;
      const cost = await server.under(t, { frames: calls, each }, async () => {
        const peer = await server.peer(t);
        for (let made = 0; made < 10; made++) {
          await peer.send(
            peer.each(calls / 10, (id) =>
              headers(
                id,
                Buffer.concat(how.startsWith("sizes") ? [bytes, get] : [get, bytes]),
                WHOLE,
              ),
            ),
          );
          await peer.pong();
        }
      });
      // They are requests like others, but for those that have too many fields.
      const { header_list = 0 } = cost.faults;
      const { 200: served = 0, 431: refused = 0 } = cost.statuses;
      assert.equal(served + refused, calls);
      assert.equal(header_list, how.startsWith("entries") ? calls : 0);
      assert.equal(refused, header_list);
    });
  }

  const wrong: readonly (readonly [how: string, bytes: Uint8Array])[] = [
    ["entry 0", Buffer.of(0x80)],
    ["an entry that is in no table", indexed(62)],
    ["a name that is in no table", Buffer.concat([integer(70, 6, 0x40), plain("v")])],
    ["a string that is longer than the block", Buffer.concat([Buffer.of(0), integer(10, 7), get])],
    ["a length without end", Buffer.concat([Buffer.of(0, 0x7f), Buffer.alloc(64, 0xff)])],
    ["a length beyond every number", Buffer.from([0, 0x7f, ...Array(9).fill(0xff), 0x7f])],
    ["a table larger than was allowed", tableSize(4_097)],
    ["a size of the table behind a field", Buffer.concat([Buffer.of(0x82), tableSize(0)])],
    ["Huffman padding of a byte", Buffer.from([0, 0x81, 0xff, 1, 0x61])],
    ["Huffman padding of zeros", Buffer.from([0, 0x81, 0x18, 1, 0x61])],
    ["Huffman's end of a string", Buffer.from([0, 0x84, 0xff, 0xff, 0xff, 0xff, 1, 0x61])],
    ["a field that breaks off", Buffer.of(0x40)],
  ];
  for (const [how, bytes] of wrong) {
    await t.test(`what does not decode: ${how}`, async (t) => {
      const bound = { frames: 20, each: CONNECTION, faults: { compression: 20 } };
      await server.under(t, bound, async () => {
        for (let made = 0; made < 20; made++) {
          const peer = await server.peer(t);
          await peer.send(headers(1, bytes, WHOLE));
          assert.equal(await peer.goaway(), "COMPRESSION_ERROR", peer.told());
          await peer.closed;
        }
      });
    });
  }
});

/** Whether a request was refused for its fields, politely or by a reset. */
async function refused(peer: RawPeer, stream: number): Promise<boolean> {
  const { head, reset } = await peer.outcome(stream);
  return head[":status"] === "431" || head["grpc-status"] === "8" || reset === "ENHANCE_YOUR_CALM";
}
