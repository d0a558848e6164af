// Generates bytes that violate the protocol: frames that no honest client sends, and valid frames (generated or
// recorded) with mutations.

import {
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  frame,
  GOAWAY,
  grpcFields,
  HEADERS,
  MAX_FRAME_SIZE,
  PADDED,
  PREFACE,
  PRIORITY,
  PUSH_PROMISE,
  RST_STREAM,
  SETTINGS,
  uint32,
  WINDOW_UPDATE,
} from "../../../kit/clients/h2.ts";
import { block, type Field, integer, literal, tableSize } from "../../../kit/clients/hpack.ts";
import type { FuzzClient } from "./client.ts";
import type { Random } from "./random.ts";

const HEAD = 9;
const NOTHING = new Uint8Array();
const FULL_PAYLOAD = new Uint8Array(MAX_FRAME_SIZE);

/** One or a few frames that a client must not send, at least not on this stream in this state. */
export function forbiddenFrames(random: Random, client: FuzzClient): Buffer {
  const stream = client.someStream;
  const odd = stream | 1;
  return random.pick<() => Buffer>([
    () => frame(random.below(12), random.below(256), stream, random.bytes(random.below(40))),
    () =>
      frame(
        random.below(256),
        random.below(256),
        random.below(2 ** 32),
        random.bytes(random.below(20)),
      ),
    () =>
      frame(random.below(10), random.below(256), stream, random.bytes(8), random.below(2 ** 24)),
    () => frame(DATA, random.below(2), stream, random.bytes(random.below(50))),
    () =>
      frame(DATA, PADDED, stream, Buffer.of(random.below(256), ...random.bytes(random.below(50)))),
    () => frame(DATA, 0, stream, Buffer.alloc(MAX_FRAME_SIZE)),
    () => frame(HEADERS, END_HEADERS | random.below(256), odd, random.bytes(random.below(60))),
    () => frame(HEADERS, 0, client.nextStream(), random.bytes(random.below(10))),
    () => client.headerFrames(client.nextStream(), badBlock(random), END_STREAM),
    () => client.headerFrames(client.nextStream(), badBlock(random), 0),
    () => client.headers(client.nextStream(), badFields(random), random.below(2)),
    () => client.headers(client.nextStream(), badFields(random), random.below(2)),
    () => client.headers(stream, grpcFields("/fuzz.Service/Echo"), random.below(2)),
    () => client.headers(stream, [["x-last", "yes"]], random.below(2)),
    () => frame(CONTINUATION, random.below(8), stream, random.bytes(random.below(10))),
    () =>
      Buffer.concat(
        Array.from({ length: 70 }, (_, at) =>
          at === 0 ? frame(HEADERS, 0, odd) : frame(CONTINUATION, 0, odd),
        ),
      ),
    () => frame(PUSH_PROMISE, END_HEADERS, stream, random.bytes(8)),
    () => frame(WINDOW_UPDATE, 0, random.pick([0, stream]), uint32(0)),
    () => frame(WINDOW_UPDATE, 0, random.pick([0, stream]), uint32(0x7fffffff)),
    () => frame(WINDOW_UPDATE, 0, stream, random.bytes(random.below(8))),
    () => frame(RST_STREAM, 0, stream, random.bytes(random.pick([4, 4, 4, 3, 5]))),
    () => frame(SETTINGS, random.below(2), 0, random.bytes(random.pick([6, 12, 18, 5, 7]))),
    () => frame(SETTINGS, 0, 0, Buffer.from([0, random.below(8), ...random.bytes(4)])),
    () => frame(PRIORITY, 0, stream, Buffer.concat([uint32(stream), Buffer.of(1)])),
    () => frame(PRIORITY, 0, stream, random.bytes(random.below(8))),
    () => frame(GOAWAY, 0, random.below(2), random.bytes(random.below(12))),
    () => frame(random.below(10), 0, stream, Buffer.alloc(MAX_FRAME_SIZE + random.below(3))),
  ])();
}

/** Frames that as a rule cause a stream error and no connection error. */
export function streamErrors(random: Random, client: FuzzClient): Buffer {
  const stream = client.liveStream;
  const head = (fields: readonly Field[], flags: number) =>
    client.headers(client.nextStream(), fields, flags);
  return random.pick<() => Buffer>([
    () => head(badFields(random), END_STREAM),
    () => head(badFields(random), 0),
    () => head(badFields(random), END_STREAM),
    () => {
      const announced: Field = ["content-length", String(random.below(100))];
      return Buffer.concat([
        head([...grpcFields("/fuzz.Service/Echo"), announced], 0),
        frame(DATA, random.below(2), client.lastStream, random.bytes(random.below(100))),
      ]);
    },
    () => frame(DATA, random.below(2), client.oldStream, random.bytes(random.below(50))),
    () => frame(WINDOW_UPDATE, 0, stream, uint32(0)),
    () => frame(WINDOW_UPDATE, 0, stream, uint32(0x7fffffff)),
    () => frame(PRIORITY, 0, stream, Buffer.concat([uint32(stream), Buffer.of(1)])),
    () => frame(PRIORITY, 0, stream, random.bytes(random.below(5))),
    () => client.headers(stream, [["x-last", "yes"]], 0),
    () => client.headers(stream, [[":path", "/"]], END_STREAM),
    () => Buffer.concat(Array.from({ length: 20 }, () => frame(DATA, 0, stream, NOTHING))),
    () => Buffer.concat(Array.from({ length: 17 }, () => frame(DATA, 0, stream, FULL_PAYLOAD))),
    () => frame(RST_STREAM, 0, client.oldStream, random.bytes(4)),
  ])();
}

/** Fields that make a request malformed, too large or merely unusual. */
function badFields(random: Random): readonly Field[] {
  const good = grpcFields("/fuzz.Service/Echo");
  const odd = random.pick<Field>([
    ["X-Upper", "1"],
    ["connection", "close"],
    ["transfer-encoding", "chunked"],
    ["te", "gzip"],
    ["content-length", random.pick(["1", "-1", "5", "x", "99999999999999999999"])],
    ["host", "other"],
    ["x", "a\r\nb"],
    ["x", " blank "],
    ["", "empty"],
    [":path", "/again"],
    [":odd", "1"],
    [":status", "200"],
    ["x", "\u0000"],
    ["x y", "z"],
    ["x-long", "l".repeat(random.below(70_000))],
  ]);
  switch (random.below(4)) {
    case 0:
      return [...good, odd];
    case 1:
      return [odd, ...good];
    case 2:
      return good.filter(() => random.chance(0.8));
    default:
      return good.map((field) => (random.chance(0.2) ? odd : field));
  }
}

/** A field block that does not decode, or barely decodes. */
function badBlock(random: Random): Buffer {
  const good = block(grpcFields("/fuzz.Service/Echo"));
  return random.pick<() => Buffer>([
    () => random.bytes(random.below(80)),
    () => flip(random, good),
    () => good.subarray(0, random.below(good.length)),
    () => Buffer.concat([good, tableSize(0)]),
    () => Buffer.concat([tableSize(random.below(10_000)), good]),
    () => Buffer.concat([good, integer(random.below(300), 7, 0x80)]),
    () => Buffer.concat([integer(2 ** 40, 7, 0x80), good]),
    () => Buffer.concat([good, Buffer.alloc(random.below(30), 0xff)]),
    () => Buffer.concat([good, Buffer.of(0, 0x81, random.below(256), 0x81, random.below(256))]),
    () =>
      Buffer.concat([good, literal(["x-bomb", "b".repeat(3_900)], true), Buffer.alloc(500, 0xbe)]),
  ])();
}

/** Valid frames with one mutation, after which frame boundaries may be lost. */
export function changedFrames(random: Random, good: Buffer): Buffer {
  if (good.length < HEAD) return good;
  const bytes = Buffer.from(good);
  switch (random.below(8)) {
    case 0:
      bytes[3] = random.below(12);
      return bytes;
    case 1:
      bytes[4] = random.below(256);
      return bytes;
    case 2:
      bytes.writeUInt32BE(random.below(64), 5);
      return bytes;
    case 3:
      bytes.writeUIntBE(random.size(2 ** 24 - 1), 0, 3);
      return bytes;
    case 4:
      return Buffer.concat([bytes, bytes]);
    case 5:
      return shortened(random, bytes);
    default:
      return flip(random, bytes);
  }
}

function flip(random: Random, bytes: Buffer): Buffer {
  const flipped = Buffer.from(bytes);
  for (let at = random.between(1, 4); at > 0 && bytes.length > 0; at--) {
    const where = random.below(bytes.length);
    flipped[where] = (flipped[where] ?? 0) ^ (1 << random.below(8));
  }
  return flipped;
}

/** The first frame with a shorter payload and a matching length. */
function shortened(random: Random, bytes: Buffer): Buffer {
  const length = random.below(Math.min(bytes.readUIntBE(0, 3), bytes.length - HEAD) + 1);
  bytes.writeUIntBE(length, 0, 3);
  return bytes.subarray(0, HEAD + length);
}

/** The bytes of a client: its connection preface, then its frames. */
export type Recording = readonly Buffer[];

export function parseRecording(bytes: Buffer): Recording {
  const frames: Buffer[] = [bytes.subarray(0, PREFACE.length)];
  for (let at = PREFACE.length; at + HEAD <= bytes.length; ) {
    const end = at + HEAD + bytes.readUIntBE(at, 3);
    frames.push(bytes.subarray(at, end));
    at = end;
  }
  return frames;
}

/** A random recording with this many mutations of frames or bytes. */
export function mutatedRecording(
  random: Random,
  recordings: readonly Recording[],
  changes: number,
): Buffer {
  let frames = [...random.pick(recordings)];
  for (let at = 0; at < changes; at++) {
    // The preface mostly stays: without it the connection ends at once.
    const where = random.between(random.chance(0.02) ? 0 : 1, frames.length - 1);
    const count = 1 + random.size(8);
    const one = frames[where] ?? PREFACE;
    switch (random.below(7)) {
      case 0:
        frames.splice(where, count);
        break;
      case 1:
        frames.splice(where, 0, ...frames.slice(where, where + count));
        break;
      case 2: {
        const other = random.pick(recordings);
        const from = random.between(1, other.length - 1);
        frames.splice(where, random.below(count), ...other.slice(from, from + count));
        break;
      }
      case 3:
        frames.splice(random.between(1, frames.length), 0, ...frames.splice(where, 1));
        break;
      case 4:
        frames.splice(where, 1, changedFrames(random, one));
        break;
      case 5:
        frames.splice(where, 1, flip(random, one));
        break;
      default:
        frames = [bytesChanged(random, Buffer.concat(frames))];
        break;
    }
    if (frames.length < 2) break;
  }
  return Buffer.concat(frames);
}

/** Bytes removed, duplicated or inserted after the preface, so that all later frame boundaries are lost. */
function bytesChanged(random: Random, bytes: Buffer): Buffer {
  const at = random.between(Math.min(PREFACE.length, bytes.length), bytes.length);
  const count = 1 + random.size(50);
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
  switch (random.below(3)) {
    case 0:
      return Buffer.concat([before, after.subarray(count)]);
    case 1:
      return Buffer.concat([before, after.subarray(0, count), after]);
    default:
      return Buffer.concat([before, random.bytes(count), after]);
  }
}
