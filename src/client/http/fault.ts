// Turns errors of a call into Faults with short messages without credentials.

import { Fault } from "#base/fault.ts";

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ENOTFOUND: "no such host",
  EAI_AGAIN: "the DNS server did not answer",
  EHOSTUNREACH: "host unreachable",
  ENETUNREACH: "network unreachable",
  ECONNRESET: "connection reset",
  EPIPE: "connection reset",
  UND_ERR_SOCKET: "connection closed before the response was complete",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "connection closed before the response was complete",
};

const TIMEOUTS: Readonly<Record<string, string>> = {
  ETIMEDOUT: "the connection timed out",
  UND_ERR_CONNECT_TIMEOUT: "the connection timed out",
  UND_ERR_HEADERS_TIMEOUT: "the response headers timed out",
};

/** `origin` is the server that was called, without credentials. */
export function faultOf(thrown: unknown, origin: string): Fault {
  if (thrown instanceof Fault) return thrown;
  const cause = rootOf(thrown);
  const fault = (code: Fault["code"], words: string) =>
    new Fault(code, `${origin}: ${words}`, { cause: thrown });
  if (cause instanceof Fault) return fault(cause.code, cause.message);
  const code = codeOf(cause);
  const timeout = TIMEOUTS[code];
  if (timeout !== undefined) return fault("DEADLINE_EXCEEDED", timeout);
  if (code === "UND_ERR_HEADERS_OVERFLOW" || code === "HPE_HEADER_OVERFLOW") {
    return fault("RESOURCE_EXHAUSTED", "the response headers are too large");
  }
  if (cause instanceof Error && cause.name === "HTTPParserError")
    return fault("UNAVAILABLE", "the response is not HTTP");
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
  // OpenSSL's messages are long and hold memory addresses; its codes are readable words.
  if (code === "EPROTO" || !(cause instanceof Error)) return "handshake failed";
  if (code.startsWith("ERR_SSL_")) return code.slice(8).toLowerCase().replaceAll("_", " ");
  return cause.message.split("\n", 1)[0] ?? code;
}

/** The innermost useful error: of an AggregateError (attempts on several addresses) the first. */
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
