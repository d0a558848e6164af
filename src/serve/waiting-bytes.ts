// Memory for what was read from connections and has to wait for its turn. What waits outlives the collections of young
// objects, and V8 collects old buffers only when they have grown by 64 MB, whose pages the system's allocator then keeps.
// So what waits is copied into memory that is used again, and the buffer of the read is garbage at once.

/** Size of a block. Several times the largest read (64 KiB), so that little is wasted at its end. */
const BLOCK_SIZE = 256 * 1024;
/** Bytes of all blocks. Beyond them, the buffers of reads wait themselves. */
export const MAX_WAITING_MEMORY = 16 * 1024 * 1024;
/** Bytes of the blocks that are kept when nothing waits. */
export const KEPT_WAITING_MEMORY = 1024 * 1024;

/** Memory that is filled from its start, and is free again when all that was put there has been released. */
interface Block {
  readonly buffer: ArrayBuffer;
  readonly memory: Buffer;
  end: number;
  users: number;
}

/** Some bytes that wait. A class, since closures would keep the buffer that was copied alive. */
export class WaitingBytes {
  readonly length: number;
  readonly #owner: WaitingMemory;
  readonly #block: Block | undefined;
  /** The memory of the block, or what was read if there is no block. */
  readonly #memory: Buffer;
  readonly #at: number;

  constructor(owner: WaitingMemory, block: Block | undefined, bytes: Buffer) {
    this.#owner = owner;
    this.#block = block;
    this.length = bytes.length;
    this.#memory = block?.memory ?? bytes;
    this.#at = block?.end ?? 0;
  }

  /** The bytes from `start` on, in memory that whoever handles them may keep. */
  copy(start = 0): Buffer {
    const [from, to] = [this.#at + start, this.#at + this.length];
    if (this.#block === undefined) return this.#memory.subarray(from, to);
    // Not from Node's pool, where a few bytes that are kept would keep more.
    const copy = Buffer.allocUnsafeSlow(to - from);
    this.#memory.copy(copy, 0, from, to);
    return copy;
  }

  /** Frees the memory. To be called once, after the last copy. */
  release(): void {
    if (this.#block !== undefined) this.#owner.release(this.#block);
  }
}

export class WaitingMemory {
  readonly #free: Block[] = [];
  #filling: Block | undefined;
  #blocks = 0;
  /** Number of stored pieces that are not released yet. */
  #users = 0;

  /** Bytes that it has allocated. */
  get size(): number {
    return this.#blocks * BLOCK_SIZE;
  }

  /** Keeps these bytes. Their own memory is not used any more, unless there is no room for them. */
  store(bytes: Buffer): WaitingBytes {
    const block = this.#blockFor(bytes.length);
    const waiting = new WaitingBytes(this, block, bytes);
    if (block === undefined) return waiting;
    block.memory.set(bytes, block.end);
    block.end += bytes.length;
    block.users++;
    this.#users++;
    return waiting;
  }

  release(block: Block): void {
    this.#users--;
    block.users--;
    if (block.users > 0) return;
    block.end = 0;
    if (block !== this.#filling) this.#free.push(block);
    if (this.#users === 0) this.#shrink();
  }

  /** Gives memory back to the system at once, and not when V8 collects. Nothing refers to a free block. */
  #shrink(): void {
    while (this.size > KEPT_WAITING_MEMORY) {
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
    if (this.size >= MAX_WAITING_MEMORY) return undefined;
    this.#blocks++;
    // One that could be resized has pages of its own, which the system's allocator neither keeps nor shares.
    const buffer = new ArrayBuffer(BLOCK_SIZE, { maxByteLength: BLOCK_SIZE });
    return { buffer, memory: Buffer.from(buffer), end: 0, users: 0 };
  }
}
