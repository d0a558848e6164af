// The message types by which protobufjs encodes and decodes, from the descriptor set that `proto/generate.ts` writes.
// Each is defined on first use, because defining all of them takes longer than importing the library.

import protobuf from "protobufjs/light.js";
import { ProtoReader } from "./reader.ts";

/** The serialized FileDescriptorSet of all messages that Sluice or its tests use. */
export const DESCRIPTOR_SET = new URL(import.meta.resolve("#gen/descriptors.binpb"));

// Field numbers of google/protobuf/descriptor.proto. Writers put fields in the order of their numbers. Messages, fields,
// oneofs, enums and enum values all have NAME.
const NAME = 1;
const FILE = { package: 2, message: 4, enum: 5 } as const;
const MESSAGE = { field: 2, message: 3, enum: 4, options: 7, oneof: 8 } as const;
const MAP_ENTRY = 7;
const FIELD = {
  number: 3,
  label: 4,
  type: 5,
  typeName: 6,
  oneof: 9,
  jsonName: 10,
  optional: 17,
} as const;
const ENUM = { value: 2, number: 2 } as const;

/** The label of a repeated field. */
const REPEATED = 3;

/** Scalar types by number. Groups, messages and enums are not scalars. */
const SCALARS: Readonly<Record<number, string>> = {
  1: "double",
  2: "float",
  3: "int64",
  4: "uint64",
  5: "int32",
  6: "fixed64",
  7: "fixed32",
  8: "bool",
  9: "string",
  12: "bytes",
  13: "uint32",
  15: "sfixed32",
  16: "sfixed64",
  17: "sint32",
  18: "sint64",
};

/** The bytes of a descriptor. */
interface Place {
  readonly start: number;
  readonly end: number;
}

interface Declaration extends Place {
  readonly isEnum: boolean;
}

export class Definitions {
  readonly #reader: ProtoReader;
  /** The files of a package, until one of its types is wanted. */
  readonly #files = new Map<string, Place[]>();
  /** Messages and enums by full name. Those inside a message are added when that message is defined. */
  readonly #declarations = new Map<string, Declaration>();
  readonly #defined = new Map<string, protobuf.ReflectionObject>();
  readonly #root = new protobuf.Root();

  /** @param set a serialized FileDescriptorSet */
  constructor(set: Uint8Array) {
    const reader = new ProtoReader(set);
    this.#reader = reader;
    while (reader.at < set.length) {
      reader.tag(set.length);
      const place = { end: reader.sub(set.length), start: reader.at };
      const name = this.#textIn(place, FILE.package);
      const others = this.#files.get(name);
      if (others === undefined) this.#files.set(name, [place]);
      else others.push(place);
    }
  }

  /** @throws Error when the set has no message of that name */
  type(name: string): protobuf.Type {
    const type = this.#define(name);
    if (type instanceof protobuf.Type) return type;
    throw new Error(`${name} is not a known message`);
  }

  /** Defines a type, the types that it is nested in, and the types of its fields. */
  #define(name: string): protobuf.ReflectionObject | undefined {
    const known = this.#defined.get(name);
    const dot = name.lastIndexOf(".");
    if (known !== undefined || dot < 0) return known;
    const scope = name.slice(0, dot);
    for (const file of this.#files.get(scope) ?? []) this.#declare(file, FILE, scope);
    this.#files.delete(scope);
    const parent = this.#define(scope) ?? this.#root.define(scope);
    const declaration = this.#declarations.get(name);
    // Defining the enclosing type may have defined this one.
    const met = this.#defined.get(name);
    if (met !== undefined || declaration === undefined) return met;
    if (!(parent instanceof protobuf.Namespace)) throw new Error(`${name} is nested in no message`);
    const base = name.slice(dot + 1);
    if (declaration.isEnum) {
      const object = new protobuf.Enum(base, this.#values(declaration));
      this.#defined.set(name, object);
      parent.add(object);
      return object;
    }
    this.#declare(declaration, MESSAGE, name);
    const json = this.#message(declaration);
    const object = protobuf.Type.fromJSON(base, json);
    this.#defined.set(name, object);
    parent.add(object);
    for (const { type } of Object.values(json.fields)) this.#define(type);
    return object;
  }

  /** Notes where the messages and enums of a file or message are. */
  #declare(
    { start, end }: Place,
    numbers: { readonly message: number; readonly enum: number },
    scope: string,
  ): void {
    const reader = this.#reader;
    reader.at = start;
    while (reader.at < end) {
      const field = reader.tag(end);
      if (field !== numbers.message && field !== numbers.enum) reader.skip(field, end);
      else {
        const place = { end: reader.sub(end), start: reader.at, isEnum: field === numbers.enum };
        this.#declarations.set(`${scope}.${this.#textIn(place, NAME)}`, place);
      }
    }
  }

  #message({ start, end }: Place): protobuf.IType {
    const reader = this.#reader;
    const fields: Record<string, protobuf.IField> = {};
    const arms: string[][] = [];
    const oneofs: Record<string, { oneof: string[] }> = {};
    let count = 0;
    reader.at = start;
    while (reader.at < end) {
      const field = reader.tag(end);
      if (field === MESSAGE.field) this.#field(reader.sub(end), fields, arms);
      else if (field === MESSAGE.oneof) {
        const place = { end: reader.sub(end), start: reader.at };
        oneofs[camelCase(this.#textIn(place, NAME))] = { oneof: arms[count++] ?? [] };
      } else reader.skip(field, end);
    }
    return { fields, oneofs };
  }

  /** Adds a field by name, and its name to the arms of its oneof. */
  #field(end: number, fields: Record<string, protobuf.IField>, arms: string[][]): void {
    const reader = this.#reader;
    let name = "";
    let id = 0;
    let isRepeated = false;
    let type = "";
    let oneof: number | undefined;
    let isOptional = false;
    while (reader.at < end) {
      const field = reader.tag(end);
      if (field === FIELD.number) id = reader.uint32(end);
      else if (field === FIELD.label) isRepeated = reader.uint32(end) === REPEATED;
      else if (field === FIELD.type) type = SCALARS[reader.uint32(end)] ?? type;
      else if (field === FIELD.typeName) type = reader.text(end).slice(1);
      else if (field === FIELD.oneof) oneof = reader.uint32(end);
      else if (field === FIELD.jsonName) name = reader.text(end);
      else if (field === FIELD.optional) isOptional = reader.bool(end);
      else reader.skip(field, end);
    }
    if (isRepeated) fields[name] = this.#mapField(type, id) ?? { rule: "repeated", type, id };
    else
      fields[name] = isOptional ? { type, id, options: { proto3_optional: true } } : { type, id };
    if (oneof === undefined) return;
    const others = arms[oneof];
    if (others === undefined) arms[oneof] = [name];
    else others.push(name);
  }

  /** A map is a repeated field of entries. Undefined for other fields. */
  #mapField(type: string, id: number): protobuf.IMapField | undefined {
    const entry = this.#declarations.get(type);
    if (entry === undefined) return undefined;
    const reader = this.#reader;
    const { at } = reader;
    const isMap = this.#isMapEntry(entry);
    const { key, value } = isMap ? this.#message(entry).fields : {};
    reader.at = at;
    return key && value && { keyType: key.type, type: value.type, id };
  }

  #isMapEntry({ start, end }: Place): boolean {
    const reader = this.#reader;
    reader.at = start;
    while (reader.at < end) {
      const field = reader.tag(end);
      if (field !== MESSAGE.options) reader.skip(field, end);
      else {
        const stop = reader.sub(end);
        return reader.tag(stop) === MAP_ENTRY && reader.bool(stop);
      }
    }
    return false;
  }

  #values({ start, end }: Place): Record<string, number> {
    const reader = this.#reader;
    const values: Record<string, number> = {};
    reader.at = start;
    while (reader.at < end) {
      const field = reader.tag(end);
      if (field !== ENUM.value) reader.skip(field, end);
      else {
        const stop = reader.sub(end);
        let name = "";
        let number = 0;
        while (reader.at < stop) {
          const part = reader.tag(stop);
          if (part === NAME) name = reader.text(stop);
          else if (part === ENUM.number) number = reader.uint32(stop) | 0;
          else reader.skip(part, stop);
        }
        values[name] = number;
      }
    }
    return values;
  }

  /** A string field of a descriptor, or "". The reader is then at the end of the descriptor. */
  #textIn({ start, end }: Place, wanted: number): string {
    const reader = this.#reader;
    reader.at = start;
    let text = "";
    while (reader.at < end && text === "") {
      const field = reader.tag(end);
      if (field === wanted) text = reader.text(end);
      else reader.skip(field, end);
    }
    reader.at = end;
    return text;
  }
}

export function camelCase(name: string): string {
  return name.replaceAll(/(?<!^)_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
