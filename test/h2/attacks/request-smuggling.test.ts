// Requests that another hop could read differently: connection-specific fields, bytes that end a line in HTTP/1.1,
// heads that describe two requests or none, bodies that disagree with content-length. Each is a stream error and
// never a connection error.

import assert from "node:assert/strict";
import { test } from "node:test";
import { startTarget } from "../../kit/attack/measure.ts";
import {
  data,
  END_HEADERS,
  END_STREAM,
  frame,
  grpcFields,
  HEADERS,
  headers,
  httpFields,
} from "../../kit/clients/h2.ts";
import { block, type Field } from "../../kit/clients/hpack.ts";

const SAY = "/test.Target/Say";
const WHOLE = END_HEADERS | END_STREAM;
/** Number of requests of each form, so that one fault for each differs from one fault in all. */
const TIMES = 25;
/** CPU cost that a connection may have, in honest calls. */
const CONNECTION = 50;

const METHOD: Field = [":method", "GET"];
const SCHEME: Field = [":scheme", "http"];
const PATH: Field = [":path", "/hello"];
const AUTHORITY: Field = [":authority", "test"];
const get = (...more: readonly Field[]) => [METHOD, SCHEME, PATH, AUTHORITY, ...more];

const heads: readonly (readonly [how: string, fields: readonly Field[]])[] = [
  // §8.2.2: connection-specific fields.
  ["connection", get(["connection", "close"])],
  ["connection: te", get(["connection", "te"], ["te", "trailers"])],
  ["keep-alive", get(["keep-alive", "timeout=5"])],
  ["proxy-connection", get(["proxy-connection", "keep-alive"])],
  ["upgrade", get(["upgrade", "h2c"])],
  ["transfer-encoding: chunked", get(["transfer-encoding", "chunked"])],
  ["transfer-encoding: identity", get(["transfer-encoding", "identity"])],
  ["te other than trailers", get(["te", "gzip"])],
  ["te: trailers and more", get(["te", "trailers, deflate"])],
  // §8.2.1: names.
  ["an upper-case name", get(["X-Upper", "v"])],
  ["a name with one upper-case letter", get(["content-Type", "text/plain"])],
  ["an empty name", get(["", "v"])],
  ["a name with a space", get(["x y", "v"])],
  ["a name with a colon in it", get(["x:y", "v"])],
  ["a name with CR LF", get(["x\r\ny", "v"])],
  ["a name with NUL", get(["x\0", "v"])],
  ["a name that is not ASCII", get(["x\u00ff", "v"])],
  ["a name with DEL", get(["x\u007f", "v"])],
  // §8.2.1: values.
  ["CR in a value", get(["x", "a\rb"])],
  ["LF in a value", get(["x", "a\nb"])],
  ["CR LF and a field in a value", get(["x", "a\r\nhost: evil"])],
  ["NUL in a value", get(["x", "a\0b"])],
  ["a value that begins with a space", get(["x", " a"])],
  ["a value that ends with a tab", get(["x", "a\t"])],
  // §8.3: pseudo-header fields.
  ["no method", [SCHEME, PATH, AUTHORITY]],
  ["no scheme", [METHOD, PATH, AUTHORITY]],
  ["no path", [METHOD, SCHEME, AUTHORITY]],
  ["no pseudo-header field", [["x", "y"]]],
  ["no field at all", []],
  ["two methods", [METHOD, ...get()]],
  ["two paths", get().toSpliced(3, 0, [":path", "/other"])],
  ["two schemes", get().toSpliced(3, 0, [":scheme", "https"])],
  ["two authorities", [...get(), [":authority", "other"]]],
  ["a pseudo-header field after regular fields", [METHOD, SCHEME, ["x", "y"], PATH]],
  ["a response pseudo-header field", [...get(), [":status", "200"]]],
  ["an unknown pseudo-header field", [...get(), [":what", "x"]]],
  [":protocol without extended CONNECT", [...get(), [":protocol", "websocket"]]],
  ["an empty path", [METHOD, SCHEME, [":path", ""], AUTHORITY]],
  ["a path without a slash", [METHOD, SCHEME, [":path", "hello"], AUTHORITY]],
  ["a path with a space", [METHOD, SCHEME, [":path", "/hello HTTP/1.1"], AUTHORITY]],
  ["a path with CR LF", [METHOD, SCHEME, [":path", "/\r\nx: y"], AUTHORITY]],
  ["* for another method than OPTIONS", [METHOD, SCHEME, [":path", "*"], AUTHORITY]],
  ["an empty method", [[":method", ""], SCHEME, PATH, AUTHORITY]],
  ["a method of two words", [[":method", "GET /x"], SCHEME, PATH, AUTHORITY]],
  ["CONNECT", [[":method", "CONNECT"], AUTHORITY]],
  ["an empty scheme", [METHOD, [":scheme", ""], PATH, AUTHORITY]],
  ["an invalid scheme", [METHOD, [":scheme", "http://evil/?"], PATH, AUTHORITY]],
  ["user information in the authority", [METHOD, SCHEME, PATH, [":authority", "user@test"]]],
  ["CR LF in the authority", [METHOD, SCHEME, PATH, [":authority", "test\r\nx: y"]]],
  ["a host that differs from :authority", get(["host", "other"])],
  ["two hosts", [METHOD, SCHEME, PATH, ["host", "test"], ["host", "other"]]],
  // §8.1.1: lengths.
  ["content-length without a body", get(["content-length", "5"])],
  ["two content-lengths", get(["content-length", "0"], ["content-length", "5"])],
  ["a list of content-lengths", get(["content-length", "0, 0"])],
  ["a content-length with a sign", get(["content-length", "+0"])],
  ["a content-length that is not a decimal number", get(["content-length", "0x0"])],
  ["an enormous content-length", get(["content-length", "9".repeat(30)])],
];

const post = (length: string): Buffer =>
  block(httpFields("POST", "/take", ["content-length", length]));
const open = (id: number) => headers(id, block(grpcFields("/test.Target/Gather")));
const json = Buffer.from("{}");

const bodies: readonly (readonly [how: string, make: (id: number) => readonly Uint8Array[]])[] = [
  ["a body longer than its length", (id) => [headers(id, post("1")), data(id, json, END_STREAM)]],
  ["a body shorter than its length", (id) => [headers(id, post("3")), data(id, json, END_STREAM)]],
  [
    "a body shorter than its length, ended by trailers",
    (id) => [headers(id, post("3")), data(id, json), headers(id, block([["x", "y"]]), WHOLE)],
  ],
  [
    "a body longer than its length, in parts",
    (id) => [headers(id, post("2")), data(id, json), data(id, json, END_STREAM)],
  ],
  // §8.1: trailers.
  ["trailers without END_STREAM", (id) => [open(id), headers(id, block([["x", "y"]]))]],
  [
    "trailers with a pseudo-header field",
    (id) => [open(id), headers(id, block([[":path", "/other"]]), WHOLE)],
  ],
  ["trailers that are a request head", (id) => [open(id), headers(id, block(get()), WHOLE)]],
  [
    "trailers with a connection-specific field",
    (id) => [open(id), headers(id, block([["connection", "close"]]), WHOLE)],
  ],
  [
    "trailers with an upper-case name",
    (id) => [open(id), headers(id, block([["X-Y", "z"]]), WHOLE)],
  ],
  ["trailers with CR LF", (id) => [open(id), headers(id, block([["x", "a\r\nb"]]), WHOLE)]],
];

test("malformed requests are stream errors and never reach a handler", async (t) => {
  const server = await startTarget(t);
  const rows = [
    ...heads.map(
      ([how, fields]) => [how, (id: number) => [headers(id, block(fields), WHOLE)]] as const,
    ),
    ...bodies,
  ];
  for (const [how, make] of rows) {
    await t.test(how, async (t) => {
      const bound = { frames: 3 * TIMES, faults: { malformed_request: TIMES } };
      const cost = await server.withstand(t, bound, async () => {
        const peer = await server.peer(t);
        for (let made = 0; made < TIMES; made++) {
          const id = peer.nextStream();
          await peer.send(...make(id));
          const { reset, head } = await peer.outcome(id);
          assert.equal(reset, "PROTOCOL_ERROR", peer.describeFrames());
          assert.deepEqual(head, {}, "a malformed request got a reply");
        }
        assert.equal(await peer.unary(SAY), "0", "the connection is still usable");
      });
      assert.deepEqual(cost.faults, { malformed_request: TIMES });
      assert.equal(cost.mostRunning <= 1, true, "a handler ran and was not aborted");
    });
  }

  await t.test("trailers twice", async (t) => {
    await server.withstand(
      t,
      { frames: 1, callsPerFrame: CONNECTION, faults: { stream: 1 } },
      async () => {
        const peer = await server.peer(t);
        const id = peer.nextStream();
        const trailers = headers(id, block([["x", "y"]]), WHOLE);
        // The handler keeps the stream open, so that the second trailers reach it.
        await peer.send(headers(id, block(grpcFields("/test.Target/Ignore"))), trailers, trailers);
        assert.equal(await peer.reset(id), "STREAM_CLOSED", peer.describeFrames());
        assert.equal(await peer.unary(SAY), "0");
      },
    );
  });

  await t.test("a request inside the body of another request is part of that body", async (t) => {
    const bound = { frames: 1, callsPerFrame: CONNECTION, statuses: { 200: 1 } };
    const cost = await server.withstand(t, bound, async () => {
      const peer = await server.peer(t);
      const inner = Buffer.from("POST /take HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}");
      const id = peer.nextStream();
      await peer.send(headers(id, block(httpFields("POST", "/take"))), data(id, inner, END_STREAM));
      const { head, body } = await peer.outcome(id);
      assert.deepEqual([head[":status"], body.toString()], ["200", String(inner.length)]);
      assert.equal(
        peer.frames.filter(({ type }) => type === HEADERS).length,
        1,
        "exactly one reply",
      );
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("a path with a fragment matches no other path", async (t) => {
    const cost = await server.withstand(t, { frames: 1, callsPerFrame: CONNECTION }, async () => {
      const peer = await server.peer(t);
      const fields = [METHOD, SCHEME, [":path", "/hello#x"], AUTHORITY] satisfies Field[];
      await peer.send(headers(1, block(fields), WHOLE));
      const { head, reset } = await peer.outcome(1);
      assert.ok(reset === "PROTOCOL_ERROR" || head[":status"] === "404", peer.describeFrames());
    });
    const { malformed_request = 0 } = cost.faults;
    assert.equal(
      malformed_request + (cost.statuses[404] ?? 0),
      1,
      "the request is counted as one or the other",
    );
  });

  const fine: readonly (readonly [how: string, fields: readonly Field[]])[] = [
    ["host alone", [METHOD, SCHEME, PATH, ["host", "test"]]],
    ["a host equal to :authority", get(["host", "test"])],
    ["a host equal to :authority in another case", get(["host", "TEST"])],
    ["no authority", [METHOD, SCHEME, PATH]],
    ["te: trailers", get(["te", "trailers"])],
    ["a content-length of 0", get(["content-length", "0"])],
    ["non-ASCII bytes in a value", get(["x", "\u00e4\u00ff"])],
    ["a tab in a value", get(["x", "a\tb"])],
    ["an empty value", get(["x", ""])],
    ["several cookie fields", get(["cookie", "a=b"], ["cookie", "c=d"])],
    ["trailers announced", get(["trailer", "x-later"])],
  ];
  for (const [how, fields] of fine) {
    await t.test(`allowed: ${how}`, async (t) => {
      const bound = { frames: 1, callsPerFrame: CONNECTION, statuses: { 200: 1 } };
      const cost = await server.withstand(t, bound, async () => {
        const peer = await server.peer(t);
        await peer.send(frame(HEADERS, WHOLE, 1, block(fields)));
        assert.equal((await peer.outcome(1)).head[":status"], "200", peer.describeFrames());
      });
      assert.deepEqual(cost.faults, {});
    });
  }
});
