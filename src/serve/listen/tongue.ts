// Tells by its first bytes which tongue a connection speaks, and waits until an HTTP/2 peer has shown its
// whole handshake, so that neither costs more than a small buffer and one alarm.

import type { Socket } from "node:net";
import { FRAME, FRAME_HEAD } from "../h2/frames.ts";

/** What may follow TLS, or come without it. */
export type PlainTongue = "http1" | "http2";
export type Tongue = PlainTongue | "tls";

/** RFC 9113 §3.4. The reader of h2 has its own: this is loaded for every port, that only with the own transport. */
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
/** PUT, POST, PROPFIND and PATCH share letters with the preface; no HTTP/1 method starts with these. */
const TELLING = 3;
const TLS_HANDSHAKE = 0x16;
/**
 * Bytes of the first SETTINGS frame: 170 settings, of which there are a dozen. Connections whose handshake is not
 * whole are not counted by what they make us keep, so it is to be little.
 */
export const MAX_FIRST_SETTINGS = 1_024;

/** undefined: more bytes are needed. */
export function tongueOf(head: Buffer): Tongue | undefined {
  if (head[0] === TLS_HANDSHAKE) return "tls";
  const seen = Math.min(head.length, TELLING);
  if (PREFACE.compare(head, 0, seen, 0, seen) !== 0) return "http1";
  return seen === TELLING ? "http2" : undefined;
}

/**
 * Is the client's part of the HTTP/2 handshake, preface and SETTINGS, here as a whole? undefined: not yet. Only whether
 * and when a transport gets the connection is decided here. It gets all the bytes, reads them from the first one on as
 * if nobody had, and judges what the settings say.
 */
export function greeted(head: Buffer): "yes" | "broken" | undefined {
  const seen = Math.min(head.length, PREFACE.length);
  if (PREFACE.compare(head, 0, seen, 0, seen) !== 0) return "broken";
  if (head.length < PREFACE.length + FRAME_HEAD) return undefined;
  const length = head.readUIntBE(PREFACE.length, 3);
  if (head[PREFACE.length + 3] !== FRAME.settings || length > MAX_FIRST_SETTINGS) return "broken";
  return head.length < PREFACE.length + FRAME_HEAD + length ? undefined : "yes";
}

/**
 * Reads until `judge` has an answer, puts all bytes back and hands the answer on. A connection that ends
 * first is destroyed, and `left` says whether anything had come of it. `readable` and not `data`: a paused stream
 * would stay paused for its next owner.
 */
export function peek<Answer>(
  socket: Socket,
  judge: (head: Buffer) => Answer | undefined,
  done: (answer: Answer) => void,
  left: (begun: boolean) => void,
): void {
  let head: Buffer = Buffer.alloc(0);
  const readable = () => {
    for (;;) {
      const chunk: Buffer | null = socket.read();
      if (chunk === null) return;
      head = head.length === 0 ? chunk : joined(head, chunk);
      const answer = judge(head);
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
  const closed = () => left(head.length > 0);
  socket.on("readable", readable);
  socket.on("end", ended);
  socket.once("close", closed);
}

/** In memory of its own: of Node's pool, a few bytes of a connection that waits would keep 64 KiB. */
function joined(head: Buffer, chunk: Buffer): Buffer {
  const both = Buffer.allocUnsafeSlow(head.length + chunk.length);
  head.copy(both);
  chunk.copy(both, head.length);
  return both;
}
