// Decoding field blocks: the examples of RFC 7541, invalid blocks, and the dynamic table.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { FixedBlock } from "#h2/exchange.ts";
import { CompressionError, Decoder } from "#h2/hpack/decoder.ts";
import { Encoder } from "#h2/hpack/encoder.ts";
import { FieldList } from "#h2/hpack/field-list.ts";
import { decode, fields, hex, integer, table } from "./setup.ts";

interface Step {
  readonly name: string;
  readonly bytes: string;
  readonly fields: string;
  readonly table: string;
}

function steps(size: number, examples: readonly Step[]): void {
  const decoder = new Decoder(size);
  for (const step of examples) {
    const generation = decoder.generation;
    assert.deepEqual(decode(decoder, hex(step.bytes)), fields(step.fields), step.name);
    assert.deepEqual(table(decoder), fields(step.table), step.name);
    assert.notEqual(decoder.generation, generation, step.name);
  }
}

describe("examples of RFC 7541, appendix C", () => {
  test("C.1: integers", () => {
    const decoder = new Decoder(1 << 20);
    // 10 and 1337 with a five-bit prefix, here in table size updates.
    decode(decoder, hex("2a"));
    decode(decoder, hex("3f9a0a"));
    assert.throws(() => decode(new Decoder(1336), hex("3f9a0a")), CompressionError);
    decode(new Decoder(1337), hex("3f9a0a"));
    assert.throws(() => decode(new Decoder(9), hex("2a")), CompressionError);
  });

  test("C.2: each kind of field representation", () => {
    const literal = new Decoder(4096);
    const custom = ["custom-key", "custom-header"];
    const inserted = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    assert.deepEqual(decode(literal, hex(inserted)), custom);
    assert.deepEqual(table(literal), custom);
    const plain = new Decoder(4096);
    assert.deepEqual(decode(plain, hex("040c 2f73 616d 706c 652f 7061 7468")), [
      ":path",
      "/sample/path",
    ]);
    assert.deepEqual(decode(plain, hex("1008 7061 7373 776f 7264 0673 6563 7265 74")), [
      "password",
      "secret",
    ]);
    assert.deepEqual(decode(plain, hex("82")), [":method", "GET"]);
    assert.deepEqual(table(plain), []);
    assert.equal(plain.generation, new Decoder(4096).generation);
  });

  const requestFields = [
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com",
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache",
    ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value",
  ] as const;
  const askedTable = [
    ":authority: www.example.com",
    "cache-control: no-cache\n:authority: www.example.com",
    "custom-key: custom-value\ncache-control: no-cache\n:authority: www.example.com",
  ] as const;
  const requests = (bytes: readonly [string, string, string]) =>
    requestFields.map((list, i) => ({
      name: `request ${i + 1}`,
      bytes: bytes[i] ?? "",
      fields: list,
      table: askedTable[i] ?? "",
    }));

  test("C.3: requests", () =>
    steps(
      4096,
      requests([
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
      ]),
    ));

  test("C.4: requests with Huffman coding", () =>
    steps(
      4096,
      requests([
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
      ]),
    ));

  const location = "location: https://www.example.com";
  const dated = "date: Mon, 21 Oct 2013 20:13:21 GMT";
  const later = "date: Mon, 21 Oct 2013 20:13:22 GMT";
  const secret = "cache-control: private";
  const cookie = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
  const zipped = "content-encoding: gzip";
  const answered = [
    `:status: 302\n${secret}\n${dated}\n${location}`,
    `:status: 307\n${secret}\n${dated}\n${location}`,
    `:status: 200\n${secret}\n${later}\n${location}\n${zipped}\n${cookie}`,
  ] as const;
  const answeredTable = [
    `${location}\n${dated}\n${secret}\n:status: 302`,
    `:status: 307\n${location}\n${dated}\n${secret}`,
    `${cookie}\n${zipped}\n${later}`,
  ] as const;
  const responses = (bytes: readonly [string, string, string]) =>
    answered.map((list, i) => ({
      name: `response ${i + 1}`,
      bytes: bytes[i] ?? "",
      fields: list,
      table: answeredTable[i] ?? "",
    }));

  test("C.5: responses, with evictions", () =>
    steps(
      256,
      responses([
        `4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
         2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
         6c65 2e63 6f6d`,
        "4803 3330 37c1 c0bf",
        `88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
         54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
         5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
         3d31`,
      ]),
    ));

  test("C.6: responses with Huffman coding and evictions", () =>
    steps(
      256,
      responses([
        `4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3`,
        "4883 640e ffc1 c0bf",
        `88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
         9587 3160 65c0 03ed 4ee5 b106 3d50 07`,
      ]),
    ));
});

describe("invalid field blocks (RFC 7541)", () => {
  const faults: Readonly<Record<string, string>> = {
    "index 0": "80",
    "an index beyond both tables": "be",
    "a name index beyond both tables": "7e0161",
    "a huge index": "ffffffff7f",
    "an integer without end": "ff8080808080808080808000",
    "an integer beyond 28 bits": "ff808080808001",
    "an integer with too many redundant bytes": "3f8080808000",
    "a table size update after a field": "8220",
    "a third table size update": "203fe11f2082",
    "a table size above our limit": "3fe21f",
    "a string longer than the block": "00017803 6161",
    "a name longer than the block": "400a61",
    "a missing value": "000178",
    "nothing after the first byte": "00",
    "a truncated integer": "ff",
  };
  for (const [name, bytes] of Object.entries(faults)) {
    test(name, () => {
      assert.throws(() => decode(new Decoder(4096), hex(bytes)), CompressionError);
    });
  }

  test("accepts an integer with a few redundant bytes", () => {
    assert.deepEqual(decode(new Decoder(4096), hex("3f80808000 82")), [":method", "GET"]);
  });

  test("decodes every truncated block to an error or fewer fields", () => {
    const whole = [":method", "GET", "x-long", "v".repeat(300), "cookie", "a=b", "accept", "*/*"];
    for (const block of [
      Buffer.from(new Encoder().block(whole)),
      Buffer.from(new Encoder().fixed(new FixedBlock(whole))),
      hex("203fe11f 8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff 5886 a8eb 1064 9cbf"),
    ]) {
      const all = decode(new Decoder(4096), block);
      for (let end = 0; end < block.length; end++) {
        try {
          const some = decode(new Decoder(4096), block.subarray(0, end));
          assert.deepEqual(some, all.slice(0, some.length));
          assert.ok(some.length < all.length);
        } catch (error) {
          assert.ok(error instanceof CompressionError, String(error));
        }
      }
    }
  });

  test("decodes random bytes to an error or to fields within the limits", () =>
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 200 }), { minLength: 1, maxLength: 8 }),
        (blocks) => {
          const decoder = new Decoder(4096);
          for (const block of blocks) {
            const list = new FieldList(1000, 20);
            try {
              decoder.decode(Buffer.from(block), 0, block.length, list);
            } catch (error) {
              assert.ok(error instanceof CompressionError, String(error));
            }
            assert.ok(list.fields.length <= 40);
            const kept = list.fields.reduce((sum, { length }) => sum + length, 0);
            assert.ok(kept + list.fields.length * 16 <= 1000);
          }
          const size = table(decoder).reduce((sum, { length }) => sum + length + 16, 0);
          assert.ok(size <= 4096, `${size}`);
        },
      ),
      { numRuns: 1000 },
    ));
});

describe("dynamic table", () => {
  const entry = (name: string, value: string) =>
    Buffer.concat([
      hex("40"),
      integer(0, 7, name.length),
      Buffer.from(name),
      integer(0, 7, value.length),
      Buffer.from(value),
    ]);

  test("an entry larger than the table empties it, and still yields a field", () => {
    const decoder = new Decoder(100);
    decode(decoder, entry("a", "b"));
    const generation = decoder.generation;
    const large = ["c", "d".repeat(68)];
    assert.deepEqual(decode(decoder, entry("c", "d".repeat(68))), large);
    assert.deepEqual(table(decoder), []);
    assert.notEqual(decoder.generation, generation);
    decode(decoder, entry("c", "d".repeat(67)));
    assert.deepEqual(table(decoder), ["c", "d".repeat(67)]);
  });

  test("an insertion may take its name from the entry that it evicts", () => {
    const decoder = new Decoder(70);
    decode(decoder, entry("name", "1"));
    assert.deepEqual(decode(decoder, hex("7e0132")), ["name", "2"]);
    assert.deepEqual(table(decoder), ["name", "2"]);
  });

  test("table size updates take effect at once, two in a row too", () => {
    const decoder = new Decoder(4096);
    decode(decoder, Buffer.concat([entry("a", "1"), entry("b", "2")]));
    const generation = decoder.generation;
    assert.deepEqual(decode(decoder, hex("3f05")), []); // 36: space for one entry of 34
    assert.deepEqual(table(decoder), ["b", "2"]);
    assert.notEqual(decoder.generation, generation);
    decode(decoder, hex("20 3fe11f"));
    assert.deepEqual(table(decoder), []);
    decode(decoder, Buffer.concat([entry("a", "1"), entry("b", "2")]));
    assert.deepEqual(table(decoder), ["b", "2", "a", "1"]);
  });

  test("agrees with a simple model through many evictions", () =>
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.record({ size: fc.integer({ min: 0, max: 300 }) }),
            fc.record({
              name: fc.constantFrom("a", "bb", "ccc"),
              value: fc.string({ maxLength: 60, unit: "grapheme-ascii" }),
            }),
          ),
          { maxLength: 200 },
        ),
        (actions) => {
          const decoder = new Decoder(300);
          let model: (readonly [string, string])[] = [];
          let limit = 300;
          for (const action of actions) {
            if ("size" in action) {
              limit = action.size;
              decode(decoder, integer(0x20, 5, limit));
            } else {
              decode(decoder, entry(action.name, action.value));
              model = [[action.name, action.value], ...model];
            }
            let used = 0;
            const over = model.findIndex(([name, value]) => {
              used += name.length + value.length + 32;
              return used > limit;
            });
            if (over !== -1) model = model.slice(0, over);
          }
          assert.deepEqual(table(decoder), model.flat());
        },
      ),
      { numRuns: 100 },
    ));

  test("keeps a bomb of references within the limits of the field list", () => {
    const decoder = new Decoder(4096);
    const list = new FieldList(16_384, 1000);
    const bomb = Buffer.concat([entry("x", "y".repeat(4000)), Buffer.alloc(60_000, 0xbe)]);
    decoder.decode(bomb, 0, bomb.length, list);
    assert.equal(list.overflow, true);
    assert.equal(list.size, 60_001 * 4033);
    assert.equal(list.fields.length, 2 * 4);
    const next = new FieldList(16_384, 1000);
    decoder.decode(hex("82"), 0, 1, next);
    assert.deepEqual([next.fields, next.overflow, next.size], [[":method", "GET"], false, 42]);
  });

  test("limits the number of fields", () => {
    const block = Buffer.alloc(101, 0x82);
    const all = new FieldList(1 << 20, 100);
    new Decoder(4096).decode(block, 0, 100, all);
    assert.deepEqual([all.fields.length, all.overflow], [200, false]);
    const list = new FieldList(1 << 20, 100);
    new Decoder(4096).decode(block, 0, 101, list);
    assert.deepEqual([list.fields.length, list.overflow, list.size], [200, true, 101 * 42]);
  });
});
