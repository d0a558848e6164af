// Policies and dynamic configuration of a directory. A set of files with a fault changes nothing: the running
// policies stay in force, and log, status and metrics name the faults.

import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { JsonObject } from "#policy/compiled.ts";
import type { Finding } from "#policy/document/finding.ts";
import { dynamicKeys, unreadKeys, unreadReason } from "#policy/dynamic.ts";
import { findingLine, warningLine } from "#policy/format.ts";
import { type PolicySet, type PolicyText, type Sourced, validateSet } from "#policy/set.ts";
import { sha256 } from "../compiling/digest.ts";
import { MOST_LISTED } from "../loop/log-list.ts";
import type { ActivePolicies } from "./active-policies.ts";
import { type DirectoryWatch, readDocuments, watchDirectory } from "./directory.ts";
import { type ConfigFile, type SortedDocuments, sortDocuments } from "./documents.ts";
import type { Offer, PolicySource } from "./source.ts";

/** Counters of a directory's policies. */
export interface PolicyCounts {
  setDocuments(counts: { readonly loaded: number; readonly refused: number }): void;
  reloaded(result: "success" | "failure"): void;
}

export interface DirectorySourceOptions {
  readonly directory: string;
  readonly clock: Clock;
  readonly active: () => ActivePolicies;
  /** Policies that another source has: dynamic configuration for them is not a mistake. */
  readonly hasPolicy: (name: string) => boolean;
  readonly compile: (texts: readonly PolicyText[]) => Promise<PolicySet>;
  readonly log: Log;
  /** The status of all policies. */
  readonly status: { ok(message: string): void; fail(message: string): void };
  readonly counts: PolicyCounts;
}

/** A file of policies as it was compiled. */
interface CompiledFile {
  /** Identifies the file's text. */
  readonly digest: string;
  readonly set: PolicySet;
}

/** The content of the files when they were last applied. */
interface AppliedFiles {
  /** By path. */
  readonly files: ReadonlyMap<string, CompiledFile>;
  /** Faults in files of dynamic configuration. */
  readonly configFaults: readonly string[];
  /** Files of dynamic configuration, by policy name. */
  readonly configFiles: ReadonlyMap<string, ConfigFile>;
}

/** In place of a digest, which is never this. */
const UNREADABLE = "unreadable";

/** The files as they are in the directory, when they are not in force. */
interface HeldBack {
  /** Digest of each file's text, by path; `UNREADABLE` for a file that could not be read. */
  readonly digests: ReadonlyMap<string, string>;
  /** Faults of the files. Empty when they could not be read or compiled. */
  readonly findings: readonly Sourced<Finding>[];
  /** Why none of the files was applied: the first fault, which begins with the path of its file. */
  readonly why: string;
}

const NOTHING: AppliedFiles = { files: new Map(), configFaults: [], configFiles: new Map() };

export class DirectorySource implements PolicySource {
  readonly origin = "file";
  readonly #options: DirectorySourceOptions;
  #applied: AppliedFiles = NOTHING;
  #dynamicConfigs: ReadonlyMap<string, JsonObject> = new Map();
  /** The files as they are now, when they are not in force. */
  #heldBack: HeldBack | undefined;
  /** The summary that was last logged; undefined after a failure. */
  #logged: string | undefined;
  #loggedRemarks = "";
  /** True while files are being applied: reports wait until they are in force. */
  #applying = false;
  #watch: DirectoryWatch | undefined;
  #closed = false;

  constructor(options: DirectorySourceOptions) {
    this.#options = options;
  }

  *offers(): Generator<Offer> {
    for (const { set } of this.#applied.files.values()) {
      for (const { source, of } of set.policies) {
        yield { name: of.name, location: source, policy: of };
      }
    }
  }

  dynamicConfig(name: string): JsonObject | undefined {
    return this.#dynamicConfigs.get(name);
  }

  async start(): Promise<void> {
    const { directory, clock } = this.#options;
    const findings = await this.#apply();
    if (findings.length > 0) {
      const lines = findings.map(findingLine).join("\n  ");
      throw new Fault("INVALID_ARGUMENT", `the policies cannot be used:\n  ${lines}`);
    }
    this.#watch = watchDirectory(
      directory,
      clock,
      () => this.#reload(),
      (fault) => this.#unreadable(fault),
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#watch?.close();
  }

  /** Applies the files again. Throws when they cannot be read now and another attempt may succeed. */
  async #reload(): Promise<void> {
    const findings = await this.#apply().catch((thrown: unknown) => {
      // Another attempt would need as much memory or time, so the next one waits until the files change.
      if (!(thrown instanceof Fault) || thrown.code !== "RESOURCE_EXHAUSTED") throw thrown;
      this.#reportFailure([thrown.message]);
      return [];
    });
    if (findings.length === 0) return;
    this.#reportFailure(findings.map(findingLine));
    this.#options.counts.setDocuments({
      loaded: this.#options.active().loops.size,
      refused: new Set(findings.map(({ source }) => source)).size,
    });
  }

  /** Reports that the files could not be read or applied. While the controller stops, they cannot be compiled. */
  #unreadable(fault: Fault): void {
    if (!this.#closed) this.#reportFailure([fault.message]);
  }

  faultsOf(file: string): string | undefined {
    if (this.#heldBack === undefined) return undefined;
    const { digests, findings, why } = this.#heldBack;
    const own = findings.filter(({ source }) => source === file);
    if (own.length > 0) return own.map(findingLine).join("; ");
    if (digests.get(file) === this.#applied.files.get(file)?.digest) return undefined;
    const what = digests.has(file) ? "edit" : "removal";
    return `the ${what} of ${file} is not in force, because files are applied together or not at all: ${why}`;
  }

  leftOutChanged(): void {
    if (this.#heldBack === undefined && !this.#applying) this.#report(false);
  }

  /** Returns the findings because of which the files were not applied. */
  async #apply(): Promise<readonly Sourced<Finding>[]> {
    const { directory, active } = this.#options;
    const { documents, unreadable } = await readDocuments(directory);
    const sorted = sortDocuments(directory, documents);
    const before = this.#applied;
    const digests = new Map(sorted.policies.map(({ source, text }) => [source, sha256(text)]));
    const [fault] = unreadable.values();
    if (fault !== undefined) {
      for (const file of unreadable.keys()) digests.set(join(directory, file), UNREADABLE);
      this.#heldBack = { digests, findings: [], why: fault.message };
      throw fault;
    }
    const files = await this.#compile(sorted.policies, digests).catch((thrown: unknown) => {
      this.#heldBack = { digests, findings: [], why: Fault.from(thrown).message };
      throw thrown;
    });
    const findings = findingsOf(files);
    const [first] = findings;
    this.#heldBack = first && { digests, findings, why: findingLine(first) };
    if (findings.length > 0) return findings;
    this.#dynamicConfigs = this.#configsOf(sorted);
    this.#applied = {
      files,
      configFaults: sorted.faults,
      configFiles: sorted.dynamicConfigs,
    };
    this.#applying = true;
    try {
      active().update();
    } finally {
      this.#applying = false;
    }
    this.#report(before === NOTHING || !isSame(before.files, files));
    return [];
  }

  /**
   * Compiles the files that have changed; the others keep their objects, so that an edit costs
   * neither the time nor the memory of all policies.
   */
  async #compile(
    texts: readonly PolicyText[],
    digests: ReadonlyMap<string, string>,
  ): Promise<ReadonlyMap<string, CompiledFile>> {
    const files = new Map<string, CompiledFile>();
    const changed: PolicyText[] = [];
    for (const text of texts) {
      const known = this.#applied.files.get(text.source);
      const isKnown = known !== undefined && known.digest === digests.get(text.source);
      if (isKnown) files.set(text.source, known);
      else changed.push(text);
    }
    for (const batch of batches(changed)) {
      const { policies, findings, warnings } = await this.#options.compile(batch);
      // Checks are answered between batches.
      await setImmediate();
      for (const { source } of batch) {
        const isOwn = (each: { readonly source: string }) => each.source === source;
        const set = {
          policies: policies.filter(isOwn),
          findings: findings.filter(isOwn),
          warnings: warnings.filter(isOwn),
        };
        files.set(source, { digest: digests.get(source) ?? "", set });
      }
    }
    // In the order of the files, which is also the order of findings and log lines.
    return new Map(texts.flatMap(({ source }) => entryOf(files, source)));
  }

  /** A file with a fault keeps the configuration that it had before. */
  #configsOf({ dynamicConfigs }: SortedDocuments): ReadonlyMap<string, JsonObject> {
    const configs = new Map<string, JsonObject>();
    for (const [name, file] of dynamicConfigs) {
      const config = file.config ?? this.#dynamicConfigs.get(name);
      if (config !== undefined) configs.set(name, config);
    }
    return configs;
  }

  #remarks(leftOut: readonly string[]): readonly string[] {
    const { configFaults, configFiles } = this.#applied;
    const own = new Set([...this.offers()].map(({ name }) => name));
    const stray = [...configFiles.keys()].filter(
      (name) => !own.has(name) && !this.#options.hasPolicy(name),
    );
    return [
      ...configFaults.map((fault) => `dynamic configuration was ignored: ${fault}`),
      ...stray.map((name) => `dynamic configuration for ${name}: there is no such policy`),
      ...[...configFiles].flatMap(([name, file]) => this.#unread(name, file)),
      ...leftOut,
    ];
  }

  /** Keys of a file of dynamic configuration that no component of its policy reads. */
  #unread(name: string, { source, config }: ConfigFile): readonly string[] {
    const policy = this.#options.active().loops.get(name)?.version.policy;
    if (policy === undefined || config === undefined) return [];
    const unread = unreadKeys(dynamicKeys(policy.document), config).slice(0, MOST_LISTED);
    return unread.map((each) => `${source}: dynamic configuration: ${unreadReason(each)}`);
  }

  /** Files that are left out because of other policies, one line for each file. */
  #leftOut(): readonly string[] {
    const byFile = new Map<string, string>();
    for (const { claim, why } of this.#options.active().leftOutOf("file")) {
      byFile.set(claim.location, `${claim.location}: left out: ${why}`);
    }
    return [...byFile.values()];
  }

  /** `changed`: the policies differ from those of the last report. */
  #report(changed: boolean): void {
    if (this.#applied === NOTHING) return;
    const { log, status, counts, active } = this.#options;
    const { owners, loops } = active();
    const leftOut = this.#leftOut();
    const remarks = this.#remarks(leftOut);
    const names = [...owners.values()].flatMap(({ origin, name, policy }) =>
      origin === "file" ? [`${name} (${policy.hash})`] : [],
    );
    const others =
      owners.size > names.length ? "" : ": every request passes, except those in ramp mode";
    const summary =
      names.length === 0
        ? `no policies from files${others}`
        : `policies from files in force: ${names.join(", ")}`;
    const whole = [summary, ...remarks].join("; ");
    if (leftOut.length > 0) status.fail(whole);
    else status.ok(whole);
    counts.setDocuments({ loaded: loops.size, refused: leftOut.length });
    const text = remarks.join("; ");
    if (text !== this.#loggedRemarks) for (const remark of remarks) log.warn({}, remark);
    this.#loggedRemarks = text;
    if (summary === this.#logged && !changed) return;
    this.#logged = summary;
    counts.reloaded(leftOut.length > 0 ? "failure" : "success");
    for (const { set } of this.#applied.files.values()) {
      for (const warning of set.warnings) log.warn({}, warningLine(warning));
    }
    if (names.length === 0) log.warn({}, summary);
    else log.info({}, summary);
  }

  #reportFailure(lines: readonly string[]): void {
    const { log, status, counts } = this.#options;
    for (const line of lines) log.error({}, line);
    log.error({}, "the policies of the directory were not applied; those in force stay");
    status.fail(`the policies of the directory were not applied: ${lines.join("; ")}`);
    counts.reloaded("failure");
    // So that the next success is logged even when nothing has changed since.
    this.#logged = undefined;
  }
}

/**
 * Size of small files that are compiled at once, in UTF-16 units. The compiler compiles this much on the main thread,
 * within some ten milliseconds and without the memory of another thread.
 */
const BATCH_SIZE = 8 * 1024;

function* batches(texts: readonly PolicyText[]): Generator<readonly PolicyText[]> {
  let batch: PolicyText[] = [];
  let size = 0;
  for (const text of texts) {
    if (batch.length > 0 && size + text.text.length > BATCH_SIZE) {
      yield batch;
      batch = [];
      size = 0;
    }
    batch.push(text);
    size += text.text.length;
  }
  if (batch.length > 0) yield batch;
}

function entryOf<T>(map: ReadonlyMap<string, T>, key: string): readonly (readonly [string, T])[] {
  const value = map.get(key);
  return value === undefined ? [] : [[key, value]];
}

/** The findings of each file, and the conflicts between policies. */
function findingsOf(files: ReadonlyMap<string, CompiledFile>): readonly Sourced<Finding>[] {
  const sets = [...files.values()].map(({ set }) => set);
  const own = sets.flatMap(({ findings }) => findings);
  const known = new Set(own.map(findingLine));
  const together = validateSet(sets.flatMap(({ policies }) => policies));
  return [...own, ...together.filter((finding) => !known.has(findingLine(finding)))];
}

function isSame(
  before: ReadonlyMap<string, CompiledFile>,
  now: ReadonlyMap<string, CompiledFile>,
): boolean {
  if (before.size !== now.size) return false;
  return [...now].every(([path, file]) => before.get(path) === file);
}
