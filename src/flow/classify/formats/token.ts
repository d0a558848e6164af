// Reads the payload of a JSON Web Token (RFC 7519). The signature is not verified: a label is a claim until the service has
// verified the token.

import { MALFORMED, type Unreadable } from "../unreadable.ts";

const PART = /^[A-Za-z0-9_-]+={0,2}$/;
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** JSON text of the payload; MALFORMED for text without three parts, of which the second is base64url. */
export function tokenPayload(token: string): string | Unreadable {
  const first = token.indexOf(".");
  const second = token.indexOf(".", first + 1);
  if (first < 1 || second < 0 || token.includes(".", second + 1)) return MALFORMED;
  const part = token.slice(first + 1, second);
  if (!PART.test(part)) return MALFORMED;
  try {
    return UTF8.decode(Buffer.from(part, "base64url"));
  } catch {
    return MALFORMED;
  }
}
