// Samples as the body of a remote write request: protobuf (prometheus.WriteRequest, version 1.0 of the protocol) in a
// block of Snappy.

import { BYTES } from "#wire/protobuf/reader.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";

export interface WrittenSample {
  /** The name is in the label `__name__`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const DOUBLE = 1;
/** Snappy's tag of a literal whose length is in the two bytes that follow. */
const LITERAL_16 = 61 << 2;
const LONGEST_LITERAL = 1 << 16;

/** `at`: Unix ms of all samples. */
export function encodeSamples(samples: readonly WrittenSample[], at: number): Uint8Array {
  const writer = new ProtoWriter();
  for (const { labels, value } of samples) {
    const series = writer.open((1 << 3) | BYTES, 2);
    // The protocol requires labels in the order of their names.
    for (const name of Object.keys(labels).sort()) {
      const label = writer.open((1 << 3) | BYTES);
      writer.text((1 << 3) | BYTES, name);
      writer.text((2 << 3) | BYTES, labels[name] ?? "");
      writer.close(label);
    }
    const sample = writer.open((2 << 3) | BYTES);
    writer.doubleField((1 << 3) | DOUBLE, value);
    writer.tag(2 << 3);
    writer.int64(Math.floor(at));
    writer.close(sample);
    writer.close(series, 2);
  }
  return snappy(writer.view());
}

/**
 * The bytes as a Snappy block of literals (Snappy's format description, §2.1). The protocol requires the format but not
 * compression, which would cost processor time.
 */
export function snappy(bytes: Uint8Array): Uint8Array {
  const literals = Math.ceil(bytes.length / LONGEST_LITERAL);
  const block = Buffer.allocUnsafe(bytes.length + 5 + 3 * literals);
  let to = 0;
  let rest = bytes.length;
  for (; rest > 0x7f; rest >>>= 7) block[to++] = (rest & 0x7f) | 0x80;
  block[to++] = rest;
  for (let from = 0; from < bytes.length; from += LONGEST_LITERAL) {
    const part = bytes.subarray(from, from + LONGEST_LITERAL);
    block[to++] = LITERAL_16;
    to = block.writeUInt16LE(part.length - 1, to);
    block.set(part, to);
    to += part.length;
  }
  return block.subarray(0, to);
}
