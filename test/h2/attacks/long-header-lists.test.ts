// Header lists that are too long, endless, or held by calls that are never completed.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { startTarget, type TargetServer } from "../../kit/attack/measure.ts";
import {
  CONTINUATION,
  data,
  END_STREAM,
  frame,
  grpcFields,
  headerFrames,
  headers,
  httpFields,
  MAX_FRAME_SIZE,
  message,
  repeated,
} from "../../kit/clients/h2.ts";
import { block, indexed, literal } from "../../kit/clients/hpack.ts";

const SAY = "/test.Target/Say";
const MB = 1024 * 1024;
const get = block(httpFields("GET", "/hello"));
const say = block(grpcFields(SAY));
const gather = block(grpcFields("/test.Target/Gather"));
const HUGE = literal(["x-bomb", "b".repeat(4_000)], true);
const NEWEST = indexed(62);
/** Number of lists sent one after another. */
const LISTS = 150;
/** Length of a list above the limit of 64 KiB, bytes. */
const LONG = 70_000;
/** Length of a list just below the limit, bytes. */
const KEPT = 60_000;
/** CPU cost that a list of many short fields may have, in honest calls. */
const SPLIT = 20;

test("bounds the cost of long header lists", async (t) => {
  const server = await startTarget(t);
  const long = block([["x-long", "l".repeat(LONG)]]);
  const many = Buffer.concat(Array.from({ length: 1_100 }, (_, at) => literal([`x-${at}`, "v"])));
  const cookies = repeated(literal(["cookie", "a=b"]), 3_000);
  for (const [how, fields] of [
    ["one long field", long],
    ["many fields", many],
    ["many cookie fields", cookies],
  ] as const) {
    for (const [over, head, status] of [
      ["HTTP", get, "431"],
      ["gRPC", say, "8"],
    ] as const) {
      await t.test(`${how}, over ${over}: refused, and the connection stays open`, async (t) => {
        const bound = {
          frames: LISTS,
          callsPerFrame: SPLIT,
          headerBytes: LISTS * LONG,
          faults: { header_list: LISTS },
        };
        await server.withstand(t, bound, async () => {
          const peer = await server.peer(t);
          for (let sent = 0; sent < LISTS; sent++) {
            const id = peer.nextStream();
            await peer.send(headerFrames(id, Buffer.concat([head, fields])));
            const { head: reply } = await peer.outcome(id);
            const found = [reply["grpc-status"], reply[":status"]];
            assert.ok(found.includes(status) || found.includes("431"), peer.describeFrames());
          }
          assert.equal(await peer.unary(SAY), "0");
        });
      });
    }
  }

  await t.test("trailers that are too long", async (t) => {
    const bound = { frames: LISTS, headerBytes: LISTS * LONG, faults: { header_list: LISTS } };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t);
      for (let sent = 0; sent < LISTS; sent++) {
        const id = peer.nextStream();
        // The message is complete: only the trailers are missing before the handler would run.
        await peer.send(headers(id, gather), data(id, message()), headerFrames(id, long));
        const { reset, head } = await peer.outcome(id);
        assert.deepEqual([reset, head], ["ENHANCE_YOUR_CALM", {}], peer.describeFrames());
      }
      assert.equal(await peer.unary(SAY), "0");
    });
  });

  await t.test("an endless list", async (t) => {
    // Bytes that arrive after the GOAWAY are read and discarded until the peer has seen it.
    const bound = { frames: 5_000, callsPerFrame: 0.5, faults: { header_list: 1 } };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t);
      const piece = block([["x-more", "m".repeat(MAX_FRAME_SIZE - 20)]]);
      void peer.send(
        headers(1, get, END_STREAM),
        repeated(frame(CONTINUATION, 0, 1, piece), 5_000),
      );
      assert.equal(await peer.goaway(), "ENHANCE_YOUR_CALM", peer.describeFrames());
    });
  });

  await t.test("lists just below the limit, in calls that are left open", async (t) => {
    await leftOpen(t, server, Buffer.concat([say, HUGE, repeated(NEWEST, 13)]), NEWEST);
  });

  await t.test("long lists of literals, in calls that are left open", async (t) => {
    await leftOpen(t, server, Buffer.concat([say, literal(["x", "t".repeat(KEPT)])]));
  });
});

/** Begins calls with long lists and leaves them open: the memory that they hold must stay within the pool. */
async function leftOpen(
  t: TestContext,
  server: TargetServer,
  first: Buffer,
  reference?: Buffer,
): Promise<void> {
  const [connections, calls] = [6, 900];
  const bound = {
    frames: connections * calls,
    ...(reference ? { callsPerFrame: 12 } : { headerBytes: connections * calls * KEPT }),
    held: 96 * MB,
    peak: 256 * MB,
    faults: { too_many_bytes: 1 },
  };
  await server.withstand(t, bound, async () => {
    for (let made = 0; made < connections; made++) {
      const peer = await server.peer(t);
      await peer.send(headerFrames(peer.nextStream(), first, 0));
      const again = reference && Buffer.concat([say, repeated(reference, 14)]);
      for (let sent = 0; sent < calls && !peer.ended; sent++) {
        // All different, so that none is found in the field block cache.
        const own = literal(["x-own", String(sent)]);
        await peer.send(headerFrames(peer.nextStream(), Buffer.concat([again ?? first, own]), 0));
      }
      await peer.goawayOr(peer.pingRoundTrip());
    }
  });
}
