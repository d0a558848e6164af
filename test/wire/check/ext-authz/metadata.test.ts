// Metadata of a proxy, read in place: the same values as the library reads.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { create, fromBinary, type JsonObject, type JsonValue, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import { readAuthRequest } from "#wire/check/ext-authz-reader.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { encodeWithUnknown, unknownFields } from "../../../kit/messages/unknown-fields.ts";

const MetadataSchema = schemaOf("envoy.config.core.v3.Metadata");
const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");

const names = new HeaderNames(seededChance(1));

/** Few names, so that they meet: some are prefixes of others, and some contain dots. */
const name = fc.constantFrom("a", "b", "a.b", "b.a", "a.b.a", "ä", "7", "constructor");
const leaf: fc.Arbitrary<JsonValue> = fc.oneof(
  fc.constantFrom(null, true, false, "", 0, -1, 0.1, 1e300),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.string({ unit: "grapheme", maxLength: 8 }),
);
const { struct } = fc.letrec<{ value: JsonValue; list: JsonValue; struct: JsonObject }>((tie) => ({
  value: fc.oneof({ depthSize: "small" }, leaf, tie("list"), tie("struct")),
  list: fc.array(tie("value"), { maxLength: 3 }),
  struct: fc.dictionary(name, tie("value"), { maxKeys: 4, noNullPrototype: true }),
}));
const metadata = fc.dictionary(name, struct, { maxKeys: 4, noNullPrototype: true });
const path = fc.array(name, { minLength: 1, maxLength: 5 }).map((steps) => steps.join("."));

interface Sent {
  readonly filterMetadata: Record<string, JsonObject>;
  readonly $unknown?: unknown;
}

function encode(metadataContext: Sent): Uint8Array {
  const { $unknown, filterMetadata } = metadataContext;
  const init = { attributes: { metadataContext: { filterMetadata, $unknown } } };
  return encodeWithUnknown(CheckRequestSchema, init);
}

/** A field of bytes, as it is on the wire. */
function field(no: number, bytes: readonly number[]): readonly number[] {
  const length: number[] = [];
  for (let rest = bytes.length; ; rest >>= 7) {
    length.push(rest < 0x80 ? rest : (rest & 0x7f) | 0x80);
    if (rest < 0x80) return [(no << 3) | 2, ...length, ...bytes];
  }
}

const ours = (bytes: Uint8Array, path: string) => readAuthRequest(bytes, names).metadata(path);

/** The member with the longest name that begins the path, then what follows in it. */
function find(value: JsonValue, path: string): JsonValue | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  if (Object.hasOwn(value, path)) return value[path];
  const steps = path.split(".");
  for (let count = steps.length - 1; count > 0; count--) {
    const [first, rest] = [steps.slice(0, count).join("."), steps.slice(count).join(".")];
    const found = Object.hasOwn(value, first) ? value[first] : undefined;
    if (found !== undefined) return find(found, rest);
  }
  return undefined;
}

function theirs(bytes: Uint8Array, path: string): string | undefined {
  const { attributes } = fromBinary(CheckRequestSchema, bytes);
  const found = find(attributes?.metadataContext?.filterMetadata ?? {}, path);
  return found === undefined || typeof found === "string" ? found : JSON.stringify(found);
}

/** Every path of names in the metadata, and some that lead nowhere. */
function pathsOf(value: JsonValue, before: readonly string[] = []): readonly string[] {
  const here = before.length === 0 ? [] : [before.join(".")];
  if (typeof value !== "object" || value === null || Array.isArray(value)) return here;
  return [...here, ...Object.entries(value).flatMap(([key, at]) => pathsOf(at, [...before, key]))];
}

describe("reading the metadata that a proxy sends", () => {
  it("agrees with the library on every value, by every path", () => {
    fc.assert(
      fc.property(metadata, unknownFields, path, (filterMetadata, $unknown, other) => {
        const bytes = encode({ filterMetadata, $unknown });
        for (const path of [...pathsOf(filterMetadata), other]) {
          assert.equal(ours(bytes, path), theirs(bytes, path), path);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("takes the last of several entries with one name, like the library", () => {
    fc.assert(
      fc.property(metadata, metadata, path, (first, second, other) => {
        const entries = [first, second].flatMap((filterMetadata) => [
          ...toBinary(MetadataSchema, create(MetadataSchema, { filterMetadata })),
        ]);
        const bytes = Uint8Array.from(field(1, field(11, entries)));
        for (const path of [...pathsOf(first), ...pathsOf(second), other]) {
          assert.equal(ours(bytes, path), theirs(bytes, path), path);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("refuses every truncation that the library refuses", () => {
    fc.assert(
      fc.property(metadata, (filterMetadata) => {
        const bytes = encode({ filterMetadata });
        for (let end = 1; end < bytes.length; end++) {
          assert.throws(() => fromBinary(CheckRequestSchema, bytes.subarray(0, end)));
          assert.throws(() => ours(bytes.subarray(0, end), "a"), Fault);
        }
      }),
      { numRuns: 20 },
    );
  });

  it("reads values of up to 64 levels, and refuses deeper ones", () => {
    const nested = (levels: number) => {
      let value: JsonValue = "end";
      for (let level = 0; level < levels; level++) value = { a: value };
      return { value, bytes: encode({ filterMetadata: { a: { a: value } } }) };
    };
    const deepest = nested(64);
    assert.equal(ours(deepest.bytes, "a.a"), JSON.stringify(deepest.value));
    assert.throws(() => ours(nested(65).bytes, "a.a"), Fault);
    // Messages that a path only passes through are not decoded.
    assert.equal(ours(nested(80).bytes, Array(82).fill("a").join(".")), "end");
  });
});
