// Field blocks and decoders for tests of HPACK.

import type { Decoder } from "#h2/hpack/decoder.ts";
import { FieldList } from "#h2/hpack/field-list.ts";

export const hex = (text: string) => Buffer.from(text.replaceAll(/\s/g, ""), "hex");

export function decode(decoder: Decoder, bytes: Uint8Array): readonly string[] {
  const list = new FieldList(1 << 20, 10_000);
  // At an offset, as blocks never lie at the start of their buffer.
  const buffer = Buffer.concat([Buffer.from([0xff, 0xff]), bytes, Buffer.from([0xff])]);
  decoder.decode(buffer, 2, buffer.length - 1, list);
  return list.fields.slice();
}

/** Converts lines of `name: value`, as in the RFC, to alternating names and values. */
export function fields(text: string): readonly string[] {
  return text
    .trim()
    .split("\n")
    .flatMap((line) => {
      const colon = line.indexOf(": ");
      return [line.slice(0, colon).trim(), line.slice(colon + 2)];
    });
}

/** The dynamic table, newest entry first, read through references to its entries. */
export function table(decoder: Decoder): readonly string[] {
  const all: string[] = [];
  for (let index = 62; ; index++) {
    try {
      all.push(...decode(decoder, Buffer.from([0x80 | index])));
    } catch {
      return all;
    }
  }
}

export function integer(kind: number, prefix: number, value: number): Buffer {
  const most = 2 ** prefix - 1;
  if (value < most) return Buffer.from([kind | value]);
  const bytes = [kind | most];
  let rest = value - most;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}
