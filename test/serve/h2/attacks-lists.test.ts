// Header lists that are too long, without end, or kept by calls that are never made whole.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  CONTINUATION,
  data,
  END_STREAM,
  FULL,
  frame,
  grpcFields,
  headers,
  httpFields,
  inFrames,
  message,
  repeated,
} from "../../kit/h2.ts";
import { block, indexed, literal } from "../../kit/hpack-raw.ts";
import { type Victim, victim } from "../../kit/watch.ts";

const SAY = "/test.Victim/Say";
const MB = 1024 * 1024;
const get = block(httpFields("GET", "/hello"));
const say = block(grpcFields(SAY));
const gather = block(grpcFields("/test.Victim/Gather"));
const HUGE = literal(["x-bomb", "b".repeat(4_000)], true);
const NEWEST = indexed(62);
/** So many lists are sent one after the other, each longer than the 64 KiB that a list may have. */
const LISTS = 150;
const LONG = 70_000;
/** A list that is just short enough. */
const KEPT = 60_000;
/** What a list of many short fields costs, in honest calls. */
const SPLIT = 20;

test("header lists that are too long", async (t) => {
  const server = await victim(t);
  const long = block([["x-long", "l".repeat(LONG)]]);
  const many = Buffer.concat(Array.from({ length: 1_100 }, (_, at) => literal([`x-${at}`, "v"])));
  const cookies = repeated(literal(["cookie", "a=b"]), 3_000);
  for (const [how, fields] of [
    ["one long field", long],
    ["many fields", many],
    ["many crumbs of a cookie", cookies],
  ] as const) {
    for (const [over, head, status] of [
      ["HTTP", get, "431"],
      ["gRPC", say, "8"],
    ] as const) {
      await t.test(`${how}, over ${over}: refused, and the connection goes on`, async (t) => {
        const bound = {
          ...{ frames: LISTS, each: SPLIT, listed: LISTS * LONG },
          faults: { header_list: LISTS },
        };
        await server.under(t, bound, async () => {
          const peer = await server.peer(t);
          for (let sent = 0; sent < LISTS; sent++) {
            const id = peer.next();
            await peer.send(inFrames(id, Buffer.concat([head, fields])));
            const { head: reply } = await peer.outcome(id);
            const found = [reply["grpc-status"], reply[":status"]];
            assert.ok(found.includes(status) || found.includes("431"), peer.told());
          }
          assert.equal(await peer.unary(SAY), "0");
        });
      });
    }
  }

  await t.test("trailers that are too long", async (t) => {
    const bound = { frames: LISTS, listed: LISTS * LONG, faults: { header_list: LISTS } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t);
      for (let sent = 0; sent < LISTS; sent++) {
        const id = peer.next();
        // A whole message is there: only its trailers stand between it and its handler.
        await peer.send(headers(id, gather), data(id, message()), inFrames(id, long));
        const { reset, head } = await peer.outcome(id);
        assert.deepEqual([reset, head], ["ENHANCE_YOUR_CALM", {}], peer.told());
      }
      assert.equal(await peer.unary(SAY), "0");
    });
  });

  await t.test("a list without end", async (t) => {
    // What comes behind the end is read, and dropped, until the peer has seen it.
    const bound = { frames: 5_000, each: 0.5, faults: { header_list: 1 } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t);
      const piece = block([["x-more", "m".repeat(FULL - 20)]]);
      void peer.send(
        headers(1, get, END_STREAM),
        repeated(frame(CONTINUATION, 0, 1, piece), 5_000),
      );
      assert.equal(await peer.goaway(), "ENHANCE_YOUR_CALM", peer.told());
    });
  });

  await t.test("lists that are just small enough, in calls that are left open", async (t) => {
    await leftOpen(t, server, Buffer.concat([say, HUGE, repeated(NEWEST, 13)]), NEWEST);
  });

  await t.test("long lists of text, in calls that are left open", async (t) => {
    await leftOpen(t, server, Buffer.concat([say, literal(["x", "t".repeat(KEPT)])]));
  });
});

/** Calls with long lists that are begun, not ended: what they hold must stay within the bounds of all peers. */
async function leftOpen(
  t: TestContext,
  server: Victim,
  first: Buffer,
  reference?: Buffer,
): Promise<void> {
  const [connections, calls] = [6, 900];
  const bound = {
    frames: connections * calls,
    ...(reference ? { each: 12 } : { listed: connections * calls * KEPT }),
    held: 96 * MB,
    peak: 256 * MB,
    faults: { too_many_bytes: 1 },
  };
  await server.under(t, bound, async () => {
    for (let made = 0; made < connections; made++) {
      const peer = await server.peer(t);
      await peer.send(inFrames(peer.next(), first, 0));
      const again = reference && Buffer.concat([say, repeated(reference, 14)]);
      for (let sent = 0; sent < calls && !peer.ended; sent++) {
        // Told apart, so that none is remembered as the same as one before.
        const own = literal(["x-own", String(sent)]);
        await peer.send(inFrames(peer.next(), Buffer.concat([again ?? first, own]), 0));
      }
      await peer.goawayOr(peer.pong());
    }
  });
}
