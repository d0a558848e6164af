// A source of policies: documents and dynamic configurations in directories. A set of files with a fault changes nothing: the
// policies in force stay, and log, status and metrics report the faults.

import { setImmediate } from "node:timers/promises";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { listed, MAX_LISTED } from "#base/text/listed.ts";
import type { JsonObject } from "#policy/compiled.ts";
import type { Finding } from "#policy/document/finding.ts";
import { dynamicKeys, unreadKeys, unreadReason } from "#policy/dynamic.ts";
import { findingLine, warningLine } from "#policy/format.ts";
import type { CompiledSet, PolicyText } from "#policy/set.ts";
import { WANTED_NAME } from "../policy-directory.ts";
import type { PolicyCandidate, PolicySource } from "../policy-source.ts";
import type { ActivePolicies } from "./active-policies.ts";
import { type DirectoryWatch, watchDirectory } from "./directory.ts";
import type { ConfigFile, SortedDocuments } from "./documents.ts";
import {
  type CompiledFiles,
  compileFiles,
  findingsOf,
  isSameFiles,
  MissingFiles,
  readPolicyFiles,
} from "./policy-files.ts";

/** Counters of a directory's policies. */
export interface PolicyCounts {
  setDocuments(counts: { readonly loaded: number; readonly refused: number }): void;
  reloaded(result: "success" | "failure"): void;
}

interface DirectorySourceOptions {
  readonly directories: readonly string[];
  readonly clock: Clock;
  readonly active: ActivePolicies;
  /** True if another source has a policy. Then a file of dynamic configuration for it is not a mistake. */
  readonly hasPolicy: (name: string) => boolean;
  /** Returns one set for each text. */
  readonly compile: (texts: readonly PolicyText[]) => Promise<readonly CompiledSet[]>;
  readonly log: Log;
  /** The status of all policies. */
  readonly status: { ok(message: string): void; fail(message: string): void };
  readonly counts: PolicyCounts;
}

/** The files as they were last applied. */
interface AppliedFiles {
  readonly files: CompiledFiles;
  /** Faults in files of dynamic configuration. */
  readonly configFaults: readonly string[];
  /** Files of dynamic configuration, by policy name. */
  readonly configFiles: ReadonlyMap<string, ConfigFile>;
  /** Files that look like documents and are not read. */
  readonly ignored: readonly string[];
}

/** The present files, if they are not in force. */
interface HeldBack {
  /** Digest of each file's text, by path. */
  readonly digests: ReadonlyMap<string, string>;
  /** Faults of the files. Empty when they could not be read or compiled. */
  readonly findings: readonly Finding[];
  /** The reason why no file was applied: the first fault, which begins with the path of its file. */
  readonly why: string;
}

const NOTHING: AppliedFiles = {
  files: new Map(),
  configFaults: [],
  configFiles: new Map(),
  ignored: [],
};

export class DirectorySource implements PolicySource {
  readonly origin = "file";
  readonly #options: DirectorySourceOptions;
  #applied: AppliedFiles = NOTHING;
  /** The files whose policies are in force. While files are being applied, these are the previous ones. */
  #inForce: CompiledFiles = NOTHING.files;
  #dynamicConfigs: ReadonlyMap<string, JsonObject> = new Map();
  /** The present files, if they are not in force. */
  #heldBack: HeldBack | undefined;
  /** Hashes of the policies in force at the last log line about them, by policy name. */
  #logged: ReadonlyMap<string, string> = new Map();
  /** True if the next success is logged even if nothing changed: at first, and after a failure. */
  #logsNext = true;
  #loggedRemarks = "";
  /** Compiled files whose warnings were logged. */
  readonly #warned = new WeakSet<CompiledSet>();
  /** While files are being applied, reports wait. */
  #applying = false;
  readonly #missing: MissingFiles;
  #watches: readonly DirectoryWatch[] = [];
  /** Resolves when no reload is running. */
  #reloads: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(options: DirectorySourceOptions) {
    this.#options = options;
    this.#missing = new MissingFiles((path, ms) => {
      const stay = `its policies stay in force for ${ms / 1_000} s, in case that it is being replaced`;
      options.log.info({}, `${path} is gone or empty: ${stay}`);
    });
  }

  *candidates(): Generator<PolicyCandidate> {
    for (const { set } of this.#applied.files.values()) {
      for (const policy of set.policies) {
        yield { name: policy.name, location: policy.source, policy };
      }
    }
  }

  dynamicConfig(name: string): JsonObject | undefined {
    return this.#dynamicConfigs.get(name);
  }

  async start(): Promise<void> {
    const { directories, clock } = this.#options;
    const findings = await this.#apply();
    if (findings.length > 0) {
      const lines = findings.map(findingLine).join("\n  ");
      throw new Fault("INVALID_ARGUMENT", `the policies cannot be used:\n  ${lines}`);
    }
    this.#watches = directories.map((directory) =>
      watchDirectory(
        directory,
        clock,
        () => this.#inTurn(),
        (fault) => this.#unreadable(fault),
      ),
    );
  }

  async reload(): Promise<void> {
    await this.#inTurn().catch((thrown: unknown) => this.#unreadable(Fault.from(thrown)));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#watches.map((watch) => watch.close()));
    await this.#reloads;
  }

  /** Reloads after the running reload. Returns false if another reload is needed although nothing changes. */
  #inTurn(): Promise<boolean> {
    const reload = this.#reloads.then(async () => {
      if (!this.#closed) await this.#reload();
      return !this.#missing.any;
    });
    this.#reloads = reload.catch(() => undefined);
    return reload;
  }

  /** Applies the files again. Throws if they cannot be read now, but another attempt may succeed. */
  async #reload(): Promise<void> {
    const findings = await this.#apply().catch((thrown: unknown) => {
      // Retrying would take as much memory or time, so the next attempt waits for a change of the files.
      if (!(thrown instanceof Fault) || thrown.code !== "RESOURCE_EXHAUSTED") throw thrown;
      this.#reportFailure([thrown.message], thrown);
      return [];
    });
    if (findings.length === 0) return;
    this.#reportFailure(findings.map(findingLine));
    this.#options.counts.setDocuments({
      loaded: this.#options.active.loops.size,
      refused: new Set(findings.map(({ source }) => source)).size,
    });
  }

  /** Reports that the files could not be read or applied, unless the controller is stopping. */
  #unreadable(fault: Fault): void {
    if (!this.#closed) this.#reportFailure([fault.message], fault);
  }

  faultsOf(file: string): string | undefined {
    if (this.#heldBack === undefined) return undefined;
    const { digests, findings, why } = this.#heldBack;
    const own = findings.filter(({ source }) => source === file);
    if (own.length > 0) return own.map(findingLine).join("; ");
    if (digests.get(file) === this.#inForce.get(file)?.digest) return undefined;
    const what = digests.has(file) ? "edit" : "removal";
    return `the ${what} of ${file} is not in force, because files are applied together or not at all: ${why}`;
  }

  inForceChanged(): void {
    if (this.#heldBack === undefined && !this.#applying) this.#report(false);
  }

  /** Returns the findings that prevent the files from being applied. */
  async #apply(): Promise<readonly Finding[]> {
    const { directories, clock, active, compile } = this.#options;
    const before = this.#applied;
    const reading = await readPolicyFiles(directories, before.files, clock.wall());
    const { sorted, digests, ignored, fault } = reading;
    if (fault !== undefined) {
      this.#heldBack = { digests, findings: [], why: fault.message };
      throw fault;
    }
    const now = clock.now();
    const waits = (path: string) => this.#missing.waits(path, now);
    // Each step takes some milliseconds with thousands of policies.
    await setImmediate();
    const present = await compileFiles(reading, before.files, waits, compile).catch(
      (thrown: unknown) => {
        this.#heldBack = { digests, findings: [], why: Fault.from(thrown).message };
        throw thrown;
      },
    );
    await setImmediate();
    const files = this.#missing.keep(before.files, present, now);
    const findings = findingsOf(files);
    await setImmediate();
    const [first] = findings;
    if (first !== undefined) {
      this.#heldBack = { digests, findings, why: findingLine(first) };
      return findings;
    }
    this.#dynamicConfigs = this.#configsOf(sorted);
    this.#applied = {
      files,
      configFaults: sorted.faults,
      configFiles: sorted.dynamicConfigs,
      ignored,
    };
    this.#applying = true;
    try {
      await active.update();
      this.#inForce = files;
      this.#heldBack = undefined;
    } finally {
      this.#applying = false;
    }
    this.#report(before === NOTHING || !isSameFiles(before.files, files));
    return [];
  }

  /** An invalid file keeps its previous configuration. */
  #configsOf({ dynamicConfigs }: SortedDocuments): ReadonlyMap<string, JsonObject> {
    const configs = new Map<string, JsonObject>();
    for (const [name, file] of dynamicConfigs) {
      const config = file.config ?? this.#dynamicConfigs.get(name);
      if (config !== undefined) configs.set(name, config);
    }
    return configs;
  }

  #remarks(leftOut: readonly string[]): readonly string[] {
    const { configFaults, configFiles, ignored } = this.#applied;
    const own = new Set([...this.candidates()].map(({ name }) => name));
    const stray = [...configFiles.keys()].filter(
      (name) => !own.has(name) && !this.#options.hasPolicy(name),
    );
    const notRead = `not read as policies: ${listed(ignored, (path) => path)}; ${WANTED_NAME}`;
    return [
      ...(ignored.length === 0 ? [] : [notRead]),
      ...configFaults.map((fault) => `dynamic configuration was ignored: ${fault}`),
      ...stray.map((name) => `dynamic configuration for ${name}: there is no such policy`),
      ...[...configFiles].flatMap(([name, file]) => this.#unread(name, file)),
      ...leftOut,
    ];
  }

  /** Remarks about keys that no component of the policy reads. */
  #unread(name: string, { source, config }: ConfigFile): readonly string[] {
    const policy = this.#options.active.loops.get(name)?.version.policy;
    if (policy === undefined || config === undefined) return [];
    const unread = unreadKeys(dynamicKeys(policy.document), config, MAX_LISTED);
    return unread.map((each) => `${source}: dynamic configuration: ${unreadReason(each)}`);
  }

  /** One line for each file that is left out because of other policies. */
  #leftOut(): readonly string[] {
    const byFile = new Map<string, string>();
    for (const { candidate, why } of this.#options.active.leftOutOf("file")) {
      byFile.set(candidate.location, `${candidate.location}: left out: ${why}`);
    }
    return [...byFile.values()];
  }

  /** `changed`: the policies differ from those of the last report. */
  #report(changed: boolean): void {
    if (this.#applied === NOTHING) return;
    const { log, status, counts, active } = this.#options;
    const { owners, loops } = active;
    const leftOut = this.#leftOut();
    const remarks = this.#remarks(leftOut);
    const inForce = new Map<string, string>();
    for (const { origin, name, policy } of owners.values()) {
      if (origin === "file") inForce.set(name, policy.hash);
    }
    const summary = summaryOf(inForce.size, owners.size - inForce.size);
    const whole = [summary, ...remarks].join("; ");
    if (leftOut.length > 0) status.fail(whole);
    else status.ok(whole);
    counts.setDocuments({ loaded: loops.size, refused: leftOut.length });
    const text = remarks.join("; ");
    if (text !== this.#loggedRemarks) for (const remark of remarks) log.warn({}, remark);
    this.#loggedRemarks = text;
    const news = newsOf(this.#logged, inForce);
    if (news === "" && !changed && !this.#logsNext) return;
    this.#logged = inForce;
    this.#logsNext = false;
    counts.reloaded(leftOut.length > 0 ? "failure" : "success");
    for (const { set } of this.#applied.files.values()) {
      if (this.#warned.has(set)) continue;
      this.#warned.add(set);
      for (const warning of set.warnings) log.warn({}, warningLine(warning));
    }
    const line = news === "" ? summary : `${summary}; ${news}`;
    if (inForce.size === 0) log.warn({}, line);
    else log.info({}, line);
  }

  #reportFailure(lines: readonly string[], fault?: Fault): void {
    const { log, status, counts } = this.#options;
    const fields = fault?.cause === undefined ? {} : { error: fault };
    for (const line of lines) log.error(fields, line);
    log.error({}, "the policies of the directory were not applied; those in force stay");
    status.fail(`the policies of the directory were not applied: ${lines.join("; ")}`);
    counts.reloaded("failure");
    this.#logsNext = true;
  }
}

/** Summarizes the policies in force, from files and from other sources. */
function summaryOf(files: number, others: number): string {
  const beside = others === 0 ? "" : `, from other sources: ${others}`;
  if (files > 0) return `policies from files in force: ${files}${beside}`;
  if (others > 0) return `no policies from files; policies from other sources in force: ${others}`;
  return "no policies from files: every request passes, except those in ramp mode";
}

/** Describes the changes by policy name and hash: `changed: a (1f…)`. */
function newsOf(before: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): string {
  const line = (what: string, names: readonly string[]) => {
    const each = listed(names, (name) => `${name} (${now.get(name) ?? before.get(name)})`);
    return names.length === 0 ? [] : [`${what}${each}`];
  };
  const names = [...now.keys()];
  return [
    ...line(
      "new: ",
      names.filter((name) => !before.has(name)),
    ),
    ...line(
      "changed: ",
      names.filter((name) => (before.get(name) ?? now.get(name)) !== now.get(name)),
    ),
    ...line(
      "removed: ",
      [...before.keys()].filter((name) => !now.has(name)),
    ),
  ].join("; ");
}
