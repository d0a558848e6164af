import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import type { MessagesByName } from "#gen/messages-by-name.ts";
import type { AuthRequest } from "#wire/check/ext-authz.ts";
import { readAuthRequest } from "#wire/check/ext-authz-reader.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { definitions } from "../../kit/messages/definitions.ts";
import { encodeWithUnknown, unknownFields } from "../../kit/messages/unknown-fields.ts";

const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");
type CheckRequest = MessagesByName["envoy.service.auth.v3.CheckRequest"];

const names = new HeaderNames(seededChance(1));
const read = (bytes: Uint8Array) => readAuthRequest(bytes, names);

type Init = MessageInitShape<typeof CheckRequestSchema>;

/** The fields on which both readers must agree. */
function ours(request: AuthRequest) {
  const headers = new Map<string, string>();
  request.names.forEach(({ raw }, index) => {
    const known = request.repeated === "join" ? headers.get(raw) : undefined;
    const value = request.value(index);
    headers.set(raw, known === undefined ? value : `${known},${value}`);
  });
  return {
    id: request.id,
    method: request.method,
    path: request.path,
    host: request.host,
    scheme: request.scheme,
    protocol: request.protocol,
    size: request.sizeText,
    body: request.body,
    hasHttp: request.hasHttp,
    headers,
    source: request.source,
    destination: request.destination,
    controlPoint: request.controlPoint,
  };
}

type Peer = NonNullable<NonNullable<CheckRequest["attributes"]>["source"]>;

function socketOf(peer: Peer | undefined) {
  const address = peer?.address?.address;
  if (address?.case !== "socketAddress") return undefined;
  const { portSpecifier } = address.value;
  const port = portSpecifier.case === "portValue" ? portSpecifier.value : 0;
  return { address: address.value.address, port };
}

function theirs(message: CheckRequest) {
  const { attributes } = message;
  const http = attributes?.request?.http;
  const headers = new Map<string, string>();
  for (const { key, value, rawValue } of http?.headerMap?.headers ?? []) {
    const text = rawValue.length > 0 ? Buffer.from(rawValue).toString("utf8") : value;
    headers.set(key, headers.has(key) ? `${headers.get(key)},${text}` : text);
  }
  if (headers.size === 0) {
    for (const [key, value] of Object.entries(http?.headers ?? {})) headers.set(key, value);
  }
  return {
    id: http?.id ?? "",
    method: http?.method ?? "",
    path: http?.path ?? "",
    host: http?.host ?? "",
    scheme: http?.scheme ?? "",
    protocol: http?.protocol ?? "",
    size: String(http?.size ?? 0n),
    body: http?.body || Buffer.from(http?.rawBody ?? []).toString("utf8"),
    hasHttp: http !== undefined,
    headers,
    source: socketOf(attributes?.source),
    destination: socketOf(attributes?.destination),
    controlPoint: attributes?.contextExtensions["control-point"] ?? "",
  };
}

const text = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.string({ unit: "grapheme", maxLength: 6 }),
  fc.string({ minLength: 120, maxLength: 300 }),
);
const key = fc.oneof(
  fc.constantFrom("user-agent", "user_id", ":authority", "X-Mixed", ""),
  fc.string({ maxLength: 8 }).filter((name) => name !== "__proto__"),
);
const extension = fc.oneof(
  fc.constantFrom("control-point", "control-poinT", "control-points"),
  key,
);
const peer = fc.option(
  fc.record({
    $unknown: unknownFields,
    principal: text,
    labels: fc.dictionary(key, text, { maxKeys: 2, noNullPrototype: true }),
    address: fc.option(
      fc.record({
        $unknown: unknownFields,
        address: fc.oneof(
          fc.record({
            case: fc.constant("socketAddress" as const),
            value: fc.record({
              $unknown: unknownFields,
              protocol: fc.constantFrom(0, 1),
              address: fc.constantFrom("10.0.0.1", "::ffff:10.0.0.1", "", "nowhere"),
              portSpecifier: fc.oneof(
                fc.record({
                  case: fc.constant("portValue" as const),
                  value: fc.nat({ max: 0xffffffff }),
                }),
                fc.record({ case: fc.constant("namedPort" as const), value: text }),
              ),
            }),
          }),
          fc.record({
            case: fc.constant("pipe" as const),
            value: fc.record({ path: text, mode: fc.nat() }),
          }),
        ),
      }),
      { nil: undefined },
    ),
  }),
  { nil: undefined },
);
const http = fc.record({
  $unknown: unknownFields,
  id: text,
  method: text,
  path: text,
  host: text,
  scheme: text,
  query: text,
  protocol: text,
  size: fc.oneof(
    fc.constantFrom(0n, -1n, 7n, (1n << 63n) - 1n, -(1n << 63n)),
    fc.bigInt({ min: 0n, max: 1n << 60n }),
  ),
  body: text,
  rawBody: fc.uint8Array({ maxLength: 20 }),
  headers: fc.dictionary(key, text, { maxKeys: 5, noNullPrototype: true }),
  headerMap: fc.option(
    fc.record({
      $unknown: unknownFields,
      headers: fc.array(
        fc.record({
          $unknown: unknownFields,
          key,
          value: fc.constantFrom("", "v"),
          rawValue: text.map((raw) => new Uint8Array(Buffer.from(raw))),
        }),
        { maxLength: 3 },
      ),
    }),
    { nil: undefined },
  ),
});
const request = fc.record({
  $unknown: unknownFields,
  attributes: fc.option(
    fc.record({
      $unknown: unknownFields,
      source: peer,
      destination: peer,
      request: fc.option(
        fc.record({
          $unknown: unknownFields,
          time: fc.constant({ seconds: 5n, nanos: 1 }),
          http: fc.option(http, { nil: undefined }),
        }),
        { nil: undefined },
      ),
      contextExtensions: fc.dictionary(extension, text, { maxKeys: 3, noNullPrototype: true }),
      tlsSession: fc.constant({ sni: "x" }),
    }),
    { nil: undefined },
  ),
});

const encode = (init: unknown) => encodeWithUnknown(CheckRequestSchema, init as Init);

/** The result of a read, or the Fault that it throws. Any other error fails the test. */
function attempt(bytes: Uint8Array) {
  try {
    return ours(read(bytes));
  } catch (thrown) {
    assert.ok(thrown instanceof Fault);
    assert.equal(thrown.code, "INVALID_ARGUMENT");
    return "refused";
  }
}

function reference(bytes: Uint8Array) {
  let message: CheckRequest;
  try {
    message = fromBinary(CheckRequestSchema, bytes);
  } catch {
    return "refused";
  }
  return theirs(message);
}

const type = definitions.type("envoy.service.auth.v3.CheckRequest");

/** A message as protobufjs represents it: unset fields are absent, arms of a oneof are ordinary fields. */
interface Loose {
  readonly [field: string]: Loose | undefined;
}

function otherReference(bytes: Uint8Array) {
  try {
    return others(type.toObject(type.decode(bytes), { longs: BigInt, oneofs: true }));
  } catch {
    return "refused";
  }
}

function others({ attributes }: Loose) {
  const http: Loose = attributes?.["request"]?.["http"] ?? {};
  const headers = new Map<string, string>();
  const raw = http["headerMap"]?.["headers"];
  for (const { key, value, rawValue } of Array.isArray(raw) ? raw : []) {
    const text = rawValue?.length > 0 ? Buffer.from(rawValue).toString("utf8") : (value ?? "");
    const name = key ?? "";
    headers.set(name, headers.has(name) ? `${headers.get(name)},${text}` : text);
  }
  if (headers.size === 0) {
    for (const [key, value] of Object.entries(http["headers"] ?? {})) {
      headers.set(key, String(value));
    }
  }
  const text = (of: Loose | undefined, name: string) => String(of?.[name] ?? "");
  const socket = (side: string) => {
    const address = attributes?.[side]?.["address"];
    if (text(address, "address") !== "socketAddress") return undefined;
    const found = address?.["socketAddress"];
    const port = text(found, "portSpecifier") === "portValue" ? Number(found?.["portValue"]) : 0;
    return { address: text(found, "address"), port };
  };
  const rawBody: unknown = http["rawBody"];
  const rawText = rawBody instanceof Uint8Array ? Buffer.from(rawBody).toString("utf8") : "";
  return {
    id: text(http, "id"),
    method: text(http, "method"),
    path: text(http, "path"),
    host: text(http, "host"),
    scheme: text(http, "scheme"),
    protocol: text(http, "protocol"),
    size: String(http["size"] ?? 0n),
    body: text(http, "body") || rawText,
    hasHttp: attributes?.["request"]?.["http"] !== undefined,
    headers,
    source: socket("source"),
    destination: socket("destination"),
    controlPoint: text(attributes?.["contextExtensions"], "control-point"),
  };
}

/** A short field of bytes, as it is on the wire. */
const field = (no: number, bytes: readonly number[]) => [(no << 3) | 2, bytes.length, ...bytes];
/** A request that has only these fields of its HTTP part. */
const httpOf = (fields: readonly number[]) => Uint8Array.from(field(1, field(4, field(2, fields))));

describe("reading Envoy's CheckRequest", () => {
  it("is tested with unknown fields at every depth", () => {
    const $unknown = [{ no: 500, wireType: 0, data: Uint8Array.of(5) }];
    const address = { case: "socketAddress", value: { $unknown, address: "a" } };
    const http = { $unknown, headerMap: { $unknown, headers: [{ $unknown, key: "k" }] } };
    const source = { $unknown, address: { $unknown, address } };
    const init = { $unknown, attributes: { $unknown, source, request: { $unknown, http } } };
    const hex = Buffer.from(encode(init)).toString("hex");
    assert.equal(hex.split("a01f05").length - 1, JSON.stringify(init).split("$unknown").length - 1);
  });

  it("agrees with the library on every message, unknown fields included", () => {
    fc.assert(
      fc.property(request, (init) => {
        const bytes = encode(init);
        assert.deepEqual(attempt(bytes), reference(bytes));
      }),
      { numRuns: 300 },
    );
  });

  it("agrees with protobufjs on the same messages", () => {
    fc.assert(
      fc.property(request, (init) => {
        const bytes = encode(init);
        assert.deepEqual(attempt(bytes), otherReference(bytes));
      }),
      { numRuns: 300 },
    );
  });

  it("merges duplicate fields like the libraries", () => {
    fc.assert(
      fc.property(request, request, (first, second) => {
        const bytes = Buffer.concat([encode(first), encode(second)]);
        assert.deepEqual(attempt(bytes), reference(bytes));
        assert.deepEqual(attempt(bytes), otherReference(bytes));
      }),
      { numRuns: 200 },
    );
  });

  it("refuses or reads every truncation like the libraries", () => {
    fc.assert(
      fc.property(request, (init) => {
        const bytes = encode(init);
        // Longer ones have the same fields with longer texts.
        fc.pre(bytes.length <= 1_024);
        for (let end = 0; end < bytes.length; end++) {
          const cut = bytes.subarray(0, end);
          const got = attempt(cut);
          assert.deepEqual(got, reference(cut), `cut at ${end}`);
          assert.deepEqual(got, otherReference(cut), `cut at ${end}`);
        }
      }),
      { numRuns: 25 },
    );
  });

  it("throws nothing but Faults, whatever the bytes", () => {
    fc.assert(
      fc.property(
        request,
        fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { minLength: 1, maxLength: 4 }),
        (init, flips) => {
          const bytes = Buffer.from(encode(init));
          for (const [at, value] of flips) if (bytes.length > 0) bytes[at % bytes.length] = value;
          attempt(bytes);
        },
      ),
      { numRuns: 400 },
    );
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => void attempt(bytes)));
  });

  it("distinguishes raw header values that are not UTF-8", () => {
    const headers = [
      { key: "x", rawValue: Uint8Array.of(0xff, 0x41) },
      { key: "y", rawValue: Uint8Array.of(0xfe, 0x41) },
      { key: "x", rawValue: Uint8Array.from(Buffer.from("é")) },
    ];
    const got = ours(
      read(encode({ attributes: { request: { http: { headerMap: { headers } } } } })),
    );
    assert.deepEqual(
      got.headers,
      new Map([
        ["x", "ÿA,é"],
        ["y", "þA"],
      ]),
    );
  });

  it("uses whichever of a header's value and raw value is not empty, in either order", () => {
    const value = [0x12, 1, 0x76];
    const raw = [0x1a, 1, 0x72];
    const noValue = [0x12, 0];
    const noRaw = [0x1a, 0];
    const orders = [
      [value, noRaw, "v"],
      [noRaw, value, "v"],
      [raw, noValue, "r"],
      [noValue, raw, "r"],
      [noValue, noRaw, ""],
    ] as const;
    for (const [first, second, wanted] of orders) {
      const header = field(1, [0x0a, 1, 0x78, ...first, ...second]);
      const bytes = httpOf(field(13, header));
      assert.deepEqual(attempt(bytes), reference(bytes));
      assert.deepEqual(ours(read(bytes)).headers, new Map([["x", wanted]]));
    }
  });

  it("uses the last value of a map entry, even an empty one", () => {
    const bytes = httpOf(field(3, [0x0a, 1, 0x78, 0x12, 1, 0x76, 0x12, 0]));
    assert.deepEqual(attempt(bytes), reference(bytes));
    assert.deepEqual(ours(read(bytes)).headers, new Map([["x", ""]]));
  });

  it("keeps a peer's address and port when other fields follow them", () => {
    const socket = [...field(2, [0x61]), 0x18, 80];
    const peer = (inSocket: readonly number[], inAddress: readonly number[]) =>
      field(1, field(1, field(1, [...field(1, [...socket, ...inSocket]), ...inAddress])));
    const source = (...fields: Parameters<typeof peer>) =>
      read(Uint8Array.from(peer(...fields))).source;
    const whole = { address: "a", port: 80 };
    const wire = { varint: [0, 5], fixed32: [5, 1, 2, 3, 4] };
    for (const [type, ...data] of Object.values(wire)) {
      const odd = (no: number) => [(no << 3) | (type ?? 0), ...data];
      assert.deepEqual(source(odd(4), []), whole);
      assert.deepEqual(source([], odd(2)), whole);
      assert.deepEqual(source([], odd(3)), whole);
    }
    assert.deepEqual(source(field(4, [0x68]), []), { address: "a", port: 0 }, "a named port");
    assert.equal(source([], field(2, [])), undefined, "a pipe");
    assert.equal(source([], field(3, [])), undefined, "an internal address");
  });

  it("refuses more than 1000 headers and accepts 1000", () => {
    const with_ = (count: number) => {
      const headers = Object.fromEntries(Array.from({ length: count }, (_, n) => [`h${n}`, ""]));
      return encode({ attributes: { request: { http: { headers } } } });
    };
    assert.equal(read(with_(1_000)).names.length, 1_000);
    assert.equal(read(with_(1_000)).refusal, undefined);
    assert.equal(read(with_(1_001)).refusal?.status, 431);
    assert.equal(read(with_(1_001)).names.length, 1_000);
  });

  it("refuses more than 1000 context extensions, accepts 1000, and uses the last control point among them", () => {
    const entry = (name: string, value: string) => {
      const text = (no: number, of: string) => field(no, [...Buffer.from(of)]);
      return field(1, field(10, [...text(1, name), ...text(2, value)]));
    };
    const others = (count: number) => Array.from({ length: count }, () => entry("x", "y")).flat();
    const point = (value: string) => entry("control-point", value);
    const with_ = (count: number) =>
      Uint8Array.from([...point("one"), ...others(count - 2), ...point("two")]);
    assert.equal(read(with_(1_000)).controlPoint, "two");
    assert.throws(() => read(with_(1_001)), { code: "RESOURCE_EXHAUSTED", http: 431 });
    assert.equal(read(with_(2)).controlPoint, "two");
    assert.equal(read(Uint8Array.from([...point("one"), ...point("")])).controlPoint, "");
    const again = readAuthRequest(with_(1_000), names);
    assert.equal(readAuthRequest(with_(900), names, again).controlPoint, "two", "counted anew");
    assert.equal(readAuthRequest(httpOf([]), names, again).controlPoint, "");
  });

  it("reads a message that is a view of a larger buffer", () => {
    const bytes = encode({ attributes: { request: { http: { method: "PUT" } } } });
    const larger = new Uint8Array(bytes.length + 20).fill(0xff);
    larger.set(bytes, 7);
    assert.equal(read(larger.subarray(7, 7 + bytes.length)).method, "PUT");
  });
});
