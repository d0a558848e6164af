import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import {
  type CheckHttpRequest,
  readCheckHttpRequest,
  readCheckRequest,
  readFlowEndRequest,
} from "#wire/check/request.ts";
import {
  writeCheckHttpRequest,
  writeCheckRequest,
  writeFlowEndRequest,
} from "#wire/check/request-writer.ts";
import { checkFromJson, checkHttpFromJson, flowEndFromJson } from "#wire/check-json/request.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { toJson } from "#wire/protobuf/protojson.ts";
import { definitions } from "../../kit/messages/definitions.ts";
import { encodeWithUnknown, unknownFields } from "../../kit/messages/unknown-fields.ts";

const CheckRequestSchema = schemaOf("aperture.flowcontrol.check.v1.CheckRequest");
const FlowEndRequestSchema = schemaOf("aperture.flowcontrol.check.v1.FlowEndRequest");
const CheckHTTPRequestSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest");

const names = new HeaderNames(seededChance(1));

/** A CheckHTTP request as plain data, with headers by name as received. */
function plain({ request, ...rest }: CheckHttpRequest) {
  if (request === undefined) return { ...rest, request };
  const { headers } = request;
  const { method, path, host, scheme, protocol, body, sizeText } = request;
  const map = Object.fromEntries(headers.names.map((name, at) => [name.raw, headers.value(at)]));
  return {
    ...rest,
    request: { method, path, host, scheme, protocol, body, sizeText, headers: map },
  };
}

const text = fc.oneof(
  fc.string({ maxLength: 10 }),
  fc.string({ unit: "grapheme", maxLength: 200 }),
);
const name = fc.string({ maxLength: 8 }).filter((key) => key !== "__proto__");
const strings = fc.dictionary(name, text, { maxKeys: 4, noNullPrototype: true });
const socket = fc.option(
  fc.record({
    $unknown: unknownFields,
    protocol: fc.constantFrom(0, 1, 7, -1),
    address: text,
    port: fc.nat({ max: 0xffffffff }),
  }),
  { nil: undefined },
);
const checkHttp = fc.record({
  $unknown: unknownFields,
  source: socket,
  destination: socket,
  controlPoint: text,
  rampMode: fc.boolean(),
  expectEnd: fc.boolean(),
  request: fc.option(
    fc.record({
      $unknown: unknownFields,
      method: text,
      headers: strings,
      path: text,
      host: text,
      scheme: text,
      size: fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n }),
      protocol: text,
      body: text,
    }),
    { nil: undefined },
  ),
});
const check = fc.record({
  $unknown: unknownFields,
  controlPoint: text,
  labels: strings,
  rampMode: fc.boolean(),
  expectEnd: fc.boolean(),
  cacheLookupRequest: fc.option(
    fc.record({
      $unknown: unknownFields,
      resultCacheKey: text,
      globalCacheKeys: fc.array(text, { maxLength: 3 }),
    }),
    { nil: undefined },
  ),
});
const flowEnd = fc.record({
  $unknown: unknownFields,
  controlPoint: text,
  inflightRequests: fc.array(
    fc.record({
      $unknown: unknownFields,
      policyName: text,
      policyHash: text,
      componentId: text,
      label: text,
      requestId: text,
      tokens: fc.double({ noDefaultInfinity: true, noNaN: true }).map((n) => n + 0 || 0),
    }),
    { maxLength: 3 },
  ),
  reservationId: text,
  cost: fc.option(
    fc.double({ noDefaultInfinity: true, noNaN: true }).map((n) => n + 0 || 0),
    {
      nil: undefined,
    },
  ),
  statusCode: fc.nat({ max: 0xffffffff }),
});

/** The result of a reader, or "refused" for a Fault; any other error fails the test. */
function attempt<T>(read: () => T): T | "refused" {
  try {
    return read();
  } catch (thrown) {
    assert.ok(thrown instanceof Fault);
    assert.equal(thrown.code, "INVALID_ARGUMENT");
    return "refused";
  }
}

interface Kind {
  readonly title: string;
  readonly schema: DescMessage;
  readonly any: fc.Arbitrary<MessageInitShape<DescMessage>>;
  readonly read: (bytes: Uint8Array) => unknown;
  readonly rewrite: (bytes: Uint8Array) => Uint8Array;
  readonly readJson: (bytes: Uint8Array) => unknown;
}

const KINDS: readonly Kind[] = [
  {
    title: "CheckHTTPRequest",
    schema: CheckHTTPRequestSchema,
    any: checkHttp,
    read: (bytes) => plain(readCheckHttpRequest(bytes, names)),
    rewrite: (bytes) => writeCheckHttpRequest(readCheckHttpRequest(bytes, names)),
    readJson: (bytes) => plain(checkHttpFromJson(bytes, names)),
  },
  {
    title: "CheckRequest",
    schema: CheckRequestSchema,
    any: check,
    read: (bytes) => readCheckRequest(bytes),
    rewrite: (bytes) => writeCheckRequest(readCheckRequest(bytes)),
    readJson: (bytes) => checkFromJson(bytes),
  },
  {
    title: "FlowEndRequest",
    schema: FlowEndRequestSchema,
    any: flowEnd,
    read: (bytes) => readFlowEndRequest(bytes),
    rewrite: (bytes) => writeFlowEndRequest(readFlowEndRequest(bytes)),
    readJson: (bytes) => flowEndFromJson(bytes),
  },
];

/** The message as @bufbuild/protobuf reads it, without unknown fields. */
function reference(schema: DescMessage, bytes: Uint8Array) {
  try {
    return toJson(schema, fromBinary(schema, bytes, { readUnknownFields: false }));
  } catch {
    return "refused";
  }
}

/** The same as protobufjs reads it, which treats unusual input differently. */
function otherReference({ typeName }: DescMessage, bytes: Uint8Array) {
  const type = definitions.type(typeName);
  try {
    return type.toObject(type.decode(bytes), { defaults: true, longs: BigInt });
  } catch {
    return "refused";
  }
}

const LIBRARIES = [reference, otherReference];

for (const { title, schema, any, read, rewrite, readJson } of KINDS) {
  const encoded = any.map((init) => encodeWithUnknown(schema, init));
  describe(`reading and writing ${title}`, () => {
    it("loses nothing that either library reads, also with unknown and duplicate fields", () => {
      fc.assert(
        fc.property(encoded, encoded, (first, second) => {
          for (const bytes of [first, Buffer.concat([first, second])]) {
            const again = rewrite(bytes);
            for (const by of LIBRARIES) assert.deepEqual(by(schema, again), by(schema, bytes));
          }
        }),
      );
    });

    it("refuses or reads every truncation like one of the libraries", () => {
      fc.assert(
        fc.property(encoded, (bytes) => {
          for (let end = 0; end < bytes.length; end++) {
            const cut = bytes.subarray(0, end);
            const again = attempt(() => rewrite(cut));
            for (const by of LIBRARIES) {
              const got = again === "refused" ? again : by(schema, again);
              assert.deepEqual(got, by(schema, cut), `cut at ${end}`);
            }
          }
        }),
        { numRuns: 20 },
      );
    });

    it("reads JSON into the same shape as binary", () => {
      fc.assert(
        fc.property(any, (init) => {
          const message = create(schema, init);
          const bytes = toBinary(schema, message, { writeUnknownFields: false });
          const json = JSON.stringify(toJson(schema, message));
          assert.deepEqual(readJson(Buffer.from(json)), read(bytes));
        }),
      );
    });
  });
}

describe("messages of protobufjs", () => {
  it("are read by our reader, and protobufjs reads our output", () => {
    const message = { controlPoint: "cp", labels: { a: "1", b: "é" }, expectEnd: true };
    const bytes = encode("aperture.flowcontrol.check.v1.CheckRequest", message);
    const got = readCheckRequest(bytes);
    assert.deepEqual(
      [...got.labels],
      [
        ["a", "1"],
        ["b", "é"],
      ],
    );
    const again = decode("aperture.flowcontrol.check.v1.CheckRequest", writeCheckRequest(got));
    assert.deepEqual(again.labels, message.labels);
    assert.equal(again.expectEnd, true);
  });
});

describe("repeated headers", () => {
  const written = (read: ReturnType<typeof checkHttpFromJson>) => {
    const message = fromBinary(CheckHTTPRequestSchema, writeCheckHttpRequest(read));
    return message.request?.headers;
  };

  it("are joined where a list becomes a map, separately for each spelling", () => {
    const headers = { "x-user": ["a", "b"], "X-User": ["c"], one: "1", none: [], empty: ["", ""] };
    const body = Buffer.from(JSON.stringify({ request: { headers } }));
    assert.deepEqual(written(checkHttpFromJson(body, new HeaderNames(() => 0.5))), {
      "x-user": "a,b",
      "X-User": "c",
      one: "1",
      empty: ",",
    });
  });

  it("have their last value where a map was read", () => {
    const entry = (value: string) => {
      const init = { request: { headers: { "x-user": value } } };
      return toBinary(CheckHTTPRequestSchema, create(CheckHTTPRequestSchema, init));
    };
    const read = readCheckHttpRequest(
      Buffer.concat([entry("a"), entry("b")]),
      new HeaderNames(() => 0.5),
    );
    assert.deepEqual(written(read), { "x-user": "b" });
  });
});

describe("labels", () => {
  it("beyond a thousand are refused in either encoding", () => {
    const labels = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`l${n}`, ""]));
    const bytes = (count: number) =>
      toBinary(CheckRequestSchema, create(CheckRequestSchema, { labels: labels(count) }));
    assert.equal(readCheckRequest(bytes(1_000)).labels.size, 1_000);
    assert.equal(readCheckRequest(bytes(1_000)).refusal, undefined);
    const json = JSON.stringify({ labels: labels(2_000) });
    for (const read of [readCheckRequest(bytes(2_000)), checkFromJson(Buffer.from(json))]) {
      assert.equal(read.refusal?.status, 413);
      assert.equal(
        read.labels.size,
        1_001,
        "one more is kept, so that a forwarded check is refused",
      );
    }
  });
});
