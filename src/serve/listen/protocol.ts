// Detects the protocol of a connection by its first bytes, and waits until an HTTP/2 peer has sent its whole
// handshake, so that an incomplete one costs no more than a small buffer and an alarm.

import type { Socket } from "node:net";
import { FRAME_HEADER_LENGTH, FRAME_TYPE } from "../h2/frames/format.ts";
import type { ApplicationProtocol } from "../transport/transport.ts";

export type WireProtocol = ApplicationProtocol | "tls";

/**
 * Connection preface, RFC 9113 §3.4. The frame reader of h2 has its own copy: this file is loaded for every port,
 * that one only with Sluice's transport.
 */
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
/** PUT, POST, PROPFIND and PATCH share letters with the preface, but no HTTP/1 method starts with these three. */
const DECISIVE_BYTES = 3;
const TLS_HANDSHAKE = 0x16;
/**
 * Most bytes of the first SETTINGS frame: 170 settings, of which a dozen exist. Memory of incomplete handshakes is
 * not counted, so it must be small.
 */
export const MAX_FIRST_SETTINGS = 1_024;

/** Returns undefined if more bytes are needed. */
export function detectProtocol(head: Buffer): WireProtocol | undefined {
  if (head[0] === TLS_HANDSHAKE) return "tls";
  const seen = Math.min(head.length, DECISIVE_BYTES);
  if (PREFACE.compare(head, 0, seen, 0, seen) !== 0) return "http1";
  return seen === DECISIVE_BYTES ? "http2" : undefined;
}

/**
 * Whether the client's part of the HTTP/2 handshake, preface and SETTINGS, is complete; undefined: not yet. This
 * only decides whether and when a transport takes over the connection: the transport reads all the bytes again
 * from the first one and validates the settings.
 */
export function checkHandshake(head: Buffer): "yes" | "broken" | undefined {
  const seen = Math.min(head.length, PREFACE.length);
  if (PREFACE.compare(head, 0, seen, 0, seen) !== 0) return "broken";
  if (head.length < PREFACE.length + FRAME_HEADER_LENGTH) return undefined;
  const length = head.readUIntBE(PREFACE.length, 3);
  if (head[PREFACE.length + 3] !== FRAME_TYPE.settings || length > MAX_FIRST_SETTINGS)
    return "broken";
  return head.length < PREFACE.length + FRAME_HEADER_LENGTH + length ? undefined : "yes";
}

/**
 * Reads until `detect` returns an answer, puts all bytes back into the socket and calls `done`. A connection that
 * ends before is destroyed; `closedEarly` learns whether it had sent anything. Listens to `readable`, not `data`: a
 * paused stream would stay paused for its next owner.
 */
export function peek<Answer>(
  socket: Socket,
  detect: (head: Buffer) => Answer | undefined,
  done: (answer: Answer) => void,
  closedEarly: (begun: boolean) => void,
): void {
  let head: Buffer = Buffer.alloc(0);
  const readable = () => {
    for (;;) {
      const chunk: Buffer | null = socket.read();
      if (chunk === null) return;
      head = head.length === 0 ? chunk : concatenated(head, chunk);
      const answer = detect(head);
      if (answer === undefined) continue;
      socket.off("readable", readable);
      socket.off("end", ended);
      socket.off("close", closed);
      socket.unshift(head);
      done(answer);
      return;
    }
  };
  const ended = () => socket.destroy();
  const closed = () => closedEarly(head.length > 0);
  socket.on("readable", readable);
  socket.on("end", ended);
  socket.once("close", closed);
}

/** In memory of its own: in Node's pool, a few bytes of a waiting connection would keep 64 KiB. */
function concatenated(head: Buffer, chunk: Buffer): Buffer {
  const both = Buffer.allocUnsafeSlow(head.length + chunk.length);
  head.copy(both);
  chunk.copy(both, head.length);
  return both;
}
