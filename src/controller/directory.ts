// A directory of policy documents, read whole whenever something in it changes. The file system's own
// notice makes edits quick; a regular look catches what it misses (network disks, replaced mounts).

import { watch } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";

/** File name to text, in name order. */
export type Documents = ReadonlyMap<string, string>;

const DOCUMENT = /^[^.].*\.(?:ya?ml|json)$/;

/** Largest policy document: far beyond any written by hand, far below what would stall the process. */
const MAX_BYTES = 4 * 1024 * 1024;

/** Editors write in several steps: this long after the first notice the files are read, ms. */
const SETTLE_MS = 50;

/** Between two regular looks, ms: an edit is in force within a second even where no notice comes. */
const LOOK_MS = 500;

/** Reads every document. Names that start with a dot are not documents (editors, mounted volumes). */
export async function readDocuments(dir: string): Promise<Documents> {
  const documents = new Map<string, string>();
  for (const name of await documentNames(dir)) {
    const path = join(dir, name);
    const { size } = await stat(path);
    if (size > MAX_BYTES) {
      throw new Fault(
        "INVALID_ARGUMENT",
        `${path}: wanted at most ${MAX_BYTES} bytes, got ${size}`,
      );
    }
    documents.set(name, await readFile(path, "utf8"));
  }
  return documents;
}

async function documentNames(dir: string): Promise<readonly string[]> {
  const names = await readdir(dir).catch((cause: unknown) => {
    throw new Fault("NOT_FOUND", `policy directory ${dir} cannot be read`, { cause });
  });
  return names.filter((name) => DOCUMENT.test(name)).sort();
}

/** What tells one state of the directory from the next without reading the files. */
async function fingerprint(dir: string): Promise<string> {
  const names = await documentNames(dir);
  const each = names.map(async (name) => {
    // A file that goes away between the two looks is a change, not a failure.
    const facts = await stat(join(dir, name)).catch(() => undefined);
    return `${name}:${facts?.mtimeMs}:${facts?.size}:${facts?.ino}`;
  });
  return (await Promise.all(each)).join("\n");
}

export interface DirectoryWatch {
  close(): Promise<void>;
}

/**
 * Calls `changed` after every change of the directory, one call at a time. A directory that cannot be
 * read is told to `failed`, once until it can be read again.
 */
export function watchDirectory(
  dir: string,
  clock: Clock,
  changed: () => Promise<void>,
  failed: (fault: Fault) => void,
): DirectoryWatch {
  return new Watching(dir, clock, changed, failed);
}

class Watching implements DirectoryWatch {
  readonly #dir: string;
  readonly #clock: Clock;
  readonly #changed: () => Promise<void>;
  readonly #failed: (fault: Fault) => void;
  readonly #notices: AbortController = new AbortController();
  #seen: string | undefined;
  #stopAlarm: () => void = () => undefined;
  #looking: Promise<void> = Promise.resolve();
  #closed = false;
  #broken = false;

  constructor(
    dir: string,
    clock: Clock,
    changed: () => Promise<void>,
    failed: (fault: Fault) => void,
  ) {
    this.#dir = dir;
    this.#clock = clock;
    this.#changed = changed;
    this.#failed = failed;
    this.#listen();
    this.#schedule(LOOK_MS);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stopAlarm();
    this.#notices.abort();
    await this.#looking;
  }

  /** Where the platform cannot give notice, the regular look does the work alone. */
  #listen(): void {
    try {
      const notices = watch(this.#dir, { signal: this.#notices.signal, persistent: false });
      notices.on("change", () => this.#schedule(SETTLE_MS));
      notices.on("error", () => notices.close());
    } catch {
      // The regular look stays.
    }
  }

  #schedule(ms: number): void {
    if (this.#closed) return;
    this.#stopAlarm();
    this.#stopAlarm = this.#clock.alarm(ms, () => {
      const look = async () => {
        await this.#look();
        this.#schedule(LOOK_MS);
      };
      this.#looking = this.#looking.then(look);
    });
  }

  async #look(): Promise<void> {
    try {
      const now = await fingerprint(this.#dir);
      this.#broken = false;
      if (now === this.#seen || this.#closed) return;
      this.#seen = now;
      await this.#changed();
    } catch (thrown) {
      if (!this.#broken) this.#failed(Fault.from(thrown));
      this.#broken = true;
    }
  }
}
