// The cache of field blocks: the same bytes in the same generation of the dynamic table give the same head, within a
// memory limit.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { RequestHead } from "#h2/exchange.ts";
import { FieldBlockCache } from "#h2/fields/block-cache.ts";
import { readRequestHead } from "#h2/fields/validation.ts";
import { Decoder } from "#h2/hpack/decoder.ts";
import { Encoder } from "#h2/hpack/encoder.ts";
import { FieldList } from "#h2/hpack/field-list.ts";

function makeHead(changes: Partial<RequestHead> = {}): RequestHead {
  return {
    method: "GET",
    path: "/",
    scheme: "http",
    authority: "",
    fields: [],
    size: 100,
    flaw: undefined,
    contentLength: -1,
    memo: undefined,
    ...changes,
  };
}

/** A block inside a larger chunk, as read from a socket. */
function chunk(block: Uint8Array, before = 9): [Buffer, number, number] {
  const bytes = Buffer.concat([Buffer.alloc(before, 0x55), block, Buffer.alloc(3, 0xaa)]);
  return [bytes, before, before + block.length];
}

const BLOCK = Buffer.from("828684bebfc0c1", "hex");

test("returns the same head for the same bytes, wherever they lie in memory", () => {
  const remembered = new FieldBlockCache();
  const head = makeHead();
  assert.equal(remembered.find(...chunk(BLOCK), 1), undefined);
  const [bytes, start, end] = chunk(BLOCK);
  remembered.add(bytes, start, end, 1, head);
  bytes.fill(0);
  assert.equal(remembered.find(...chunk(BLOCK), 1), head);
  assert.equal(remembered.find(...chunk(BLOCK, 100), 1), head);
});

test("does not find a block of another generation", () => {
  const remembered = new FieldBlockCache();
  remembered.add(...chunk(BLOCK), 1, makeHead());
  assert.equal(remembered.find(...chunk(BLOCK), 2), undefined);
  assert.equal(remembered.find(...chunk(BLOCK), 0), undefined);
  const head = makeHead();
  remembered.add(...chunk(BLOCK), 2, head);
  assert.equal(remembered.find(...chunk(BLOCK), 2), head);
  assert.equal(remembered.find(...chunk(BLOCK), 1), undefined);
});

test("does not find a block with one byte changed, missing or added", () => {
  for (const length of [1, 7, 23, 24, 25, 60, 300, 1024]) {
    const block = Buffer.alloc(length, 0xbe);
    const remembered = new FieldBlockCache();
    const head = makeHead();
    remembered.add(...chunk(block), 1, head);
    for (let at = 0; at < length; at++) {
      const other = Buffer.from(block);
      other[at] = 0xbf;
      assert.equal(remembered.find(...chunk(other), 1), undefined);
    }
    assert.equal(remembered.find(...chunk(block.subarray(1)), 1), undefined);
    assert.equal(remembered.find(...chunk(Buffer.concat([block, BLOCK])), 1), undefined);
    assert.equal(remembered.find(...chunk(block), 1), head);
  }
});

test("does not cache an empty block", () => {
  const remembered = new FieldBlockCache();
  assert.equal(remembered.find(Buffer.alloc(0), 0, 0, 0), undefined);
  remembered.add(...chunk(BLOCK), 0, makeHead());
  assert.equal(remembered.find(Buffer.alloc(0), 0, 0, 0), undefined);
});

test("caches several blocks, and a limited number of them", () => {
  const remembered = new FieldBlockCache();
  const blocks = Array.from({ length: 1000 }, (_, i) => Buffer.from(`block ${i}`));
  const heads = blocks.map((_, i) => makeHead({ path: `/${i}` }));
  for (const [i, block] of blocks.entries()) {
    remembered.add(...chunk(block), 1, heads[i] ?? makeHead());
    assert.equal(remembered.find(...chunk(block), 1), heads[i]);
  }
  const known = blocks.filter((block, i) => {
    const found = remembered.find(...chunk(block), 1);
    assert.ok(found === undefined || found === heads[i]);
    return found !== undefined;
  });
  assert.ok(known.length > 8 && known.length <= 16, `${known.length}`);
});

test("does not cache blocks that are too large or incomplete", () => {
  const remembered = new FieldBlockCache();
  const long = Buffer.alloc(1025, 0x82);
  remembered.add(...chunk(long), 1, makeHead());
  assert.equal(remembered.find(...chunk(long), 1), undefined);
  remembered.add(...chunk(BLOCK), 1, makeHead({ flaw: "too_large" }));
  remembered.add(...chunk(BLOCK), 1, makeHead({ size: 8193 }));
  assert.equal(remembered.find(...chunk(BLOCK), 1), undefined);
});

test("always returns what decoding would return", () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          path: fc.constantFrom("/a", "/b"),
          extra: fc.constantFrom("1", "2", "3", "4", "v".repeat(40)),
          /** A name that occurs for the first time enters the table. */
          name: fc.constantFrom("x-a", "x-b", "x-c", "x-d"),
          size: fc.constantFrom(undefined, undefined, undefined, undefined, 0, 4096),
        }),
        { maxLength: 60 },
      ),
      (requests) => {
        const encoder = new Encoder();
        const decoder = new Decoder(4096);
        const remembered = new FieldBlockCache();
        for (const { path, extra, name, size } of requests) {
          if (size !== undefined) encoder.limitTable(size);
          const flat = [":method", "GET", ":scheme", "http", ":path", path, name, extra];
          const [bytes, start, end] = chunk(encoder.block(flat));
          const generation = decoder.generation;
          const known = remembered.find(bytes, start, end, generation);
          const list = new FieldList(65_536, 1000);
          decoder.decode(bytes, start, end, list);
          const head = readRequestHead(list);
          assert.ok(head);
          assert.deepEqual(head.fields, [name, extra]);
          if (known !== undefined) {
            assert.deepEqual(known, head);
            assert.equal(decoder.generation, generation, "a cached block changed the table");
          } else if (decoder.generation === generation) {
            remembered.add(bytes, start, end, generation, head);
          }
        }
      },
    ),
    { numRuns: 100 },
  ));
