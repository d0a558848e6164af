// Reads and compiles the policy files of directories. Unchanged files keep their compiled form, so an edit costs neither the
// time nor the memory of all policies.

import type { Fault } from "#base/fault.ts";
import type { Finding } from "#policy/document/finding.ts";
import { findingLine } from "#policy/format.ts";
import { type CompiledSet, type PolicyText, validateSet } from "#policy/set.ts";
import { sha256 } from "../digest.ts";
import { ignoredFiles } from "../policy-directory.ts";
import { readDocuments } from "./directory.ts";
import { type PolicyFile, type SortedDocuments, sortDocuments } from "./documents.ts";

/** A compiled file of policies. */
export interface CompiledFile {
  /** Identifies the file's text. */
  readonly digest: string;
  /** Identifies the version of the file without reading it; undefined if that is not safe. */
  readonly facts: string | undefined;
  readonly set: CompiledSet;
}

/** By path, in the order of the directories and of the names in each. */
export type CompiledFiles = ReadonlyMap<string, CompiledFile>;

/** A placeholder that equals no digest. */
const UNREADABLE = "unreadable";

/** The result of reading the directories. */
export interface DirectoryFiles {
  readonly sorted: SortedDocuments;
  /** Digest of each policy file, by path; a placeholder for unreadable files. */
  readonly digests: ReadonlyMap<string, string>;
  /** Files that look like documents and are not read. */
  readonly ignored: readonly string[];
  /** The fault of a file that could not be read. */
  readonly fault: Fault | undefined;
}

/** Reads the files of some directories that are not among `known`. `now` is Unix ms. */
export async function readPolicyFiles(
  directories: readonly string[],
  known: CompiledFiles,
  now: number,
): Promise<DirectoryFiles> {
  const isKnown = (path: string, facts: string) => known.get(path)?.facts === facts;
  const { documents, unreadable } = await readDocuments(directories, now, isKnown);
  const sorted = sortDocuments(documents);
  const digests = new Map<string, string>();
  for (const { source, text } of sorted.policies) {
    const digest = text === undefined ? known.get(source)?.digest : sha256(text);
    digests.set(source, digest ?? UNREADABLE);
  }
  for (const path of unreadable.keys()) digests.set(path, UNREADABLE);
  const [fault] = unreadable.values();
  const ignored = (await Promise.all(directories.map(ignoredFiles))).flat();
  return { sorted, digests, ignored, fault };
}

/**
 * Compiles new and changed files. Known files that are empty now are left out while `waits` tells that they may be about to
 * be written.
 */
export async function compileFiles(
  { sorted, digests }: DirectoryFiles,
  known: CompiledFiles,
  waits: (path: string) => boolean,
  compile: (texts: readonly PolicyText[]) => Promise<readonly CompiledSet[]>,
): Promise<CompiledFiles> {
  const changed: (PolicyFile & PolicyText)[] = [];
  const emptied = new Set<string>();
  for (const file of sorted.policies) {
    const { source, text } = file;
    if (text === "" && known.has(source) && waits(source)) {
      emptied.add(source);
      continue;
    }
    const isKnown = known.get(source)?.digest === digests.get(source);
    if (!isKnown && text !== undefined) changed.push({ ...file, text });
  }
  const sets = await compile(changed);
  const compiled = new Map(changed.map(({ source }, at) => [source, sets[at]]));
  const files = new Map<string, CompiledFile>();
  for (const { source, facts } of sorted.policies) {
    const digest = digests.get(source) ?? UNREADABLE;
    const set = compiled.get(source) ?? known.get(source)?.set;
    if (set !== undefined && !emptied.has(source)) files.set(source, { digest, facts, set });
  }
  return files;
}

/** The findings of each file, and the conflicts between policies. */
export function findingsOf(files: CompiledFiles): readonly Finding[] {
  const sets = [...files.values()].map(({ set }) => set);
  const own = sets.flatMap(({ findings }) => findings);
  const known = new Set(own.map(findingLine));
  const together = validateSet(sets.flatMap(({ policies }) => policies));
  return [...own, ...together.filter((finding) => !known.has(findingLine(finding)))];
}

/** True if the policies of the files differ. */
export function isSameFiles(before: CompiledFiles, now: CompiledFiles): boolean {
  if (before.size !== now.size) return false;
  return [...now].every(([path, { set }]) => before.get(path)?.set === set);
}

/** Milliseconds for which the policies of a missing file stay: editors and volumes replace files in two steps. */
const AWAY_MS = 5_000;

/** Keeps track of files that are missing or empty for a moment. */
export class MissingFiles {
  readonly #missed: (path: string, ms: number) => void;
  /** When each missing file was first missed, on the monotonic clock. */
  #since: ReadonlyMap<string, number> = new Map();

  /** `missed` is called for a file that has just gone missing, with the milliseconds for which its policies stay. */
  constructor(missed: (path: string, ms: number) => void) {
    this.#missed = missed;
  }

  /** True if another reload is needed, because the time of a missing file may run out. */
  get any(): boolean {
    return this.#since.size > 0;
  }

  /** True if a file that is missing at `now` may still come back. */
  waits(path: string, now: number): boolean {
    return now - (this.#since.get(path) ?? now) < AWAY_MS;
  }

  /**
   * Adds files of `before` that have been missing for less than five seconds, unless other files define their policies or
   * flux meters now.
   */
  keep(before: CompiledFiles, files: CompiledFiles, now: number): CompiledFiles {
    const missing = [...before].filter(([path]) => !files.has(path));
    if (missing.length === 0) {
      this.#since = new Map();
      return files;
    }
    const taken = new Set([...files.values()].flatMap(namesIn));
    const kept = new Map(files);
    const since = new Map<string, number>();
    for (const [path, file] of missing) {
      const missedAt = this.#since.get(path) ?? now;
      if (!this.waits(path, now) || namesIn(file).some((name) => taken.has(name))) continue;
      if (!this.#since.has(path)) this.#missed(path, AWAY_MS);
      since.set(path, missedAt);
      kept.set(path, file);
    }
    this.#since = since;
    return kept;
  }
}

function namesIn({ set }: CompiledFile): readonly string[] {
  return set.policies.flatMap(({ name, configs }) => [
    `policy ${name}`,
    ...configs.flatMap((config) => (config.kind === "flux_meter" ? [`meter ${config.name}`] : [])),
  ]);
}
