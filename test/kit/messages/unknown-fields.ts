// Unknown fields at any place of a message that a library encodes. `create` drops them from its input, so they are
// added to the created message before it is encoded.

import {
  create,
  type DescMessage,
  type MessageInitShape,
  toBinary,
  type UnknownField,
} from "@bufbuild/protobuf";
import fc from "fast-check";

/** Field numbers that no message of the tests uses, up to the largest possible one. */
const no = fc.oneof(fc.integer({ min: 500, max: 600 }), fc.constant(2 ** 29 - 1));
const byte = fc.integer({ min: 1, max: 255 });
const bytes = (length: number) =>
  fc.array(byte, { minLength: length, maxLength: length }).map((all) => Uint8Array.from(all));

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value % 0x80) | 0x80, ...varint(Math.floor(value / 0x80))];
}

const plain: fc.Arbitrary<UnknownField> = fc.oneof(
  fc.record({
    no,
    wireType: fc.constant(0),
    data: fc
      .constantFrom([5], [0xac, 0x02], [...Array(9).fill(0xff), 0x01])
      .map((all) => Uint8Array.from(all)),
  }),
  fc.record({ no, wireType: fc.constant(1), data: bytes(8) }),
  fc.record({
    no,
    wireType: fc.constant(2),
    data: fc.uint8Array({ maxLength: 9 }).map((all) => Uint8Array.of(all.length, ...all)),
  }),
  fc.record({ no, wireType: fc.constant(5), data: bytes(4) }),
);

/** The content of a group and its end tag. */
function groupData(fields: readonly UnknownField[], number: number): Uint8Array {
  const tag = (of: number, wire: number) => varint(of * 8 + wire);
  const inside = fields.flatMap((field) => [...tag(field.no, field.wireType), ...field.data]);
  return Uint8Array.from([...inside, ...tag(number, 4)]);
}

/** A group contains any fields, also those with known numbers, and other groups. */
function group(inside: fc.Arbitrary<UnknownField>): fc.Arbitrary<UnknownField> {
  return fc
    .tuple(no, fc.array(inside, { maxLength: 2 }))
    .map(([number, fields]) => ({ no: number, wireType: 3, data: groupData(fields, number) }));
}

const known = plain.map((field) => ({ ...field, no: 1 }));

export const unknownFields: fc.Arbitrary<UnknownField[]> = fc.array(
  fc.oneof(plain, group(fc.oneof(plain, known, group(plain)))),
  { maxLength: 2 },
);

/** Bytes of the message that `init` describes, with every `$unknown` in it. */
export function encodeWithUnknown<Desc extends DescMessage>(
  schema: Desc,
  init: MessageInitShape<Desc>,
): Uint8Array {
  const message = create(schema, init);
  putUnknown(init, message);
  return toBinary(schema, message);
}

/** Copies `$unknown` from the input into the created message, which has the same structure. */
function putUnknown(given: unknown, made: unknown): void {
  if (!isObject(given) || !isObject(made) || ArrayBuffer.isView(given)) return;
  for (const [name, value] of Object.entries(given)) {
    if (name === "$unknown") made[name] = value;
    else putUnknown(value, made[name]);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
