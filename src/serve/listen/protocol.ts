// Detects the protocol of a connection by its first bytes.

import type { Socket } from "node:net";
import { startsLikePreface } from "#h2/handshake.ts";
import type { ApplicationProtocol } from "../transport.ts";

export type WireProtocol = ApplicationProtocol | "tls";

/** PUT, POST, PROPFIND and PATCH share letters with the HTTP/2 preface, but no HTTP/1 method starts with its first three. */
const DECISIVE_BYTES = 3;
const TLS_HANDSHAKE = 0x16;

/** Returns undefined if more bytes are needed. */
export function detectProtocol(head: Buffer): WireProtocol | undefined {
  if (head[0] === TLS_HANDSHAKE) return "tls";
  if (!startsLikePreface(head, DECISIVE_BYTES)) return "http1";
  return head.length >= DECISIVE_BYTES ? "http2" : undefined;
}

/**
 * Reads until `detect` returns an answer, puts all bytes back into the socket and calls `done`. A connection that ends
 * before is destroyed, and `closedEarly` is told whether it had sent anything. Listens to `readable`, not `data`: a
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

/** Not from Node's pool, where a few bytes of a pending connection would keep 64 KiB. */
function concatenated(head: Buffer, chunk: Buffer): Buffer {
  const both = Buffer.allocUnsafeSlow(head.length + chunk.length);
  head.copy(both);
  chunk.copy(both, head.length);
  return both;
}
