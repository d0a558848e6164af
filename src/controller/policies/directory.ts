// A directory of policy documents. When something in it changes, the files that changed are read. Notices of the file
// system make edits quick; regular checks find what these miss (network disks, replaced mounts).

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
   * Tells versions of the file apart without reading it. Undefined when it was changed so shortly before it was read
   * that another change might leave no trace.
   */
  readonly facts: string | undefined;
  /** Undefined for a file that the caller knew already. */
  readonly text: string | undefined;
}

/** By path, in the order of the directories and of the names in each. */
export type Documents = ReadonlyMap<string, DocumentFile>;

/** Time from the first notice until the files are read, ms: editors write in several steps. */
const SETTLE_MS = 50;

/** Time between two regular checks, ms: an edit is in force within a second even without a notice. */
const CHECK_MS = 500;

/** A check of thousands of files takes long: the next one waits this many times its duration … */
const CHECK_REST = 50;

/** … but no longer than this, ms: the rest of the second is for the check itself and for reading. */
const LONGEST_PAUSE_MS = 800;

/** Age from which the time of a file's last change tells its versions apart, ms: clocks of file systems are coarse. */
const SETTLED_MS = 2_000;

/** Number of files whose facts are asked for at once: checks are answered between two groups of them. */
const GROUP = 32;

/** The content of directories, as far as it can be read. */
export interface DirectoryContent {
  readonly documents: Documents;
  /** Faults of files that cannot be read, by path. */
  readonly unreadable: ReadonlyMap<string, Fault>;
}

/**
 * Reads the documents of directories, except those that `isKnown` by their facts. Names that start with a dot are not
 * documents (editors, mounted volumes). `now` is the time in Unix ms.
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

/** Has no cause: path and reason say everything, and a stack would add nothing. */
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

/** The documents with what the file system says about them. */
async function filesOf(dir: string): Promise<readonly FileFacts[]> {
  const paths = (await documentNames(dir)).map((name) => join(dir, name));
  const files: FileFacts[] = [];
  for (let at = 0; at < paths.length; at += GROUP) {
    files.push(...(await Promise.all(paths.slice(at, at + GROUP).map(factsOf))));
  }
  return files;
}

/** A file that is removed meanwhile is a change, not a failure. */
function factsOf(path: string): Promise<FileFacts> {
  return new Promise((resolve) => {
    // The callback form: with thousands of files, promises of `fs` take several times as long.
    stat(path, (_, found) => {
      const changedAt = Math.max(found?.mtimeMs ?? 0, found?.ctimeMs ?? 0);
      const facts = `${found?.mtimeMs}:${found?.ctimeMs}:${found?.size}:${found?.ino}`;
      resolve({ path, changedAt, facts });
    });
  });
}

/** Changes whenever the directory changes; computed without reading the files. */
async function fingerprint(dir: string): Promise<string> {
  const files = await filesOf(dir);
  return files.map(({ path, facts }) => `${path}:${facts}`).join("\n");
}

export interface DirectoryWatch {
  close(): Promise<void>;
}

/**
 * Calls `changed` after every change of the directory, one call at a time, and again at the next check while it returns
 * false. A directory that cannot be read, or a call that fails, is reported to `failed`, once per message, and tried again
 * at every check: when it works again, `changed` is called even if the directory is as it was.
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
  /** When the alarm rings, on the clock. */
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

  /** On platforms without notices, the regular checks do the work alone. */
  #listen(): void {
    this.#notices?.close();
    try {
      const notices = watch(this.#dir, { persistent: false });
      notices.on("change", () => this.#checkWithin(SETTLE_MS));
      notices.on("error", () => notices.close());
      this.#notices = notices;
    } catch {
      // The regular checks go on.
    }
  }

  /** Brings the next check forward and never delays it: a directory that always changes is read too. */
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
    // After a failure this may be another directory, which the old file system watch does not follow.
    if (this.#reported !== undefined && !this.#closed) this.#listen();
    this.#reported = undefined;
  }

  #fail(fault: Fault): void {
    if (fault.message !== this.#reported) this.#failed(fault);
    this.#reported = fault.message;
  }
}
