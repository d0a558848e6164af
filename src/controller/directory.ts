// A directory of policy documents, read whole whenever something in it changes. The file system's own
// notice makes edits quick; a regular look catches what it misses (network disks, replaced mounts).

import { type FSWatcher, watch } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { reasonOf } from "#base/reason.ts";
import { readTextFile } from "#host/text-file.ts";

/** File name to text, in name order. */
export type Documents = ReadonlyMap<string, string>;

const DOCUMENT = /^[^.].*\.(?:ya?ml|json)$/;

/** Largest policy document: far beyond any written by hand, far below what would stall the process. */
const MAX_BYTES = 4 * 1024 * 1024;

/** Editors write in several steps: this long after the first notice the files are read, ms. */
const SETTLE_MS = 50;

/** Between two regular looks, ms: an edit is in force within a second even where no notice comes. */
const LOOK_MS = 500;

/** A look at thousands of files takes its time: the next one waits this many times as long … */
const LOOK_REST = 50;

/** … but no longer than this, ms: the rest of the second is for the look itself and the reading. */
const LOOK_MOST_MS = 800;

/** Reads every document. Names that start with a dot are not documents (editors, mounted volumes). */
export async function readDocuments(dir: string): Promise<Documents> {
  const documents = new Map<string, string>();
  for (const name of await documentNames(dir)) {
    documents.set(name, await readTextFile(join(dir, name), MAX_BYTES));
  }
  return documents;
}

/** Without a cause: the path and the system's reason are the whole story, a stack adds nothing. */
function unreadable(wanted: string, thrown: unknown): Fault {
  if (thrown instanceof Fault) return thrown;
  return new Fault("INVALID_ARGUMENT", `${wanted}, got ${reasonOf(thrown)}`);
}

async function documentNames(dir: string): Promise<readonly string[]> {
  const names = await readdir(dir).catch((cause: unknown) => {
    throw unreadable(`policies: ${dir}: wanted a directory that can be read`, cause);
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
 * Calls `changed` after every change of the directory, one call at a time. What cannot be read, or a
 * `changed` that fails, is told to `failed`, once per message, and tried again at every look: when it
 * works again `changed` is called even if the directory is as it was.
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
  #notices: FSWatcher | undefined;
  /** The state that `changed` last took in; undefined while the last try failed. */
  #seen: string | undefined;
  #told: string | undefined;
  #stopAlarm: () => void = () => undefined;
  /** When the alarm rings, on the clock. */
  #due = Number.POSITIVE_INFINITY;
  #looking: Promise<void> = Promise.resolve();
  #closed = false;

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
    this.#lookWithin(LOOK_MS);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stopAlarm();
    this.#notices?.close();
    await this.#looking;
  }

  /** Where the platform cannot give notice, the regular look does the work alone. */
  #listen(): void {
    this.#notices?.close();
    try {
      const notices = watch(this.#dir, { persistent: false });
      notices.on("change", () => this.#lookWithin(SETTLE_MS));
      notices.on("error", () => notices.close());
      this.#notices = notices;
    } catch {
      // The regular look stays.
    }
  }

  /** Brings the next look forward, never back: a directory that never rests is read all the same. */
  #lookWithin(ms: number): void {
    const due = this.#clock.now() + ms;
    if (this.#closed || due >= this.#due) return;
    this.#stopAlarm();
    this.#due = due;
    this.#stopAlarm = this.#clock.alarm(ms, () => {
      this.#due = Number.POSITIVE_INFINITY;
      this.#looking = this.#looking.then(async () => this.#lookWithin(await this.#look()));
    });
  }

  /** Gives the pause until the next look, ms. */
  async #look(): Promise<number> {
    const started = this.#clock.now();
    let took = 0;
    try {
      const now = await fingerprint(this.#dir);
      took = this.#clock.now() - started;
      if (now !== this.#seen && !this.#closed) await this.#take(now);
    } catch (thrown) {
      this.#seen = undefined;
      this.#fail(Fault.from(thrown));
    }
    return Math.min(LOOK_MOST_MS, Math.max(LOOK_MS, LOOK_REST * took));
  }

  async #take(now: string): Promise<void> {
    await this.#changed();
    this.#seen = now;
    // What could not be read may be another directory now, of which the old watch tells nothing.
    if (this.#told !== undefined && !this.#closed) this.#listen();
    this.#told = undefined;
  }

  #fail(fault: Fault): void {
    if (fault.message !== this.#told) this.#failed(fault);
    this.#told = fault.message;
  }
}
