// The policies in force, from files and from the API, and the step from one set of them to the next: what is
// new starts, what changed goes on as its next version, what is gone is taken back, all in one write.

import { Fault } from "#base/fault.ts";
import type { Replicas } from "#circuit/component.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import type { Finding } from "#policy/finding.ts";
import { findingLine } from "#policy/report.ts";
import { judgeSet, type PolicySet, type Sourced } from "#policy/set.ts";
import { REPLICAS_PREFIX, replicasOf } from "#store/rules.ts";
import type { Batch } from "#store/store.ts";
import { Loop, type LoopWorld, type Version } from "./loop.ts";
import type { Entries } from "./outbox.ts";

/** Where the API leaves policies, and their dynamic configuration. */
export const STORED_POLICIES = "/config/api/policies/";
export const STORED_DYNAMIC_CONFIGS = "/config/api/dynamic-config-policies/";
/** What a roster follows in the store. */
export const FOLLOWED: readonly string[] = [
  STORED_POLICIES,
  STORED_DYNAMIC_CONFIGS,
  REPLICAS_PREFIX,
];

/** A policy of the API. */
export interface Stored {
  readonly text: string;
  /** Undefined where the text is at fault. */
  readonly compiled: CompiledPolicy | undefined;
  /** Why it is not in force; "" where nothing is wrong with it alone. */
  readonly why: string;
}

export interface Files {
  readonly set: PolicySet;
  /** By policy name. */
  readonly dynamicConfigs: ReadonlyMap<string, JsonObject>;
}

export interface RosterOptions {
  readonly world: LoopWorld;
  /** Judges and compiles one text of the API. */
  readonly compile: (source: string, name: string, text: string) => Promise<PolicySet>;
  /** A policy came into force, in this version. */
  readonly loaded: (loop: Loop) => void;
  readonly unloaded: (name: string) => void;
  /** A version that could not be started; the one before, if any, stays in force. */
  readonly failed: (name: string, fault: Fault) => void;
  /** After each step that changed which versions are in force. */
  readonly changed: (loops: ReadonlyMap<string, Loop>) => void;
  /** After each step that changed which files are left out. */
  readonly leftOut: () => void;
}

interface Reported {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly replicas: Replicas;
}

export class Roster {
  readonly #options: RosterOptions;
  readonly #loops = new Map<string, Loop>();
  /** What the files say, as it was last taken over. */
  #given: readonly Sourced<CompiledPolicy>[] = [];
  #files: ReadonlyMap<string, Sourced<CompiledPolicy>> = new Map();
  #leftOut: ReadonlyMap<string, string> = new Map();
  #fileConfigs: ReadonlyMap<string, JsonObject> = new Map();
  readonly #stored = new Map<string, Stored>();
  readonly #storedConfigs = new Map<string, JsonObject>();
  /** Set aside because of others, by name. */
  #apart: ReadonlyMap<string, string> = new Map();
  /** Judged already, by name: see `foresee`. */
  readonly #foreseen = new Map<
    string,
    { readonly text: string; readonly compiled: CompiledPolicy }
  >();
  /** By key. */
  readonly #reports = new Map<string, Reported>();
  #revision = 0;
  #waiting: { readonly revision: number; readonly done: () => void }[] = [];

  constructor(options: RosterOptions) {
    this.#options = options;
  }

  get loops(): ReadonlyMap<string, Loop> {
    return this.#loops;
  }

  get stored(): ReadonlyMap<string, Stored> {
    return this.#stored;
  }

  /** Policies that files own, by name: those of files that are left out are not among them. */
  get files(): ReadonlyMap<string, Sourced<CompiledPolicy>> {
    return this.#files;
  }

  /** Files that cannot stand beside policies of the API, and why. They are taken over when these go. */
  get leftOut(): ReadonlyMap<string, string> {
    return this.#leftOut;
  }

  storedConfig(name: string): JsonObject | undefined {
    return this.#storedConfigs.get(name);
  }

  /** Why a policy of the API is not in force; "" where it is. */
  why(name: string): string {
    return this.#apart.get(name) ?? this.#stored.get(name)?.why ?? "";
  }

  /** What a policy of the API may not be beside the ones that are there. */
  conflicts(own: Sourced<CompiledPolicy>): readonly Sourced<Finding>[] {
    const others = [...this.#wanted()].filter(([name]) => name !== own.of.name);
    const known = others.map(([name, { policy }]) => this.#sourced(name, policy));
    return judgeSet([...known, own]).filter(({ source }) => source === own.source);
  }

  /** Takes over what the files say. The set must be without faults. */
  takeFiles({ set, dynamicConfigs }: Files): void {
    this.#given = set.policies;
    this.#fileConfigs = dynamicConfigs;
    this.#settle();
  }

  /**
   * What a text that is about to be stored means, so that it is not judged twice. The returned function takes
   * it back.
   */
  foresee(name: string, text: string, compiled: CompiledPolicy): () => void {
    const known = { text, compiled };
    this.#foreseen.set(name, known);
    return () => {
      if (this.#foreseen.get(name) === known) this.#foreseen.delete(name);
    };
  }

  /**
   * Takes over what changed in the store, all of it at once when its texts are judged. One call at a time: a
   * change that is judged quickly must not overtake the one before it.
   */
  async takeStored({ puts, deletes, revision }: Batch): Promise<void> {
    const read = new Map<string, Stored>();
    for (const { key, value } of puts) {
      const [, name] = key.split(STORED_POLICIES);
      if (name !== undefined) read.set(name, await this.#read(name, textOf(value)));
    }
    for (const key of deletes) this.#forget(key);
    for (const [name, stored] of read) this.#stored.set(name, stored);
    for (const { key, value } of puts) this.#learn(key, value);
    this.#settle();
    this.#revision = revision;
    const waiting = this.#waiting;
    this.#waiting = waiting.filter((one) => one.revision > revision);
    for (const one of waiting) if (one.revision <= revision) one.done();
  }

  /** Resolves when a commit to the store has been taken over. */
  reached(revision: number): Promise<void> {
    if (revision <= this.#revision) return Promise.resolve();
    return new Promise((done) => this.#waiting.push({ revision, done }));
  }

  /** No more ticks; what was published stays. */
  stop(): void {
    for (const loop of this.#loops.values()) loop.stop();
    for (const { done } of this.#waiting) done();
  }

  /** Leaves out the files that want a name which the API has: who was there first keeps it. */
  #shareOut(): void {
    const leftOut = new Map<string, string>();
    const meters = new Map<string, string>();
    const names = new Set<string>();
    for (const [name, { version }] of this.#loops) {
      if (version.origin !== "api" || !this.#stored.has(name)) continue;
      names.add(name);
      for (const meter of metersOf(version.policy)) meters.set(meter, name);
    }
    for (const { source, of } of this.#given) {
      const meter = metersOf(of).find((each) => meters.has(each));
      const why = names.has(of.name)
        ? `policy ${of.name}: a policy of that name came over the API`
        : meter &&
          `flux meter ${meter}: policy ${meters.get(meter)}, which came over the API, has it`;
      if (why !== undefined) leftOut.set(source, `${source}: left out: ${why}`);
    }
    const taken = this.#given.filter(({ source }) => !leftOut.has(source));
    this.#files = new Map(taken.map((policy) => [policy.of.name, policy]));
    this.#leftOut = leftOut;
  }

  #sourced(name: string, of: CompiledPolicy): Sourced<CompiledPolicy> {
    return this.#files.get(name) ?? { source: `${STORED_POLICIES}${name}`, of };
  }

  #forget(key: string): void {
    const [, policy] = key.split(STORED_POLICIES);
    const [, config] = key.split(STORED_DYNAMIC_CONFIGS);
    if (policy !== undefined) this.#stored.delete(policy);
    else if (config !== undefined) this.#storedConfigs.delete(config);
    else if (key.startsWith(REPLICAS_PREFIX)) this.#report(key, undefined);
  }

  #learn(key: string, value: Uint8Array): void {
    const [, config] = key.split(STORED_DYNAMIC_CONFIGS);
    if (config !== undefined) this.#learnConfig(config, textOf(value));
    else if (key.startsWith(REPLICAS_PREFIX)) this.#learnReport(key, value);
  }

  async #read(name: string, text: string): Promise<Stored> {
    const foreseen = this.#foreseen.get(name);
    if (foreseen?.text === text) return { text, compiled: foreseen.compiled, why: "" };
    const source = `${STORED_POLICIES}${name}`;
    try {
      const { policies, findings } = await this.#options.compile(source, name, text);
      const why = findings.map(findingLine).join("; ");
      const compiled = findings.length > 0 ? undefined : policies[0]?.of;
      return { text, compiled, why };
    } catch (thrown) {
      const fault = Fault.from(thrown);
      if (fault.code === "UNAVAILABLE") throw fault;
      this.#options.failed(name, fault);
      return { text, compiled: undefined, why: fault.message };
    }
  }

  #learnConfig(name: string, text: string): void {
    const config = parseObject(text);
    if (config !== undefined) this.#storedConfigs.set(name, config);
    else {
      const why = "its dynamic configuration in the store is no JSON object; the one before stays";
      this.#options.failed(name, new Fault("INVALID_ARGUMENT", why));
    }
  }

  #learnReport(key: string, value: Uint8Array): void {
    try {
      const { policyName, policyHash, componentId, ...replicas } = replicasOf(value);
      this.#report(key, { policyName, policyHash, componentId, replicas });
    } catch (thrown) {
      this.#options.failed(key, Fault.from(thrown));
    }
  }

  #report(key: string, reported: Reported | undefined): void {
    const about = reported ?? this.#reports.get(key);
    if (reported === undefined) this.#reports.delete(key);
    else this.#reports.set(key, reported);
    if (about !== undefined) this.#hear(about, reported?.replicas);
  }

  /** A report is about one version of a policy. */
  #hear({ policyName, policyHash, componentId }: Reported, replicas: Replicas | undefined): void {
    const loop = this.#loops.get(policyName);
    if (loop?.version.policy.hash !== policyHash) return;
    loop.circuit?.report(componentId, replicas);
  }

  #wanted(): Map<string, Version> {
    const wanted = new Map<string, Version>();
    for (const [name, { of: policy }] of this.#files) {
      wanted.set(name, { policy, origin: "file", dynamicConfig: this.#configOf(policy) });
    }
    for (const [name, { compiled }] of this.#stored) {
      const running = this.#loops.get(name)?.version;
      const policy = compiled ?? (running?.origin === "api" ? running.policy : undefined);
      if (policy === undefined || wanted.has(name)) continue;
      wanted.set(name, { policy, origin: "api", dynamicConfig: this.#configOf(policy) });
    }
    return wanted;
  }

  /** The API's, or else that of a file beside the policy, or else that of its own document. */
  #configOf({ name, dynamicConfig }: CompiledPolicy): JsonObject | undefined {
    return this.#storedConfigs.get(name) ?? this.#fileConfigs.get(name) ?? dynamicConfig;
  }

  /** Policies of the API that cannot stand beside others are left out; what runs comes first. */
  #compatible(): Map<string, Version> {
    const wanted = this.#wanted();
    const rank = ([name, { origin }]: readonly [string, Version]) =>
      origin === "file" ? 0 : this.#loops.has(name) ? 1 : 2;
    const ordered = [...wanted].sort((left, right) => rank(left) - rank(right));
    const findings = judgeSet(ordered.map(([name, { policy }]) => this.#sourced(name, policy)));
    const apart = new Map<string, string>();
    for (const finding of findings) {
      const [, name] = finding.source.split(STORED_POLICIES);
      if (name === undefined) continue;
      wanted.delete(name);
      apart.set(name, findingLine(finding));
    }
    for (const name of this.#stored.keys()) {
      if (this.#files.has(name)) apart.set(name, "a file has a policy of this name");
    }
    this.#apart = apart;
    return wanted;
  }

  #settle(): void {
    const before = [...this.#leftOut.values()].join();
    this.#shareOut();
    const wanted = this.#compatible();
    const deletes = new Map<string, undefined>();
    const puts = new Map<string, Uint8Array>();
    const note = (entries: Entries) => {
      for (const [key, value] of entries) {
        if (value === undefined) deletes.set(key, undefined);
        else puts.set(key, value);
      }
    };
    let changed = false;
    for (const [name, loop] of this.#loops) {
      if (wanted.has(name)) continue;
      this.#loops.delete(name);
      note(loop.unload());
      this.#options.unloaded(name);
      changed = true;
    }
    for (const [name, version] of wanted) {
      const loop = this.#loops.get(name);
      if (loop === undefined || !isSame(loop.version, version)) {
        changed = this.#load(name, version, note) || changed;
      } else if (!isEqual(loop.version.dynamicConfig, version.dynamicConfig)) {
        note(loop.configure(version.dynamicConfig));
      }
    }
    // One may take over what another one left.
    this.#options.world.outbox.put(new Map([...deletes, ...puts]));
    if (changed) this.#options.changed(this.#loops);
    if ([...this.#leftOut.values()].join() !== before) this.#options.leftOut();
  }

  #load(name: string, version: Version, note: (entries: Entries) => void): boolean {
    const loop = this.#loops.get(name) ?? new Loop(version, this.#options.world);
    try {
      note(loop.load(version));
    } catch (thrown) {
      this.#options.failed(name, Fault.from(thrown));
      return false;
    }
    this.#loops.set(name, loop);
    for (const report of this.#reports.values()) {
      if (report.policyName === name) this.#hear(report, report.replicas);
    }
    this.#options.loaded(loop);
    return true;
  }
}

function metersOf({ configs }: CompiledPolicy): readonly string[] {
  return configs.flatMap(({ kind, name }) => (kind === "flux_meter" ? [name] : []));
}

function isSame(left: Version, right: Version): boolean {
  return left.policy.hash === right.policy.hash && left.origin === right.origin;
}

function isEqual(left: JsonObject | undefined, right: JsonObject | undefined): boolean {
  return left === right || JSON.stringify(left) === JSON.stringify(right);
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** Undefined when the text is no JSON object. */
function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}
