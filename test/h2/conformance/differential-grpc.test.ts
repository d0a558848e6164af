// Differential test with @grpc/grpc-js as the oracle: the same calls get the same replies from both transports. A
// table lists every intended difference with its reason.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { CODES } from "#base/fault.ts";
import { grpcClient } from "../../kit/clients/grpc.ts";
import {
  data,
  END_HEADERS,
  END_STREAM,
  grpcFields,
  headerFrames,
  headers,
  message,
  PADDED,
  padded,
} from "../../kit/clients/h2.ts";
import { block, type Field } from "../../kit/clients/hpack.ts";
import { until } from "../../kit/until.ts";
import {
  Caller,
  type ObservedReply,
  type PairedPort,
  pairedPorts,
  TRANSPORTS,
} from "./paired-transports.ts";

const MAX = 4 * 1024 * 1024;
const HELLO = message(Buffer.from("hello"));

interface CallPlan {
  readonly method: string;
  readonly metadata: readonly Field[];
  readonly body: Buffer;
  /** The places at which the body is split into frames, as fractions of its length. */
  readonly cuts: readonly number[];
  readonly padding: number;
  readonly ending: "data" | "empty data" | "trailers";
}

function bytesOf(call: CallPlan, stream: number): readonly Buffer[] {
  const { metadata, body, padding, ending } = call;
  const path = call.method.startsWith("/") ? call.method : `/test.Pair/${call.method}`;
  const places = call.cuts.map((cut) => Math.floor(cut * body.length)).sort((a, b) => a - b);
  const edges = [0, ...places, body.length];
  const parts = edges.slice(1).flatMap((end, at) => splitForFrames(body.subarray(edges[at], end)));
  const frames = parts.map((part, at) => {
    const last = at === parts.length - 1 && ending === "data" ? END_STREAM : 0;
    return padding > 0 && at % 2 === 0
      ? data(stream, padded(part, padding), last | PADDED)
      : data(stream, part, last);
  });
  if (ending === "empty data") frames.push(data(stream, Buffer.alloc(0), END_STREAM));
  if (ending === "trailers") {
    frames.push(headers(stream, block([["x-end", "1"]]), END_HEADERS | END_STREAM));
  }
  return [headerFrames(stream, block(grpcFields(path, ...metadata)), 0), ...frames];
}

/** Splits bytes so that each part fits a frame together with its padding. */
function splitForFrames(bytes: Buffer): readonly Buffer[] {
  const count = Math.max(1, Math.ceil(bytes.length / 16_000));
  return Array.from({ length: count }, (_, at) => bytes.subarray(at * 16_000, (at + 1) * 16_000));
}

const simple = (method: string, body: Buffer = HELLO, ...metadata: readonly Field[]): CallPlan => ({
  method,
  metadata,
  body,
  cuts: [],
  padding: 0,
  ending: "data",
});

const name = fc.oneof(
  fc.constantFrom("x-text", "x-", "user-agent", "authorization", "accept-encoding"),
  fc.stringMatching(/^x-[a-z0-9_.-]{0,12}[a-z]$/).filter((text) => !text.endsWith("-bin")),
);
/** A value without ", ", at which the library would split it into two. */
const value = fc.oneof(
  fc.stringMatching(/^[!-+./-~]{0,40}$/),
  fc.stringMatching(/^[!-~]([ !-+./-~]{0,200}[!-~])?$/).filter((text) => !text.includes(", ")),
  fc.integer({ min: 0, max: 6_000 }).map((length) => "v".repeat(length)),
);
/** Binary metadata with or without base64 padding; several values may share a field. */
const binary = fc
  .array(fc.tuple(fc.uint8Array({ maxLength: 60 }), fc.boolean()), { minLength: 1, maxLength: 2 })
  .map((values): Field => {
    const texts = values.map(([bytes, bare]) => {
      const text = Buffer.from(bytes).toString("base64");
      return bare ? text.replaceAll("=", "") : text;
    });
    return ["x-data-bin", texts.join(",")];
  });
const timeout = fc
  .tuple(fc.integer({ min: 5, max: 500 }), fc.constantFrom("S", "M", "H"))
  .map(([count, unit]): Field => ["grpc-timeout", `${count}${unit}`]);
const metadata = fc
  .tuple(
    fc.array(fc.tuple(name, value), { maxLength: 20 }),
    fc.array(binary, { maxLength: 3 }),
    fc.option(timeout),
  )
  .map(([texts, bytes, late]): readonly Field[] => [
    ...texts,
    ...bytes,
    ...(late === null ? [] : [late]),
  ]);
/** A message body; three fit the initial window of a stream, which is all that these callers use. */
const content = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.integer({ min: 0, max: 20_000 }).map((length) => new Uint8Array(length).fill(length)),
);
const FAULTS = ["NOT_FOUND", "ABORTED", "INVALID_ARGUMENT", "UNAVAILABLE", "DATA_LOSS"];
/** Error texts of handlers, in latin1: spaces, percent signs, control characters and non-ASCII letters. */
const words = fc
  .tuple(
    fc.constantFrom(...FAULTS),
    fc.string({
      unit: fc.constantFrom("a", " ", "%", "\u00e9", "\n", "\u007f", "~"),
      maxLength: 30,
    }),
  )
  .map(([code, text]) => Buffer.from(`${code} ${text}`.toWellFormed(), "latin1"));

type Compression = "plain" | "gzip" | "deflate";
const encode: Readonly<Record<Compression, (bytes: Uint8Array) => Buffer>> = {
  plain: (bytes) => message(bytes),
  gzip: (bytes) => message(gzipSync(bytes), 1),
  deflate: (bytes) => message(deflateSync(bytes), 1),
};

/** A call to which both transports must give the same reply. */
const callPlan: fc.Arbitrary<CallPlan> = fc
  .record({
    method: fc.constantFrom(
      "Echo",
      "Tell",
      "Tell",
      "Size",
      "Slow",
      "Break",
      "Fail",
      "Gather",
      "Flow",
      "Chat",
      "Nothing",
      "/test.Other/Echo",
      "/",
      "/test.Pair/",
    ),
    metadata,
    messages: fc.array(fc.oneof(content, content, words), { maxLength: 3 }),
    compression: fc.constantFrom<Compression>("plain", "plain", "gzip", "deflate"),
    cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 6 }),
    padding: fc.constantFrom(0, 0, 1, 255),
    ending: fc.constantFrom<CallPlan["ending"]>("data", "data", "empty data", "trailers"),
  })
  .map(({ messages, compression, ...rest }) => {
    const one = ["Echo", "Tell", "Size", "Slow", "Break", "Fail", "Flow"].includes(rest.method);
    // Mostly no more messages than the method takes.
    const few = one && messages.length > 0 ? messages.slice(0, 1) : messages;
    const encoding: Field = ["grpc-encoding", compression];
    return {
      ...rest,
      metadata: compression === "plain" ? rest.metadata : [...rest.metadata, encoding],
      body: Buffer.concat(few.map(encode[compression])),
    };
  });

/** The part of a reply that is compared: error texts count only where a handler wrote them, not the transport. */
function comparable(reply: ObservedReply): ObservedReply {
  return reply.initial.includes("x-reply: head") ? reply : { ...reply, details: undefined };
}

test("both transports give the same replies to the same calls", async (t) => {
  const pair = await pairedPorts(t);
  const connect = () => Promise.all(pair.map((port) => Caller.of(t, port)));
  let callers = await connect();
  let count = 0;
  await fc.assert(
    fc.asyncProperty(callPlan, async (call) => {
      // After a few hundred refused calls the library's HTTP/2 closes the connection.
      if (++count % 100 === 0) {
        for (const caller of callers) caller.close();
        callers = await connect();
      }
      const [seen, wanted] = await Promise.all(
        callers.map((caller) => caller.call((stream) => bytesOf(call, stream))),
      );
      assert.ok(seen !== undefined && wanted !== undefined);
      assert.deepEqual(comparable(seen), comparable(wanted));
    }),
    { numRuns: 400 },
  );
});

/** Calls with the status to which each leads. */
const STATUSES: readonly (readonly [call: CallPlan, code: number])[] = [
  [simple("Echo"), 0],
  [simple("Slow"), 0],
  [simple("Gather", Buffer.concat([HELLO, HELLO])), 0],
  [simple("Chat", Buffer.alloc(0)), 0],
  [simple("Break"), 13],
  [simple("Fail", message(Buffer.from("of a name that no status has"))), 2],
  [simple("Nothing"), 12],
  [simple("/test.Other/Echo"), 12],
  [simple("/"), 12],
  [simple("Echo", Buffer.alloc(0)), 12],
  [simple("Echo", Buffer.concat([HELLO, HELLO])), 12],
  ...Object.entries(CODES)
    .filter(([name]) => name !== "OK")
    .map(
      ([name, { number }]) =>
        [simple("Fail", message(Buffer.from(`${name} some words`))), number] as const,
    ),
];

test("both transports give each status alike", async (t) => {
  const callers = await Promise.all((await pairedPorts(t)).map((port) => Caller.of(t, port)));
  for (const [call, code] of STATUSES) {
    const [seen, wanted] = await Promise.all(
      callers.map((caller) => caller.call((stream) => bytesOf(call, stream))),
    );
    assert.ok(seen !== undefined && wanted !== undefined);
    assert.deepEqual(comparable(seen), comparable(wanted));
    assert.equal(seen.code, String(code), call.body.toString("latin1"));
  }
});

test("both transports handle messages of every size alike, up to the limit and beyond", async (t) => {
  const pair = await pairedPorts(t);
  const hash = (bytes: Uint8Array | undefined) =>
    bytes && `${bytes.length} ${createHash("sha1").update(bytes).digest("hex")}`;
  const bare = (fields: Readonly<Record<string, unknown>>) =>
    Object.entries(fields).filter(([name]) => name !== "date" && name !== "content-type");
  const sizes = [0, 1, 4, 16_379, 16_380, 65_530, 65_531, 262_144, 1_000_000];
  for (const size of [...sizes, MAX - 1, MAX, MAX + 1, 5_000_000]) {
    const replies = await Promise.all(
      pair.map(async (port) => {
        const client = grpcClient(t, port.address, undefined, {
          "grpc.max_receive_message_length": -1,
        });
        const body = Buffer.alloc(size, "size");
        const sent = await client.unary("/test.Pair/Size", body);
        const echo = await client.unary("/test.Pair/Echo", body);
        const given = await client.unary("/test.Pair/Give", Buffer.from(String(size)));
        const gathered = await client.clientStream("/test.Pair/Gather", [body, Buffer.of(1)]);
        client.close();
        return [sent, echo, given, gathered].map(({ code, message, metadata, trailers }) => ({
          code,
          message: hash(message),
          metadata: bare(metadata),
          trailers: bare(trailers),
        }));
      }),
    );
    assert.deepEqual(replies[0], replies[1], `${size} bytes`);
    assert.equal(replies[0]?.[0]?.code, size > MAX ? 8 : 0);
  }
});

test("a call cancelled at any moment ends its handler and leaves the connection usable", async (t) => {
  const pair = await pairedPorts(t);
  const callers = await Promise.all(
    pair.map(async (port) => ({ port, caller: await Caller.of(t, port) })),
  );
  const methods = fc.constantFrom("Wait", "Wait", "Chat", "Flow", "Gather", "Echo", "Slow");
  const moment = fc.integer({ min: 0, max: 6 });
  await fc.assert(
    fc.asyncProperty(methods, moment, fc.boolean(), async (method, after, slowly) => {
      for (const { port, caller } of callers) {
        const call = { ...simple(method), cuts: [0.2, 0.5, 0.9] };
        const begun = port.waiting.begun;
        await caller.cancel((stream) => bytesOf(call, stream), after, slowly);
        const next = await caller.call((stream) => bytesOf(simple("Echo"), stream));
        assert.equal(next.code, "0", port.transport);
        assert.ok(port.waiting.begun <= begun + 1);
      }
    }),
    { numRuns: 80, examples: [["Wait", 6, true]] },
  );
  for (const { port } of callers) {
    const { waiting } = port;
    assert.ok(waiting.begun > 0, `${port.transport}: no handler waited`);
    await until("every waiting handler to be aborted", () => waiting.aborted === waiting.begun);
  }
});

test("both transports give the same health replies", async (t) => {
  const pair = await pairedPorts(t);
  for (const service of ["", "test.Pair", "test.Other"]) {
    const asked = Buffer.concat([
      ...(service === "" ? [] : [Buffer.of(0x0a, service.length)]),
      Buffer.from(service),
    ]);
    const replies = await Promise.all(
      pair.map(async (port) => {
        const caller = await Caller.of(t, port);
        const call = simple("/grpc.health.v1.Health/Check", message(asked));
        return caller.call((stream) => bytesOf(call, stream));
      }),
    );
    assert.deepEqual(replies[0], replies[1], service);
  }
});

interface Difference {
  readonly what: string;
  readonly make: (stream: number) => readonly Uint8Array[];
  readonly own: Partial<ObservedReply>;
  readonly library: Partial<ObservedReply> | "the connection ends";
  readonly why: string;
}

const withBody = (method: string, body: Buffer, ...fields: readonly Field[]) => {
  const call = simple(method, body, ...fields);
  return (stream: number) => bytesOf(call, stream);
};
const withFields = (change: (fields: readonly Field[]) => readonly Field[]) => (stream: number) => [
  headers(stream, block(change(grpcFields("/test.Pair/Echo")))),
  data(stream, HELLO, END_STREAM),
];
const replaced = (field: string, value: string) =>
  withFields((fields) => fields.map(([name, had]) => [name, name === field ? value : had]));

const OK: Partial<ObservedReply> = { status: "200", code: "0" };
const PROTOCOL_ERROR: Partial<ObservedReply> = { status: undefined, reset: 1 };
const many = (count: number): readonly Field[] =>
  Array.from({ length: count }, (_, at) => [`x-${at}`, "v"]);
const TIMEOUTS = ["-1m", "+1m", "1 m", "1.5S", "123456789S", "0x10S", "1e3m", "10ms"];

/** Intended differences between the transports. A caller that obeys the specifications can see none of them. */
const DIFFERENCES: readonly Difference[] = [
  ...([2, 255] as const).map((flag) => ({
    what: `a compressed flag of ${flag}`,
    make: withBody("Echo", message(Buffer.from("a"), flag)),
    own: { code: "13" },
    library: OK,
    why: "only 0 and 1 are defined",
  })),
  ...["", "identity"].map((encoding) => ({
    what: `a message flagged as compressed with grpc-encoding "${encoding}"`,
    make: withBody(
      "Echo",
      message(Buffer.from("a"), 1),
      ...(encoding === "" ? [] : [["grpc-encoding", encoding] as const]),
    ),
    own: { code: "13" },
    library: OK,
    why: "the library takes the bytes for an uncompressed message",
  })),
  ...["Echo", "Flow"].map((method) => ({
    what: `half a message for ${method}`,
    make: withBody(method, HELLO.subarray(0, 7)),
    own: { code: "13" },
    library: { code: "12" },
    why: "the message was cut short; the library says that there was none",
  })),
  ...["Gather", "Chat"].map((method) => ({
    what: `half a message for ${method}`,
    make: withBody(method, HELLO.subarray(0, 7)),
    own: { code: "13" },
    library: OK,
    why: "a message that was cut short is not an ordinary end of the stream",
  })),
  {
    what: "a message and half another for a method that takes one",
    make: withBody("Echo", Buffer.concat([HELLO, HELLO.subarray(0, 7)])),
    own: { code: "12" },
    library: OK,
    why: "the method takes one message",
  },
  {
    what: "content-type application/grpc in another case",
    make: replaced("content-type", "Application/GRPC"),
    own: OK,
    library: { status: "415" },
    why: "media types are case-insensitive (RFC 9110 §8.3.1)",
  },
  ...["application/grpc-web", "application/grpcx"].map((type) => ({
    what: `content-type ${type}`,
    make: replaced("content-type", type),
    own: { status: "415" },
    library: OK,
    why: "it is a different media type",
  })),
  ...["GET", "PUT"].map((method) => ({
    what: `:method ${method}`,
    make: replaced(":method", method),
    own: { status: "404" },
    library: OK,
    why: "gRPC uses POST; Sluice's transport also carries the JSON routes and looks there",
  })),
  {
    what: "no :authority",
    make: withFields((fields) => fields.filter(([name]) => name !== ":authority")),
    own: OK,
    library: PROTOCOL_ERROR,
    why: "callers over Unix sockets may send none (RFC 9113 §8.3.1)",
  },
  {
    what: "a content-length that differs from the length of the content",
    make: withBody("Echo", HELLO, ["content-length", "3"]),
    own: PROTOCOL_ERROR,
    library: "the connection ends",
    why: "a malformed request is a stream error (RFC 9113 §8.1.1)",
  },
  ...(
    [
      ["", "x"],
      ["x-text", " blank "],
      ["x-text", "a\u0000b"],
    ] as const
  ).map((field) => ({
    what: `the field ${JSON.stringify(field)}`,
    make: withBody("Echo", HELLO, field),
    own: PROTOCOL_ERROR,
    library: OK,
    why: "it makes the request malformed (RFC 9113 §8.2.1); the library drops the field",
  })),
  ...["caf\u00e9", "a\tb"].map((text) => ({
    what: `metadata ${JSON.stringify(text)}`,
    make: withBody("Tell", HELLO, ["x-text", text]),
    own: OK,
    library: OK,
    why: "the bytes of a valid field reach the handler; the library drops unprintable ones",
  })),
  {
    what: "metadata with a comma and a space",
    make: withBody("Tell", HELLO, ["x-text", "a, b"]),
    own: OK,
    library: OK,
    why: 'it is one value; the library\'s HTTP/2 joins repeated fields with ", " and cannot tell',
  },
  {
    what: "two cookie fields",
    make: withBody("Tell", HELLO, ["cookie", "a=1"], ["cookie", "b=2"]),
    own: OK,
    library: OK,
    why: "the handler asks for the first value; the library's HTTP/2 has joined them by then",
  },
  {
    what: "500 fields",
    make: withBody("Size", HELLO, ...many(500)),
    own: OK,
    library: { status: undefined, reset: 11 },
    why: "the limit is that of HTTP/1.1; the library accepts 128",
  },
  {
    what: "1 100 fields",
    make: withBody("Size", HELLO, ...many(1_100)),
    own: { code: "8" },
    library: { status: undefined, reset: 11 },
    why: "a status tells the caller more than a reset",
  },
  {
    what: "70 000 bytes of fields",
    make: withBody("Size", HELLO, ["x-text", "l".repeat(70_000)]),
    own: { code: "8" },
    library: "the connection ends",
    why: "only the request is refused",
  },
  ...["0m", "0S", "1n", "1u"].map((time) => ({
    what: `grpc-timeout ${time}`,
    make: withBody("Echo", HELLO, ["grpc-timeout", time]),
    own: { code: "4" },
    library: OK,
    why: "the deadline has passed; the library notices only when its timer fires, after the reply",
  })),
  {
    what: "grpc-timeout 66800640S",
    make: withBody("Slow", HELLO, ["grpc-timeout", "66800640S"]),
    own: OK,
    library: { code: "4" },
    why: "Node's timers reach 24 days; the library's fires at once",
  },
  ...TIMEOUTS.map((time) => ({
    what: `grpc-timeout ${time}`,
    make: withBody("Echo", HELLO, ["grpc-timeout", time]),
    own: { code: "13" },
    library: OK,
    why: "it is not one to eight digits and a unit; the library accepts a valid beginning or end",
  })),
];

for (const { what, make, own, library, why } of DIFFERENCES) {
  test(`intended difference: ${what} (${why})`, async (t) => {
    const pair = await pairedPorts(t);
    const replies = await Promise.all(pair.map((port) => outcome(port, make)));
    const [mine, other] = replies;
    assert.notDeepEqual(mine, other, "there is no difference any more");
    assert.ok(mine instanceof Object);
    assert.deepEqual({ ...mine, ...own }, mine);
    if (library === "the connection ends") assert.equal(other, library);
    else assert.deepEqual({ ...(other as ObservedReply), ...library }, other);
    async function outcome(
      port: PairedPort,
      bytes: Difference["make"],
    ): Promise<ObservedReply | string> {
      const caller = await Caller.of(t, port);
      return caller.call(bytes).catch(() => "the connection ends");
    }
  });
}

test("error messages of Sluice's transport do not repeat bad input", async (t) => {
  const [own] = await pairedPorts(t);
  const calls = [
    withBody("Marked7", HELLO),
    withBody("/marked7.Service/Marked7", HELLO),
    withBody("Echo", HELLO, ["grpc-timeout", "marked7"]),
    withBody("Echo", message(Buffer.from("a"), 1), ["grpc-encoding", "marked7"]),
    withBody("Echo", message(Buffer.from("marked7"), 1), ["grpc-encoding", "gzip"]),
    withBody("Echo", message(Buffer.from("marked7"), 7)),
    withBody("Echo", Buffer.from("marked7")),
    replaced("content-type", "application/grpc-marked7"),
  ];
  const caller = await Caller.of(t, own);
  for (const make of calls) {
    const seen = await caller.call(make);
    assert.ok(seen.code !== "0" || seen.status === "415");
    assert.doesNotMatch(JSON.stringify(seen), /marked7/i);
  }
});

test("a deadline ends a waiting call on both transports", async (t) => {
  const pair = await pairedPorts(t);
  for (const time of ["1m", "20m", "1000u", "5000000n", "99999999n"]) {
    const replies = await Promise.all(
      pair.map(async (port) => {
        const caller = await Caller.of(t, port);
        return caller.call(withBody("Wait", HELLO, ["grpc-timeout", time]));
      }),
    );
    for (const [at, seen] of replies.entries()) {
      assert.equal(seen.code, "4", `${TRANSPORTS[at]}, ${time}`);
    }
  }
  for (const port of pair) {
    await until(
      "every waiting handler to be aborted",
      () => port.waiting.aborted === port.waiting.begun,
    );
  }
});
