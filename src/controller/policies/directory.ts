// Watches a directory of policy documents and reads changed files. File system events make edits take effect quickly; regular
// checks find changes without events (network disks, replaced mounts).

import { type FSWatcher, stat, watch } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "#base/clock.ts";
import { Fault, systemErrorText } from "#base/fault.ts";
import { readTextFile } from "#runtime/life/text-file.ts";
import { isDocument, MAX_BYTES } from "../policy-directory.ts";

/** A file of the directory. */
export interface DocumentFile {
  /**
   * Identifies the version of the file without reading it. Undefined if the file was changed so shortly before that another
   * change might go unnoticed.
   */
  readonly facts: string | undefined;
  /** Undefined for a known file. */
  readonly text: string | undefined;
}

/** By path, in the order of the directories and of the names in each. */
export type Documents = ReadonlyMap<string, DocumentFile>;

/** Time from the first event until the files are read, ms: editors write in several steps. */
const SETTLE_MS = 50;

/** Time between two regular checks, ms: an edit takes effect within a second even without an event. */
const CHECK_MS = 500;

/** A check of thousands of files takes long: the next one waits this many times its duration … */
const CHECK_REST = 50;

/** … but no longer than this, ms: the rest of the second is for the check itself and for reading. */
const LONGEST_PAUSE_MS = 800;

/** Age from which a file's modification time identifies its version, ms: clocks of file systems are coarse. */
const SETTLED_MS = 2_000;

/** Number of files that are examined at once. Checks are answered between two groups. */
const GROUP = 32;

/** The readable content of directories. */
export interface DirectoryContent {
  readonly documents: Documents;
  /** Faults of files that cannot be read, by path. */
  readonly unreadable: ReadonlyMap<string, Fault>;
}

/**
 * Reads the documents of directories, except known ones. `now` is the time in Unix ms.
 * @throws Fault INVALID_ARGUMENT when a directory itself cannot be read.
 */
export async function readDocuments(
  directories: readonly string[],
  now: number,
  isKnown: (path: string, facts: string) => boolean,
): Promise<DirectoryContent> {
  const documents = new Map<string, DocumentFile>();
  const unreadable = new Map<string, Fault>();
  for (const directory of directories) {
    for (const { path, changedAt, facts: found } of await filesOf(directory)) {
      const facts = changedAt < now - SETTLED_MS ? found : undefined;
      if (facts !== undefined && isKnown(path, facts)) {
        documents.set(path, { facts, text: undefined });
        continue;
      }
      try {
        documents.set(path, { facts, text: await readTextFile(path, MAX_BYTES) });
      } catch (thrown) {
        unreadable.set(path, Fault.from(thrown));
      }
    }
  }
  return { documents, unreadable };
}

/** Has no cause: a stack would add nothing to path and reason. */
function unreadable(wanted: string, thrown: unknown): Fault {
  if (thrown instanceof Fault) return thrown;
  return new Fault("INVALID_ARGUMENT", `${wanted}, got ${systemErrorText(thrown)}`);
}

async function documentNames(dir: string): Promise<readonly string[]> {
  const names = await readdir(dir).catch((cause: unknown) => {
    throw unreadable(`policies: ${dir}: wanted a directory that can be read`, cause);
  });
  return names.filter(isDocument).sort();
}

interface FileFacts {
  readonly path: string;
  /** Unix ms. */
  readonly changedAt: number;
  readonly facts: string;
}

/** The documents with their attributes in the file system. */
async function filesOf(dir: string): Promise<readonly FileFacts[]> {
  const paths = (await documentNames(dir)).map((name) => join(dir, name));
  const files: FileFacts[] = [];
  for (let at = 0; at < paths.length; at += GROUP) {
    files.push(...(await Promise.all(paths.slice(at, at + GROUP).map(factsOf))));
  }
  return files;
}

/** A file that was just removed is a change, not a failure. */
function factsOf(path: string): Promise<FileFacts> {
  return new Promise((resolve) => {
    // The callback form, because promises take several times as long with thousands of files.
    stat(path, (_, found) => {
      const changedAt = Math.max(found?.mtimeMs ?? 0, found?.ctimeMs ?? 0);
      const facts = `${found?.mtimeMs}:${found?.ctimeMs}:${found?.size}:${found?.ino}`;
      resolve({ path, changedAt, facts });
    });
  });
}

/** Identifies the state of the directory, without reading the files. */
async function fingerprint(dir: string): Promise<string> {
  const files = await filesOf(dir);
  return files.map(({ path, facts }) => `${path}:${facts}`).join("\n");
}

export interface DirectoryWatch {
  close(): Promise<void>;
}

/**
 * Calls `changed` after every change of the directory, one call at a time, and again at the next check while it returns
 * false. An unreadable directory or a failed call is reported to `failed`, once per message, and retried at every check. When
 * it works again, `changed` is called even without a change.
 */
export function watchDirectory(
  dir: string,
  clock: Clock,
  changed: () => Promise<boolean>,
  failed: (fault: Fault) => void,
): DirectoryWatch {
  return new Watcher(dir, clock, changed, failed);
}

class Watcher implements DirectoryWatch {
  readonly #dir: string;
  readonly #clock: Clock;
  readonly #changed: () => Promise<boolean>;
  readonly #failed: (fault: Fault) => void;
  #notices: FSWatcher | undefined;
  /** The state for which `changed` last succeeded; undefined after a failure. */
  #seen: string | undefined;
  #reported: string | undefined;
  #stopAlarm: () => void = () => undefined;
  /** When the timer fires, on the monotonic clock. */
  #due = Number.POSITIVE_INFINITY;
  #checking: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(
    dir: string,
    clock: Clock,
    changed: () => Promise<boolean>,
    failed: (fault: Fault) => void,
  ) {
    this.#dir = dir;
    this.#clock = clock;
    this.#changed = changed;
    this.#failed = failed;
    this.#listen();
    this.#checkWithin(CHECK_MS);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stopAlarm();
    this.#notices?.close();
    await this.#checking;
  }

  /** On platforms without file system events, regular checks suffice. */
  #listen(): void {
    this.#notices?.close();
    try {
      const notices = watch(this.#dir, { persistent: false });
      notices.on("change", () => this.#checkWithin(SETTLE_MS));
      notices.on("error", () => notices.close());
      this.#notices = notices;
    } catch {
      // Regular checks suffice.
    }
  }

  /** Brings the next check forward, and never delays it, so that a constantly changing directory is read too. */
  #checkWithin(ms: number): void {
    const due = this.#clock.now() + ms;
    if (this.#closed || due >= this.#due) return;
    this.#stopAlarm();
    this.#due = due;
    this.#stopAlarm = this.#clock.alarm(ms, () => {
      this.#due = Number.POSITIVE_INFINITY;
      this.#checking = this.#checking.then(async () => this.#checkWithin(await this.#check()));
    });
  }

  /** Returns the pause until the next check, ms. */
  async #check(): Promise<number> {
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
    return Math.min(LONGEST_PAUSE_MS, Math.max(CHECK_MS, CHECK_REST * took));
  }

  async #take(now: string): Promise<void> {
    const isSettled = await this.#changed();
    this.#seen = isSettled ? now : undefined;
    // After a failure this may be a new directory, which the old watch does not follow.
    if (this.#reported !== undefined && !this.#closed) this.#listen();
    this.#reported = undefined;
  }

  #fail(fault: Fault): void {
    if (fault.message !== this.#reported) this.#failed(fault);
    this.#reported = fault.message;
  }
}
