// Reads the reply of a server that a command calls, up to a bound.

import type { IncomingMessage } from "node:http";

/** Larger than any reply of an agent or a controller. */
export const MOST_REPLY_BYTES = 64 * 1024 * 1024;

export async function replyText(reply: IncomingMessage, most: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of reply) {
    size += chunk.length;
    if (size > most) throw new Error("a reply that is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
