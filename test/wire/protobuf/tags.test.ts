// Tags that no normal writer sends: longer than necessary, of more than 32 bits, of field 0, of groups. Where both
// protobuf libraries refuse one, so do we; where both read it, we read the same.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import { readAuthRequest } from "#wire/check/ext-authz-reader.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import { readCheckRequest } from "#wire/check/request.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { definitions } from "../../kit/messages/definitions.ts";
import { assertTwice } from "../../kit/properties/twice.ts";

const CheckRequestSchema = schemaOf("aperture.flowcontrol.check.v1.CheckRequest");

const type = definitions.type("aperture.flowcontrol.check.v1.CheckRequest");

interface Read {
  readonly controlPoint: string;
  readonly rampMode: boolean;
  readonly expectEnd: boolean;
}

/** The fields that are compared, or "refused". */
function attempt(read: () => Read): Read | "refused" {
  try {
    const { controlPoint, rampMode, expectEnd } = read();
    return { controlPoint, rampMode, expectEnd };
  } catch {
    return "refused";
  }
}

const LIBRARIES = [
  (bytes: Uint8Array) => attempt(() => fromBinary(CheckRequestSchema, bytes)),
  (bytes: Uint8Array) =>
    attempt(() => type.toObject(type.decode(bytes), { defaults: true }) as Read),
];

const ours = (bytes: Uint8Array) => attempt(() => readCheckRequest(bytes));

/** A varint padded to the given number of bytes, or as short as possible. */
function varint(value: bigint, size = 1): number[] {
  const bytes: number[] = [];
  for (let rest = value; rest > 0n || bytes.length < size; rest >>= 7n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
  }
  bytes.push((bytes.pop() ?? 0) & 0x7f);
  return bytes;
}

const MAX_FIELD = 2n ** 29n - 1n;
const field = fc.oneof(
  fc.constantFrom(0n, 1n, 3n, 5n, 15n, 16n, 1_000n, MAX_FIELD - 1n, MAX_FIELD, MAX_FIELD + 1n),
  fc.bigInt({ min: 0n, max: 2n ** 61n - 1n }),
);
/** A value for each wire type that a tag may have; each is also a valid bool or string. */
const VALUES: readonly (readonly [wire: bigint, value: readonly number[]])[] = [
  [0n, [1]],
  [1n, [1, 2, 3, 4, 5, 6, 7, 8]],
  [2n, [1, 0x41]],
  [3n, [0x08, 0x01]],
  [5n, [1, 2, 3, 4]],
  [6n, []],
  [7n, []],
];

/** Known fields of the message. They are left out: each library treats a known field of the wrong wire type differently. */
const mistyped = (no: bigint, wire: bigint) =>
  no <= 5n && wire !== (no === 3n || no === 5n ? 0n : no === 1n ? 2n : -1n);

/** One field whose tag is `length` bytes long, between two ordinary fields. A group's end tag has the same length. */
const odd = fc
  .record({
    field,
    value: fc.constantFrom(...VALUES),
    size: fc.integer({ min: 1, max: 11 }),
    endSize: fc.integer({ min: 1, max: 11 }),
  })
  .filter(({ field: no, value: [wire] }) => no === 0n || !mistyped(no, wire))
  .map(({ field: no, value: [wire, value], size, endSize }) => {
    const tag = varint((no << 3n) | wire, size);
    const end = wire === 3n ? varint((no << 3n) | 4n, endSize) : [];
    return Uint8Array.from([0x0a, 1, 0x42, ...tag, ...value, ...end, 0x28, 1]);
  });

describe("an odd tag", () => {
  it("is read or refused like both libraries do, where they agree", () => {
    let refused = 0;
    let read = 0;
    assertTwice(
      fc.property(odd, (bytes) => {
        const [one, other] = LIBRARIES.map((library) => library(bytes));
        assert.deepEqual(one, other);
        assert.deepEqual(ours(bytes), one);
        if (one === "refused") refused += 1;
        else read += 1;
      }),
      1_000,
    );
    assert.ok(refused > 100 && read > 100, `${refused} refused, ${read} read`);
  });

  it("of more than 32 bits is not mistaken for another field's", () => {
    const behind = [1, 0x41];
    const cases: readonly (readonly [tag: readonly number[], taken: boolean])[] = [
      [varint(0x0an), true],
      [varint(0x0an, 2), true],
      [varint(0x0an, 5), true],
      [varint(0x0an, 6), false],
      [varint(0x0an, 10), false],
      [varint(0x0an, 11), false],
      [varint(2n ** 32n - 6n), true],
      [varint(2n ** 32n - 6n, 6), false],
      [varint(2n ** 32n + 0x0an), false],
      [varint(2n ** 35n + 0x0an), false],
      [varint(2n ** 63n + 0x0an), false],
    ];
    for (const [tag, taken] of cases) {
      const bytes = Uint8Array.from([...tag, ...behind]);
      assert.equal(ours(bytes) !== "refused", taken, tag.join());
      for (const library of LIBRARIES) assert.deepEqual(library(bytes), ours(bytes), tag.join());
    }
    const longBool = Uint8Array.of(0x88, 0x80, 0x80, 0x80, 0x10, 0x00);
    assert.throws(() => readCheckRequest(longBool), { code: "INVALID_ARGUMENT" });
  });
});

describe("nested unknown groups", () => {
  const names = new HeaderNames(seededChance(1));
  const READERS = [readCheckRequest, (bytes: Uint8Array) => readAuthRequest(bytes, names)];
  const nested = (depth: number) =>
    Buffer.concat([Buffer.alloc(depth, (9 << 3) | 3), Buffer.alloc(depth, (9 << 3) | 4)]);

  it("are skipped down to a depth of 64, and refused beyond it", () => {
    for (const read of READERS) {
      read(nested(1));
      read(nested(64));
      // One behind the other is not deeper.
      read(Buffer.concat([nested(64), nested(64)]));
      assert.throws(() => read(nested(65)), { code: "INVALID_ARGUMENT" });
    }
  });

  it("do not exhaust the stack, even a megabyte of them", () => {
    for (const read of READERS) {
      for (const bytes of [Buffer.alloc(1 << 20, (9 << 3) | 3), nested(1 << 19)]) {
        assert.throws(
          () => read(bytes),
          (thrown) => thrown instanceof Fault && thrown.code === "INVALID_ARGUMENT",
        );
      }
    }
  });
});
