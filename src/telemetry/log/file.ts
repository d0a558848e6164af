// A log file that rotates by size. Rotated files are limited in number and age, and may be compressed; their names are
// `name-2026-01-31T23-59-59.999Z.log`, followed by `.gz` when compressed.

import {
  closeSync,
  createReadStream,
  createWriteStream,
  existsSync,
  fstatSync,
  openSync,
  renameSync,
} from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { createFolder } from "#runtime/life/folder.ts";
import { type Sink, writeAll, writeAllNow } from "./sink.ts";

export interface Rotation {
  /** Size in megabytes (2^20 bytes) at which the file is rotated; 0 means never. */
  readonly max_size: number;
  /** Number of rotated files that are kept; 0 keeps all. */
  readonly max_backups: number;
  /** Number of days that rotated files are kept; 0 means no limit. */
  readonly max_age: number;
  readonly compress: boolean;
}

const MEGABYTE = 1_048_576;
const DAY_MS = 86_400_000;
/** Old files are deleted even while nothing rotates: a write checks for them this often. */
const CLEANUP_EVERY_MS = 3_600_000;
const STAMP = /^-(\d{4}-\d\d-\d\dT)(\d\d)-(\d\d)-(\d\d\.\d{3}Z)(?:-(\d+))?$/;
const COMPRESSED = ".gz";
const COMPRESSING = ".gz.part";

interface Backup {
  readonly name: string;
  /** When it was rotated, Unix milliseconds. */
  readonly at: number;
  /** Distinguishes files that were rotated in the same millisecond. */
  readonly turn: number;
}

/** Throws a Fault when the file cannot be opened for writing. */
export class LogFile implements Sink {
  readonly #path: string;
  readonly #rotation: Rotation;
  readonly #clock: Clock;
  readonly #limit: number;
  #descriptor: number;
  /** The file at the path when `reopen` was called; lines go there from the next write on. */
  #reopened: number | undefined;
  #size: number;
  #cleanedAt: number;
  #cleaning: Promise<void> = Promise.resolve();

  constructor(path: string, rotation: Rotation, clock: Clock) {
    this.#path = path;
    this.#rotation = rotation;
    this.#clock = clock;
    this.#limit = rotation.max_size === 0 ? Number.POSITIVE_INFINITY : rotation.max_size * MEGABYTE;
    this.#descriptor = opened(path);
    this.#size = fstatSync(this.#descriptor).size;
    this.#cleanedAt = clock.wall();
    this.#scheduleCleanup();
  }

  writeNow(lines: readonly string[]): void {
    for (const chunk of this.#chunks(lines)) writeAllNow(this.#descriptor, chunk);
  }

  async write(lines: readonly string[]): Promise<void> {
    for (const chunk of this.#chunks(lines)) await writeAll(this.#descriptor, chunk);
  }

  /**
   * Opens the file at the path again, which another program may have moved away or deleted. Throws a Fault when it
   * cannot be opened; lines then still go to the file that is open.
   */
  reopen(): void {
    const next = opened(this.#path);
    if (this.#reopened !== undefined) closeSync(this.#reopened);
    this.#reopened = next;
  }

  /** Also waits until old files are deleted or compressed. */
  async close(): Promise<void> {
    await this.#cleaning;
    closeSync(this.#descriptor);
    if (this.#reopened !== undefined) closeSync(this.#reopened);
    this.#reopened = undefined;
  }

  /** Splits lines at rotations: the file rotates between two chunks. */
  *#chunks(lines: readonly string[]): Generator<string> {
    this.#useReopened();
    let chunk = "";
    for (const line of lines) {
      const bytes = Buffer.byteLength(line);
      if (this.#size > 0 && this.#size + bytes > this.#limit) {
        if (chunk !== "") yield chunk;
        chunk = "";
        this.#rotate();
      }
      chunk += line;
      this.#size += bytes;
    }
    if (chunk !== "") yield chunk;
    if (this.#clock.wall() - this.#cleanedAt >= CLEANUP_EVERY_MS) this.#scheduleCleanup();
  }

  /** Never called while a write is in progress, which would go on with a descriptor that is closed. */
  #useReopened(): void {
    if (this.#reopened === undefined) return;
    closeSync(this.#descriptor);
    this.#descriptor = this.#reopened;
    this.#reopened = undefined;
    this.#size = fstatSync(this.#descriptor).size;
  }

  /** When the file cannot be rotated, it keeps growing: a file that is too long is better than lost lines. */
  #rotate(): void {
    try {
      // Another program may have moved the file already; then only a new one is needed.
      if (existsSync(this.#path)) renameSync(this.#path, this.#backupPath());
      const next = openSync(this.#path, "a", 0o640);
      closeSync(this.#descriptor);
      this.#descriptor = next;
    } catch {
      return;
    }
    this.#size = 0;
    this.#scheduleCleanup();
  }

  #backupPath(): string {
    const stamp = new Date(this.#clock.wall()).toISOString().replaceAll(":", "-");
    const extension = extname(this.#path);
    const stem = `${this.#path.slice(0, this.#path.length - extension.length)}-${stamp}`;
    for (let turn = 0; ; turn++) {
      const path = `${stem}${turn === 0 ? "" : `-${turn}`}${extension}`;
      if (!existsSync(path) && !existsSync(path + COMPRESSED)) return path;
    }
  }

  #scheduleCleanup(): void {
    this.#cleanedAt = this.#clock.wall();
    // A failure is tried again with the next cleanup; logging continues.
    this.#cleaning = this.#cleaning.then(() => this.#cleanUp()).catch(() => undefined);
  }

  async #cleanUp(): Promise<void> {
    const directory = dirname(this.#path);
    const { max_backups: most, max_age: days, compress: compressed } = this.#rotation;
    const oldest = days === 0 ? Number.NEGATIVE_INFINITY : this.#clock.wall() - days * DAY_MS;
    const backups = await this.#backups(directory);
    for (const [place, { name, at }] of backups.entries()) {
      const path = join(directory, name);
      if ((most > 0 && place >= most) || at < oldest) await rm(path, { force: true });
      else if (compressed && !name.endsWith(COMPRESSED)) await compress(path);
    }
  }

  /** Rotated files, the newest first. */
  async #backups(directory: string): Promise<readonly Backup[]> {
    const extension = extname(this.#path);
    const stem = basename(this.#path, extension);
    const found: Backup[] = [];
    for (const name of await readdir(directory)) {
      // Left half compressed by a crash: no compression is in progress while this runs.
      if (name.startsWith(stem) && name.endsWith(COMPRESSING)) await rm(join(directory, name));
      const plain = name.endsWith(COMPRESSED) ? name.slice(0, -COMPRESSED.length) : name;
      if (!plain.startsWith(stem) || !plain.endsWith(extension)) continue;
      const stamp = STAMP.exec(plain.slice(stem.length, plain.length - extension.length));
      if (stamp === null) continue;
      const [, date = "", hours = "", minutes = "", seconds = "", turn = "0"] = stamp;
      const at = Date.parse(`${date}${hours}:${minutes}:${seconds}`);
      found.push({ name, at, turn: Number(turn) });
    }
    return found.sort((one, other) => other.at - one.at || other.turn - one.turn);
  }
}

/** The descriptor of a file that lines are appended to. */
function opened(path: string): number {
  try {
    createFolder(dirname(path));
    return openSync(path, "a", 0o640);
  } catch (thrown) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `log.writers: wanted a file that can be written at ${path}, got ${systemErrorCode(thrown)}`,
    );
  }
}

/** Compresses into a second file first, so that a crash leaves one complete copy. */
async function compress(path: string): Promise<void> {
  const part = `${path}${COMPRESSING}`;
  await pipeline(createReadStream(path), createGzip(), createWriteStream(part, { mode: 0o640 }));
  await rename(part, path + COMPRESSED);
  await rm(path);
}

function systemErrorCode(thrown: unknown): string {
  return thrown instanceof Error && "code" in thrown ? String(thrown.code) : "an error";
}
