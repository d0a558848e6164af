// How a call ends, as it stands on the wire: `grpc-status` and `grpc-message`.

import { CODES, type Code } from "#base/fault.ts";

/** Why a call is refused. A `Fault` is one. */
export interface Refusal {
  readonly code: Code;
  readonly message: string;
  /** Further fields of the head, names and values in turn. */
  readonly fields?: readonly string[];
}

export const LATE: Refusal = { code: "DEADLINE_EXCEEDED", message: "the deadline has passed" };
/**
 * Not CANCELLED, which would say that the caller took the call back: a time has passed that the port allows, and
 * callers know best what to do about that.
 */
export const SLOW: Refusal = {
  code: "DEADLINE_EXCEEDED",
  message: "the request took too long to arrive",
};
export const TOO_LONG: Refusal = {
  code: "RESOURCE_EXHAUSTED",
  message: "a message is longer than 4 MiB",
};
/** Of a reply; none longer could wait for its caller, see `MAX_HELD`. */
export const LONG_REPLY: Refusal = {
  code: "RESOURCE_EXHAUSTED",
  message: "the reply is longer than 8 MiB",
};
export const TOO_MUCH: Refusal = {
  code: "RESOURCE_EXHAUSTED",
  message: "too many bytes of requests are waiting",
};
export const NO_MESSAGE: Refusal = {
  code: "UNIMPLEMENTED",
  message: "the method takes one message and got none",
};
export const TWO_MESSAGES: Refusal = {
  code: "UNIMPLEMENTED",
  message: "the method takes one message and got more",
};
export const TRUNCATED: Refusal = {
  code: "INTERNAL",
  message: "the request ended inside a message",
};
export const BAD_FLAG: Refusal = {
  code: "INTERNAL",
  message: "the compressed flag of a message must be 0 or 1",
};
export const NO_ENCODING: Refusal = {
  code: "INTERNAL",
  message: "a message is compressed and grpc-encoding does not say how",
};
export const UNKNOWN_ENCODING: Refusal = {
  code: "UNIMPLEMENTED",
  message: "grpc-encoding must be identity, deflate or gzip",
  fields: ["grpc-accept-encoding", "identity,deflate,gzip"],
};
export const NOT_COMPRESSED: Refusal = {
  code: "INTERNAL",
  message: "a message could not be decompressed",
};

/** The fields of a status, names and values in turn. */
export function statusFields({ code, message }: Refusal): string[] {
  const fields = ["grpc-status", String(CODES[code].number)];
  if (message !== "") fields.push("grpc-message", percentEncoded(message));
  return fields;
}

/** UTF-8, of which printable ASCII other than `%` stands for itself. Lone surrogates become U+FFFD. */
export function percentEncoded(text: string): string {
  let plain = 0;
  while (plain < text.length && isPlain(text.charCodeAt(plain))) plain++;
  if (plain === text.length) return text;
  let encoded = "";
  for (const byte of Buffer.from(text)) {
    encoded += isPlain(byte)
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return encoded;
}

function isPlain(code: number): boolean {
  return code >= 0x20 && code <= 0x7e && code !== 0x25;
}
