// Frames of a client that knows the rules: calls of every kind, their bodies in pieces, settings, windows, pings. What
// it was told is kept, so that everything it does is allowed and every call of it can be held against its reply.

import { gzipSync } from "node:zlib";
import type { Dice } from "./fuzz-dice.ts";
import type { Judge, Reply } from "./fuzz-judge.ts";
import { Packer } from "./fuzz-pack.ts";
import {
  ACK,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  FULL,
  frame,
  GOAWAY,
  grpcFields,
  HEADERS,
  httpFields,
  message,
  PADDED,
  PING,
  PRIORITY,
  priority,
  RST_STREAM,
  SETTINGS,
  settings,
  uint32,
  WITH_PRIORITY,
  windowUpdate,
} from "./h2.ts";
import type { Field } from "./hpack-raw.ts";

/** Calls at once; few enough that none is refused. */
const AT_ONCE = 60;
/** What is asked for at once in long replies, so that none is refused for what is kept. */
const MOST_ASKED = 3_000_000;
const ZIPPED = gzipSync("zipped".repeat(50));

interface Upload {
  readonly stream: number;
  readonly path: string;
  readonly fields: readonly Field[];
  /** The reply to a call that nothing is wrong with. */
  readonly echoes: Buffer | undefined;
  readonly trailers: boolean;
  body: Buffer;
  /** Flow-controlled bytes so far. */
  data: number;
  state: "sending" | "sent" | "taken back";
}

export class Maker {
  readonly #dice: Dice;
  readonly #judge: Judge;
  readonly #packer: Packer;
  /** How many messages are long ones. */
  readonly #long: number;
  readonly #uploads: Upload[] = [];
  #sending: Upload[] = [];
  #last = -1;
  #data = 0;
  #asked = 0;
  #takenBack = 0;
  /** No further calls. */
  leaving = false;

  constructor(dice: Dice, judge: Judge) {
    this.#dice = dice;
    this.#judge = judge;
    this.#packer = new Packer(dice);
    this.#long = dice.hits(0.1) ? 0.3 : 0.005;
  }

  /** A stream that is or was there, or nearly. */
  get someStream(): number {
    return Math.max(0, this.#last + this.#dice.between(-8, 4));
  }

  /** The newest stream, one that is being sent on, and any that was there. */
  get lastStream(): number {
    return Math.max(1, this.#last);
  }

  get liveStream(): number {
    return this.#sending.length === 0 ? this.lastStream : this.#dice.pick(this.#sending).stream;
  }

  get oldStream(): number {
    return this.#uploads.length === 0 ? this.lastStream : this.#dice.pick(this.#uploads).stream;
  }

  /** One or more frames. */
  next(): Buffer {
    const roll = this.#dice.below(100);
    if (roll < 32) return this.#open();
    if (roll < 70) return this.#goOn();
    if (roll < 73) return this.#takeBack();
    return this.#control();
  }

  /** What `next` would, for calls that have begun: sends on or takes back, until nothing is being sent. */
  finish(): Buffer | undefined {
    const parts: Buffer[] = [];
    for (const upload of [...this.#sending]) {
      if (upload.path === WAIT) parts.push(this.#drop(upload));
      else parts.push(this.#part(upload, true));
    }
    for (const upload of this.#uploads) {
      const waits = upload.path === WAIT && upload.state === "sent";
      if (waits && !over(this.#judge.replies.get(upload.stream))) parts.push(this.#drop(upload));
    }
    return parts.length === 0 ? undefined : Buffer.concat(parts);
  }

  get done(): boolean {
    return this.#sending.length === 0;
  }

  /** Room for whatever the server still has to say. */
  openWindows(): Buffer {
    const open = this.#uploads.filter(({ stream }) => !over(this.#judge.replies.get(stream)));
    return Buffer.concat([
      windowUpdate(0, 2 ** 28),
      ...open.map(({ stream }) => windowUpdate(stream, 2 ** 26)),
    ]);
  }

  /** Every call that was not taken back has its reply. */
  get answered(): boolean {
    return this.#uploads.every(
      ({ stream, state }) => state === "taken back" || over(this.#judge.replies.get(stream)),
    );
  }

  /** What is wrong with the replies to calls that nothing was wrong with. */
  complaints(): readonly string[] {
    return this.#uploads.flatMap((upload) => {
      const { stream, path, echoes, state } = upload;
      if (state === "taken back" || path === WAIT) return [];
      const reply = this.#judge.reply(stream);
      const what = `stream ${stream}, ${path}`;
      if (reply.state !== "ended") return [`${what}: no reply`];
      if (reply.resets.some((code) => code !== 0)) return [`${what}: reset with ${reply.resets}`];
      if (echoes === undefined) return [];
      const status = reply.trailers.find(([name]) => name === "grpc-status")?.[1];
      const text = (fields: readonly Field[]) => fields.find(([name]) => name === "x-text")?.[1];
      if (text(reply.fields) !== text(upload.fields)) return [`${what}: another x-text`];
      const same = Buffer.concat(reply.body).equals(echoes);
      return same && status === "0" ? [] : [`${what}: another message than its own`];
    });
  }

  /** A head in as many frames as the dice say. */
  head(stream: number, fields: readonly Field[], flags: number): Buffer {
    return this.headFrames(stream, this.#packer.block(fields), flags);
  }

  headFrames(stream: number, block: Buffer, flags: number): Buffer {
    const dice = this.#dice;
    const prefix: Buffer[] = [];
    let more = flags;
    const padding = dice.hits(0.1) ? dice.below(256) : -1;
    if (padding >= 0) {
      more |= PADDED;
      prefix.push(Buffer.of(padding));
    }
    if (dice.hits(0.15)) {
      more |= WITH_PRIORITY;
      prefix.push(uint32(dice.below(2) * 2 ** 31), Buffer.of(dice.below(256)));
    }
    const pieces = pieceUp(dice, block);
    const [first = Buffer.alloc(0), ...rest] = pieces;
    const end = rest.length === 0 ? END_HEADERS : 0;
    const pad = Buffer.alloc(Math.max(0, padding));
    return Buffer.concat([
      frame(HEADERS, more | end, stream, Buffer.concat([...prefix, first, pad])),
      ...rest.map((piece, at) =>
        frame(CONTINUATION, at === rest.length - 1 ? END_HEADERS : 0, stream, piece),
      ),
    ]);
  }

  nextStream(): number {
    this.#last += this.#dice.hits(0.05) ? 2 * this.#dice.between(1, 10) : 2;
    return this.#last;
  }

  #open(): Buffer {
    if (this.leaving || this.#sending.length >= AT_ONCE) return this.#goOn();
    const call = this.#dice.hits(0.8) ? this.#grpc() : this.#http();
    const upload: Upload = { ...call, stream: this.nextStream(), data: 0, state: "sending" };
    this.#uploads.push(upload);
    const bare = upload.body.length === 0 && !upload.trailers && this.#dice.hits(0.8);
    const head = this.head(upload.stream, upload.fields, bare ? END_STREAM : 0);
    if (bare) {
      upload.state = "sent";
      return head;
    }
    this.#sending.push(upload);
    if (upload.body.length > 4_000 || this.#dice.hits(0.2)) return head;
    return Buffer.concat([head, this.#part(upload, true)]);
  }

  #grpc(): Omit<Upload, "stream" | "data" | "state"> {
    const dice = this.#dice;
    const method = dice.pick(METHODS);
    const path = `/fuzz.Service/${method}`;
    const more = this.#metadata();
    let body = this.#body(method);
    let echoes = method === "Echo" ? body : undefined;
    if (dice.hits(0.08)) {
      echoes = undefined;
      body = this.#broken(body, more);
    } else if (dice.hits(0.02)) {
      echoes = undefined;
      body = message(ZIPPED, 1);
      more.push(["grpc-encoding", "gzip"]);
    }
    if (dice.hits(0.05)) {
      echoes = undefined;
      more.push(["grpc-timeout", `${dice.below(3_000)}${dice.pick(["m", "u", "S", "x"])}`]);
    }
    if (dice.hits(0.1)) more.push(["content-length", String(body.length)]);
    return { path, fields: grpcFields(path, ...more), echoes, body, trailers: dice.hits(0.03) };
  }

  #http(): Omit<Upload, "stream" | "data" | "state"> {
    const dice = this.#dice;
    const path = dice.pick(["/hello?a=1", "/give/1000", "/take", "/nowhere", "/give/20000"]);
    const method = path === "/take" ? "POST" : dice.pick(["GET", "GET", "HEAD", "PUT"]);
    const body = method === "POST" ? Buffer.alloc(dice.size(5_000), "j") : Buffer.alloc(0);
    const more = this.#metadata();
    if (method === "POST") more.push(["content-type", "application/json"]);
    if (method === "POST" && dice.hits(0.1)) more.push(["expect", "100-continue"]);
    if (dice.hits(0.5)) more.push(["content-length", String(body.length)]);
    const fields = httpFields(method, path, ...more);
    return { path, fields, echoes: undefined, body, trailers: dice.hits(0.03) };
  }

  #metadata(): Field[] {
    const dice = this.#dice;
    const fields: Field[] = [];
    if (this.#packer.lean) fields.push(["x-text", dice.pick(["one", "two", "three"])]);
    while (dice.hits(this.#packer.lean ? 0.05 : 0.4)) {
      fields.push(
        dice.pick<() => Field>([
          () => ["user-agent", "fuzz/1"],
          () => ["x-text", dice.text(300)],
          () => [`x-${dice.text(20).replace(/[^a-z]/g, "")}`, dice.text(2_000)],
          () => ["x-data-bin", dice.bytes(dice.below(20)).toString("base64")],
          () => ["cookie", "a=1"],
          () => ["x-odd", "caf\u00e9 \u0001\u007f~"],
          () => ["authorization", "secret"],
        ])(),
      );
    }
    return fields;
  }

  #body(method: string): Buffer {
    const dice = this.#dice;
    switch (method) {
      case "Give": {
        const size = this.#ask(dice.size(300_000));
        return message(Buffer.from(String(size)));
      }
      case "Flow": {
        const size = dice.size(20_000);
        const count = dice.below(10);
        return message(Buffer.from(this.#ask(size * count) > 0 ? `${size} ${count}` : "3 3"));
      }
      case "Gather":
      case "Chat":
      case "Wait":
        return Buffer.concat(
          Array.from({ length: dice.below(6) }, () => message(Buffer.alloc(dice.size(9_000), 7))),
        );
      default:
        return message(
          Buffer.alloc(dice.hits(this.#long) ? dice.below(200_000) : dice.size(3_000), 9),
        );
    }
  }

  /** 0 when too much has been asked for already. */
  #ask(size: number): number {
    if (this.#asked + size > MOST_ASKED) return 0;
    this.#asked += size;
    return size;
  }

  /** Good HTTP/2 that is bad gRPC. */
  #broken(body: Buffer, more: Field[]): Buffer {
    const dice = this.#dice;
    switch (dice.below(6)) {
      case 0:
        return body.subarray(0, dice.below(body.length + 1));
      case 1:
        return Buffer.concat([body, body]);
      case 2:
        return message(dice.bytes(20), 1);
      case 3:
        more.push(["grpc-encoding", dice.pick(["gzip", "deflate", "br"])]);
        return message(dice.bytes(20), 1);
      case 4:
        return Buffer.concat([Buffer.of(dice.below(256)), uint32(dice.below(2 ** 32))]);
      default:
        return dice.bytes(dice.below(40));
    }
  }

  #goOn(): Buffer {
    const dice = this.#dice;
    if (this.#sending.length === 0) return this.#control();
    return this.#part(dice.pick(this.#sending), dice.hits(0.3));
  }

  /** More of a body, as far as windows allow. */
  #part(upload: Upload, all: boolean): Buffer {
    const dice = this.#dice;
    const judge = this.#judge;
    const frames: Buffer[] = [];
    do {
      const padding = dice.hits(0.05) ? dice.below(256) : -1;
      const room =
        Math.min(
          judge.allowance - this.#data,
          judge.streamWindow + (judge.allowedOn.get(upload.stream) ?? 0) - upload.data,
          FULL,
        ) -
        (padding + 1);
      if (room < 0 || (room === 0 && upload.body.length > 0)) break;
      const most = Math.min(upload.body.length, room);
      const length = all && dice.hits(0.7) ? most : dice.below(most + 1);
      const bytes = upload.body.subarray(0, length);
      upload.body = upload.body.subarray(length);
      const ends = upload.body.length === 0 && (all || dice.hits(0.7));
      const flags = ends && !upload.trailers ? END_STREAM : 0;
      const counted = length + padding + 1;
      upload.data += counted;
      this.#data += counted;
      frames.push(
        padding < 0
          ? frame(DATA, flags, upload.stream, bytes)
          : frame(
              DATA,
              flags | PADDED,
              upload.stream,
              Buffer.concat([Buffer.of(padding), bytes, Buffer.alloc(padding)]),
            ),
      );
      if (!ends) continue;
      if (upload.trailers) frames.push(this.head(upload.stream, [["x-last", "yes"]], END_STREAM));
      upload.state = "sent";
      this.#sending = this.#sending.filter((other) => other !== upload);
      break;
    } while (all);
    return Buffer.concat(frames);
  }

  #takeBack(): Buffer {
    if (this.#uploads.length === 0 || this.#takenBack > 500) return this.#control();
    return this.#drop(this.#dice.pick(this.#uploads));
  }

  #drop(upload: Upload): Buffer {
    this.#takenBack++;
    upload.state = "taken back";
    this.#sending = this.#sending.filter((other) => other !== upload);
    return frame(RST_STREAM, 0, upload.stream, uint32(this.#dice.pick([0, 1, 2, 5, 8, 8, 8, 99])));
  }

  #control(): Buffer {
    const dice = this.#dice;
    const roll = dice.below(100);
    if (roll < 25) return frame(PING, 0, 0, dice.bytes(8));
    if (roll < 30) return frame(PING, ACK, 0, dice.bytes(8));
    if (roll < 50) return windowUpdate(0, 1 + dice.size(200_000));
    if (roll < 70 && this.#uploads.length > 0) {
      return windowUpdate(dice.pick(this.#uploads).stream, 1 + dice.size(200_000));
    }
    if (roll < 80) return this.#settings();
    if (roll < 84) return frame(SETTINGS, ACK, 0);
    if (roll < 92) return dice.hits(0.5) ? priority(2 * dice.below(50) + 1) : this.#reprioritise();
    if (roll < 99) {
      return frame(
        dice.between(10, 255),
        dice.below(256),
        this.someStream,
        dice.bytes(dice.below(30)),
      );
    }
    if (dice.hits(0.8)) return frame(PING, 0, 0, dice.bytes(8));
    this.leaving = true;
    return frame(GOAWAY, 0, 0, Buffer.concat([uint32(0), uint32(0), dice.bytes(dice.below(20))]));
  }

  #reprioritise(): Buffer {
    const on = uint32(2 * this.#dice.below(50));
    return frame(PRIORITY, 0, this.#last > 0 ? this.#last : 1, Buffer.concat([on, Buffer.of(1)]));
  }

  #settings(): Buffer {
    const dice = this.#dice;
    return settings(
      ...Array.from({ length: dice.below(5) }, () =>
        dice.pick<() => readonly [number, number]>([
          () => [1, dice.pick([0, 64, 200, 1_000, 4_096, 65_536, 2 ** 32 - 1])],
          () => [2, dice.below(2)],
          () => [3, dice.below(1_000)],
          () => [4, dice.pick([0, 1, 100, 16_384, 65_535, 200_000, 2 ** 20])],
          () => [5, dice.pick([16_384, 16_385, 100_000, 2 ** 24 - 1])],
          () => [6, dice.below(100_000)],
          () => [dice.between(7, 65_535), dice.below(2 ** 32)],
        ])(),
      ),
    );
  }
}

const WAIT = "/fuzz.Service/Wait";
const METHODS = [
  ...["Echo", "Echo", "Echo", "Echo", "Echo", "Echo", "Later", "Fail", "Give"],
  ...["Flow", "Gather", "Chat", "Wait", "Nothing"],
];

function over(reply: Reply | undefined): boolean {
  return reply !== undefined && (reply.state === "ended" || reply.resets.length > 0);
}

function pieceUp(dice: Dice, block: Buffer): readonly Buffer[] {
  if (!dice.hits(0.1) && block.length < 16_000) return [block];
  const pieces: Buffer[] = [];
  for (let at = 0; at < block.length; ) {
    const length = pieces.length > 20 ? block.length : 1 + dice.size(16_000);
    pieces.push(block.subarray(at, at + Math.min(length, 16_000)));
    at += Math.min(length, 16_000);
  }
  return pieces;
}
