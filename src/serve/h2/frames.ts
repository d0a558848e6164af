// Numbers of RFC 9113: kinds of frames, flags, error codes, settings; and how a frame's head is written.

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  push: 5,
  ping: 6,
  goaway: 7,
  window: 8,
  continuation: 9,
} as const;

export const FLAG = {
  endStream: 0x1,
  ack: 0x1,
  endHeaders: 0x4,
  padded: 0x8,
  priority: 0x20,
} as const;

/** RFC 9113 §7. */
export const ERROR = {
  none: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  streamClosed: 5,
  frameSize: 6,
  refused: 7,
  cancel: 8,
  compression: 9,
  calm: 11,
} as const;

/** RFC 9113 §6.5.2. */
export const SETTING = {
  headerTable: 1,
  enablePush: 2,
  maxStreams: 3,
  initialWindow: 4,
  maxFrame: 5,
  maxHeaderList: 6,
} as const;

export const FRAME_HEAD = 9;
/** Payload bytes (§6): `number` is all of RST_STREAM and WINDOW_UPDATE, `goaway` what stands before its debug data. */
export const PAYLOAD = {
  priority: 5,
  number: 4,
  setting: 6,
  ping: 8,
  goaway: 8,
} as const;
/**
 * Most payload of any frame, in both directions: every peer must take so much and may only allow more (§4.2,
 * §6.5.2), we never send more, and never allow more.
 */
export const MAX_FRAME = 16_384;
/** What a window is until somebody says otherwise (§6.9.2), and its most (§6.9.1). */
export const FIRST_WINDOW = 65_535;
export const MAX_WINDOW = 0x7fffffff;

/** Writes a frame's head; returns where its payload begins. */
export function putHead(
  bytes: Uint8Array,
  start: number,
  length: number,
  type: number,
  flags: number,
  stream: number,
): number {
  bytes[start] = length >>> 16;
  bytes[start + 1] = length >>> 8;
  bytes[start + 2] = length;
  bytes[start + 3] = type;
  bytes[start + 4] = flags;
  return putUint32(bytes, start + 5, stream);
}

/** Sets the length in a frame head that was written before it was known. */
export function putLength(bytes: Uint8Array, start: number, length: number): void {
  bytes[start] = length >>> 16;
  bytes[start + 1] = length >>> 8;
  bytes[start + 2] = length;
}

export function putUint32(bytes: Uint8Array, at: number, value: number): number {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
  return at + 4;
}

export function uint32(bytes: Uint8Array, at: number): number {
  return (
    (((bytes[at] ?? 0) << 24) |
      ((bytes[at + 1] ?? 0) << 16) |
      ((bytes[at + 2] ?? 0) << 8) |
      (bytes[at + 3] ?? 0)) >>>
    0
  );
}

/** The same without the reserved bit of stream ids and window sizes. */
export function uint31(bytes: Uint8Array, at: number): number {
  return uint32(bytes, at) & MAX_WINDOW;
}
