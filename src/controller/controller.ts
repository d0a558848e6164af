// The controller of a directory: documents become rules and numbers in the store. A set that cannot be used
// whole changes nothing; what stood before stays in force and the fault is said in log, status and metric.

import { createHash } from "node:crypto";
import { join, parse } from "node:path";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Stop } from "#base/scope.ts";
import { findingLine, noticeLine } from "#policy/report.ts";
import { compileSet, type PolicySet } from "#policy/set.ts";
import { storedRules } from "#store/rules.ts";
import type { Op, Store } from "#store/store.ts";
import { readDocuments, watchDirectory } from "./directory.ts";

/** Where a controller speaks. */
export interface ControllerVoice {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** A place in the status tree. */
export interface ControllerStatus {
  ok(message: string): void;
  fail(message: string): void;
}

export interface ControllerMetrics {
  standing(counts: { readonly loaded: number; readonly refused: number }): void;
  reloaded(result: "success" | "failure"): void;
}

export interface ControllerOptions {
  readonly directory: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly voice: ControllerVoice;
  readonly status: ControllerStatus;
  readonly metrics: ControllerMetrics;
}

export interface Controller {
  readonly stop: Stop;
}

/**
 * Publishes what the directory holds and keeps following it.
 * @throws Fault INVALID_ARGUMENT with every finding when the documents cannot be used at the start.
 */
export async function startController(options: ControllerOptions): Promise<Controller> {
  const publisher = new Publisher(options);
  const set = await publisher.compile();
  if (set.findings.length > 0) {
    const lines = set.findings.map(findingLine).join("\n  ");
    throw new Fault("INVALID_ARGUMENT", `the policies cannot be used:\n  ${lines}`);
  }
  await publisher.publish(set);
  const watching = watchDirectory(
    options.directory,
    options.clock,
    () => publisher.reload(),
    (fault) => publisher.unread(fault),
  );
  return { stop: () => watching.close() };
}

class Publisher {
  readonly #options: ControllerOptions;
  #published: ReadonlyMap<string, Uint8Array> = new Map();
  /** How many policies stand in the store. */
  #loaded = 0;
  /** Names of the policies and their hashes as last told; undefined after a failure. */
  #standing: string | undefined;

  constructor(options: ControllerOptions) {
    this.#options = options;
  }

  async compile(): Promise<PolicySet> {
    const { directory } = this.#options;
    const documents = await readDocuments(directory);
    const texts = [...documents].map(([file, text]) => ({
      source: join(directory, file),
      stem: parse(file).name,
      text,
    }));
    return compileSet(texts, (text) => createHash("sha256").update(text).digest("hex"));
  }

  async reload(): Promise<void> {
    const set = await this.compile();
    if (set.findings.length === 0) await this.publish(set);
    else this.#refuse(set);
  }

  /** Writes the difference to what stands, in one revision: nothing is taken away to be written again. */
  async publish(set: PolicySet): Promise<void> {
    const rules = set.policies.flatMap(({ of }) => of.rules);
    const decisions = set.policies.flatMap(({ of }) => of.decisions);
    const wanted = storedRules(rules, decisions);
    const ops = difference(this.#published, wanted);
    if (ops.length > 0) await this.#options.store.commit(ops);
    this.#published = wanted;
    this.#loaded = set.policies.length;
    this.#tell(set, ops.length > 0);
  }

  #tell(set: PolicySet, changed: boolean): void {
    const { voice, status, metrics } = this.#options;
    const names = set.policies.map(({ of }) => `${of.name} (${of.hash})`).join(", ");
    const none = "no policies: every request passes, those in ramp mode excepted";
    const standing = names === "" ? none : `policies in force: ${names}`;
    status.ok(standing);
    metrics.standing({ loaded: this.#loaded, refused: 0 });
    if (standing === this.#standing && !changed) return;
    this.#standing = standing;
    metrics.reloaded("success");
    for (const warning of set.warnings) voice.warn(noticeLine(warning));
    for (const observing of set.observing) voice.info(noticeLine(observing));
    if (names === "") voice.warn(standing);
    else voice.info(standing);
  }

  /** The documents could not even be read, or what they say could not be written. */
  unread(fault: Fault): void {
    this.#fail([fault.message]);
  }

  #refuse(set: PolicySet): void {
    this.#fail(set.findings.map(findingLine));
    const files = new Set(set.findings.map(({ source }) => source));
    this.#options.metrics.standing({ loaded: this.#loaded, refused: files.size });
  }

  #fail(lines: readonly string[]): void {
    const { voice, status, metrics } = this.#options;
    for (const line of lines) voice.error(line);
    voice.error("the policies were not taken over; those in force before stay");
    status.fail(`the policies in the directory were not taken over: ${lines.join("; ")}`);
    metrics.reloaded("failure");
    // The way back is told even where nothing has changed since.
    this.#standing = undefined;
  }
}

function difference(
  from: ReadonlyMap<string, Uint8Array>,
  to: ReadonlyMap<string, Uint8Array>,
): readonly Op[] {
  const ops: Op[] = [];
  for (const [key, value] of to) {
    const before = from.get(key);
    if (before === undefined || Buffer.compare(before, value) !== 0)
      ops.push({ kind: "put", key, value });
  }
  for (const key of from.keys()) if (!to.has(key)) ops.push({ kind: "delete", key });
  return ops;
}
