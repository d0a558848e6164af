// gRPC metadata in header fields: the values that handlers see and those that they may send.

import { Fault } from "#base/fault.ts";
import { CONNECTION_FIELDS } from "#h2/exchange.ts";

const BINARY = "-bin";
/** Names that the transport sets itself or that HTTP/2 forbids. */
const RESERVED: ReadonlySet<string> = new Set([
  "grpc-status",
  "grpc-message",
  "grpc-encoding",
  "grpc-accept-encoding",
  "grpc-timeout",
  "content-type",
  "content-length",
  "te",
  ...CONNECTION_FIELDS,
]);

export function isBinary(name: string): boolean {
  return name.endsWith(BINARY);
}

/** First value of a name; `fields` alternates names and values. `-bin` values are in base64 with padding. */
export function firstValue(fields: readonly string[], name: string): string | undefined {
  for (let at = 0; at < fields.length; at += 2) {
    if (fields[at] !== name) continue;
    const value = fields[at + 1] ?? "";
    return isBinary(name) ? firstBinary(value) : value;
  }
  return undefined;
}

/** Values may share a field, separated by commas, and lack their padding; invalid characters are skipped. */
function firstBinary(value: string): string {
  const comma = value.indexOf(",");
  return Buffer.from(comma < 0 ? value : value.slice(0, comma), "base64").toString("base64");
}

/**
 * Returns the wire form of a value. Throws INTERNAL if the name is invalid or reserved, or if the value could be
 * misread.
 */
export function sendable(name: string, value: string): string {
  if (!isName(name) || RESERVED.has(name)) {
    throw new Fault("INTERNAL", "internal error", {
      cause: new Error(`a reply cannot have metadata named ${JSON.stringify(name)}`),
    });
  }
  const sent = isBinary(name) ? base64(value) : printable(value);
  if (sent === undefined) {
    throw new Fault("INTERNAL", "internal error", {
      cause: new Error(`the value of reply metadata ${name} cannot be sent`),
    });
  }
  return sent;
}

/** `[0-9a-z_.-]+` */
function isName(name: string): boolean {
  for (let at = 0; at < name.length; at++) {
    const code = name.charCodeAt(at);
    const letter = code >= 0x61 && code <= 0x7a;
    if (letter || (code >= 0x30 && code <= 0x39)) continue;
    if (code !== 0x2d && code !== 0x2e && code !== 0x5f) return false;
  }
  return name.length > 0;
}

/** Only printable ASCII is allowed in metadata. Blanks at the ends are removed, as they may be lost in transit. */
function printable(value: string): string | undefined {
  for (let at = 0; at < value.length; at++) {
    const code = value.charCodeAt(at);
    if (code < 0x20 || code > 0x7e) return undefined;
  }
  const { length } = value;
  const spaced = value.charCodeAt(0) === 0x20 || value.charCodeAt(length - 1) === 0x20;
  return spaced ? value.trim() : value;
}

function base64(value: string): string | undefined {
  const sent = Buffer.from(value, "base64").toString("base64");
  const end = sent.indexOf("=");
  const bare = end < 0 ? sent : sent.slice(0, end);
  return value === sent || value === bare ? sent : undefined;
}
