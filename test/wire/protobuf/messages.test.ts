// Our codec and @bufbuild/protobuf read each other's output, on generated messages of every type that controllers
// and agents exchange.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type DescField,
  type DescMessage,
  fromBinary,
  type Message,
  ScalarType,
  toBinary,
} from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import fc from "fast-check";
import { Fault } from "#base/fault.ts";
import { registry, schemaOf } from "#wire/protobuf/descriptors.ts";
import { decode, durationOf, encode, millisecondsOf } from "#wire/protobuf/messages.ts";
import { definitions } from "../../kit/messages/definitions.ts";

/** A choice of one of `size` things, and of values, made from a list of numbers that fast-check shrinks. */
class Choices {
  readonly #numbers: readonly number[];
  #at = 0;

  constructor(numbers: readonly number[]) {
    this.#numbers = numbers;
  }

  next(size: number): number {
    return (this.#numbers[this.#at++ % this.#numbers.length] ?? 0) % size;
  }
}

const TEXTS = ["", "a", "label_key", "ключ", "\u{1f30a}", "__proto__", "x".repeat(300)];
const DOUBLES = [0, 1.5, -2, 1e300, 5e-324, Number.NaN, Number.POSITIVE_INFINITY, -0];
const INT64 = [0n, 1n, -1n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)];

const VALUES: Readonly<Partial<Record<ScalarType, readonly unknown[]>>> = {
  [ScalarType.STRING]: TEXTS,
  [ScalarType.BYTES]: [new Uint8Array(), new Uint8Array([0]), new Uint8Array([255, 0, 1])],
  [ScalarType.BOOL]: [false, true],
  [ScalarType.DOUBLE]: DOUBLES,
  [ScalarType.INT64]: INT64,
  [ScalarType.UINT64]: [0n, 5n, 2n ** 64n - 1n],
  [ScalarType.INT32]: [0, 1, -1, 2 ** 31 - 1, -(2 ** 31)],
  [ScalarType.UINT32]: [0, 1, 65535, 2 ** 32 - 1],
};

function scalar(type: ScalarType, choices: Choices): unknown {
  const values = VALUES[type] ?? assert.fail(`no values for ${ScalarType[type]}`);
  return values[choices.next(values.length)];
}

/** A message with some of its fields set. */
function message(desc: DescMessage, choices: Choices, depth: number): ReflectMessage {
  const made = reflect(desc);
  for (const member of desc.members) {
    if (choices.next(3) === 0) continue;
    const field =
      member.kind === "field" ? member : member.fields[choices.next(member.fields.length)];
    if (field !== undefined) setField(made, field, choices, depth);
  }
  return made;
}

function setField(made: ReflectMessage, field: DescField, choices: Choices, depth: number): void {
  const deep = field.message !== undefined && depth <= 0;
  if (deep) return;
  const one = (): unknown => {
    if (field.message !== undefined) return message(field.message, choices, depth - 1);
    if (field.enum !== undefined)
      return field.enum.values[choices.next(field.enum.values.length)]?.number;
    return scalar(field.scalar ?? ScalarType.STRING, choices);
  };
  if (field.fieldKind === "list") {
    const list = made.get(field);
    for (let n = choices.next(3); n >= 0; n--) list.add(one());
  } else if (field.fieldKind === "map") {
    const map = made.get(field);
    for (let n = choices.next(2); n >= 0; n--)
      map.set(TEXTS[choices.next(TEXTS.length)] ?? "", one());
  } else made.set(field, one());
}

const ours = [...registry]
  .filter((desc) => desc.kind === "message")
  .filter(({ typeName }) => typeName.startsWith("aperture."));
const choices = fc.array(fc.nat({ max: 1000 }), { minLength: 5, maxLength: 60 });

/** Normalised by the library's own reader and writer, so that field order and packing do not matter. */
function same(desc: DescMessage, bytes: Uint8Array, made: Message): void {
  const again = toBinary(desc, fromBinary(desc, bytes));
  assert.deepEqual(
    Buffer.from(again).toString("hex"),
    Buffer.from(toBinary(desc, made)).toString("hex"),
  );
}

test("the set has more than 200 message types", () => assert.ok(ours.length > 200));

test("messages of the library survive reading and writing", () => {
  fc.assert(
    fc.property(fc.constantFrom(...ours), choices, (desc, numbers) => {
      const made = message(desc, new Choices(numbers), 4).message;
      const name = desc.typeName as "aperture.policy.sync.v1.RateLimiterWrapper";
      const again = encode(name, decode(name, toBinary(desc, made)));
      same(desc, again, made);
    }),
    { numRuns: 600 },
  );
});

test("the messages of ext_authz survive reading and writing", () => {
  const descs: readonly DescMessage[] = [
    schemaOf("envoy.service.auth.v3.CheckRequest"),
    schemaOf("envoy.service.auth.v3.CheckResponse"),
  ];
  fc.assert(
    fc.property(fc.constantFrom(...descs), choices, (desc, numbers) => {
      const made = message(desc, new Choices(numbers), 3).message;
      const type = definitions.type(desc.typeName);
      const again = type.encode(type.decode(toBinary(desc, made))).finish();
      same(desc, again, made);
    }),
    { numRuns: 200 },
  );
});

test("a wrapper message as agents decode it", () => {
  const bytes = encode("aperture.policy.sync.v1.RateLimiterWrapper", {
    commonAttributes: { policyName: "p", componentId: "root.0" },
    rateLimiter: {
      parameters: { limitByLabelKey: "user", interval: durationOf(1500) },
      selectors: [{ controlPoint: "ingress", labelMatcher: { expression: { labelExists: "a" } } }],
    },
  });
  // Written out by hand: field numbers and wire types of the public messages.
  const p = [0x0a, 0x0b, 0x0a, 1, 0x70, 0x1a, 6, ...Buffer.from("root.0")];
  const interval = [0x1a, 8, 0x08, 1, 0x10, 0x80, 0xca, 0xb5, 0xee, 0x01];
  const parameters = [0x12, 16, 0x12, 4, ...Buffer.from("user"), ...interval];
  const matcher = [0x22, 5, 0x1a, 3, 0x22, 1, 0x61];
  const selector = [0x1a, 16, 0x0a, 7, ...Buffer.from("ingress"), ...matcher];
  assert.deepEqual([...bytes], [...p, 0x12, 36, ...parameters, ...selector]);
  const { commonAttributes, rateLimiter } = decode(
    "aperture.policy.sync.v1.RateLimiterWrapper",
    bytes,
  );
  assert.deepEqual(commonAttributes, { policyName: "p", policyHash: "", componentId: "root.0" });
  assert.equal(rateLimiter?.inPorts, null);
  assert.equal(millisecondsOf(rateLimiter?.parameters?.interval), 1500);
  assert.equal(rateLimiter?.selectors[0]?.labelMatcher?.expression?.labelExists, "a");
  assert.ok(!("labelEquals" in (rateLimiter?.selectors[0]?.labelMatcher?.expression ?? {})));
});

test("lists of numbers are written packed, and read packed or not", () => {
  const name = "aperture.policy.language.v1.FluxMeter.StaticBuckets";
  const packed = encode(name, { buckets: [1, 2] });
  assert.deepEqual([...packed.subarray(0, 2)], [0x0a, 16]);
  const one = [0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
  assert.deepEqual(decode(name, new Uint8Array([...one, ...one])).buckets, [1, 1]);
});

test("unknown fields are ignored, and malformed bytes are INVALID_ARGUMENT", () => {
  const name = "aperture.policy.sync.v1.CommonAttributes";
  const bytes = new Uint8Array([0x0a, 1, 0x70, 0x98, 0x7d, 5]);
  assert.equal(decode(name, bytes).policyName, "p");
  const malformed = [
    [0x0a, 5, 0x70],
    [0x0a, 1, 0xff],
    [0x00, 1],
    [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
  ];
  for (const wrong of malformed)
    assert.throws(
      () => decode(name, new Uint8Array(wrong)),
      (thrown) => thrown instanceof Fault && thrown.code === "INVALID_ARGUMENT",
    );
});

test("a decoded message does not share memory with its bytes", () => {
  const bytes = Buffer.from(
    encode("aperture.flowcontrol.check.v1.CacheEntry", { value: new Uint8Array([1, 2, 3]) }),
  );
  const { value } = decode("aperture.flowcontrol.check.v1.CacheEntry", bytes);
  bytes.fill(0);
  assert.deepEqual([...value], [1, 2, 3]);
});

test("durations are exact to the nanosecond, positive or negative", () => {
  assert.deepEqual(durationOf(-1500), { seconds: -1n, nanos: -500_000_000 });
  assert.deepEqual(durationOf(0.000001), { seconds: 0n, nanos: 1 });
  assert.equal(millisecondsOf(null), 0);
  fc.assert(
    fc.property(fc.integer({ min: -1e12, max: 1e12 }), (ms) => {
      assert.equal(millisecondsOf(durationOf(ms)), ms);
    }),
  );
});
