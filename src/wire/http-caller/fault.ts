// What goes wrong with a call, in a few words that are fit for a status.

import { Fault } from "#base/fault.ts";

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ENOTFOUND: "no such host",
  EAI_AGAIN: "the name service did not answer",
  EHOSTUNREACH: "host unreachable",
  ENETUNREACH: "network unreachable",
  ECONNRESET: "connection reset",
  EPIPE: "connection reset",
  UND_ERR_SOCKET: "connection closed before the reply was complete",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "connection closed before the reply was complete",
};

const LATE: Readonly<Record<string, string>> = {
  ETIMEDOUT: "no connection in time",
  UND_ERR_CONNECT_TIMEOUT: "no connection in time",
  UND_ERR_HEADERS_TIMEOUT: "no headers of a reply in time",
};

/** `place` says who was called, without credentials. */
export function faultOf(thrown: unknown, place: string): Fault {
  if (thrown instanceof Fault) return thrown;
  const cause = rootOf(thrown);
  const fault = (code: Fault["code"], words: string) =>
    new Fault(code, `${place}: ${words}`, { cause: thrown });
  if (cause instanceof Fault) return fault(cause.code, cause.message);
  const code = codeOf(cause);
  const late = LATE[code];
  if (late !== undefined) return fault("DEADLINE_EXCEEDED", late);
  if (code === "UND_ERR_HEADERS_OVERFLOW" || code === "HPE_HEADER_OVERFLOW") {
    return fault("RESOURCE_EXHAUSTED", "the headers of the reply are too large");
  }
  if (cause instanceof Error && cause.name === "HTTPParserError")
    return fault("UNAVAILABLE", "the reply is not HTTP");
  const words = WORDS[code];
  if (words !== undefined) return fault("UNAVAILABLE", words);
  return fault("UNAVAILABLE", isTls(code) ? `TLS: ${tlsWords(cause, code)}` : "the call failed");
}

function isTls(code: string): boolean {
  return (
    /^(?:ERR_TLS|ERR_SSL|ERR_OSSL|UNABLE_|CERT_|CRL_)/.test(code) ||
    ["EPROTO", "DEPTH_ZERO_SELF_SIGNED_CERT", "SELF_SIGNED_CERT_IN_CHAIN"].includes(code) ||
    ["HOSTNAME_MISMATCH", "INVALID_CA", "INVALID_PURPOSE"].includes(code)
  );
}

function tlsWords(cause: unknown, code: string): string {
  // Messages of OpenSSL are long and hold addresses; its codes are words already.
  if (code === "EPROTO" || !(cause instanceof Error)) return "handshake failed";
  if (code.startsWith("ERR_SSL_")) return code.slice(8).toLowerCase().replaceAll("_", " ");
  return cause.message.split("\n", 1)[0] ?? code;
}

/** Attempts on several addresses fail as one error with all of them. */
function rootOf(thrown: unknown): unknown {
  if (thrown instanceof AggregateError && thrown.errors.length > 0) return thrown.errors[0];
  if (!(thrown instanceof Error)) return thrown;
  const { cause } = thrown;
  return cause instanceof Error && (cause instanceof Fault || codeOf(cause) !== "")
    ? rootOf(cause)
    : thrown;
}

function codeOf(thrown: unknown): string {
  if (typeof thrown !== "object" || thrown === null || !("code" in thrown)) return "";
  return typeof thrown.code === "string" ? thrown.code : "";
}
