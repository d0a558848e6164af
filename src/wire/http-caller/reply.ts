// The body of a reply, read whole within a bound that holds for what comes out of gzip too.

import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { Fault } from "#base/fault.ts";

const unpack = promisify(gunzip);

export async function readBody(
  chunks: AsyncIterable<unknown>,
  encoding: string | undefined,
  most: number,
): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  // Leaving the loop destroys the stream and with it the connection.
  for await (const chunk of chunks) {
    if (!(chunk instanceof Uint8Array)) continue;
    size += chunk.length;
    if (size > most) throw tooLarge(most);
    parts.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length));
  }
  const body = Buffer.concat(parts, size);
  if (encoding === undefined || encoding === "identity" || size === 0) return body;
  if (encoding !== "gzip" && encoding !== "x-gzip") {
    throw new Fault("UNAVAILABLE", "the reply is encoded in a way that was not asked for");
  }
  return unpacked(body, most);
}

async function unpacked(body: Buffer, most: number): Promise<Buffer> {
  try {
    return await unpack(body, { maxOutputLength: most });
  } catch (thrown) {
    const code = thrown instanceof Error && "code" in thrown ? thrown.code : "";
    if (code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(most);
    throw new Fault("UNAVAILABLE", "the reply is not the gzip that it claims", { cause: thrown });
  }
}

function tooLarge(most: number): Fault {
  return new Fault("RESOURCE_EXHAUSTED", `the reply is larger than ${most} bytes`);
}
