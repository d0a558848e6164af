// The parts of HTTP replies: header fields with the length, and faults as a JSON status that repeats no input.

import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import { CODES, type Code, type Fault } from "#base/fault.ts";
import type { HttpReply } from "#base/handler.ts";
import { STATUS_CODES, validateHeaderName, validateHeaderValue } from "#runtime/life/node-http.ts";

/** Time for a caller that is still sending to notice that it has been answered. */
const LINGER_MS = 500;

/** Header fields of a reply, names and values alternating, with the length. Fields of the call take precedence. */
export function replyFields(
  headers: HttpReply["headers"],
  more: readonly string[] | undefined,
  length: number,
): string[] {
  const fields: string[] = [];
  for (const name in headers) fields.push(name, headers[name] ?? "");
  if (more !== undefined) {
    for (let at = 0; at < more.length; at += 2)
      setField(fields, more[at] ?? "", more[at + 1] ?? "");
  }
  setField(fields, "content-length", String(length));
  return fields;
}

function setField(fields: string[], name: string, value: string): void {
  for (let at = 0; at < fields.length; at += 2) {
    if (fields[at] !== name) continue;
    fields[at + 1] = value;
    return;
  }
  fields.push(name, value);
}

/**
 * Status line and fields of a reply over HTTP/1.1, without the empty line at the end. `fields` alternates names and
 * values. Throws if a field is invalid.
 */
export function replyHead(status: number, fields: readonly string[]): string {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n`;
  for (let at = 0; at < fields.length; at += 2)
    head += line(fields[at] ?? "", fields[at + 1] ?? "");
  return head;
}

function line(name: string, value: string): string {
  // Node's own checks are slow; most names and values are plain.
  if (!isPlainName(name)) validateHeaderName(name);
  if (!isPlainText(value)) validateHeaderValue(name, value);
  return `${name}: ${value}\r\n`;
}

/** Letters in lower case and hyphens alone. */
function isPlainName(name: string): boolean {
  for (let at = 0; at < name.length; at++) {
    const code = name.charCodeAt(at);
    if ((code < 0x61 || code > 0x7a) && code !== 0x2d) return false;
  }
  return name.length > 0;
}

/** Printable ASCII alone. */
function isPlainText(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x20 || code > 0x7e) return false;
  }
  return true;
}

export function faultReply(fault: Fault): HttpReply {
  const retry = fault.http === 503 ? { "retry-after": "1" } : undefined;
  return {
    status: fault.http,
    headers: { "content-type": "application/json", ...retry, ...fault.headers },
    body: statusBody(fault.code, fault.message),
  };
}

function statusBody(code: Code, message: string): string {
  return JSON.stringify({ code: CODES[code].number, message, details: [] });
}

const PARSER_ERRORS: Readonly<
  Record<string, readonly [line: string, code: Code, message: string]>
> = {
  HPE_HEADER_OVERFLOW: [
    "431 Request Header Fields Too Large",
    "RESOURCE_EXHAUSTED",
    // Node's parser does not say which of the two it met.
    "too many headers, or a request line and headers that are too large",
  ],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [
    "413 Payload Too Large",
    "RESOURCE_EXHAUSTED",
    "chunks too large",
  ],
  CONNECT: ["405 Method Not Allowed", "UNIMPLEMENTED", "this server is not a proxy"],
  ERR_HTTP_REQUEST_TIMEOUT: [
    "408 Request Timeout",
    "DEADLINE_EXCEEDED",
    "the request did not arrive in time",
  ],
};
const MALFORMED = ["400 Bad Request", "INVALID_ARGUMENT", "malformed HTTP request"] as const;

/** Answers a connection whose request is malformed or late, and closes it. Returns the status. */
export function refuseRaw(socket: Socket, reason: string): number {
  const [line, code, message] = PARSER_ERRORS[reason] ?? MALFORMED;
  const body = statusBody(code, message);
  socket.write(
    `HTTP/1.1 ${line}\r\nconnection: close\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  socket.destroySoon();
  return Number.parseInt(line, 10);
}

/**
 * Delays the close of this connection until the peer has read its reply. Closing while bytes arrive would reset the
 * connection and lose the reply.
 */
export function linger(socket: Socket, clock: Clock): void {
  socket.destroySoon = () => {
    socket.end();
    const forget = clock.alarm(LINGER_MS, () => socket.destroy());
    socket.once("close", forget);
    socket.once("end", () => socket.destroy());
    socket.resume();
  };
}
