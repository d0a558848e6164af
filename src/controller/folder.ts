// The policies of a directory: read whole, taken over whole or not at all (files whose names the API has
// taken wait until it gives them up), and what came of it said in log, status and metric.

import { Fault } from "#base/fault.ts";
import type { JsonObject } from "#policy/compiled.ts";
import type { Finding } from "#policy/finding.ts";
import { findingLine, noticeLine } from "#policy/report.ts";
import type { PolicySet, PolicyText, Sourced } from "#policy/set.ts";
import type { ControllerVoice, PolicyCounts } from "./controller.ts";
import { readDocuments } from "./directory.ts";
import { type Sorted, sortDocuments } from "./documents.ts";
import type { Roster } from "./roster.ts";

export interface FolderOptions {
  readonly directory: string;
  readonly roster: Roster;
  readonly compile: (texts: readonly PolicyText[]) => Promise<PolicySet>;
  readonly voice: ControllerVoice;
  /** The node of all policies. */
  readonly status: { ok(message: string): void; fail(message: string): void };
  readonly counts: PolicyCounts;
}

export class Folder {
  readonly #options: FolderOptions;
  /** Of the last set that was taken over. */
  #configs: ReadonlyMap<string, JsonObject> = new Map();
  /** What was last told of the policies in force; undefined after a failure. */
  #standing: string | undefined;
  /** What was last told of files that are set aside. */
  #remarks = "";
  /** The last set that was taken over. */
  #taken: { readonly sorted: Sorted; readonly set: PolicySet } | undefined;
  #texts = "";
  #faults: readonly Sourced<Finding>[] = [];

  constructor(options: FolderOptions) {
    this.#options = options;
  }

  /** @throws Fault INVALID_ARGUMENT with every finding. */
  async start(): Promise<void> {
    const findings = await this.#take();
    if (findings.length === 0) return;
    const lines = findings.map(findingLine).join("\n  ");
    throw new Fault("INVALID_ARGUMENT", `the policies cannot be used:\n  ${lines}`);
  }

  async reload(): Promise<void> {
    const findings = await this.#take().catch((thrown: unknown) => {
      // Whoever tried them again would take as much and come as far: not before they change.
      if (!(thrown instanceof Fault) || thrown.code !== "RESOURCE_EXHAUSTED") throw thrown;
      this.#fail([thrown.message]);
      return [];
    });
    if (findings.length === 0) return;
    const files = new Set(findings.map(({ source }) => source));
    this.#fail(findings.map(findingLine));
    this.#options.counts.standing({
      loaded: this.#options.roster.loops.size,
      refused: files.size,
    });
  }

  /** The documents could not even be read, or what they say could not be written. */
  unread(fault: Fault): void {
    this.#fail([fault.message]);
  }

  /** Why what a file says now is not in force; undefined where it is. */
  refused(source: string): string | undefined {
    const own = this.#faults.filter((finding) => finding.source === source);
    return own.length === 0 ? undefined : own.map(findingLine).join("; ");
  }

  async #take(): Promise<readonly Sourced<Finding>[]> {
    const { directory, roster, compile } = this.#options;
    const sorted = sortDocuments(directory, await readDocuments(directory));
    const set = await compile(sorted.policies);
    const dynamicConfigs = this.#merged(sorted);
    this.#faults = set.findings;
    if (set.findings.length > 0) return set.findings;
    this.#configs = dynamicConfigs;
    this.#taken = undefined;
    roster.takeFiles({ set, dynamicConfigs });
    const texts = JSON.stringify([...sorted.policies.map(({ text }) => text)]);
    this.#taken = { sorted, set };
    this.#tell(texts !== this.#texts);
    this.#texts = texts;
    return [];
  }

  /** The API took or gave up a name that a file wants. */
  review(): void {
    if (this.#faults.length === 0) this.#tell(false);
  }

  /** In place of a file at fault, what it said before. */
  #merged({ dynamicConfigs }: Sorted): ReadonlyMap<string, JsonObject> {
    const merged = new Map<string, JsonObject>();
    for (const [name, read] of dynamicConfigs) {
      const config = read ?? this.#configs.get(name);
      if (config !== undefined) merged.set(name, config);
    }
    return merged;
  }

  #remarksOn({ dynamicConfigs, faults }: Sorted, { policies }: PolicySet): readonly string[] {
    const { roster } = this.#options;
    const names = new Set([...policies.map(({ of }) => of.name), ...roster.stored.keys()]);
    const stray = [...dynamicConfigs.keys()].filter((name) => !names.has(name));
    return [
      ...faults.map((fault) => `dynamic configuration was set aside: ${fault}`),
      ...stray.map((name) => `dynamic configuration for ${name}: there is no such policy`),
      ...roster.leftOut.values(),
    ];
  }

  #tell(changed: boolean): void {
    if (this.#taken === undefined) return;
    const { voice, status, counts, roster } = this.#options;
    const { sorted, set } = this.#taken;
    const remarks = this.#remarksOn(sorted, set);
    const names = [...roster.files.values()].map(({ of }) => `${of.name} (${of.hash})`).join(", ");
    const none = "no policies: every request passes, those in ramp mode excepted";
    const standing = names === "" ? none : `policies in force: ${names}`;
    const told = remarks.join("; ");
    const whole = told === "" ? standing : `${standing}; ${told}`;
    const refused = roster.leftOut.size;
    if (refused > 0) status.fail(whole);
    else status.ok(whole);
    counts.standing({ loaded: roster.loops.size, refused });
    if (told !== this.#remarks) for (const remark of remarks) voice.warn({}, remark);
    this.#remarks = told;
    if (standing === this.#standing && !changed) return;
    this.#standing = standing;
    counts.reloaded(refused > 0 ? "failure" : "success");
    for (const warning of set.warnings) voice.warn({}, noticeLine(warning));
    if (names === "") voice.warn({}, standing);
    else voice.info({}, standing);
  }

  #fail(lines: readonly string[]): void {
    const { voice, status, counts } = this.#options;
    for (const line of lines) voice.error({}, line);
    voice.error({}, "the policies were not taken over; those in force before stay");
    status.fail(`the policies in the directory were not taken over: ${lines.join("; ")}`);
    counts.reloaded("failure");
    // The way back is told even where nothing has changed since.
    this.#standing = undefined;
  }
}
