// Remembered header blocks: the same bytes in the same generation give the same head, and memory stays bounded.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Head } from "#serve/h2/exchange.ts";
import { FieldList } from "#serve/h2/fields.ts";
import { readHead } from "#serve/h2/head.ts";
import { Decoder } from "#serve/h2/hpack/decoder.ts";
import { Encoder } from "#serve/h2/hpack/encoder.ts";
import { RememberedHeads } from "#serve/h2/remembered.ts";

function makeHead(changes: Partial<Head> = {}): Head {
  return {
    method: "GET",
    path: "/",
    scheme: "http",
    authority: "",
    fields: [],
    size: 100,
    overflow: false,
    contentLength: -1,
    memo: undefined,
    ...changes,
  };
}

/** A block somewhere in a larger chunk, as it is read from a socket. */
function chunk(block: Uint8Array, before = 9): [Buffer, number, number] {
  const bytes = Buffer.concat([Buffer.alloc(before, 0x55), block, Buffer.alloc(3, 0xaa)]);
  return [bytes, before, before + block.length];
}

const BLOCK = Buffer.from("828684bebfc0c1", "hex");

test("same bytes, same head, wherever they lie", () => {
  const remembered = new RememberedHeads();
  const head = makeHead();
  assert.equal(remembered.find(...chunk(BLOCK), 1), undefined);
  const [bytes, start, end] = chunk(BLOCK);
  remembered.keep(bytes, start, end, 1, head);
  bytes.fill(0);
  assert.equal(remembered.find(...chunk(BLOCK), 1), head);
  assert.equal(remembered.find(...chunk(BLOCK, 100), 1), head);
});

test("another generation knows nothing of it", () => {
  const remembered = new RememberedHeads();
  remembered.keep(...chunk(BLOCK), 1, makeHead());
  assert.equal(remembered.find(...chunk(BLOCK), 2), undefined);
  assert.equal(remembered.find(...chunk(BLOCK), 0), undefined);
  const head = makeHead();
  remembered.keep(...chunk(BLOCK), 2, head);
  assert.equal(remembered.find(...chunk(BLOCK), 2), head);
  assert.equal(remembered.find(...chunk(BLOCK), 1), undefined);
});

test("every other block is told apart: one byte changed, missing or more", () => {
  for (const length of [1, 7, 23, 24, 25, 60, 300, 1024]) {
    const block = Buffer.alloc(length, 0xbe);
    const remembered = new RememberedHeads();
    const head = makeHead();
    remembered.keep(...chunk(block), 1, head);
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

test("an empty block is no block", () => {
  const remembered = new RememberedHeads();
  assert.equal(remembered.find(Buffer.alloc(0), 0, 0, 0), undefined);
  remembered.keep(...chunk(BLOCK), 0, makeHead());
  assert.equal(remembered.find(Buffer.alloc(0), 0, 0, 0), undefined);
});

test("several are known at a time, and many do not take memory without end", () => {
  const remembered = new RememberedHeads();
  const blocks = Array.from({ length: 1000 }, (_, i) => Buffer.from(`block ${i}`));
  const heads = blocks.map((_, i) => makeHead({ path: `/${i}` }));
  for (const [i, block] of blocks.entries()) {
    remembered.keep(...chunk(block), 1, heads[i] ?? makeHead());
    assert.equal(remembered.find(...chunk(block), 1), heads[i]);
  }
  const known = blocks.filter((block, i) => {
    const found = remembered.find(...chunk(block), 1);
    assert.ok(found === undefined || found === heads[i]);
    return found !== undefined;
  });
  assert.ok(known.length > 8 && known.length <= 16, `${known.length}`);
});

test("what is too large or incomplete is not kept", () => {
  const remembered = new RememberedHeads();
  const long = Buffer.alloc(1025, 0x82);
  remembered.keep(...chunk(long), 1, makeHead());
  assert.equal(remembered.find(...chunk(long), 1), undefined);
  remembered.keep(...chunk(BLOCK), 1, makeHead({ overflow: true }));
  remembered.keep(...chunk(BLOCK), 1, makeHead({ size: 8193 }));
  assert.equal(remembered.find(...chunk(BLOCK), 1), undefined);
});

test("what is found is always what decoding would give", () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          path: fc.constantFrom("/a", "/b"),
          extra: fc.constantFrom("1", "2", "3", "4", "v".repeat(40)),
          /** A name met the first time goes into the table. */
          name: fc.constantFrom("x-a", "x-b", "x-c", "x-d"),
          size: fc.constantFrom(undefined, undefined, undefined, undefined, 0, 4096),
        }),
        { maxLength: 60 },
      ),
      (requests) => {
        const encoder = new Encoder();
        const decoder = new Decoder(4096);
        const remembered = new RememberedHeads();
        for (const { path, extra, name, size } of requests) {
          if (size !== undefined) encoder.limitTable(size);
          const flat = [":method", "GET", ":scheme", "http", ":path", path, name, extra];
          const [bytes, start, end] = chunk(encoder.block(flat));
          const generation = decoder.generation;
          const known = remembered.find(bytes, start, end, generation);
          const list = new FieldList(65_536, 1000);
          decoder.decode(bytes, start, end, list);
          const head = readHead(list);
          assert.ok(head);
          assert.deepEqual(head.fields, [name, extra]);
          if (known !== undefined) {
            assert.deepEqual(known, head);
            assert.equal(decoder.generation, generation, "it did not change the table");
          } else if (decoder.generation === generation) {
            remembered.keep(bytes, start, end, generation, head);
          }
        }
      },
    ),
    { numRuns: 100 },
  ));
