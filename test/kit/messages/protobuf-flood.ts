// Messages of the largest accepted size that consist of tiny repeats of one field, for every field of a message
// type and every level of nesting: they multiply whatever a reader does per repeat.

import protobuf from "protobufjs";

export interface Flood {
  readonly name: string;
  /** A message of at most `size` bytes that begins with `before`. */
  make(size: number, before: Uint8Array): Buffer;
}

/** Content of the innermost field; "text" is a different string in each repeat. */
type Leaf = "empty" | "text" | Uint8Array;

interface Step {
  readonly name: string;
  readonly number: number;
  readonly wire: number;
}

interface Path {
  readonly steps: readonly Step[];
  readonly leaf: Leaf;
}

const EIGHT = new Uint8Array(8);
const TEN_BYTES = Uint8Array.of(255, 255, 255, 255, 255, 255, 255, 255, 255, 1);

const LEAVES = {
  text: ["empty", "text"],
  varint: [Uint8Array.of(1), TEN_BYTES],
  fixed64: [EIGHT],
  fixed32: [EIGHT.subarray(4)],
} satisfies Record<string, readonly Leaf[]>;

const WIRES = { varint: 0, fixed64: 1, text: 2, fixed32: 5 } as const;

function kindOf(type: string): keyof typeof LEAVES {
  if (type === "string" || type === "bytes") return "text";
  if (type === "double" || type.endsWith("fixed64")) return "fixed64";
  if (type === "float" || type.endsWith("fixed32")) return "fixed32";
  return "varint";
}

function* scalar(
  steps: readonly Step[],
  name: string,
  number: number,
  type: string,
): Generator<Path> {
  const kind = kindOf(type);
  const step = { name, number, wire: WIRES[kind] };
  for (const leaf of LEAVES[kind]) yield { steps: [...steps, step], leaf };
}

function* inside(
  within: readonly Step[],
  type: protobuf.ReflectionObject | null,
  around: readonly protobuf.Type[],
  deepest: number,
): Generator<Path> {
  if (type instanceof protobuf.Type && !around.includes(type)) {
    yield* pathsOf(type, [...around, type], within, deepest);
  }
}

function* pathsOf(
  type: protobuf.Type,
  around: readonly protobuf.Type[],
  steps: readonly Step[],
  deepest: number,
): Generator<Path> {
  if (steps.length >= deepest) return;
  for (const each of type.fieldsArray) {
    const field = each.resolve();
    const message = field.resolvedType instanceof protobuf.Type;
    if (!message && !field.map) {
      yield* scalar(steps, field.name, field.id, field.resolvedType === null ? field.type : "enum");
      continue;
    }
    const within = [...steps, { name: field.name, number: field.id, wire: WIRES.text }];
    yield { steps: within, leaf: "empty" };
    if (!(field instanceof protobuf.MapField))
      yield* inside(within, field.resolvedType, around, deepest);
    else {
      yield* scalar(within, "key", 1, field.keyType);
      if (!message) yield* scalar(within, "value", 2, field.type);
    }
  }
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest & 0x7f) | 0x80);
  return [...bytes, rest];
}

/** A field with its tag and, for length-delimited fields, its length. */
function wrapped({ number, wire }: Step, body: Uint8Array): Buffer {
  const head = varint(number * 8 + wire);
  if (wire === WIRES.text) head.push(...varint(body.length));
  return Buffer.concat([Uint8Array.from(head), body]);
}

/** The alphabet of the strings, and a placeholder of their length. */
const DIGITS = Buffer.from("0123456789abcdefghijklmnopqrstuv");
const TEXT = Buffer.from("0000");

function bytesOf(leaf: Leaf): Uint8Array {
  return leaf === "empty" ? TEXT.subarray(4) : leaf === "text" ? TEXT : leaf;
}

/** Repeats the path from `level` on, inside a single field for each level before it. */
function fill({ steps, leaf }: Path, level: number, size: number, before: Uint8Array): Buffer {
  const wrap = (from: number, to: number, inner: Uint8Array) =>
    steps.slice(from, to).reduceRight((body, step) => wrapped(step, body), inner);
  const part = wrap(level, steps.length, bytesOf(leaf));
  const repeats = Math.floor((size - before.length - 8 * level) / part.length);
  const body = Buffer.alloc(repeats * part.length, part);
  for (let repeat = 0; leaf === "text" && repeat < repeats; repeat++) {
    const end = (repeat + 1) * part.length;
    for (let at = 1; at <= TEXT.length; at++) {
      body[end - at] = DIGITS[(repeat >>> (5 * (at - 1))) & 31] ?? 0;
    }
  }
  return Buffer.concat([before, wrap(0, level, body)]);
}

/** Floods of every field of a message and of the messages in it, up to `deepest` levels. */
export function floodsOf(type: protobuf.Type, deepest: number): readonly Flood[] {
  return [...pathsOf(type, [type], [], deepest)].flatMap((path) =>
    path.steps.map((step, level) => ({
      name: nameOf(path, step),
      make: (size: number, before: Uint8Array) => fill(path, level, size, before),
    })),
  );
}

function nameOf({ steps, leaf }: Path, { name }: Step): string {
  const what = typeof leaf === "string" ? leaf : `${leaf.length} bytes`;
  return `${steps.map((step) => step.name).join(".")} (${what}), repeated ${name}`;
}
