// Base64 that is encoded in pieces equals that of the whole, and messages with pre-encoded fragments equal those
// without.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { cutText } from "#base/text/cut.ts";
import { spanKey, writeSpanField } from "#wire/check/span-fields.ts";
import { Base64Writer, base64Length, Fragment, Template, viewOf } from "#wire/protobuf/base64.ts";
import { ByteSpan } from "#wire/protobuf/reader.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";

const piece = fc.record({
  bytes: fc.oneof(
    fc.uint8Array({ maxLength: 9 }),
    fc.uint8Array({ minLength: 100, maxLength: 300 }),
  ),
  fixed: fc.boolean(),
});

describe("base64", () => {
  const writer = new Base64Writer();

  it("equals Buffer's, however the input is cut into pieces", () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), fc.nat({ max: 5 }), (pieces, at) => {
        const whole = Buffer.concat(pieces.map(({ bytes }) => bytes));
        const to = Buffer.alloc(at + base64Length(whole.length) + 1, 0x2e);
        writer.begin(base64Length(whole.length));
        for (const { bytes, fixed } of pieces) {
          if (fixed) writer.fragment(new Fragment(Buffer.from(bytes)));
          else writer.bytes(viewOf(Buffer.concat([bytes, Buffer.of(0)])), 0, bytes.length);
        }
        writer.end(to, at);
        assert.equal(to.toString("latin1"), `${".".repeat(at)}${whole.toString("base64")}.`);
      }),
    );
  });

  it("encodes a fragment at each of the three offsets, repeatedly", () => {
    const fragment = new Fragment(Buffer.from("the same bytes in every message"));
    for (const before of [0, 1, 2, 3, 4, 5, 1, 0]) {
      const out = new ProtoWriter();
      out.raw(Buffer.alloc(before, 0x41));
      out.fragment(fragment);
      out.raw(Buffer.of(0x42));
      const to = Buffer.alloc(base64Length(out.length));
      out.base64(writer, to, 0);
      assert.equal(to.toString(), out.copy().toString("base64"));
    }
  });
});

describe("a template", () => {
  it("has the text of its bytes, also after its changing parts have changed", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 5 }),
        fc.array(fc.tuple(fc.nat({ max: 9 }), fc.nat({ max: 9 })), { maxLength: 5 }),
        fc.nat({ max: 4 }),
        fc.array(fc.nat({ max: 255 }), { minLength: 3, maxLength: 3 }),
        (before, parts, after, fills) => {
          const holes: number[] = [];
          let length = 0;
          for (const [fixed, changing] of parts) {
            holes.push(length + fixed, length + fixed + changing);
            length += fixed + changing;
          }
          length += after;
          const memory = Buffer.from(Array.from({ length: length + 1 }, (_, at) => at * 37));
          const template = new Template(memory, length, holes);
          for (const fill of fills) {
            for (let hole = 0; hole < holes.length; hole += 2) {
              template.bytes.fill(fill + hole, holes[hole], holes[hole + 1]);
            }
            const out = new ProtoWriter();
            out.raw(before);
            out.fragment(template);
            const whole = Buffer.concat([before, template.bytes]);
            const text = Buffer.alloc(base64Length(whole.length));
            out.base64(new Base64Writer(), text, 0);
            assert.equal(text.toString("latin1"), whole.toString("base64"));
          }
        },
      ),
      { numRuns: 1_000 },
    );
  });
});

describe("a message with fragments", () => {
  it("equals the message without, at any depth and length", () => {
    const nested = fc.array(piece, { maxLength: 4 });
    fc.assert(
      fc.property(nested, nested, fc.constantFrom(1, 2), (outer, inner, guess) => {
        const written = (fragments: boolean) => {
          const out = new ProtoWriter();
          const put = ({ bytes, fixed }: { bytes: Uint8Array; fixed: boolean }) =>
            fixed && fragments ? out.fragment(new Fragment(Buffer.from(bytes))) : out.raw(bytes);
          outer.forEach(put);
          const start = out.open(0x0a, guess);
          inner.forEach(put);
          const deeper = out.open(0x12);
          outer.forEach(put);
          out.close(deeper);
          out.close(start, guess);
          inner.forEach(put);
          assert.deepEqual(out.view(), out.copy());
          assert.equal(out.length, out.copy().length);
          const text = Buffer.alloc(base64Length(out.length));
          out.base64(new Base64Writer(), text, 0);
          assert.equal(text.toString(), out.copy().toString("base64"));
          return out.copy();
        };
        assert.deepEqual(written(true), written(false));
      }),
    );
  });

  it("keeps its bytes while its buffer grows", () => {
    const out = new ProtoWriter();
    const part = Buffer.alloc(1_000, 0x61);
    for (let round = 0; round < 20; round++) {
      out.raw(part);
      out.fragment(new Fragment(Buffer.of(0x7c)));
    }
    assert.equal(out.copy().toString(), `${"a".repeat(1_000)}|`.repeat(20));
    const text = Buffer.alloc(base64Length(out.length));
    out.base64(new Base64Writer(), text, 0);
    assert.equal(text.toString(), out.copy().toString("base64"));
  });
});

describe("an entry whose value is copied from the request's bytes", () => {
  it("equals one that is written from a string, whether or not it is UTF-8", () => {
    const value = fc.oneof(
      fc.string({ maxLength: 130 }).map((text) => Buffer.from(text)),
      fc.string({ unit: "grapheme", maxLength: 60 }).map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 140 }).map((bytes) => Buffer.from(bytes)),
      fc.constantFrom("GET", "POST", "").map((text) => Buffer.from(text)),
      fc.constantFrom(90, 127, 128, 300, 9_000).map((length) => Buffer.alloc(length, 0x78)),
    );
    fc.assert(
      fc.property(fc.string({ maxLength: 140 }), value, fc.nat({ max: 3 }), (name, bytes, at) => {
        const message = Buffer.concat([Buffer.alloc(at, 0xff), bytes, Buffer.alloc(2, 0xff)]);
        const span = new ByteSpan();
        span.start = at;
        span.end = at + bytes.length;
        const out = new ProtoWriter();
        writeSpanField(out, { entry: spanKey(name, { GET: "get", "": "none" }), span }, message);
        const text = bytes.toString("utf8");
        const wanted = new ProtoWriter();
        const start = wanted.open(0x3a);
        wanted.text(0x0a, name);
        wanted.text(0x12, text === "GET" ? "get" : text === "" ? "none" : cutText(text));
        wanted.close(start);
        assert.deepEqual(out.copy(), wanted.copy());
      }),
    );
  });
});
