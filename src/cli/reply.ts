// Replies of the servers that commands call, up to a bound, and the causes of failed calls.

import type { IncomingMessage } from "node:http";

/** Larger than any reply of an agent or a controller. */
export const MAX_REPLY_BYTES = 64 * 1024 * 1024;

/** Body of the 400 by which a TLS port of Sluice answers HTTP without TLS. */
export const SPEAKS_TLS = "this port speaks TLS";

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

/** The cause of a failed request: the code of the system error, if there is one. `timeoutMs` is what it had in all. */
export function failureText(thrown: unknown, timeoutMs: number): string {
  if (!(thrown instanceof Error)) return "unknown";
  if (thrown.name === "AbortError" || thrown.name === "TimeoutError") {
    return `nothing within ${timeoutMs / 1_000} s`;
  }
  return "code" in thrown && typeof thrown.code === "string" ? thrown.code : thrown.message;
}
