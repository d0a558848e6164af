// How HTTP replies leave: whole, with their length, errors as a small status object that repeats no input.

import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import { CODES, type Code, type Fault } from "#base/fault.ts";
import type { HttpReply } from "../handler.ts";

/** Time for a caller that is still sending to notice that it has been answered. */
const LINGER_MS = 500;

export function sendReply(
  response: ServerResponse,
  reply: HttpReply,
  more: Readonly<Record<string, string>> | undefined,
): void {
  const { body } = reply;
  const length = Buffer.byteLength(body);
  response.writeHead(reply.status, {
    ...reply.headers,
    ...more,
    "content-length": String(length),
  });
  // As many bytes as characters: ASCII, which leaves without being encoded again.
  if (typeof body === "string" && length === body.length) response.end(body, "latin1");
  else response.end(body);
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

const BROKEN: Readonly<Record<string, readonly [line: string, code: Code, message: string]>> = {
  HPE_HEADER_OVERFLOW: [
    "431 Request Header Fields Too Large",
    "RESOURCE_EXHAUSTED",
    "the request line and headers are too large",
  ],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [
    "413 Payload Too Large",
    "RESOURCE_EXHAUSTED",
    "chunks too large",
  ],
  ERR_HTTP_REQUEST_TIMEOUT: [
    "408 Request Timeout",
    "DEADLINE_EXCEEDED",
    "the request did not arrive in time",
  ],
};
const MALFORMED = ["400 Bad Request", "INVALID_ARGUMENT", "malformed HTTP request"] as const;

/** Answers a connection whose request cannot be parsed or does not arrive, and ends it. */
export function refuseRaw(socket: Socket, reason: string): void {
  const [line, code, message] = BROKEN[reason] ?? MALFORMED;
  const body = statusBody(code, message);
  socket.write(
    `HTTP/1.1 ${line}\r\nconnection: close\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  socket.destroySoon();
}

/**
 * Makes the end of this connection wait until the other side has read its answer. Closing while unread
 * bytes arrive resets the connection, and the answer would be lost with it.
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
