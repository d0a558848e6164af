// A log file that rotates by size, and keeps of its older selves as many, for as long and as small as it
// was told. Rotated files are `name-2026-01-31T23-59-59.999Z.log`, with `.gz` when compressed.

import {
  closeSync,
  createReadStream,
  createWriteStream,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  renameSync,
} from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { type Sink, writeAll, writeAllNow } from "./log-sink.ts";

export interface Rotation {
  /** Megabytes (2^20 bytes) at which a file is put aside; 0 never. */
  readonly max_size: number;
  /** Files kept; 0 keeps all. */
  readonly max_backups: number;
  /** Days that files are kept; 0 keeps them whatever their age. */
  readonly max_age: number;
  readonly compress: boolean;
}

const MEGABYTE = 1_048_576;
const DAY_MS = 86_400_000;
/** Old files also go away while nothing rotates; writes look after them this often. */
const TIDY_EVERY_MS = 3_600_000;
const STAMP = /^-(\d{4}-\d\d-\d\dT)(\d\d)-(\d\d)-(\d\d\.\d{3}Z)(?:-(\d+))?$/;
const PACKED = ".gz";
const PACKING = ".gz.part";

interface Backup {
  readonly name: string;
  /** Unix milliseconds at which it was put aside. */
  readonly at: number;
  /** Tells files of one millisecond apart. */
  readonly turn: number;
}

/** Throws a Fault when the file cannot be opened for writing. */
export class LogFile implements Sink {
  readonly #path: string;
  readonly #rotation: Rotation;
  readonly #clock: Clock;
  readonly #limit: number;
  #descriptor: number;
  #size: number;
  #tidied: number;
  #tidying: Promise<void> = Promise.resolve();

  constructor(path: string, rotation: Rotation, clock: Clock) {
    this.#path = path;
    this.#rotation = rotation;
    this.#clock = clock;
    this.#limit = rotation.max_size === 0 ? Number.POSITIVE_INFINITY : rotation.max_size * MEGABYTE;
    try {
      mkdirSync(dirname(path), { recursive: true });
      this.#descriptor = openSync(path, "a", 0o640);
      this.#size = fstatSync(this.#descriptor).size;
    } catch (thrown) {
      throw new Fault(
        "INVALID_ARGUMENT",
        `log.writers: wanted a file that can be written at ${path}, got ${reason(thrown)}`,
      );
    }
    this.#tidied = clock.wall();
    this.#tidyLater();
  }

  writeNow(lines: readonly string[]): void {
    for (const chunk of this.#chunks(lines)) writeAllNow(this.#descriptor, chunk);
  }

  async write(lines: readonly string[]): Promise<void> {
    for (const chunk of this.#chunks(lines)) await writeAll(this.#descriptor, chunk);
  }

  /** Ends when old files are tidied too. */
  async close(): Promise<void> {
    await this.#tidying;
    closeSync(this.#descriptor);
  }

  /** What may be written in one go; between two chunks the file has rotated. */
  *#chunks(lines: readonly string[]): Generator<string> {
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
    if (this.#clock.wall() - this.#tidied >= TIDY_EVERY_MS) this.#tidyLater();
  }

  /** A file that cannot be put aside is written on: too long is better than lost. */
  #rotate(): void {
    try {
      // Someone may have moved it already; then a new one is all that is missing.
      if (existsSync(this.#path)) renameSync(this.#path, this.#backupPath());
      const next = openSync(this.#path, "a", 0o640);
      closeSync(this.#descriptor);
      this.#descriptor = next;
    } catch {
      return;
    }
    this.#size = 0;
    this.#tidyLater();
  }

  #backupPath(): string {
    const stamp = new Date(this.#clock.wall()).toISOString().replaceAll(":", "-");
    const extension = extname(this.#path);
    const stem = `${this.#path.slice(0, this.#path.length - extension.length)}-${stamp}`;
    for (let turn = 0; ; turn++) {
      const path = `${stem}${turn === 0 ? "" : `-${turn}`}${extension}`;
      if (!existsSync(path) && !existsSync(path + PACKED)) return path;
    }
  }

  #tidyLater(): void {
    this.#tidied = this.#clock.wall();
    // What cannot be tidied now is tried again at the next turn; the log itself goes on.
    this.#tidying = this.#tidying.then(() => this.#tidy()).catch(() => undefined);
  }

  async #tidy(): Promise<void> {
    const directory = dirname(this.#path);
    const { max_backups: most, max_age: days, compress } = this.#rotation;
    const oldest = days === 0 ? Number.NEGATIVE_INFINITY : this.#clock.wall() - days * DAY_MS;
    const backups = await this.#backups(directory);
    for (const [place, { name, at }] of backups.entries()) {
      const path = join(directory, name);
      if ((most > 0 && place >= most) || at < oldest) await rm(path, { force: true });
      else if (compress && !name.endsWith(PACKED)) await pack(path);
    }
  }

  /** Files put aside, the newest first. */
  async #backups(directory: string): Promise<readonly Backup[]> {
    const extension = extname(this.#path);
    const stem = basename(this.#path, extension);
    const found: Backup[] = [];
    for (const name of await readdir(directory)) {
      // What a crash left half packed; nothing is being packed while this runs.
      if (name.startsWith(stem) && name.endsWith(PACKING)) await rm(join(directory, name));
      const plain = name.endsWith(PACKED) ? name.slice(0, -PACKED.length) : name;
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

/** Compresses beside the file first, so that a crash leaves one whole copy. */
async function pack(path: string): Promise<void> {
  const part = `${path}${PACKING}`;
  await pipeline(createReadStream(path), createGzip(), createWriteStream(part, { mode: 0o640 }));
  await rename(part, path + PACKED);
  await rm(path);
}

function reason(thrown: unknown): string {
  return thrown instanceof Error && "code" in thrown ? String(thrown.code) : "an error";
}
