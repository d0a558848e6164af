// Turns HEADERS and CONTINUATION frames into validated heads: collects the fragments of a field block and decodes it,
// or finds it in the cache.

import type { RequestHead } from "../exchange.ts";
import {
  ConnectionError,
  frameSizeError,
  loadError,
  protocolError,
} from "../frames/connection-error.ts";
import { ERROR_CODE, FLAG, readUint31 } from "../frames/format.ts";
import { CompressionError, Decoder } from "../hpack/decoder.ts";
import { FieldList } from "../hpack/field-list.ts";
import { HEADER_TABLE_SIZE, MAX_BLOCK_TO_LIST_RATIO, MAX_FRAMES_PER_BLOCK } from "../limits.ts";
import { FieldBlockCache } from "./block-cache.ts";
import { areTrailersValid, readRequestHead } from "./validation.ts";

/** A field block whose last fragment has not arrived. */
interface PartialBlock {
  readonly stream: number;
  readonly endStream: boolean;
  readonly parts: Buffer[];
  size: number;
}

/** Receives a complete block without padding and priority; `ends`: END_STREAM was set. */
export type FieldBlockSink = (
  stream: number,
  ends: boolean,
  block: Buffer,
  start: number,
  end: number,
) => void;

/** Receives the readable part of a head whose block is too large. The connection ends after that. */
export type OversizedHeadSink = (stream: number, ends: boolean, head: RequestHead) => void;

/** Counts buffered bytes against the limits of the connection and of the process. */
export interface MemoryAccount {
  reserve(bytes: number): boolean;
  release(bytes: number): void;
}

/** Bounds of a header section. */
export interface HeaderBounds {
  /** Bytes, as RFC 9113 §6.5.2 counts them. */
  readonly maxHeaderList: number;
  readonly maxFields: number;
}

export class FieldBlockReader {
  readonly #decoder = new Decoder(HEADER_TABLE_SIZE);
  readonly #cache = new FieldBlockCache();
  readonly #maxListSize: number;
  readonly #maxFields: number;
  readonly #sink: FieldBlockSink;
  readonly #oversizedSink: OversizedHeadSink;
  readonly #account: MemoryAccount;
  #partial: PartialBlock | undefined;
  /** The HEADERS frame of the last decoded block declared that its stream depends on itself (RFC 7540 §5.3.1). */
  selfDependent = false;

  constructor(
    { maxHeaderList, maxFields }: HeaderBounds,
    sink: FieldBlockSink,
    oversizedSink: OversizedHeadSink,
    account: MemoryAccount,
  ) {
    this.#maxListSize = maxHeaderList;
    this.#maxFields = maxFields;
    this.#sink = sink;
    this.#oversizedSink = oversizedSink;
    this.#account = account;
  }

  /** Drops an incomplete block: the connection has closed. */
  discard(): void {
    if (this.#partial !== undefined) this.#account.release(this.#partial.size);
    this.#partial = undefined;
  }

  /**
   * The stream of an incomplete block, or 0. No other frame may arrive before the block is complete (RFC 9113 §6.10).
   */
  get openStream(): number {
    return this.#partial?.stream ?? 0;
  }

  headers(flags: number, stream: number, bytes: Buffer, start: number, end: number): void {
    let from = start;
    let to = end;
    this.selfDependent = false;
    if ((flags & (FLAG.padded | FLAG.priority)) !== 0) {
      if ((flags & FLAG.padded) !== 0) {
        if (from === to) throw frameSizeError("a padded frame without a pad length");
        to -= bytes[from++] ?? 0;
      }
      if ((flags & FLAG.priority) !== 0) {
        if (end - from < 5) throw frameSizeError("a frame too short for its priority");
        this.selfDependent = readUint31(bytes, from) === stream;
        from += 5;
      }
      if (from > to) throw protocolError("the padding exceeds the frame");
    }
    const ends = (flags & FLAG.endStream) !== 0;
    if ((flags & FLAG.endHeaders) !== 0) this.#sink(stream, ends, bytes, from, to);
    else {
      this.#partial = { stream, endStream: ends, parts: [], size: 0 };
      this.#append(this.#partial, bytes, from, to);
    }
  }

  continuation(flags: number, stream: number, bytes: Buffer, start: number, end: number): void {
    const partial = this.#partial;
    if (partial?.stream !== stream) throw protocolError("CONTINUATION without a field block");
    this.#append(partial, bytes, start, end);
    if (partial.parts.length > MAX_FRAMES_PER_BLOCK) {
      throw loadError("continuation_flood", "a field block of too many frames");
    }
    if ((flags & FLAG.endHeaders) === 0) return;
    this.discard();
    const block = Buffer.concat(partial.parts, partial.size);
    this.#sink(stream, partial.endStream, block, 0, block.length);
  }

  #append(partial: PartialBlock, bytes: Buffer, start: number, end: number): void {
    const size = end - start;
    if (partial.size + size > this.#maxListSize * MAX_BLOCK_TO_LIST_RATIO) {
      const head = this.#cutHead(partial, bytes.subarray(start, end));
      if (head !== undefined) this.#oversizedSink(partial.stream, partial.endStream, head);
      throw loadError("header_list", "the field block is too large");
    }
    if (!this.#account.reserve(size)) {
      throw loadError(undefined, "too many incomplete field blocks");
    }
    partial.size += size;
    // Not from Node's pool, where a few bytes would keep far more memory than is counted.
    const part = Buffer.allocUnsafeSlow(size);
    bytes.copy(part, 0, start, end);
    partial.parts.push(part);
  }

  /** Reads method and path, which come first. The rest of the block is lost, and the tables with it. */
  #cutHead({ parts }: PartialBlock, more: Buffer): RequestHead | undefined {
    const bytes = Buffer.concat([...parts, more]);
    const fields = new FieldList(this.#maxListSize, this.#maxFields);
    try {
      this.#decoder.decode(bytes, 0, bytes.length, fields);
    } catch (thrown) {
      if (!(thrown instanceof CompressionError)) throw thrown;
    }
    const head = readRequestHead(fields);
    return head === undefined ? undefined : { ...head, fields: [], flaw: "too_large" };
  }

  /** Returns undefined if method or path are invalid. Throws a ConnectionError if the block does not decode. */
  request(block: Buffer, start: number, end: number): RequestHead | undefined {
    const { generation } = this.#decoder;
    const known = this.#cache.find(block, start, end, generation);
    if (known !== undefined) return known;
    const head = readRequestHead(this.#decode(block, start, end));
    if (head !== undefined && this.#decoder.generation === generation) {
      this.#cache.add(block, start, end, generation, head);
    }
    return head;
  }

  /** Trailers are validated and not used. `too_long`: the rest was not validated. */
  trailers(block: Buffer, start: number, end: number): "good" | "malformed" | "too_long" {
    const fields = this.#decode(block, start, end);
    if (!areTrailersValid(fields)) return "malformed";
    return fields.overflow ? "too_long" : "good";
  }

  #decode(block: Buffer, start: number, end: number): FieldList {
    const fields = new FieldList(this.#maxListSize, this.#maxFields);
    try {
      this.#decoder.decode(block, start, end, fields);
    } catch (thrown) {
      if (!(thrown instanceof CompressionError)) throw thrown;
      throw new ConnectionError(
        ERROR_CODE.compression,
        "compression",
        "a field block cannot be decoded",
      );
    }
    return fields;
  }
}
