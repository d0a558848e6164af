// The HTTP reply of all JSON routes. Decisions have status 200, refusals included; errors are thrown as Faults.

import type { HttpReply } from "#base/handler.ts";

const JSON_HEADERS: Readonly<Record<string, string>> = { "content-type": "application/json" };

export function jsonReply(body: string | Uint8Array): HttpReply {
  return { status: 200, headers: JSON_HEADERS, body };
}
