// Bytes that break the rules: frames that no honest client sends, and good ones (a client's, or a recording's) with
// something changed.

import type { Dice } from "./fuzz-dice.ts";
import type { Maker } from "./fuzz-make.ts";
import {
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  FULL,
  frame,
  GOAWAY,
  grpcFields,
  HEADERS,
  PADDED,
  PREFACE,
  PRIORITY,
  PUSH_PROMISE,
  RST_STREAM,
  SETTINGS,
  uint32,
  WINDOW_UPDATE,
} from "./h2.ts";
import { block, type Field, integer, literal, tableSize } from "./hpack-raw.ts";

const HEAD = 9;
const NOTHING = new Uint8Array();
const FULL_OF_IT = new Uint8Array(FULL);

/** A frame, or a few, that a client may not send, or only there and then. */
export function forbidden(dice: Dice, maker: Maker): Buffer {
  const stream = maker.someStream;
  const odd = stream | 1;
  return dice.pick<() => Buffer>([
    () => frame(dice.below(12), dice.below(256), stream, dice.bytes(dice.below(40))),
    () => frame(dice.below(256), dice.below(256), dice.below(2 ** 32), dice.bytes(dice.below(20))),
    () => frame(dice.below(10), dice.below(256), stream, dice.bytes(8), dice.below(2 ** 24)),
    () => frame(DATA, dice.below(2), stream, dice.bytes(dice.below(50))),
    () => frame(DATA, PADDED, stream, Buffer.of(dice.below(256), ...dice.bytes(dice.below(50)))),
    () => frame(DATA, 0, stream, Buffer.alloc(FULL)),
    () => frame(HEADERS, END_HEADERS | dice.below(256), odd, dice.bytes(dice.below(60))),
    () => frame(HEADERS, 0, maker.nextStream(), dice.bytes(dice.below(10))),
    () => maker.headFrames(maker.nextStream(), badBlock(dice), END_STREAM),
    () => maker.headFrames(maker.nextStream(), badBlock(dice), 0),
    () => maker.head(maker.nextStream(), badFields(dice), dice.below(2)),
    () => maker.head(maker.nextStream(), badFields(dice), dice.below(2)),
    () => maker.head(stream, grpcFields("/fuzz.Service/Echo"), dice.below(2)),
    () => maker.head(stream, [["x-last", "yes"]], dice.below(2)),
    () => frame(CONTINUATION, dice.below(8), stream, dice.bytes(dice.below(10))),
    () =>
      Buffer.concat(
        Array.from({ length: 70 }, (_, at) =>
          at === 0 ? frame(HEADERS, 0, odd) : frame(CONTINUATION, 0, odd),
        ),
      ),
    () => frame(PUSH_PROMISE, END_HEADERS, stream, dice.bytes(8)),
    () => frame(WINDOW_UPDATE, 0, dice.pick([0, stream]), uint32(0)),
    () => frame(WINDOW_UPDATE, 0, dice.pick([0, stream]), uint32(0x7fffffff)),
    () => frame(WINDOW_UPDATE, 0, stream, dice.bytes(dice.below(8))),
    () => frame(RST_STREAM, 0, stream, dice.bytes(dice.pick([4, 4, 4, 3, 5]))),
    () => frame(SETTINGS, dice.below(2), 0, dice.bytes(dice.pick([6, 12, 18, 5, 7]))),
    () => frame(SETTINGS, 0, 0, Buffer.from([0, dice.below(8), ...dice.bytes(4)])),
    () => frame(PRIORITY, 0, stream, Buffer.concat([uint32(stream), Buffer.of(1)])),
    () => frame(PRIORITY, 0, stream, dice.bytes(dice.below(8))),
    () => frame(GOAWAY, 0, dice.below(2), dice.bytes(dice.below(12))),
    () => frame(dice.below(10), 0, stream, Buffer.alloc(FULL + dice.below(3))),
  ])();
}

/** What a stream dies of and its connection does not, as a rule. */
export function careless(dice: Dice, maker: Maker): Buffer {
  const stream = maker.liveStream;
  const head = (fields: readonly Field[], flags: number) =>
    maker.head(maker.nextStream(), fields, flags);
  return dice.pick<() => Buffer>([
    () => head(badFields(dice), END_STREAM),
    () => head(badFields(dice), 0),
    () => head(badFields(dice), END_STREAM),
    () => {
      const announced: Field = ["content-length", String(dice.below(100))];
      return Buffer.concat([
        head([...grpcFields("/fuzz.Service/Echo"), announced], 0),
        frame(DATA, dice.below(2), maker.lastStream, dice.bytes(dice.below(100))),
      ]);
    },
    () => frame(DATA, dice.below(2), maker.oldStream, dice.bytes(dice.below(50))),
    () => frame(WINDOW_UPDATE, 0, stream, uint32(0)),
    () => frame(WINDOW_UPDATE, 0, stream, uint32(0x7fffffff)),
    () => frame(PRIORITY, 0, stream, Buffer.concat([uint32(stream), Buffer.of(1)])),
    () => frame(PRIORITY, 0, stream, dice.bytes(dice.below(5))),
    () => maker.head(stream, [["x-last", "yes"]], 0),
    () => maker.head(stream, [[":path", "/"]], END_STREAM),
    () => Buffer.concat(Array.from({ length: 20 }, () => frame(DATA, 0, stream, NOTHING))),
    () => Buffer.concat(Array.from({ length: 17 }, () => frame(DATA, 0, stream, FULL_OF_IT))),
    () => frame(RST_STREAM, 0, maker.oldStream, dice.bytes(4)),
  ])();
}

/** Fields that make a request malformed, or too large, or merely odd. */
function badFields(dice: Dice): readonly Field[] {
  const good = grpcFields("/fuzz.Service/Echo");
  const odd = dice.pick<Field>([
    ["X-Upper", "1"],
    ["connection", "close"],
    ["transfer-encoding", "chunked"],
    ["te", "gzip"],
    ["content-length", dice.pick(["1", "-1", "5", "x", "99999999999999999999"])],
    ["host", "other"],
    ["x", "a\r\nb"],
    ["x", " blank "],
    ["", "empty"],
    [":path", "/again"],
    [":odd", "1"],
    [":status", "200"],
    ["x", "\u0000"],
    ["x y", "z"],
    ["x-long", "l".repeat(dice.below(70_000))],
  ]);
  switch (dice.below(4)) {
    case 0:
      return [...good, odd];
    case 1:
      return [odd, ...good];
    case 2:
      return good.filter(() => dice.hits(0.8));
    default:
      return good.map((field) => (dice.hits(0.2) ? odd : field));
  }
}

/** A header block that does not decode, or only just. */
function badBlock(dice: Dice): Buffer {
  const good = block(grpcFields("/fuzz.Service/Echo"));
  return dice.pick<() => Buffer>([
    () => dice.bytes(dice.below(80)),
    () => flip(dice, good),
    () => good.subarray(0, dice.below(good.length)),
    () => Buffer.concat([good, tableSize(0)]),
    () => Buffer.concat([tableSize(dice.below(10_000)), good]),
    () => Buffer.concat([good, integer(dice.below(300), 7, 0x80)]),
    () => Buffer.concat([integer(2 ** 40, 7, 0x80), good]),
    () => Buffer.concat([good, Buffer.alloc(dice.below(30), 0xff)]),
    () => Buffer.concat([good, Buffer.of(0, 0x81, dice.below(256), 0x81, dice.below(256))]),
    () =>
      Buffer.concat([good, literal(["x-bomb", "b".repeat(3_900)], true), Buffer.alloc(500, 0xbe)]),
  ])();
}

/** Good frames with something changed; whoever reads on may be out of step. */
export function changed(dice: Dice, good: Buffer): Buffer {
  if (good.length < HEAD) return good;
  const bytes = Buffer.from(good);
  switch (dice.below(8)) {
    case 0:
      bytes[3] = dice.below(12);
      return bytes;
    case 1:
      bytes[4] = dice.below(256);
      return bytes;
    case 2:
      bytes.writeUInt32BE(dice.below(64), 5);
      return bytes;
    case 3:
      bytes.writeUIntBE(dice.size(2 ** 24 - 1), 0, 3);
      return bytes;
    case 4:
      return Buffer.concat([bytes, bytes]);
    case 5:
      return shortened(dice, bytes);
    default:
      return flip(dice, bytes);
  }
}

function flip(dice: Dice, bytes: Buffer): Buffer {
  const flipped = Buffer.from(bytes);
  for (let at = dice.between(1, 4); at > 0 && bytes.length > 0; at--) {
    const where = dice.below(bytes.length);
    flipped[where] = (flipped[where] ?? 0) ^ (1 << dice.below(8));
  }
  return flipped;
}

/** The first frame, with less payload than it had and a length that says so. */
function shortened(dice: Dice, bytes: Buffer): Buffer {
  const length = dice.below(Math.min(bytes.readUIntBE(0, 3), bytes.length - HEAD) + 1);
  bytes.writeUIntBE(length, 0, 3);
  return bytes.subarray(0, HEAD + length);
}

/** A client's bytes: its preface, then frames. */
export type Recording = readonly Buffer[];

export function recordingOf(bytes: Buffer): Recording {
  const frames: Buffer[] = [bytes.subarray(0, PREFACE.length)];
  for (let at = PREFACE.length; at + HEAD <= bytes.length; ) {
    const end = at + HEAD + bytes.readUIntBE(at, 3);
    frames.push(bytes.subarray(at, end));
    at = end;
  }
  return frames;
}

/** One of the recordings with so many changes, by frames and by bytes. */
export function mutated(dice: Dice, recordings: readonly Recording[], changes: number): Buffer {
  let frames = [...dice.pick(recordings)];
  for (let at = 0; at < changes; at++) {
    // The preface stays, mostly: without it there is nothing to see.
    const where = dice.between(dice.hits(0.02) ? 0 : 1, frames.length - 1);
    const count = 1 + dice.size(8);
    const one = frames[where] ?? PREFACE;
    switch (dice.below(7)) {
      case 0:
        frames.splice(where, count);
        break;
      case 1:
        frames.splice(where, 0, ...frames.slice(where, where + count));
        break;
      case 2: {
        const other = dice.pick(recordings);
        const from = dice.between(1, other.length - 1);
        frames.splice(where, dice.below(count), ...other.slice(from, from + count));
        break;
      }
      case 3:
        frames.splice(dice.between(1, frames.length), 0, ...frames.splice(where, 1));
        break;
      case 4:
        frames.splice(where, 1, changed(dice, one));
        break;
      case 5:
        frames.splice(where, 1, flip(dice, one));
        break;
      default:
        frames = [bytesChanged(dice, Buffer.concat(frames))];
        break;
    }
    if (frames.length < 2) break;
  }
  return Buffer.concat(frames);
}

/** Bytes lost, doubled or put in behind the preface, so that everything behind them is out of step. */
function bytesChanged(dice: Dice, bytes: Buffer): Buffer {
  const at = dice.between(Math.min(PREFACE.length, bytes.length), bytes.length);
  const count = 1 + dice.size(50);
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
  switch (dice.below(3)) {
    case 0:
      return Buffer.concat([before, after.subarray(count)]);
    case 1:
      return Buffer.concat([before, after.subarray(0, count), after]);
    default:
      return Buffer.concat([before, dice.bytes(count), after]);
  }
}
