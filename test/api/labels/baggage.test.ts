import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { Baggage } from "#api/labels/baggage.ts";
import { fuzzRuns } from "../../kit/properties/fuzz.ts";

const MAX_MEMBER = 4_096;

/** The members of a header by key, and the number of those that were malformed. */
function read(header: string) {
  let malformed = 0;
  const baggage = new Baggage(header, () => malformed++);
  const keys: string[] = [];
  while (baggage.next()) keys.push(baggage.key);
  const bad = malformed;
  const members = Object.fromEntries(keys.reverse().map((key) => [key, baggage.get(key) ?? ""]));
  return { members, malformed: bad };
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
    for (const [header, members] of cases)
      assert.deepEqual(read(header), { members, malformed: 0 }, header);
  });

  it("keeps its other members when one is malformed", () => {
    const bad = [
      "novalue",
      "",
      "=v",
      "a=1 2",
      'a="q"',
      "a=%zz",
      "a=%4",
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
    const members = { user: "ann", tier: "gold" };
    for (const member of bad) {
      for (const header of [
        `${member},user=ann,tier=gold`,
        `user=ann,${member},tier=gold`,
        `user=ann,tier=gold,${member}`,
      ])
        assert.deepEqual(read(header), { members, malformed: 1 }, header);
    }
    assert.deepEqual(read("user=ann,,,"), { members: { user: "ann" }, malformed: 3 });
    assert.deepEqual(read("novalue"), { members: {}, malformed: 1 });
  });

  it("keeps within 4096 bytes for a member, and 180 members, of which the last count", () => {
    const many = (count: number) => Array.from({ length: count }, (_, n) => `k${n}=v`).join(",");
    assert.equal(Object.keys(read(many(180)).members).length, 180);
    const last = read(many(181)).members;
    assert.deepEqual([last["k0"], last["k1"], last["k180"]], [undefined, "v", "v"]);
    assert.equal(read(`${many(179)},k0=again`).members["k0"], "again");
    assert.deepEqual(Object.keys(read(`a=${"x".repeat(4094)},b=1`).members), ["a", "b"]);
    assert.deepEqual(Object.keys(read(`a=${"x".repeat(4095)},b=1`).members), ["b"]);
  });

  it("says whether a member is named http.* or aperture.*", () => {
    const reserved = (header: string) => new Baggage(header, () => undefined).hasReserved;
    for (const name of ["http.method", "aperture.x"])
      assert.equal(reserved(`httpx=2,${name}=1,user=ann`), true, name);
    for (const name of ["httpx", "apertures", "HTTP.method", "http", "x-http.method"])
      assert.equal(reserved(`${name}=1,a=http.method`), false, name);
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
        assert.deepEqual(read(header), wanted);
        for (const key of ["a", "aa", "http.b", "a%41"]) {
          const alone = new Baggage(header, () => undefined).get(key);
          assert.equal(alone, wanted.members[key], key);
        }
      }),
      fuzzRuns(2_000),
    );
  });

  it("is read as far as something asks, and no further than 180 members", () => {
    const hostile = [",".repeat(8_000), "a,".repeat(4_000), `user=ann,${"user,".repeat(1_600)}`];
    for (const header of hostile) {
      let malformed = 0;
      const baggage = new Baggage(header, () => malformed++);
      assert.equal(baggage.get("user"), undefined);
      assert.ok(malformed <= 180, `${malformed} members were read`);
    }
    let malformed = 0;
    const baggage = new Baggage(`${"bad,".repeat(100)}a=1,b=2`, () => malformed++);
    assert.equal(baggage.get("b"), "2");
    assert.equal(baggage.get("other"), undefined);
    assert.equal(malformed, 0);
  });
});

/** A second parser of the grammar, without a bound on the whole. */
function parsed(header: string): ReturnType<typeof read> {
  if (/^[ \t]*$/.test(header)) return { members: {}, malformed: 0 };
  const found: [string, string][] = [];
  let malformed = 0;
  for (const member of header.split(",")) {
    const [match, key = "", value = ""] = MEMBER.exec(member) ?? [];
    if (match === undefined || match.length > MAX_MEMBER || /%(?![0-9A-Fa-f]{2})/.test(value)) {
      malformed++;
      continue;
    }
    const bytes = value.replace(/%(..)/g, (_, hex) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    found.push([key, value === bytes ? value : Buffer.from(bytes, "latin1").toString("utf8")]);
  }
  return { members: Object.fromEntries(found), malformed };
}

const TOKEN = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
const OCTETS = "[\\x21\\x23-\\x2b\\x2d-\\x3a\\x3c-\\x5b\\x5d-\\x7e]*";
const BLANKS = "[ \\t]*";
const PROPERTY = `;${BLANKS}(?:${TOKEN}${BLANKS}(?:=${BLANKS}${OCTETS}${BLANKS})?)?`;
const MEMBER = new RegExp(
  `^${BLANKS}(${TOKEN})${BLANKS}=${BLANKS}(${OCTETS})${BLANKS}(?:${PROPERTY})*$`,
);
