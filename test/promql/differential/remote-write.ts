// Writes samples to a Prometheus server over its remote-write protocol: protobuf in the snappy format.

import assert from "node:assert/strict";
import type { Labels } from "#promql/result.ts";

export interface Written {
  readonly labels: Labels;
  /** Unix ms; an undefined value is the marker that the series ends here. */
  readonly samples: readonly { readonly at: number; readonly value: number | undefined }[];
}

export async function remoteWrite(address: string, series: readonly Written[]): Promise<void> {
  const body = snappy(Buffer.concat(series.map((each) => message(1, encodeSeries(each)))));
  const reply = await fetch(`${address}/api/v1/write`, {
    method: "POST",
    headers: {
      "content-encoding": "snappy",
      "content-type": "application/x-protobuf",
      "x-prometheus-remote-write-version": "0.1.0",
    },
    body: new Uint8Array(body),
  });
  assert.equal(reply.status, 204, await reply.text());
}

const ENDS = 0x7ff0_0000_0000_0002n;

function encodeSeries({ labels, samples }: Written): Buffer {
  const names = Object.keys(labels).sort();
  return Buffer.concat([
    ...names.map((name) =>
      message(
        1,
        Buffer.concat([message(1, Buffer.from(name)), message(2, Buffer.from(labels[name] ?? ""))]),
      ),
    ),
    ...samples.map(({ at, value }) => {
      const double = Buffer.alloc(9, 1 * 8 + 1);
      if (value === undefined) double.writeBigUInt64LE(ENDS, 1);
      else double.writeDoubleLE(value, 1);
      return message(2, Buffer.concat([double, Buffer.of(2 * 8), varint(at)]));
    }),
  ]);
}

function message(field: number, body: Buffer): Buffer {
  return Buffer.concat([Buffer.of(field * 8 + 2), varint(body.length), body]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt(value);
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(rest)]);
}

/** Nothing but literals. */
function snappy(body: Buffer): Buffer {
  const parts = [varint(body.length)];
  for (let at = 0; at < body.length; at += 65_536) {
    const part = body.subarray(at, at + 65_536);
    const head = Buffer.of(61 << 2, 0, 0);
    head.writeUInt16LE(part.length - 1, 1);
    parts.push(head, part);
  }
  return Buffer.concat(parts);
}
