// Generates the frames of a well-behaved client: calls of every kind with bodies in pieces, SETTINGS, WINDOW_UPDATE,
// PING. It follows the server's flow control, so that everything it sends is allowed, and remembers its calls, so
// that each reply can be checked.

import { gzipSync } from "node:zlib";
import {
  ACK,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  frame,
  GOAWAY,
  grpcFields,
  HEADERS,
  httpFields,
  MAX_FRAME_SIZE,
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
} from "../../../kit/clients/h2.ts";
import type { Field } from "../../../kit/clients/hpack.ts";
import { HeaderBlockWriter } from "./hpack-variants.ts";
import type { Oracle, Reply } from "./oracle.ts";
import type { Random } from "./random.ts";

/** Most concurrent uploads; few enough that none is refused. */
const MAX_UPLOADS = 60;
/** Most reply bytes requested at once, so that no reply exceeds the buffer limits. */
const MAX_REQUESTED_BYTES = 3_000_000;
const GZIPPED = gzipSync("zipped".repeat(50));

interface Upload {
  readonly stream: number;
  readonly path: string;
  readonly fields: readonly Field[];
  /** The body that a correct reply echoes; undefined where the reply is not checked. */
  readonly echoes: Buffer | undefined;
  readonly trailers: boolean;
  body: Buffer;
  /** Flow-controlled bytes sent so far. */
  data: number;
  state: "sending" | "sent" | "cancelled";
}

export class FuzzClient {
  readonly #random: Random;
  readonly #oracle: Oracle;
  readonly #headerBlocks: HeaderBlockWriter;
  /** Share of messages that are long. */
  readonly #longMessageShare: number;
  readonly #uploads: Upload[] = [];
  #sending: Upload[] = [];
  #newestStream = -1;
  #dataBytes = 0;
  #requestedBytes = 0;
  #cancelled = 0;
  /** No further calls are begun. */
  closing = false;

  constructor(random: Random, judge: Oracle) {
    this.#random = random;
    this.#oracle = judge;
    this.#headerBlocks = new HeaderBlockWriter(random);
    this.#longMessageShare = random.chance(0.1) ? 0.3 : 0.005;
  }

  /** A stream id near the newest one: open, closed or idle. */
  get someStream(): number {
    return Math.max(0, this.#newestStream + this.#random.between(-8, 4));
  }

  /** The newest stream. */
  get lastStream(): number {
    return Math.max(1, this.#newestStream);
  }

  /** A stream whose request is still being sent, else the newest. */
  get liveStream(): number {
    return this.#sending.length === 0 ? this.lastStream : this.#random.pick(this.#sending).stream;
  }

  /** Any stream that was ever opened. */
  get oldStream(): number {
    return this.#uploads.length === 0 ? this.lastStream : this.#random.pick(this.#uploads).stream;
  }

  /** The next one or more frames. */
  next(): Buffer {
    const roll = this.#random.below(100);
    if (roll < 32) return this.#openCall();
    if (roll < 70) return this.#continueUpload();
    if (roll < 73) return this.#cancelAny();
    return this.#control();
  }

  /** Frames that complete or cancel the calls in progress; undefined when there is nothing left to send. */
  finish(): Buffer | undefined {
    const parts: Buffer[] = [];
    for (const upload of [...this.#sending]) {
      if (upload.path === WAIT) parts.push(this.#cancel(upload));
      else parts.push(this.#sendBody(upload, true));
    }
    for (const upload of this.#uploads) {
      const waits = upload.path === WAIT && upload.state === "sent";
      if (waits && !hasEnded(this.#oracle.replies.get(upload.stream)))
        parts.push(this.#cancel(upload));
    }
    return parts.length === 0 ? undefined : Buffer.concat(parts);
  }

  get uploadsDone(): boolean {
    return this.#sending.length === 0;
  }

  /** WINDOW_UPDATE frames that leave space for all replies still to come. */
  openWindows(): Buffer {
    const open = this.#uploads.filter(({ stream }) => !hasEnded(this.#oracle.replies.get(stream)));
    return Buffer.concat([
      windowUpdate(0, 2 ** 28),
      ...open.map(({ stream }) => windowUpdate(stream, 2 ** 26)),
    ]);
  }

  /** Every call that was not cancelled has its reply. */
  get allAnswered(): boolean {
    return this.#uploads.every(
      ({ stream, state }) => state === "cancelled" || hasEnded(this.#oracle.replies.get(stream)),
    );
  }

  /** Describes every wrong reply to a well-formed call. */
  violations(): readonly string[] {
    return this.#uploads.flatMap((upload) => {
      const { stream, path, echoes, state } = upload;
      if (state === "cancelled" || path === WAIT) return [];
      const reply = this.#oracle.reply(stream);
      const call = `stream ${stream}, ${path}`;
      if (reply.state !== "ended") return [`${call}: no reply`];
      if (reply.resets.some((code) => code !== 0)) return [`${call}: reset with ${reply.resets}`];
      if (echoes === undefined) return [];
      const status = reply.trailers.find(([name]) => name === "grpc-status")?.[1];
      const text = (fields: readonly Field[]) => fields.find(([name]) => name === "x-text")?.[1];
      if (text(reply.fields) !== text(upload.fields)) return [`${call}: wrong x-text`];
      const same = Buffer.concat(reply.body).equals(echoes);
      return same && status === "0" ? [] : [`${call}: wrong message or status`];
    });
  }

  /** HEADERS and CONTINUATION frames in random pieces. */
  headers(stream: number, fields: readonly Field[], flags: number): Buffer {
    return this.headerFrames(stream, this.#headerBlocks.block(fields), flags);
  }

  headerFrames(stream: number, block: Buffer, flags: number): Buffer {
    const random = this.#random;
    const prefix: Buffer[] = [];
    let more = flags;
    const padding = random.chance(0.1) ? random.below(256) : -1;
    if (padding >= 0) {
      more |= PADDED;
      prefix.push(Buffer.of(padding));
    }
    if (random.chance(0.15)) {
      more |= WITH_PRIORITY;
      prefix.push(uint32(random.below(2) * 2 ** 31), Buffer.of(random.below(256)));
    }
    const pieces = splitBlock(random, block);
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
    this.#newestStream += this.#random.chance(0.05) ? 2 * this.#random.between(1, 10) : 2;
    return this.#newestStream;
  }

  #openCall(): Buffer {
    if (this.closing || this.#sending.length >= MAX_UPLOADS) return this.#continueUpload();
    const call = this.#random.chance(0.8) ? this.#grpc() : this.#http();
    const upload: Upload = { ...call, stream: this.nextStream(), data: 0, state: "sending" };
    this.#uploads.push(upload);
    const withoutBody = upload.body.length === 0 && !upload.trailers && this.#random.chance(0.8);
    const head = this.headers(upload.stream, upload.fields, withoutBody ? END_STREAM : 0);
    if (withoutBody) {
      upload.state = "sent";
      return head;
    }
    this.#sending.push(upload);
    if (upload.body.length > 4_000 || this.#random.chance(0.2)) return head;
    return Buffer.concat([head, this.#sendBody(upload, true)]);
  }

  #grpc(): Omit<Upload, "stream" | "data" | "state"> {
    const random = this.#random;
    const method = random.pick(METHODS);
    const path = `/fuzz.Service/${method}`;
    const more = this.#metadata();
    let body = this.#body(method);
    let echoes = method === "Echo" ? body : undefined;
    if (random.chance(0.08)) {
      echoes = undefined;
      body = this.#badGrpc(body, more);
    } else if (random.chance(0.02)) {
      echoes = undefined;
      body = message(GZIPPED, 1);
      more.push(["grpc-encoding", "gzip"]);
    }
    if (random.chance(0.05)) {
      echoes = undefined;
      more.push(["grpc-timeout", `${random.below(3_000)}${random.pick(["m", "u", "S", "x"])}`]);
    }
    if (random.chance(0.1)) more.push(["content-length", String(body.length)]);
    return { path, fields: grpcFields(path, ...more), echoes, body, trailers: random.chance(0.03) };
  }

  #http(): Omit<Upload, "stream" | "data" | "state"> {
    const random = this.#random;
    const path = random.pick(["/hello?a=1", "/give/1000", "/take", "/nowhere", "/give/20000"]);
    const method = path === "/take" ? "POST" : random.pick(["GET", "GET", "HEAD", "PUT"]);
    const body = method === "POST" ? Buffer.alloc(random.size(5_000), "j") : Buffer.alloc(0);
    const more = this.#metadata();
    if (method === "POST") more.push(["content-type", "application/json"]);
    if (method === "POST" && random.chance(0.1)) more.push(["expect", "100-continue"]);
    if (random.chance(0.5)) more.push(["content-length", String(body.length)]);
    const fields = httpFields(method, path, ...more);
    return { path, fields, echoes: undefined, body, trailers: random.chance(0.03) };
  }

  #metadata(): Field[] {
    const random = this.#random;
    const fields: Field[] = [];
    if (this.#headerBlocks.reusesBlocks)
      fields.push(["x-text", random.pick(["one", "two", "three"])]);
    while (random.chance(this.#headerBlocks.reusesBlocks ? 0.05 : 0.4)) {
      fields.push(
        random.pick<() => Field>([
          () => ["user-agent", "fuzz/1"],
          () => ["x-text", random.text(300)],
          () => [`x-${random.text(20).replace(/[^a-z]/g, "")}`, random.text(2_000)],
          () => ["x-data-bin", random.bytes(random.below(20)).toString("base64")],
          () => ["cookie", "a=1"],
          () => ["x-odd", "caf\u00e9 \u0001\u007f~"],
          () => ["authorization", "secret"],
        ])(),
      );
    }
    return fields;
  }

  #body(method: string): Buffer {
    const random = this.#random;
    switch (method) {
      case "Give": {
        const size = this.#requestBytes(random.size(300_000));
        return message(Buffer.from(String(size)));
      }
      case "Flow": {
        const size = random.size(20_000);
        const count = random.below(10);
        return message(
          Buffer.from(this.#requestBytes(size * count) > 0 ? `${size} ${count}` : "3 3"),
        );
      }
      case "Gather":
      case "Chat":
      case "Wait":
        return Buffer.concat(
          Array.from({ length: random.below(6) }, () =>
            message(Buffer.alloc(random.size(9_000), 7)),
          ),
        );
      default:
        return message(
          Buffer.alloc(
            random.chance(this.#longMessageShare) ? random.below(200_000) : random.size(3_000),
            9,
          ),
        );
    }
  }

  /** Accounts for reply bytes to be requested; 0 when too many have been already. */
  #requestBytes(size: number): number {
    if (this.#requestedBytes + size > MAX_REQUESTED_BYTES) return 0;
    this.#requestedBytes += size;
    return size;
  }

  /** A body that is valid HTTP/2 but invalid gRPC. */
  #badGrpc(body: Buffer, more: Field[]): Buffer {
    const random = this.#random;
    switch (random.below(6)) {
      case 0:
        return body.subarray(0, random.below(body.length + 1));
      case 1:
        return Buffer.concat([body, body]);
      case 2:
        return message(random.bytes(20), 1);
      case 3:
        more.push(["grpc-encoding", random.pick(["gzip", "deflate", "br"])]);
        return message(random.bytes(20), 1);
      case 4:
        return Buffer.concat([Buffer.of(random.below(256)), uint32(random.below(2 ** 32))]);
      default:
        return random.bytes(random.below(40));
    }
  }

  #continueUpload(): Buffer {
    const random = this.#random;
    if (this.#sending.length === 0) return this.#control();
    return this.#sendBody(random.pick(this.#sending), random.chance(0.3));
  }

  /** More of a body, as far as the flow-control windows allow. */
  #sendBody(upload: Upload, all: boolean): Buffer {
    const random = this.#random;
    const judge = this.#oracle;
    const frames: Buffer[] = [];
    do {
      const padding = random.chance(0.05) ? random.below(256) : -1;
      const room =
        Math.min(
          judge.connectionCredit - this.#dataBytes,
          judge.initialStreamWindow + (judge.streamCredit.get(upload.stream) ?? 0) - upload.data,
          MAX_FRAME_SIZE,
        ) -
        (padding + 1);
      if (room < 0 || (room === 0 && upload.body.length > 0)) break;
      const most = Math.min(upload.body.length, room);
      const length = all && random.chance(0.7) ? most : random.below(most + 1);
      const bytes = upload.body.subarray(0, length);
      upload.body = upload.body.subarray(length);
      const ends = upload.body.length === 0 && (all || random.chance(0.7));
      const flags = ends && !upload.trailers ? END_STREAM : 0;
      const flowControlled = length + padding + 1;
      upload.data += flowControlled;
      this.#dataBytes += flowControlled;
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
      if (upload.trailers)
        frames.push(this.headers(upload.stream, [["x-last", "yes"]], END_STREAM));
      upload.state = "sent";
      this.#sending = this.#sending.filter((other) => other !== upload);
      break;
    } while (all);
    return Buffer.concat(frames);
  }

  #cancelAny(): Buffer {
    if (this.#uploads.length === 0 || this.#cancelled > 500) return this.#control();
    return this.#cancel(this.#random.pick(this.#uploads));
  }

  #cancel(upload: Upload): Buffer {
    this.#cancelled++;
    upload.state = "cancelled";
    this.#sending = this.#sending.filter((other) => other !== upload);
    return frame(
      RST_STREAM,
      0,
      upload.stream,
      uint32(this.#random.pick([0, 1, 2, 5, 8, 8, 8, 99])),
    );
  }

  #control(): Buffer {
    const random = this.#random;
    const roll = random.below(100);
    if (roll < 25) return frame(PING, 0, 0, random.bytes(8));
    if (roll < 30) return frame(PING, ACK, 0, random.bytes(8));
    if (roll < 50) return windowUpdate(0, 1 + random.size(200_000));
    if (roll < 70 && this.#uploads.length > 0) {
      return windowUpdate(random.pick(this.#uploads).stream, 1 + random.size(200_000));
    }
    if (roll < 80) return this.#settings();
    if (roll < 84) return frame(SETTINGS, ACK, 0);
    if (roll < 92)
      return random.chance(0.5) ? priority(2 * random.below(50) + 1) : this.#reprioritise();
    if (roll < 99) {
      return frame(
        random.between(10, 255),
        random.below(256),
        this.someStream,
        random.bytes(random.below(30)),
      );
    }
    if (random.chance(0.8)) return frame(PING, 0, 0, random.bytes(8));
    this.closing = true;
    return frame(
      GOAWAY,
      0,
      0,
      Buffer.concat([uint32(0), uint32(0), random.bytes(random.below(20))]),
    );
  }

  #reprioritise(): Buffer {
    const on = uint32(2 * this.#random.below(50));
    return frame(
      PRIORITY,
      0,
      this.#newestStream > 0 ? this.#newestStream : 1,
      Buffer.concat([on, Buffer.of(1)]),
    );
  }

  #settings(): Buffer {
    const random = this.#random;
    return settings(
      ...Array.from({ length: random.below(5) }, () =>
        random.pick<() => readonly [number, number]>([
          () => [1, random.pick([0, 64, 200, 1_000, 4_096, 65_536, 2 ** 32 - 1])],
          () => [2, random.below(2)],
          () => [3, random.below(1_000)],
          () => [4, random.pick([0, 1, 100, 16_384, 65_535, 200_000, 2 ** 20])],
          () => [5, random.pick([16_384, 16_385, 100_000, 2 ** 24 - 1])],
          () => [6, random.below(100_000)],
          () => [random.between(7, 65_535), random.below(2 ** 32)],
        ])(),
      ),
    );
  }
}

const WAIT = "/fuzz.Service/Wait";
/** Methods by frequency; the service has no `Nothing`. */
const METHODS = [
  "Echo",
  "Echo",
  "Echo",
  "Echo",
  "Echo",
  "Echo",
  "Later",
  "Fail",
  "Give",
  "Flow",
  "Gather",
  "Chat",
  "Wait",
  "Nothing",
];

function hasEnded(reply: Reply | undefined): boolean {
  return reply !== undefined && (reply.state === "ended" || reply.resets.length > 0);
}

function splitBlock(random: Random, block: Buffer): readonly Buffer[] {
  if (!random.chance(0.1) && block.length < 16_000) return [block];
  const pieces: Buffer[] = [];
  for (let at = 0; at < block.length; ) {
    const length = pieces.length > 20 ? block.length : 1 + random.size(16_000);
    pieces.push(block.subarray(at, at + Math.min(length, 16_000)));
    at += Math.min(length, 16_000);
  }
  return pieces;
}
