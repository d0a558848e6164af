// Our encoder and decoder against those of Node's HTTP/2.

import assert from "node:assert/strict";
import { once } from "node:events";
import http2 from "node:http2";
import { duplexPair } from "node:stream";
import { describe, test } from "node:test";
import fc from "fast-check";
import { FixedBlock } from "#h2/exchange.ts";
import { Decoder } from "#h2/hpack/decoder.ts";
import { Encoder } from "#h2/hpack/encoder.ts";
import { decode, hex } from "./setup.ts";

/** An HTTP/2 frame. */
function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

const SETTINGS = 4;

const HEADERS = 1;

/** Node's HTTP/2 client with the test as its server: collects field blocks and can send frames. */
function nodeClient(settings: http2.Settings) {
  const [theirs, ours] = duplexPair();
  const client = http2.connect("http://sluice", { createConnection: () => theirs, settings });
  const blocks: Buffer[] = [];
  let wanted = 0;
  let reached = () => {};
  let unread = Buffer.alloc(0);
  let skip = 24;
  ours.on("data", (chunk: Buffer) => {
    unread = Buffer.concat([unread, chunk]);
    if (unread.length < skip) return;
    unread = unread.subarray(skip);
    skip = 0;
    while (unread.length >= 9 && unread.length >= 9 + unread.readUIntBE(0, 3)) {
      const end = 9 + unread.readUIntBE(0, 3);
      const flags = unread[4] ?? 0;
      if (unread[3] === HEADERS) {
        assert.equal(flags & 0x0c, 0x04, "complete and without padding");
        blocks.push(Buffer.from(unread.subarray(flags & 0x20 ? 14 : 9, end)));
      }
      unread = unread.subarray(end);
    }
    if (blocks.length >= wanted) reached();
  });
  return {
    client,
    send: (bytes: Buffer) => ours.write(bytes),
    async blocks(count: number): Promise<readonly Buffer[]> {
      wanted = count;
      if (blocks.length < count) {
        await new Promise<void>((resolve) => {
          reached = resolve;
        });
      }
      return blocks;
    },
    async close(): Promise<void> {
      const closed = once(client, "close");
      client.destroy();
      ours.end();
      await closed;
    },
  };
}

const SENT = fc.dictionary(
  fc.oneof(
    fc.constantFrom("authorization", "cookie", "user-agent", "grpc-timeout", "accept"),
    fc.stringMatching(/^x-[a-z0-9-]{1,12}$/),
  ),
  fc.stringMatching(/^[!-~]([ -~]{0,60}[!-~])?$/),
  { maxKeys: 8 },
);

const sorted = (flat: readonly string[]) =>
  flat.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${flat[i + 1]}`] : [])).sort();

describe("with Node's HTTP/2", () => {
  test("decodes what Node encodes, for every table size", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(SENT, { minLength: 1, maxLength: 20 }),
        fc.constantFrom(0, 60, 256, 4096),
        async (requests, size) => {
          const peer = nodeClient({});
          const settings = Buffer.alloc(6);
          settings.writeUInt16BE(1, 0);
          settings.writeUInt32BE(size, 2);
          peer.send(frame(SETTINGS, 0, 0, settings));
          await once(peer.client, "remoteSettings");
          const decoder = new Decoder(size);
          for (const request of requests) {
            const stream = peer.client.request({
              ":authority": "sluice",
              ":path": "/p",
              ...request,
            });
            stream.on("error", () => {});
          }
          const blocks = await peer.blocks(requests.length);
          for (const [i, request] of requests.entries()) {
            const wanted = { ":method": "GET", ":scheme": "http", ":authority": "sluice" };
            const all = Object.entries({ ...wanted, ":path": "/p", ...request }).flat();
            assert.deepEqual(sorted(decode(decoder, blocks[i] ?? hex(""))), sorted(all));
          }
          await peer.close();
        },
      ),
      { numRuns: 25 },
    ));

  test("encodes what Node decodes, for every table size", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(SENT, fc.boolean()), { minLength: 1, maxLength: 12 }),
        fc.constantFrom(0, 60, 256, 4096, 65_536),
        async (replies, headerTableSize) => {
          const peer = nodeClient({ headerTableSize });
          peer.send(frame(SETTINGS, 0, 0, hex("")));
          const encoder = new Encoder();
          const fixed = new FixedBlock([":status", "200", "content-type", "application/grpc"]);
          encoder.limitTable(headerTableSize);
          const got = replies.map(async () => {
            const stream = peer.client.request({ ":path": "/" });
            stream.on("error", () => {});
            const [, , raw] = await once(stream, "response");
            return raw as readonly string[];
          });
          await peer.blocks(replies.length);
          const sent = replies.map(([reply, whole], i) => {
            const list = [...fixed.fields, ...Object.entries(reply).flat()];
            const into = Buffer.alloc(8192);
            let end = 0;
            const start = whole ? encoder.block(list) : encoder.fixed(fixed);
            into.set(start);
            end = start.length;
            for (let at = 4; !whole && at < list.length; at += 2) {
              end = encoder.field(into, end, list[at] ?? "", list[at + 1] ?? "");
            }
            peer.send(frame(HEADERS, 0x05, 2 * i + 1, into.subarray(0, end)));
            return list;
          });
          assert.deepEqual(await Promise.all(got), sent);
          await peer.close();
        },
      ),
      { numRuns: 25 },
    ));
});
