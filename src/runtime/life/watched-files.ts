// Files that settings name and that are read again when they change: certificates, keys, tokens. They are small regular
// files. Unusable contents never replace those in use.

import { hash } from "node:crypto";
import { type FSWatcher, watch } from "node:fs";
import { dirname } from "node:path";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { readRegularFile, readRegularFileNow } from "./text-file.ts";

/** The largest file: a list of all public certificate authorities has a quarter of this. */
const MAX_BYTES = 1024 * 1024;
/** The files are replaced one after the other: they are read when all are probably done. */
const SETTLE_MS = 100;
/** For file systems that report no changes. */
const LOOK_EVERY_MS = 30_000;

interface WatchedFilesOptions<Key extends string, T> {
  /** The setting that holds the files, such as `server.tls`, for messages. */
  readonly setting: string;
  /** The content of the files, in the plural: `certificates`. */
  readonly what: string;
  /** Paths by the key below the setting; empty where there is none. */
  readonly files: Readonly<Record<Key, string>>;
  /** Converts the contents, which belong together, to the value in use. Throws a Fault when they cannot be used. */
  readonly use: (contents: Contents<Key>) => T;
  /** Called with the value in use after each further look at the files. */
  readonly looked?: (current: T) => void;
  readonly clock: Clock;
  readonly log?: Pick<Log, "info" | "warn"> | undefined;
}

/** The bytes of each file that has a path. */
export type Contents<Key extends string> = Readonly<Partial<Record<Key, Buffer>>>;

export class WatchedFiles<Key extends string, T> {
  readonly #options: WatchedFilesOptions<Key, T>;
  readonly #paths: readonly (readonly [Key, string])[];
  #current: T;
  #digest: string;
  /** The last refusal, so that it is reported once. */
  #refused = "";
  #watchers: readonly FSWatcher[] = [];
  #settling: () => void = () => undefined;
  #polling: () => void = () => undefined;
  /** A look is in progress. `#again`: another one follows, because something changed since it began. */
  #looking = false;
  #again = false;
  #closed = false;

  /** Reads the files at once. Throws a Fault INVALID_ARGUMENT that names the bad file, or the Fault of `use`. */
  constructor(options: WatchedFilesOptions<Key, T>) {
    this.#options = options;
    const all = Object.entries(options.files) as [Key, string][];
    this.#paths = all.filter(([, path]) => path !== "");
    const read = this.#paths.map(([key, path]) =>
      attempt(() => readRegularFileNow(path, MAX_BYTES), this.#named(key)),
    );
    this.#current = options.use(this.#contents(read));
    this.#digest = digestOf(read);
    if (this.#paths.length === 0) return;
    const folders = new Set(this.#paths.map(([, path]) => dirname(path)));
    this.#watchers = [...folders].flatMap((folder) => this.#watch(folder));
    this.#poll();
  }

  /** The same object until other files are accepted. */
  get current(): T {
    return this.#current;
  }

  close(): void {
    this.#closed = true;
    this.#settling();
    this.#polling();
    for (const watcher of this.#watchers) watcher.close();
  }

  /** Volumes of secrets swap links, which a watch of the files themselves would miss. */
  #watch(folder: string): FSWatcher[] {
    try {
      const watcher = watch(folder, { persistent: false }, () => {
        this.#settling();
        this.#settling = this.#options.clock.alarm(SETTLE_MS, () => void this.#look());
      });
      // A folder that vanishes ends its watch; polling goes on.
      watcher.on("error", () => watcher.close());
      return [watcher];
    } catch {
      return [];
    }
  }

  #poll(): void {
    this.#polling = this.#options.clock.alarm(LOOK_EVERY_MS, () => {
      void this.#look();
      this.#poll();
    });
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    this.#again = true;
    if (this.#looking) return;
    this.#looking = true;
    while (this.#again && !this.#closed) {
      this.#again = false;
      await this.#lookOnce();
    }
    this.#looking = false;
  }

  async #lookOnce(): Promise<void> {
    const { log, setting, what, use, looked } = this.#options;
    let found = "";
    try {
      const read = await this.#read();
      if (this.#closed) return;
      found = digestOf(read);
      if (found === this.#digest) this.#refused = "";
      else if (found !== this.#refused) {
        this.#current = use(this.#contents(read));
        this.#digest = found;
        this.#refused = "";
        log?.info({}, `${setting}: reloaded the ${what}`);
      }
    } catch (thrown) {
      const { message } = Fault.from(thrown);
      // Files that cannot be read have no digest; the reason stands for them.
      const refused = found === "" ? message : found;
      if (!this.#closed && refused !== this.#refused) {
        log?.warn(
          {},
          `${setting}: keeping the current ${what}, the changed files are invalid: ${message}`,
        );
      }
      this.#refused = refused;
    }
    if (!this.#closed) looked?.(this.#current);
  }

  #read(): Promise<readonly Buffer[]> {
    return Promise.all(
      this.#paths.map(([key, path]) => readRegularFile(path, MAX_BYTES).catch(this.#named(key))),
    );
  }

  /** Adds the name of the setting to a Fault that names the file. */
  #named(key: Key): (thrown: unknown) => never {
    return (thrown) => {
      const { code, message } = Fault.from(thrown);
      throw new Fault(code, `${this.#options.setting}.${key}: ${message}`);
    };
  }

  #contents(read: readonly Buffer[]): Contents<Key> {
    return Object.fromEntries(this.#paths.map(([key], at) => [key, read[at]])) as Contents<Key>;
  }
}

function attempt<T>(work: () => T, failed: (thrown: unknown) => never): T {
  try {
    return work();
  } catch (thrown) {
    return failed(thrown);
  }
}

/** Equal if the contents are. */
function digestOf(parts: readonly Buffer[]): string {
  return hash(
    "sha256",
    Buffer.concat(parts.flatMap((part) => [Buffer.from(`${part.length}:`), part])),
  );
}
