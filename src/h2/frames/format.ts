// The frame format of RFC 9113: types, flags, error codes and settings, and functions that read and write its
// numbers.

/** The connection preface, §3.4. */
export const PREFACE: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

export const FRAME_TYPE = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const FLAG = {
  endStream: 0x1,
  ack: 0x1,
  endHeaders: 0x4,
  padded: 0x8,
  priority: 0x20,
} as const;

/** Error codes, RFC 9113 §7. */
export const ERROR_CODE = {
  noError: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  streamClosed: 5,
  frameSize: 6,
  refusedStream: 7,
  cancel: 8,
  compression: 9,
  enhanceYourCalm: 11,
} as const;

/** Settings, RFC 9113 §6.5.2. */
export const SETTING = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const;

export const FRAME_HEADER_LENGTH = 9;
/** Payload bytes (§6); for GOAWAY, those before its debug data. */
export const PAYLOAD_LENGTH = {
  priority: 5,
  rstStream: 4,
  windowUpdate: 4,
  setting: 6,
  ping: 8,
  goAway: 8,
} as const;
/**
 * Largest payload of a frame in both directions: every peer must accept this much (§4.2, §6.5.2), and we neither send
 * nor allow more.
 */
export const MAX_FRAME_SIZE = 16_384;
/** Initial (§6.9.2) and largest (§6.9.1) size of a flow-control window. */
export const DEFAULT_WINDOW = 65_535;
export const MAX_WINDOW = 0x7fffffff;

/** Writes a frame header; returns the offset of the payload. */
export function writeFrameHeader(
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
  return writeUint32(bytes, start + 5, stream);
}

/** Sets the length in a frame header that was written before the length was known. */
export function writeFrameLength(bytes: Uint8Array, start: number, length: number): void {
  bytes[start] = length >>> 16;
  bytes[start + 1] = length >>> 8;
  bytes[start + 2] = length;
}

export function writeUint32(bytes: Uint8Array, at: number, value: number): number {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
  return at + 4;
}

export function readUint32(bytes: Uint8Array, at: number): number {
  return (
    (((bytes[at] ?? 0) << 24) |
      ((bytes[at + 1] ?? 0) << 16) |
      ((bytes[at + 2] ?? 0) << 8) |
      (bytes[at + 3] ?? 0)) >>>
    0
  );
}

/** Reads 31 bits: stream ids and window sizes have a reserved first bit. */
export function readUint31(bytes: Uint8Array, at: number): number {
  return readUint32(bytes, at) & MAX_WINDOW;
}
