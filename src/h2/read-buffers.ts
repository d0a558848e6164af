// Reusable memory for reads that are queued. A queued read outlives the collections of young objects, and V8 collects old
// buffers only after they have grown by 64 MB, whose pages the system's allocator then keeps. Queued bytes are therefore
// copied into pooled blocks, and the buffer of the read becomes garbage at once.

/** Several times the largest read (64 KiB), so that little is wasted at the end of a block. */
const BLOCK_SIZE = 256 * 1024;
/** Bytes of all blocks. Beyond them, the buffers of reads are kept themselves. */
export const MAX_POOL_SIZE = 16 * 1024 * 1024;
/** Bytes of the blocks that an empty pool keeps. */
export const KEPT_POOL_SIZE = 1024 * 1024;

/** Memory that is filled from its start, and is free again when everything in it has been released. */
interface Block {
  readonly buffer: ArrayBuffer;
  readonly memory: Buffer;
  end: number;
  users: number;
}

/** Some stored bytes. A class, since closures would keep the original buffer alive. */
export class PooledBytes {
  readonly length: number;
  readonly #pool: ReadBufferPool;
  readonly #block: Block | undefined;
  /** The memory of the block, or the original buffer if there is no block. */
  readonly #memory: Buffer;
  readonly #at: number;

  constructor(pool: ReadBufferPool, block: Block | undefined, bytes: Buffer) {
    this.#pool = pool;
    this.#block = block;
    this.length = bytes.length;
    this.#memory = block?.memory ?? bytes;
    this.#at = block?.end ?? 0;
  }

  /** The bytes from `start` on, in memory that a handler may keep. */
  copy(start = 0): Buffer {
    const [from, to] = [this.#at + start, this.#at + this.length];
    if (this.#block === undefined) return this.#memory.subarray(from, to);
    // Not from Node's pool, where a few kept bytes would keep more.
    const copy = Buffer.allocUnsafeSlow(to - from);
    this.#memory.copy(copy, 0, from, to);
    return copy;
  }

  /** Frees the memory. Call it once, after the last copy. */
  release(): void {
    if (this.#block !== undefined) this.#pool.release(this.#block);
  }
}

export class ReadBufferPool {
  readonly #free: Block[] = [];
  #filling: Block | undefined;
  #blocks = 0;
  /** Number of stored pieces that are not released. */
  #users = 0;

  /** Allocated bytes. */
  get size(): number {
    return this.#blocks * BLOCK_SIZE;
  }

  /** Copies these bytes into the pool, or keeps their own buffer if the pool is full. */
  store(bytes: Buffer): PooledBytes {
    const block = this.#blockFor(bytes.length);
    const stored = new PooledBytes(this, block, bytes);
    if (block === undefined) return stored;
    block.memory.set(bytes, block.end);
    block.end += bytes.length;
    block.users++;
    this.#users++;
    return stored;
  }

  release(block: Block): void {
    this.#users--;
    block.users--;
    if (block.users > 0) return;
    block.end = 0;
    if (block !== this.#filling) this.#free.push(block);
    if (this.#users === 0) this.#shrink();
  }

  /** Returns memory to the system at once instead of waiting for V8. Nothing refers to a free block. */
  #shrink(): void {
    while (this.size > KEPT_POOL_SIZE) {
      const block = this.#free.pop();
      if (block === undefined) return;
      block.buffer.transferToFixedLength(0);
      this.#blocks--;
    }
  }

  #blockFor(length: number): Block | undefined {
    if (length > BLOCK_SIZE) return undefined;
    const filling = this.#filling;
    if (filling !== undefined && filling.end + length <= BLOCK_SIZE) return filling;
    const next = this.#free.pop() ?? this.#allocate();
    if (next !== undefined) this.#filling = next;
    return next;
  }

  #allocate(): Block | undefined {
    if (this.size >= MAX_POOL_SIZE) return undefined;
    this.#blocks++;
    // A resizable buffer has pages of its own, which the system's allocator neither keeps nor shares.
    const buffer = new ArrayBuffer(BLOCK_SIZE, { maxByteLength: BLOCK_SIZE });
    return { buffer, memory: Buffer.from(buffer), end: 0, users: 0 };
  }
}
