// The status that a call ends with, and its form on the wire: `grpc-status` and `grpc-message`.

import { CODES, type Code } from "#base/fault.ts";

/** The status of a call. A `Fault` is one. */
export interface CallStatus {
  readonly code: Code;
  readonly message: string;
  /** Further fields of the header section, names and values alternating. */
  readonly fields?: readonly string[];
}

const status = (code: Code, message: string): CallStatus => ({ code, message });

export const DEADLINE_PASSED = status("DEADLINE_EXCEEDED", "the deadline has passed");
/** Not CANCELLED, which would say that the caller cancelled the call. */
export const REQUEST_TIMED_OUT = status("DEADLINE_EXCEEDED", "the request took too long to arrive");
export function messageTooLong(limit: number): CallStatus {
  return status("RESOURCE_EXHAUSTED", `a message is longer than ${limit} bytes`);
}
/** A longer reply could never wait for its caller, see MAX_BUFFERED_PER_CONNECTION. */
export const REPLY_TOO_LONG = status("RESOURCE_EXHAUSTED", "the reply is longer than 8 MiB");
export const TOO_MANY_BUFFERED = status(
  "RESOURCE_EXHAUSTED",
  "too many request bytes are buffered",
);
export const MISSING_MESSAGE = status("UNIMPLEMENTED", "the method takes one message and got none");
export const EXTRA_MESSAGE = status("UNIMPLEMENTED", "the method takes one message and got more");
export const TRUNCATED_MESSAGE = status("INTERNAL", "the request ended inside a message");
export const INVALID_COMPRESSED_FLAG = status(
  "INTERNAL",
  "the compressed flag of a message must be 0 or 1",
);
export const MISSING_ENCODING = status(
  "INTERNAL",
  "a message is compressed and grpc-encoding does not say how",
);
export const UNKNOWN_ENCODING: CallStatus = {
  code: "UNIMPLEMENTED",
  message: "grpc-encoding must be identity, deflate or gzip",
  fields: ["grpc-accept-encoding", "identity,deflate,gzip"],
};
export const DECOMPRESSION_FAILED = status("INTERNAL", "a message could not be decompressed");

/** The fields of a status, names and values alternating. */
export function statusFields({ code, message }: CallStatus): string[] {
  const fields = ["grpc-status", String(CODES[code].number)];
  if (message !== "") fields.push("grpc-message", percentEncoded(message));
  return fields;
}

/** Percent-encodes UTF-8 except for printable ASCII other than `%`. Lone surrogates become U+FFFD. */
function percentEncoded(text: string): string {
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
