// HPACK: the examples of RFC 7541, our encoder and decoder against each other and against Node's, and invalid input.

import assert from "node:assert/strict";
import { once } from "node:events";
import http2 from "node:http2";
import { duplexPair } from "node:stream";
import { describe, test } from "node:test";
import fc from "fast-check";
import { FixedBlock } from "#serve/h2/fixed-block.ts";
import { CompressionError, Decoder } from "#serve/h2/hpack/decoder.ts";
import { Encoder } from "#serve/h2/hpack/encoder.ts";
import { FieldList } from "#serve/h2/hpack/field-list.ts";
import { PEEK } from "#serve/h2/hpack/huffman.ts";

const hex = (text: string) => Buffer.from(text.replaceAll(/\s/g, ""), "hex");

function decode(decoder: Decoder, bytes: Uint8Array): readonly string[] {
  const list = new FieldList(1 << 20, 10_000);
  // At an offset, as blocks never lie at the start of their buffer.
  const buffer = Buffer.concat([Buffer.from([0xff, 0xff]), bytes, Buffer.from([0xff])]);
  decoder.decode(buffer, 2, buffer.length - 1, list);
  return list.fields.slice();
}

/** Converts lines of `name: value`, as in the RFC, to alternating names and values. */
function fields(text: string): readonly string[] {
  return text
    .trim()
    .split("\n")
    .flatMap((line) => {
      const colon = line.indexOf(": ");
      return [line.slice(0, colon).trim(), line.slice(colon + 2)];
    });
}

/** The dynamic table, newest entry first, read through references to its entries. */
function table(decoder: Decoder): readonly string[] {
  const all: string[] = [];
  for (let index = 62; ; index++) {
    try {
      all.push(...decode(decoder, Buffer.from([0x80 | index])));
    } catch {
      return all;
    }
  }
}

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

/** RFC 7541 appendix B: length and code of each symbol. EOS is thirty ones. */
const CODES = `
13:1ff8 23:7fffd8 28:fffffe2 28:fffffe3 28:fffffe4 28:fffffe5 28:fffffe6 28:fffffe7 28:fffffe8
24:ffffea 30:3ffffffc 28:fffffe9 28:fffffea 30:3ffffffd 28:fffffeb 28:fffffec 28:fffffed
28:fffffee 28:fffffef 28:ffffff0 28:ffffff1 28:ffffff2 30:3ffffffe 28:ffffff3 28:ffffff4
28:ffffff5 28:ffffff6 28:ffffff7 28:ffffff8 28:ffffff9 28:ffffffa 28:ffffffb 6:14 10:3f8 10:3f9
12:ffa 13:1ff9 6:15 8:f8 11:7fa 10:3fa 10:3fb 8:f9 11:7fb 8:fa 6:16 6:17 6:18 5:0 5:1 5:2 6:19
6:1a 6:1b 6:1c 6:1d 6:1e 6:1f 7:5c 8:fb 15:7ffc 6:20 12:ffb 10:3fc 13:1ffa 6:21 7:5d 7:5e 7:5f
7:60 7:61 7:62 7:63 7:64 7:65 7:66 7:67 7:68 7:69 7:6a 7:6b 7:6c 7:6d 7:6e 7:6f 7:70 7:71 7:72
8:fc 7:73 8:fd 13:1ffb 19:7fff0 13:1ffc 14:3ffc 6:22 15:7ffd 5:3 6:23 5:4 6:24 5:5 6:25 6:26
6:27 5:6 7:74 7:75 6:28 6:29 6:2a 5:7 6:2b 7:76 6:2c 5:8 5:9 6:2d 7:77 7:78 7:79 7:7a 7:7b
15:7ffe 11:7fc 14:3ffd 13:1ffd 28:ffffffc 20:fffe6 22:3fffd2 20:fffe7 20:fffe8 22:3fffd3
22:3fffd4 22:3fffd5 23:7fffd9 22:3fffd6 23:7fffda 23:7fffdb 23:7fffdc 23:7fffdd 23:7fffde
24:ffffeb 23:7fffdf 24:ffffec 24:ffffed 22:3fffd7 23:7fffe0 24:ffffee 23:7fffe1 23:7fffe2
23:7fffe3 23:7fffe4 21:1fffdc 22:3fffd8 23:7fffe5 22:3fffd9 23:7fffe6 23:7fffe7 24:ffffef
22:3fffda 21:1fffdd 20:fffe9 22:3fffdb 22:3fffdc 23:7fffe8 23:7fffe9 21:1fffde 23:7fffea
22:3fffdd 22:3fffde 24:fffff0 21:1fffdf 22:3fffdf 23:7fffeb 23:7fffec 21:1fffe0 21:1fffe1
22:3fffe0 21:1fffe2 23:7fffed 22:3fffe1 23:7fffee 23:7fffef 20:fffea 22:3fffe2 22:3fffe3
22:3fffe4 23:7ffff0 22:3fffe5 22:3fffe6 23:7ffff1 26:3ffffe0 26:3ffffe1 20:fffeb 19:7fff1
22:3fffe7 23:7ffff2 22:3fffe8 25:1ffffec 26:3ffffe2 26:3ffffe3 26:3ffffe4 27:7ffffde 27:7ffffdf
26:3ffffe5 24:fffff1 25:1ffffed 19:7fff2 21:1fffe3 26:3ffffe6 27:7ffffe0 27:7ffffe1 26:3ffffe7
27:7ffffe2 24:fffff2 21:1fffe4 21:1fffe5 26:3ffffe8 26:3ffffe9 28:ffffffd 27:7ffffe3 27:7ffffe4
27:7ffffe5 20:fffec 24:fffff3 20:fffed 21:1fffe6 22:3fffe9 21:1fffe7 21:1fffe8 23:7ffff3
22:3fffea 22:3fffeb 25:1ffffee 25:1ffffef 24:fffff4 24:fffff5 26:3ffffea 23:7ffff4 26:3ffffeb
27:7ffffe6 26:3ffffec 26:3ffffed 27:7ffffe7 27:7ffffe8 27:7ffffe9 27:7ffffea 27:7ffffeb
28:ffffffe 27:7ffffec 27:7ffffed 27:7ffffee 27:7ffffef 27:7fffff0 26:3ffffee`;

const CODE_BITS = CODES.trim()
  .split(/\s/)
  .map((each) => {
    const [length = "", code = ""] = each.split(":");
    return Number.parseInt(code, 16).toString(2).padStart(Number(length), "0");
  });

/** Packs a string of bits into bytes, with padding. */
function bitsToBytes(bits: string, pad = "1"): Buffer {
  const whole = bits.padEnd(Math.ceil(bits.length / 8) * 8, pad);
  return Buffer.from(whole.match(/.{8}/g)?.map((byte) => Number.parseInt(byte, 2)) ?? []);
}

const huffman = (text: Uint8Array) => Array.from(text, (byte) => CODE_BITS[byte] ?? "").join("");

/** A literal field `x` with these bytes as its Huffman-coded value. */
function coded(value: Buffer): Buffer {
  return Buffer.concat([hex("000178"), integer(0x80, 7, value.length), value]);
}

function integer(kind: number, prefix: number, value: number): Buffer {
  const most = 2 ** prefix - 1;
  if (value < most) return Buffer.from([kind | value]);
  const bytes = [kind | most];
  let rest = value - most;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

describe("Huffman code", () => {
  test("codes every symbol, alone and between others", () => {
    assert.equal(CODE_BITS.length, 256);
    for (let symbol = 0; symbol < 256; symbol++) {
      for (const text of [[symbol], [97, symbol], [symbol, 97], [symbol, symbol, 10, symbol]]) {
        const value = bitsToBytes(huffman(Uint8Array.from(text)));
        const wanted = String.fromCharCode(...text);
        assert.deepEqual(decode(new Decoder(4096), coded(value)), ["x", wanted]);
      }
    }
  });

  test("codes any string", () =>
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 600 }), (text) => {
        const value = bitsToBytes(huffman(text));
        const wanted = Buffer.from(text).toString("latin1");
        assert.deepEqual(decode(new Decoder(4096), coded(value)), ["x", wanted]);
      }),
      { numRuns: 60 },
    ));

  test("decodes the characters of usual fields by one look-up each, not bit by bit", () => {
    const common = /[A-Za-z0-9 !"%&()*,\-./:;=?_]/;
    for (const [symbol, bits] of CODE_BITS.entries()) {
      const text = String.fromCharCode(symbol);
      if (common.test(text)) assert.ok(bits.length <= PEEK, `${text} has ${bits.length} bits`);
    }
  });

  test("codes strings of every length", () => {
    for (let length = 0; length < 600; length++) {
      const text = "aZ".repeat(length).slice(0, length);
      const value = bitsToBytes(huffman(Buffer.from(text)));
      assert.deepEqual(decode(new Decoder(4096), coded(value)), ["x", text]);
    }
  });

  test("accepts up to seven one bits of padding and rejects EOS", () => {
    const a = CODE_BITS[97] ?? "";
    const eos = "1".repeat(30);
    for (const bits of [
      "1".repeat(8),
      "1".repeat(16),
      "1".repeat(32),
      `${a}111${"1".repeat(8)}`,
      eos,
      a + eos,
      `${a}000`,
      `${a}110`,
      `${a}011`,
      CODE_BITS[10]?.slice(0, 24) ?? "",
      CODE_BITS[0]?.slice(0, 8) ?? "",
    ]) {
      const value = bitsToBytes(bits);
      assert.throws(() => decode(new Decoder(4096), coded(value)), CompressionError, bits);
    }
    assert.deepEqual(decode(new Decoder(4096), coded(bitsToBytes(a))), ["x", "a"]);
    assert.deepEqual(decode(new Decoder(4096), coded(Buffer.alloc(0))), ["x", ""]);
  });

  test("decodes any bits to an error, or to a string that encodes to the same bits", () =>
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 40 }), (bytes) => {
        let value: string | undefined;
        try {
          value = decode(new Decoder(4096), coded(Buffer.from(bytes)))[1];
        } catch (error) {
          assert.ok(error instanceof CompressionError);
          return;
        }
        const again = bitsToBytes(huffman(Buffer.from(value ?? "", "latin1")));
        assert.deepEqual(again, Buffer.from(bytes));
      }),
      { numRuns: 500 },
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

  test("table size updates take effect at once, several in a row too", () => {
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

const NAME = fc.oneof(
  fc.constantFrom(":status", ":path", "content-type", "set-cookie", "authorization", "date", "te"),
  fc.stringMatching(/^x-[a-z0-9-]{1,12}$/),
);
const VALUE = fc.oneof(
  fc.constantFrom("", "200", "431", "/", "application/grpc", "trailers", "v".repeat(200)),
  fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
);
const FIELDS = fc.array(fc.tuple(NAME, VALUE), { maxLength: 8 }).map((pairs) => pairs.flat());

describe("encoder", () => {
  const head = new FixedBlock([":status", "200", "content-type", "application/grpc", "x-a", "b"]);
  const tail = new FixedBlock(["grpc-status", "0"]);

  test("writes a fixed block as indexes from its second use on, and reuses its bytes", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    assert.deepEqual(decode(decoder, encoder.fixed(head)), head.fields);
    const second = encoder.fixed(head);
    assert.equal(second.length, 3);
    assert.equal(encoder.fixed(head), second);
    assert.deepEqual(decode(decoder, second), head.fields);
    assert.deepEqual(decode(decoder, encoder.fixed(tail)), tail.fields);
    const shifted = encoder.fixed(head);
    assert.notDeepEqual(shifted, second);
    assert.deepEqual(decode(decoder, shifted), head.fields);
    assert.equal(encoder.fixed(head), shifted);
  });

  test("shares table entries between equal blocks", () => {
    const encoder = new Encoder();
    encoder.fixed(head);
    assert.equal(encoder.fixed(new FixedBlock(head.fields)).length, 3);
  });

  test("writes more fixed blocks than it keeps and than the table can hold", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    const blocks = Array.from(
      { length: 200 },
      (_, i) => new FixedBlock([":status", "200", `x-${i}`, "v".repeat(50)]),
    );
    for (let round = 0; round < 3; round++) {
      for (const block of blocks)
        assert.deepEqual(decode(decoder, encoder.fixed(block)), block.fields);
    }
    assert.deepEqual(table(decoder).slice(-2), blocks[0]?.fields.slice(2), "an entry was evicted");
  });

  test("writes the bytes of a new name once, and a repeated value as one byte", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    const into = new Uint8Array(200);
    const write = (name: string, value: string) => {
      const end = encoder.field(into, 7, name, value);
      assert.deepEqual(decode(decoder, into.subarray(7, end)), [name, value]);
      return end - 7;
    };
    assert.equal(write("grpc-message", "first"), 1 + 1 + 12 + 1 + 5);
    assert.equal(write("grpc-message", "other"), 2 + 1 + 5);
    assert.equal(write("grpc-message", "first"), 1);
    assert.equal(write("date", "today"), 2 + 1 + 5);
    assert.equal(write("date", "today"), 2 + 1 + 5);
    assert.equal(write(":status", "404"), 1);
    assert.equal(write(":status", "418"), 1 + 1 + 3);
    for (let i = 0; i < 100; i++) write(`x-${i}`, "value");
    assert.equal(table(decoder).length, 2 * 16, "the number of names in the table is limited");
  });

  test("never indexes secrets", () => {
    for (const name of ["set-cookie", "cookie", "authorization", "proxy-authorization"]) {
      const encoder = new Encoder();
      const decoder = new Decoder(4096);
      for (const bytes of [
        encoder.block([name, "secret"]),
        encoder.fixed(new FixedBlock([name, "secret"])),
        encoder.block([name, "secret"]),
      ]) {
        assert.equal((bytes[0] ?? 0) & 0xf0, 0x10);
        assert.deepEqual(decode(decoder, bytes), [name, "secret"]);
      }
      assert.deepEqual(table(decoder), []);
    }
  });

  test("announces a smaller table once and starts with an empty one", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    decode(decoder, encoder.fixed(head));
    decode(decoder, encoder.fixed(head));
    encoder.limitTable(90);
    const announced = encoder.fixed(head);
    assert.equal(announced[0], 0x20, "the first update empties the table");
    assert.deepEqual([...announced.subarray(1, 3)], [0x3f, 90 - 31]);
    assert.deepEqual(decode(decoder, announced), head.fields);
    const next = encoder.fixed(head);
    assert.notEqual(next, announced);
    assert.deepEqual(decode(decoder, next), head.fields);
    assert.equal(encoder.fixed(head), next);
    const size = table(decoder).reduce((sum, { length }) => sum + length + 16, 0);
    assert.ok(size > 0 && size <= 90);
  });

  test("announces a smaller table that still holds all entries once, and keeps them", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    decode(decoder, encoder.fixed(head));
    const before = encoder.fixed(head);
    encoder.limitTable(3000);
    const announced = encoder.fixed(head);
    assert.equal(announced.length, before.length + 3);
    assert.deepEqual(decode(decoder, announced), head.fields);
    assert.deepEqual(encoder.fixed(head), before);
  });

  test("fills the table to its last byte and no further", () => {
    for (let size = 30; size < 130; size++) {
      const encoder = new Encoder();
      const decoder = new Decoder(4096);
      encoder.limitTable(size);
      for (let i = 0; i < 3; i++) {
        assert.deepEqual(decode(decoder, encoder.fixed(head)), head.fields, `${size}`);
      }
      if (size === 96) assert.equal(encoder.fixed(head).length, 3);
    }
  });

  test("announces the smallest and the last of several sizes between two blocks", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    decode(decoder, encoder.block([":status", "200"]));
    encoder.limitTable(200);
    encoder.limitTable(50);
    encoder.limitTable(1 << 30);
    const block = encoder.block([":status", "200"]);
    assert.deepEqual([...block], [0x3f, 50 - 31, 0x3f, 0xe1, 0x1f, 0x88]);
    decode(decoder, block);
    assert.deepEqual([...encoder.block([":status", "200"])], [0x88]);
  });

  test("does not announce the present size or one larger than it uses", () => {
    const encoder = new Encoder();
    encoder.limitTable(4096);
    encoder.limitTable(65_536);
    assert.deepEqual([...encoder.block([":status", "200"])], [0x88]);
  });

  test("writes only literals without a table", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    encoder.limitTable(0);
    for (let i = 0; i < 3; i++) {
      assert.deepEqual(decode(decoder, encoder.fixed(head)), head.fields);
      assert.deepEqual(decode(decoder, encoder.block(["x-y", "z"])), ["x-y", "z"]);
    }
    assert.deepEqual(table(decoder), []);
  });

  test("decodes whatever was encoded, in any order", () => {
    const action = fc.oneof(
      fc.record({ kind: fc.constant("fixed" as const), nth: fc.nat(9), more: FIELDS }),
      fc.record({ kind: fc.constant("block" as const), fields: FIELDS }),
      fc.record({ kind: fc.constant("limit" as const), size: fc.oneof(fc.nat(300), fc.nat(9000)) }),
    );
    fc.assert(
      fc.property(
        fc.array(FIELDS, { minLength: 10, maxLength: 10 }),
        fc.array(action, { maxLength: 40 }),
        (constant, actions) => {
          const blocks = constant.map((list) => new FixedBlock(list));
          const encoder = new Encoder();
          const decoder = new Decoder(4096);
          for (const each of actions) {
            if (each.kind === "limit") {
              encoder.limitTable(each.size);
              continue;
            }
            if (each.kind === "block") {
              assert.deepEqual(decode(decoder, encoder.block(each.fields)), each.fields);
              continue;
            }
            const block = blocks[each.nth];
            assert.ok(block);
            const bytes = encoder.fixed(block);
            const into = new Uint8Array(10_000);
            into.set(bytes);
            let end = bytes.length;
            for (let i = 0; i < each.more.length; i += 2) {
              const [name = "", value = ""] = each.more.slice(i);
              const room = encoder.room([name, value]);
              const behind = encoder.field(into, end, name, value);
              assert.ok(behind - end <= room);
              end = behind;
            }
            assert.deepEqual(decode(decoder, into.subarray(0, end)), [
              ...block.fields,
              ...each.more,
            ]);
          }
        },
      ),
      { numRuns: 150 },
    );
  });
});

/** An HTTP/2 frame. */
function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

const SETTINGS = 4;
const HEADERS = 1;

/** Node's HTTP/2 client with the test as its server: collects field blocks and can send frames. */
function nodeClient(settings: http2.Settings) {
  const [theirs, ours] = duplexPair();
  const client = http2.connect("http://sluice", { createConnection: () => theirs, settings });
  const blocks: Buffer[] = [];
  let wanted = 0;
  let reached = () => {};
  let unread = Buffer.alloc(0);
  let skip = 24;
  ours.on("data", (chunk: Buffer) => {
    unread = Buffer.concat([unread, chunk]);
    if (unread.length < skip) return;
    unread = unread.subarray(skip);
    skip = 0;
    while (unread.length >= 9 && unread.length >= 9 + unread.readUIntBE(0, 3)) {
      const end = 9 + unread.readUIntBE(0, 3);
      const flags = unread[4] ?? 0;
      if (unread[3] === HEADERS) {
        assert.equal(flags & 0x0c, 0x04, "complete and without padding");
        blocks.push(Buffer.from(unread.subarray(flags & 0x20 ? 14 : 9, end)));
      }
      unread = unread.subarray(end);
    }
    if (blocks.length >= wanted) reached();
  });
  return {
    client,
    send: (bytes: Buffer) => ours.write(bytes),
    async blocks(count: number): Promise<readonly Buffer[]> {
      wanted = count;
      if (blocks.length < count) {
        await new Promise<void>((resolve) => {
          reached = resolve;
        });
      }
      return blocks;
    },
    async close(): Promise<void> {
      const closed = once(client, "close");
      client.destroy();
      ours.end();
      await closed;
    },
  };
}

const SENT = fc.dictionary(
  fc.oneof(
    fc.constantFrom("authorization", "cookie", "user-agent", "grpc-timeout", "accept"),
    fc.stringMatching(/^x-[a-z0-9-]{1,12}$/),
  ),
  fc.stringMatching(/^[!-~]([ -~]{0,60}[!-~])?$/),
  { maxKeys: 8 },
);

const sorted = (flat: readonly string[]) =>
  flat.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${flat[i + 1]}`] : [])).sort();

describe("with Node's HTTP/2", () => {
  test("decodes what Node encodes, for every table size", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(SENT, { minLength: 1, maxLength: 20 }),
        fc.constantFrom(0, 60, 256, 4096),
        async (requests, size) => {
          const peer = nodeClient({});
          const settings = Buffer.alloc(6);
          settings.writeUInt16BE(1, 0);
          settings.writeUInt32BE(size, 2);
          peer.send(frame(SETTINGS, 0, 0, settings));
          await once(peer.client, "remoteSettings");
          const decoder = new Decoder(size);
          for (const request of requests) {
            const stream = peer.client.request({
              ":authority": "sluice",
              ":path": "/p",
              ...request,
            });
            stream.on("error", () => {});
          }
          const blocks = await peer.blocks(requests.length);
          for (const [i, request] of requests.entries()) {
            const wanted = { ":method": "GET", ":scheme": "http", ":authority": "sluice" };
            const all = Object.entries({ ...wanted, ":path": "/p", ...request }).flat();
            assert.deepEqual(sorted(decode(decoder, blocks[i] ?? hex(""))), sorted(all));
          }
          await peer.close();
        },
      ),
      { numRuns: 25 },
    ));

  test("encodes what Node decodes, for every table size", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(SENT, fc.boolean()), { minLength: 1, maxLength: 12 }),
        fc.constantFrom(0, 60, 256, 4096, 65_536),
        async (replies, headerTableSize) => {
          const peer = nodeClient({ headerTableSize });
          peer.send(frame(SETTINGS, 0, 0, hex("")));
          const encoder = new Encoder();
          const fixed = new FixedBlock([":status", "200", "content-type", "application/grpc"]);
          encoder.limitTable(headerTableSize);
          const got = replies.map(async () => {
            const stream = peer.client.request({ ":path": "/" });
            stream.on("error", () => {});
            const [, , raw] = await once(stream, "response");
            return raw as readonly string[];
          });
          await peer.blocks(replies.length);
          const sent = replies.map(([reply, whole], i) => {
            const list = [...fixed.fields, ...Object.entries(reply).flat()];
            const into = Buffer.alloc(8192);
            let end = 0;
            const start = whole ? encoder.block(list) : encoder.fixed(fixed);
            into.set(start);
            end = start.length;
            for (let at = 4; !whole && at < list.length; at += 2) {
              end = encoder.field(into, end, list[at] ?? "", list[at + 1] ?? "");
            }
            peer.send(frame(HEADERS, 0x05, 2 * i + 1, into.subarray(0, end)));
            return list;
          });
          assert.deepEqual(await Promise.all(got), sent);
          await peer.close();
        },
      ),
      { numRuns: 25 },
    ));
});
