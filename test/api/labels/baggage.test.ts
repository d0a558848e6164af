import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { extractBaggage, injectBaggage } from "#api/labels/baggage.ts";

const labels = (header: string) => {
  const baggage = extractBaggage(header);
  return baggage === undefined ? undefined : Object.fromEntries(baggage.labels);
};

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

  it("never names http.* or aperture.*", () => {
    const read = extractBaggage("http.method=GET,aperture.x=1,httpx=2,user=ann");
    assert.deepEqual(Object.fromEntries(read?.labels ?? []), { httpx: "2", user: "ann" });
    assert.equal(read?.reserved, 2);
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

describe("baggage that goes out", () => {
  const made = (given: Readonly<Record<string, string>>) =>
    Object.entries(given).map(([name, value]) => ({ name, value }));

  it("replaces members of the same name and keeps the others, properties included", () => {
    assert.equal(injectBaggage(undefined, made({ v: "plain" })), "v=plain");
    assert.equal(injectBaggage("keep=1;p=2 , v=old", made({ v: "new" })), "keep=1;p=2,v=new");
    assert.equal(injectBaggage("v=1,v=2,k=3", made({ v: "new", w: "" })), "k=3,v=new,w=");
    assert.equal(injectBaggage("k=1", []), undefined);
  });

  it("percent-encodes everything that is not a baggage octet, once", () => {
    assert.equal(injectBaggage(undefined, made({ a: "100%" })), "a=100%25");
    assert.equal(injectBaggage(undefined, made({ a: "%41" })), "a=%2541");
    assert.equal(injectBaggage(undefined, made({ a: "é😀" })), "a=%C3%A9%F0%9F%98%80");
    assert.equal(injectBaggage(undefined, made({ a: "\u0001\r\n" })), "a=%01%0D%0A");
    assert.equal(injectBaggage(undefined, made({ a: "a=b:c<&>'()" })), "a=a=b:c<&>'()");
    assert.equal(
      injectBaggage(undefined, made({ a: "\ud800", b: "\ufffd", c: "1", "d e": "2" })),
      "c=1",
    );
  });

  it("drops a malformed header and stays within the bounds", () => {
    assert.equal(injectBaggage("broken", made({ a: "1" })), "a=1");
    assert.equal(injectBaggage("k=1", made({ a: "x".repeat(5_000), b: "1" })), "k=1,b=1");
    const full = `a=${"x".repeat(4000)},b=${"x".repeat(4000)}`;
    assert.equal(injectBaggage(full, made({ c: "x".repeat(300) })), undefined);
    assert.equal(injectBaggage(full, made({ c: "x".repeat(300), d: "1" })), `${full},d=1`);
  });

  it("comes in again as it went out", () => {
    const name = fc
      .stringMatching(/^[A-Za-z_][0-9A-Za-z_]{0,10}$/)
      .filter((key) => !key.startsWith("http."));
    const value = fc
      .string({ unit: "grapheme", maxLength: 30 })
      .filter((text) => !text.includes("\ufffd"));
    const some = fc.uniqueArray(fc.tuple(name, value), {
      minLength: 1,
      maxLength: 8,
      selector: ([key]) => key,
    });
    fc.assert(
      fc.property(some, some, (old, fresh) => {
        const first = injectBaggage(
          undefined,
          old.map(([name, value]) => ({ name, value })),
        );
        const header = injectBaggage(
          first,
          fresh.map(([name, value]) => ({ name, value })),
        );
        const wanted = new Map([...old, ...fresh]);
        assert.deepEqual(extractBaggage(header ?? "")?.labels.size, wanted.size);
        for (const [key, text] of extractBaggage(header ?? "")?.labels ?? []) {
          assert.equal(text, wanted.get(key));
        }
      }),
    );
  });
});
