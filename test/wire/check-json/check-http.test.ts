import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { type HeaderList, HeaderNames } from "#wire/check/headers.ts";
import { type CheckHttpRequest, isControlPoint } from "#wire/check/request.ts";
import { JsonCheckHttp } from "#wire/check-json/check-http.ts";
import { checkHttpFromJson } from "#wire/check-json/request.ts";
import { assertTwice } from "../../kit/properties/twice.ts";

const names = new HeaderNames(seededChance(1));
const again = new JsonCheckHttp();

const KEYS = ["method", "path", "host", "scheme", "protocol", "body", "sizeText"] as const;

/** Names and values in order. Parsed objects list names like `7` first, which makes no difference to labels. */
function listed(headers: HeaderList): readonly (readonly string[])[] {
  const all = headers.names.map(({ raw }, at) => [raw, headers.value(at)]);
  const first = all.filter(([name = ""]) => /^\d+$/.test(name)).sort();
  return [...first, ...all.filter((pair) => !first.includes(pair))];
}

/** The result of the general reader in comparable form; undefined where it refuses. */
function general(body: Buffer) {
  let read: CheckHttpRequest;
  try {
    read = checkHttpFromJson(body, names);
  } catch {
    return undefined;
  }
  const { request, source, destination } = read;
  return {
    controlPoint: read.controlPoint,
    rampMode: read.rampMode,
    expectEnd: read.expectEnd,
    source: source && { address: source.address, port: source.port },
    destination: destination && { address: destination.address, port: destination.port },
    parts: request && KEYS.map((key) => request[key]),
    size: request?.size,
    headers: request && listed(request.headers),
  };
}

/** The same result of the in-place reader; undefined where it leaves the body to the general one. */
function plain(body: Buffer) {
  if (!again.read(body, names)) return undefined;
  again.copyBytes();
  return {
    controlPoint: again.controlPoint,
    rampMode: again.rampMode,
    expectEnd: again.expectEnd,
    source: again.source,
    destination: again.destination,
    parts: KEYS.map((key) => again[key]),
    size: again.size,
    headers: listed(again),
  };
}

/** Asserts that the in-place reader agrees with the general one or declines, and declines whatever that refuses. */
function sameOrLeft(body: Buffer): boolean {
  const read = plain(body);
  if (read === undefined) return false;
  const wanted = general(body);
  assert.deepEqual(read, wanted, body.toString());
  assert.ok(isControlPoint(read.controlPoint));
  assert.equal(checkHttpFromJson(body, names).request?.refusal, undefined);
  for (const end of [read.source, read.destination]) {
    assert.ok(end === undefined || (end.address !== "" && end.port <= 65_535));
  }
  return true;
}

const word = fc.stringMatching(/^[ -!#-[\]-~]{0,12}$/);
const unicode = fc.string({ unit: "binary", maxLength: 8 });
const blank = fc.constantFrom("", "", "", " ", "\n  ", "\t", "\r\n");

/** JSON of a value, with whitespace between its tokens. */
function spelt(value: unknown, blanks: readonly string[]): string {
  let turn = 0;
  const gap = () => blanks[turn++ % blanks.length] ?? "";
  const write = (one: unknown): string => {
    if (typeof one !== "object" || one === null) return JSON.stringify(one);
    const items = Array.isArray(one)
      ? one.map((item) => gap() + write(item) + gap())
      : Object.entries(one).map(
          ([key, item]) => `${gap()}${JSON.stringify(key)}${gap()}:${gap()}${write(item)}${gap()}`,
        );
    const inside = items.join(",");
    return Array.isArray(one) ? `[${inside}]` : `{${inside}}`;
  };
  return gap() + write(value) + gap();
}

const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
const either = <T>(...arbitraries: fc.Arbitrary<T>[]) => fc.oneof(...arbitraries);

const socket = (odd: boolean) =>
  fc.record(
    {
      protocol: odd
        ? fc.constantFrom<unknown>("TCP", "UDP", "SCTP", 1, 7, null, "")
        : fc.constantFrom("TCP", "UDP"),
      address: odd ? either<unknown>(word, unicode, fc.constant(null), fc.integer()) : word,
      port: odd
        ? fc.constantFrom<unknown>(0, 80, "443", 65_536, -1, 1.5, 1e2, "1e2", null, "-0")
        : fc.nat({ max: 65_535 }),
    },
    { requiredKeys: odd ? [] : ["address"] },
  );

const described = (odd: boolean) => {
  const text = odd
    ? either<unknown>(word, unicode, fc.constantFrom(null, 5, true, {}, []))
    : either<unknown>(word, fc.constantFrom("HTTP/1.1", "ä€😀"));
  const value = odd ? either<unknown>(text, fc.array(word, { maxLength: 3 })) : text;
  return fc.record(
    {
      method: text,
      headers: fc.dictionary(odd ? either(word, unicode) : word, value, { maxKeys: 6 }),
      path: text,
      host: text,
      scheme: text,
      size: odd
        ? fc.constantFrom<unknown>(
            0,
            -0,
            "-0",
            "007",
            1e20,
            "9223372036854775807",
            1.5,
            "1e3",
            null,
          )
        : fc.constantFrom<unknown>(
            0,
            -1,
            4711,
            "-1",
            "0",
            123_456_789_012_345,
            "123456789012345678",
          ),
      protocol: text,
      body: text,
      ...(odd && { more: fc.jsonValue() }),
    },
    { requiredKeys: odd ? [] : ["headers"] },
  );
};

const document = (odd: boolean) =>
  fc
    .record({
      source: optional(socket(odd)),
      destination: optional(socket(odd)),
      request: odd ? optional(described(odd)) : described(odd),
      point: odd ? either<unknown>(word, unicode, fc.constantFrom(null, 1)) : word,
      ramp: optional(odd ? fc.constantFrom<unknown>(true, false, null, "true") : fc.boolean()),
      end: optional(fc.boolean()),
      camel: fc.boolean(),
      unknown: odd ? optional(fc.jsonValue()) : fc.constant(undefined),
    })
    .map(({ source, destination, request, point, ramp, end, camel, unknown }) => ({
      ...(source !== undefined && { source }),
      ...(destination !== undefined && { destination }),
      ...(request !== undefined && { request }),
      [camel ? "controlPoint" : "control_point"]: point,
      ...(ramp !== undefined && { [camel ? "rampMode" : "ramp_mode"]: ramp }),
      ...(end !== undefined && { [camel ? "expectEnd" : "expect_end"]: end }),
      ...(unknown !== undefined && { more: unknown }),
    }));

const blanks = fc.array(blank, { minLength: 1, maxLength: 5 });

const GOOD =
  '{"source":{"address":"203.0.113.7","protocol":"TCP","port":41212},"control_point":"ingress",' +
  '"request":{"method":"GET","path":"/a?b=1","size":-1,"headers":{":path":"/a","user-id":"ä","a":"1"}},' +
  '"ramp_mode":false,"expectEnd":true}';

describe("a CheckHTTP request in JSON, read in place", () => {
  it("is read like the general reader does, when it has the usual form", () => {
    let taken = 0;
    let left = 0;
    assertTwice(
      fc.property(document(false), blanks, (value, gaps) => {
        const headers = value.request?.headers ?? {};
        const good =
          isControlPoint(String(Object.values(value).find((each) => typeof each === "string"))) &&
          Object.keys(headers).length > 0 &&
          ![value.source, value.destination].some((end) => end?.address === "");
        const read = sameOrLeft(Buffer.from(spelt(value, gaps)));
        assert.equal(read, good, "left only what has to be");
        if (read) taken++;
        else left++;
      }),
      400,
    );
    assert.ok(taken > 100 && left > 10, `${taken} taken, ${left} left`);
  });

  it("is left to the general reader, or read like it, when it has an unusual form", () => {
    fc.assert(
      fc.property(document(true), blanks, (value, gaps) => {
        sameOrLeft(Buffer.from(spelt(value, gaps)));
      }),
      { numRuns: 600 },
    );
  });

  it("is never accepted where the general reader refuses it, after any change of its bytes", () => {
    assert.ok(sameOrLeft(Buffer.from(GOOD)));
    const insert = fc.constantFrom(
      '"',
      "\\",
      "{",
      "}",
      "[",
      "]",
      ":",
      ",",
      "0",
      "-",
      ".",
      "e",
      " ",
      "\0",
      "\n",
      "null",
      "\xff",
      "\xc3",
      "\ud800",
      '"a":"2",',
      '"a":"1"',
      '"control_point":"x",',
      "true",
      "ä",
      "9",
    );
    const edit = fc.record({
      at: fc.nat({ max: Buffer.byteLength(GOOD) }),
      cut: fc.nat({ max: 4 }),
      insert: fc.oneof(fc.constant(""), insert),
    });
    let taken = 0;
    assertTwice(
      fc.property(fc.array(edit, { minLength: 1, maxLength: 3 }), (edits) => {
        let bytes = Buffer.from(GOOD);
        for (const { at, cut, insert } of edits) {
          const piece = Buffer.from(
            insert,
            insert >= "\x80" && insert <= "\xff" ? "latin1" : "utf8",
          );
          bytes = Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at + cut)]);
        }
        if (sameOrLeft(bytes)) taken++;
      }),
      3_000,
    );
    assert.ok(taken > 100, `${taken} taken`);
    for (let end = 0; end < GOOD.length; end++) {
      assert.equal(plain(Buffer.from(GOOD).subarray(0, end)), undefined);
    }
  });

  it("leaves duplicate members, in any spelling, to the general reader", () => {
    const twice = [
      GOOD.replace('"ramp_mode":false', '"ramp_mode":false,"rampMode":false'),
      GOOD.replace('"a":"1"', '"a":"1","a":"1"'),
      GOOD.replace('"method":"GET"', '"method":"GET","method":"GET"'),
      GOOD.replace('"port":41212', '"port":1,"port":1'),
    ];
    for (const body of twice) {
      assert.notEqual(body, GOOD);
      assert.equal(plain(Buffer.from(body)), undefined);
      assert.equal(general(Buffer.from(body)), undefined);
    }
  });

  it("leaves requests with more headers than it compares to the general reader, and reads as many itself", () => {
    const many = (count: number) =>
      Buffer.from(
        JSON.stringify({
          control_point: "x",
          request: {
            headers: Object.fromEntries(Array.from({ length: count }, (_, at) => [`h-${at}`, "v"])),
          },
        }),
      );
    assert.equal(plain(many(64))?.headers?.length, 64);
    assert.equal(plain(many(65)), undefined);
    assert.equal(plain(many(1))?.headers?.length, 1);
  });

  it("carries nothing over from the previous request", () => {
    plain(Buffer.from(GOOD));
    const bare = Buffer.from('{"control_point":"y","request":{"method":"PUT"}}');
    assert.deepEqual(plain(bare), general(bare));
    assert.equal(again.names.length, 0);
  });

  it("outlives its bytes once they were copied", () => {
    const bytes = Buffer.from(GOOD);
    assert.ok(again.read(bytes, names));
    again.copyBytes();
    bytes.fill(0x78);
    assert.equal(again.path, "/a?b=1");
    assert.equal(again.header("user-id"), "ä");
  });
});
