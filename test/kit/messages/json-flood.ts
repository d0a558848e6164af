// JSON bodies of the largest accepted size that consist of tiny repeats, as the value of every member of a message.

import protobuf from "protobufjs";

export interface JsonFlood {
  readonly name: string;
  /** A body of about `size` bytes whose first member is `before`. */
  make(size: number, before: string): Buffer;
}

type Part = (repeat: number) => string;

const text = (repeat: number) => repeat.toString(36);

/** Members of one object. */
const MEMBERS: Readonly<Record<string, Part>> = {
  "texts by name": (at) => `"${text(at)}":""`,
  "texts by number": (at) => `"${at * 7_919}":""`,
  "lists by name": (at) => `"${text(at)}":[""]`,
  "empty lists by name": (at) => `"${text(at)}":[]`,
  "objects by name": (at) => `"${text(at)}":{}`,
  "nulls by name": (at) => `"${text(at)}":null`,
  "escaped names": (at) => `"\\u0061${text(at)}":""`,
  "one name": () => '"a":""',
  "one escaped name": () => '"\\u0061":""',
};

/** Items of one list. */
const ITEMS: Readonly<Record<string, Part>> = {
  texts: (at) => `"${text(at)}"`,
  "empty texts": () => '""',
  numbers: () => "1",
  nulls: () => "null",
  lists: () => "[]",
  objects: () => "{}",
  "objects with a member": () => '{"a":""}',
  "deep lists": () => "[[[[[[]]]]]]",
};

/** Pieces of one string or number. */
const PIECES: Readonly<Record<string, Part>> = {
  letters: () => "a",
  escapes: () => "\\u0061",
  backslashes: () => "\\\\",
};

function repeated(part: Part, size: number, between: string): string {
  const parts: string[] = [];
  let length = 0;
  for (let at = 0; length < size; at++) {
    const next = part(at);
    parts.push(next);
    length += next.length + between.length;
  }
  return parts.join(between);
}

interface Value {
  readonly name: string;
  make(size: number): string;
}

function valuesOf(
  parts: Readonly<Record<string, Part>>,
  [open, between, close]: readonly [string, string, string],
): readonly Value[] {
  return Object.entries(parts).map(([name, part]) => ({
    name,
    make: (size) => open + repeated(part, size, between) + close,
  }));
}

const VALUES: readonly Value[] = [
  ...valuesOf(MEMBERS, ["{", ",", "}"]),
  ...valuesOf(ITEMS, ["[", ",", "]"]),
  ...valuesOf(PIECES, ['"', "", '"']),
  { name: "digits", make: (size) => "1".repeat(size) },
  { name: "zeros", make: (size) => `0.${"0".repeat(size)}1` },
  { name: "digits as text", make: (size) => `"${"1".repeat(size)}"` },
];

function snake(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Every place where a value may be: its path, and the text before and after it. */
function* places(type: protobuf.Type, path: string, open: string, close: string): Generator<Place> {
  for (const each of type.fieldsArray) {
    const { name, resolvedType, repeated: list, map } = each.resolve();
    const inner = `${path}.${snake(name)}`;
    const start = `${open}"${snake(name)}":`;
    yield { path: inner, open: start, close };
    if (map || !(resolvedType instanceof protobuf.Type)) continue;
    // Free-form JSON of any depth.
    if (resolvedType.fullName.startsWith(".google.protobuf.")) continue;
    const [before, behind] = list ? ["[{", "}]"] : ["{", "}"];
    yield* places(resolvedType, inner, start + before, behind + close);
  }
}

interface Place {
  readonly path: string;
  readonly open: string;
  readonly close: string;
}

/** Floods as the value of every member, of members of nested messages, and of an unknown member. */
export function jsonFloodsOf(type: protobuf.Type): readonly JsonFlood[] {
  const inside = [
    ...places(type, "body", "", ""),
    { path: "body.other", open: '"other":', close: "" },
  ];
  return inside.flatMap(({ path, open, close }) =>
    VALUES.map(({ name, make }) => ({
      name: `${path}: ${name}`,
      make: (size: number, before: string) =>
        Buffer.from(`{${before === "" ? "" : `${before},`}${open}${make(size)}${close}}`),
    })),
  );
}
