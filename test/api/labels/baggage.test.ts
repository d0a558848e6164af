import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { readBaggage } from "#api/labels/baggage.ts";

const MAX_MEMBER = 4_096;
const MAX_MEMBERS = 180;

/** The members of a header by key; undefined for one that is dropped. */
function labels(header: string): Record<string, string> | undefined {
  const baggage = readBaggage(header);
  if (baggage === undefined) return undefined;
  const keys = Array.from({ length: baggage.count }, (_, member) => baggage.key(member));
  return Object.fromEntries(keys.map((key) => [key, baggage.get(key) ?? ""]));
}

describe("baggage that comes in", () => {
  it("is read by the W3C grammar, values decoded once", () => {
    const cases: readonly (readonly [string, Record<string, string>])[] = [
      ["", {}],
      [" ", {}],
      ["user=ann", { user: "ann" }],
      [" user = ann , tier =\tgold ", { user: "ann", tier: "gold" }],
      ["user=ann;ttl=5;secure,tier=gold", { user: "ann", tier: "gold" }],
      ["a=1;", { a: "1" }],
      ["a=%61%20b", { a: "a b" }],
      ["a=%2520", { a: "%20" }],
      ["a=x+y", { a: "x+y" }],
      ["a=%25", { a: "%" }],
      ["a=1%2C2", { a: "1,2" }],
      ["a=", { a: "" }],
      ["a=b=c", { a: "b=c" }],
      ["A.b-c_d!#$%&'*+^`|~=v", { "A.b-c_d!#$%&'*+^`|~": "v" }],
      ["x=%C3%A9", { x: "é" }],
      ["x=%FF", { x: "\ufffd" }],
      ["url=http://h:80/p?q", { url: "http://h:80/p?q" }],
      ["a=1,a=2", { a: "2" }],
      [
        "__proto__=1,constructor=2",
        Object.fromEntries([
          ["__proto__", "1"],
          ["constructor", "2"],
        ]),
      ],
    ];
    for (const [header, wanted] of cases) assert.deepEqual(labels(header), wanted, header);
  });

  it("is dropped whole when any member is malformed", () => {
    const bad = [
      "novalue",
      "a=1,novalue",
      "a=1,",
      ",a=1",
      "a=1,,b=2",
      "=v",
      "a=1 2",
      'a="q"',
      "a=%zz",
      "b=1,a=%4",
      "a b=1",
      "a=é",
      "é=a",
      "a=\\",
      "a=1;=x",
      "a=1;p=q r",
      "a=1\u00a0",
      "a=\u0000",
      "a=1\n",
      "a=1\r\nb=2",
    ];
    for (const header of bad) assert.equal(labels(header), undefined, header);
  });

  it("keeps within 8192 bytes, 4096 per member, 180 members", () => {
    const many = (count: number) => Array.from({ length: count }, (_, n) => `k${n}=v`).join(",");
    assert.equal(Object.keys(labels(many(180)) ?? {}).length, 180);
    assert.equal(labels(many(181)), undefined);
    assert.equal(labels(`${many(180)},k0=again`)?.["k0"], "again");
    assert.ok(labels(`a=${"x".repeat(4094)}`));
    assert.equal(labels(`a=${"x".repeat(4095)}`), undefined);
    const full = (last: number) =>
      `a=${"x".repeat(4000)},b=${"x".repeat(4000)},c=${"x".repeat(last)}`;
    assert.ok(labels(full(8192 - full(0).length)));
    assert.equal(labels(full(8193 - full(0).length)), undefined);
  });

  it("says whether a member is named http.* or aperture.*", () => {
    for (const reserved of ["http.method", "aperture.x"]) {
      assert.equal(readBaggage(`httpx=2,${reserved}=1,user=ann`)?.hasReserved, true, reserved);
    }
    for (const free of ["httpx", "apertures", "HTTP.method", "http"]) {
      assert.equal(readBaggage(`${free}=1`)?.hasReserved, false, free);
    }
  });

  it("is read as a parser in regular expressions reads it", () => {
    const part = fc.constantFrom(
      "a",
      "http.b",
      "=",
      "==",
      ";",
      ",",
      " ",
      "\t",
      "%4",
      "%41",
      "é",
      '"',
      "\\",
      "\u0000",
    );
    const piece = fc.array(part, { maxLength: 5 }).map((parts) => parts.join(""));
    const member = fc.oneof(
      piece,
      fc.tuple(piece, piece).map(([key, value]) => `${key}=${value}`),
    );
    fc.assert(
      fc.property(fc.array(member, { maxLength: 4 }), (members) => {
        const header = members.join(",");
        const wanted = parsed(header);
        assert.deepEqual(labels(header), wanted);
      }),
      { numRuns: 2_000 },
    );
  });

  it("is read in time that grows with its length", () => {
    const started = process.hrtime.bigint();
    for (let round = 0; round < 20; round++) {
      labels(`a=1${" ".repeat(4_000)}x`);
      labels(`a=${";".repeat(4_000)}`);
      labels(",".repeat(8_000));
    }
    assert.ok(Number(process.hrtime.bigint() - started) / 1e6 < 1_000);
  });
});

/** A second parser of the grammar, without a bound on the whole. */
function parsed(header: string): Record<string, string> | undefined {
  if (/^[ \t]*$/.test(header)) return {};
  const found: [string, string][] = [];
  for (const member of header.split(",")) {
    const match = MEMBER.exec(member);
    if (match === null || member.length > MAX_MEMBER) return undefined;
    const [, key = "", value = ""] = match;
    if (/%(?![0-9A-Fa-f]{2})/.test(value)) return undefined;
    const bytes = value.replace(/%(..)/g, (_, hex) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    found.push([key, value === bytes ? value : Buffer.from(bytes, "latin1").toString("utf8")]);
  }
  const members = Object.fromEntries(found);
  return Object.keys(members).length > MAX_MEMBERS ? undefined : members;
}

const TOKEN = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
const OCTETS = "[\\x21\\x23-\\x2b\\x2d-\\x3a\\x3c-\\x5b\\x5d-\\x7e]*";
const BLANKS = "[ \\t]*";
const PROPERTY = `;${BLANKS}(?:${TOKEN}${BLANKS}(?:=${BLANKS}${OCTETS}${BLANKS})?)?`;
const MEMBER = new RegExp(
  `^${BLANKS}(${TOKEN})${BLANKS}=${BLANKS}(${OCTETS})${BLANKS}(?:${PROPERTY})*$`,
);
