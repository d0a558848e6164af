// What all JSON doors say alike. Decisions are HTTP 200, refusals included; errors are Faults.

import type { HttpReply } from "#serve/handler.ts";

const JSON_HEADERS: Readonly<Record<string, string>> = { "content-type": "application/json" };

export function jsonReply(body: string | Uint8Array): HttpReply {
  return { status: 200, headers: JSON_HEADERS, body };
}
