// Reads a response body whole. The size bound holds before and after decompression.

import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { Fault } from "#base/fault.ts";

const unpack = promisify(gunzip);

/** @throws Fault RESOURCE_EXHAUSTED beyond `limit` bytes, UNAVAILABLE for an encoding that was not requested */
export async function readBody(
  chunks: AsyncIterable<unknown>,
  encoding: string | undefined,
  limit: number,
): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  // Leaving the loop destroys the stream and with it the connection.
  for await (const chunk of chunks) {
    if (!(chunk instanceof Uint8Array)) continue;
    size += chunk.length;
    if (size > limit) throw tooLarge(limit);
    parts.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length));
  }
  const body = Buffer.concat(parts, size);
  if (encoding === undefined || encoding === "identity" || size === 0) return body;
  if (encoding !== "gzip" && encoding !== "x-gzip") {
    throw new Fault("UNAVAILABLE", "the response has a content encoding that was not requested");
  }
  return unpacked(body, limit);
}

async function unpacked(body: Buffer, limit: number): Promise<Buffer> {
  try {
    return await unpack(body, { maxOutputLength: limit });
  } catch (thrown) {
    const code = thrown instanceof Error && "code" in thrown ? thrown.code : "";
    if (code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(limit);
    throw new Fault("UNAVAILABLE", "the response is not valid gzip", { cause: thrown });
  }
}

function tooLarge(limit: number): Fault {
  return new Fault("RESOURCE_EXHAUSTED", `the response is larger than ${limit} bytes`);
}
