// The client's part of the HTTP/2 handshake (RFC 9113 §3.4): the connection preface and the first SETTINGS frame.

import { FRAME_HEADER_LENGTH, FRAME_TYPE, PREFACE } from "./frames/format.ts";

/**
 * Bytes of the first SETTINGS frame: 170 settings, of which a dozen exist. The limit is small because the memory of
 * incomplete handshakes is not counted.
 */
export const MAX_FIRST_SETTINGS = 1_024;

/**
 * True if the handshake is complete; undefined: not yet. The connection reads all of these bytes again and validates the
 * settings.
 */
export function checkHandshake(head: Buffer): "complete" | "broken" | undefined {
  if (!startsLikePreface(head)) return "broken";
  const start = PREFACE.length + FRAME_HEADER_LENGTH;
  if (head.length < start) return undefined;
  const length = head.readUIntBE(PREFACE.length, 3);
  if (head[PREFACE.length + 3] !== FRAME_TYPE.settings || length > MAX_FIRST_SETTINGS)
    return "broken";
  return head.length < start + length ? undefined : "complete";
}

/** True if the first `length` bytes are those of the preface, as far as both go. */
export function startsLikePreface(head: Buffer, length: number = PREFACE.length): boolean {
  const seen = Math.min(head.length, length, PREFACE.length);
  return head.compare(PREFACE, 0, seen, 0, seen) === 0;
}
