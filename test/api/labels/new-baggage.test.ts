import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { Baggage } from "#api/labels/baggage.ts";
import { injectBaggage } from "#api/labels/new-baggage.ts";

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

  it("drops malformed members and stays within the bounds", () => {
    assert.equal(injectBaggage("broken", made({ a: "1" })), "a=1");
    assert.equal(injectBaggage("k=1,broken,l=2", made({ a: "1" })), "k=1,l=2,a=1");
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
        const read = new Baggage(header ?? "", () => assert.fail(header));
        for (const [key, text] of wanted) assert.equal(read.get(key), text);
        read.rewind();
        for (let count = 0; count < wanted.size; count++) assert.ok(read.next());
        assert.ok(!read.next());
      }),
    );
  });
});
