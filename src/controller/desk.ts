// What callers may ask of a controller: its policies, their decisions and dynamic configuration, and to take
// over, try or remove a policy. Writes go to the store, from where every controller takes them over.

import type { PolicyDesk, PolicyStanding, PolicyView } from "#api/policies.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { CONFIG_KINDS, type CompiledPolicy, type JsonObject } from "#policy/compiled.ts";
import { dot, type Graph, graphOf, mermaid } from "#policy/graph.ts";
import { fullPolicy } from "#policy/message.ts";
import { findingLine, noticeLine } from "#policy/report.ts";
import type { PolicySet, Sourced } from "#policy/set.ts";
import { decisionEntries } from "#store/rules.ts";
import type { Guard, Op, Store } from "#store/store.ts";
import type { LogFields } from "#telemetry/log-line.ts";
import type { ControllerVoice } from "./controller.ts";
import { decisionJson } from "./decision-json.ts";
import { formFaults } from "./dynamic-forms.ts";
import type { Loop } from "./loop.ts";
import { type Roster, STORED_DYNAMIC_CONFIGS, STORED_POLICIES } from "./roster.ts";
import { unreadKeys } from "./unread-keys.ts";

type Json = Readonly<Record<string, unknown>>;

export interface DeskOptions {
  readonly roster: Roster;
  readonly store: Pick<Store, "list" | "commit">;
  readonly clock: Clock;
  readonly compile: (source: string, name: string, text: string) => Promise<PolicySet>;
  /** Why what a file says now is not what runs; undefined where it is. */
  readonly refused: (source: string) => string | undefined;
  readonly voice: Pick<ControllerVoice, "info" | "warn">;
}

/** How faults of a document name it. */
const SOURCE = "policy_string";

/** A store that is slow to tell of a write keeps nobody longer: the write itself is done. */
const TAKE_OVER_MS = 5_000;

const DECIDED: ReadonlySet<string> = new Set(
  CONFIG_KINDS.filter((kind) => !["classifiers", "flux_meter", "infra_meter"].includes(kind)),
);

const DRAWN: Readonly<
  Record<string, { type: string; draw: (graph: Graph, loop: Loop) => string }>
> = {
  mermaid: { type: "text/plain; charset=utf-8", draw: mermaid },
  dot: { type: "text/vnd.graphviz", draw: dot },
  json: {
    type: "application/json",
    draw: (graph, loop) => JSON.stringify({ ...graph, readings: readingsOf(loop) }),
  },
};

export class Desk implements PolicyDesk {
  readonly #options: DeskOptions;
  /** The last change of each policy that is under way, by name. */
  readonly #changes = new Map<string, Promise<unknown>>();

  constructor(options: DeskOptions) {
    this.#options = options;
  }

  list(): ReadonlyMap<string, PolicyView> {
    const { roster } = this.#options;
    const names = new Set([...roster.loops.keys(), ...roster.stored.keys()]);
    return new Map([...names].sort().map((name) => [name, this.get(name)]));
  }

  get(name: string): PolicyView {
    const { roster } = this.#options;
    const running = roster.loops.get(name)?.version;
    const stored = roster.stored.get(name);
    if (running?.origin === "file") return this.#ofFile(name, running.policy);
    const why = roster.why(name);
    if (running === undefined) {
      if (stored === undefined) throw notFound();
      if (stored.compiled === undefined) return view(undefined, "INVALID", why);
      return view(stored.compiled, "NOT_LOADED", why || "not loaded into the controller");
    }
    if (stored === undefined) return view(running.policy, "STALE", "no longer stored");
    if (stored.compiled?.hash === running.policy.hash) return view(running.policy, "VALID", "");
    return view(running.policy, "OUTDATED", why || "another version is stored");
  }

  upsert(name: string, text: string, peer?: string): Promise<string> {
    return this.#inTurn(name, async () => {
      const policy = await this.#judged(name, text);
      const stored = JSON.stringify(fullPolicy(policy.document));
      const forget = this.#options.roster.foresee(name, stored, policy);
      try {
        await this.#commit([{ kind: "put", key: STORED_POLICIES + name, value: bytesOf(stored) }]);
      } finally {
        forget();
      }
      this.#say({ policy: name, policy_hash: policy.hash, peer }, "taken over");
      return policy.hash;
    });
  }

  remove(name: string, peer?: string): Promise<void> {
    return this.#inTurn(name, () => this.#remove(name, peer));
  }

  async #remove(name: string, peer: string | undefined): Promise<void> {
    const { roster } = this.#options;
    if (roster.files.has(name)) {
      throw new Fault("FAILED_PRECONDITION", "the policy comes from a file: remove it there");
    }
    if (!roster.stored.has(name) && roster.storedConfig(name) === undefined) return;
    await this.#commit([
      { kind: "delete", key: STORED_POLICIES + name },
      { kind: "delete", key: STORED_DYNAMIC_CONFIGS + name },
    ]);
    this.#say({ policy: name, peer }, "removed");
  }

  async validate(name: string, text: string): Promise<Json> {
    const set = await this.#options.compile(SOURCE, name, text);
    const [policy] = set.policies;
    const conflicts = policy === undefined ? [] : this.#options.roster.conflicts(policy);
    const faults = [...set.findings, ...conflicts].map(findingLine);
    return {
      valid: faults.length === 0,
      policy_hash: faults.length === 0 ? (policy?.of.hash ?? "") : "",
      faults,
      warnings: set.warnings.map(noticeLine),
    };
  }

  graph(name: string, format: string, depth: number) {
    const loop = this.#options.roster.loops.get(name);
    if (loop === undefined) throw notFound();
    const drawn = Object.hasOwn(DRAWN, format) ? DRAWN[format] : undefined;
    if (drawn === undefined) {
      const wanted = Object.keys(DRAWN).join(", ");
      throw new Fault("INVALID_ARGUMENT", `format: wanted one of ${wanted}, got another word`);
    }
    return { type: drawn.type, text: drawn.draw(graphOf(loop.version.policy, depth), loop) };
  }

  dynamicConfig(name: string): JsonObject | undefined {
    this.#known(name);
    const { roster } = this.#options;
    return roster.storedConfig(name) ?? roster.loops.get(name)?.version.dynamicConfig;
  }

  configure(name: string, config: Json | undefined, peer?: string): Promise<void> {
    return this.#inTurn(name, () => this.#configure(name, config as JsonObject | undefined, peer));
  }

  async #configure(
    name: string,
    config: JsonObject | undefined,
    peer: string | undefined,
  ): Promise<void> {
    this.#known(name);
    if (config !== undefined) this.#judgeConfig(name, config);
    const key = STORED_DYNAMIC_CONFIGS + name;
    const op: Op =
      config === undefined
        ? { kind: "delete", key }
        : { kind: "put", key, value: bytesOf(JSON.stringify(config)) };
    await this.#commit([op], await this.#stillStored(name));
    const what = config === undefined ? "taken away" : "replaced";
    this.#say({ policy: name, peer }, `dynamic configuration ${what}`);
  }

  async decisions(kind: string): Promise<Readonly<Record<string, string>>> {
    if (kind !== "" && !DECIDED.has(kind)) {
      const wanted = [...DECIDED].join(", ");
      throw new Fault("INVALID_ARGUMENT", `decision_type: wanted one of ${wanted}, or nothing`);
    }
    const prefix = kind === "" ? "/decisions/" : `/decisions/${kind}/`;
    const found: [string, string][] = [];
    for (const { version, decisions } of this.#options.roster.loops.values()) {
      for (const decision of decisions) {
        if (kind !== "" && decision.kind !== kind) continue;
        const text = JSON.stringify(decisionJson(version.policy, decision));
        for (const [key, value] of decisionEntries(version.policy, decision)) {
          if (value !== undefined) found.push([key.slice(prefix.length), text]);
        }
      }
    }
    return Object.fromEntries(found.sort(([left], [right]) => (left < right ? -1 : 1)));
  }

  #ofFile(name: string, policy: CompiledPolicy): PolicyView {
    const source = this.#options.roster.files.get(name)?.source ?? "";
    const why = this.#options.refused(source);
    return view(policy, why === undefined ? "VALID" : "OUTDATED", why ?? "");
  }

  /** Changes of one policy come one after the other: one that is judged quickly overtakes none before it. */
  async #inTurn<T>(name: string, change: () => Promise<T>): Promise<T> {
    const before = this.#changes.get(name) ?? Promise.resolve();
    const now = before.then(change, change);
    this.#changes.set(name, now);
    try {
      return await now;
    } finally {
      if (this.#changes.get(name) === now) this.#changes.delete(name);
    }
  }

  async #judged(name: string, text: string): Promise<CompiledPolicy> {
    if (text.trim() === "") throw refused(["the policy is empty"]);
    this.#notOfFile(name);
    const { policies, findings } = await this.#options.compile(SOURCE, name, text);
    // It may have come while the text was judged.
    this.#notOfFile(name);
    if (findings.length > 0) throw refused(findings.map(findingLine));
    const [own, ...more] = policies;
    if (own === undefined || more.length > 0) {
      throw refused([`${SOURCE}: wanted one policy, got ${policies.length}`]);
    }
    return this.#fitting(name, own);
  }

  /** One line for each change: whoever looks for what changed and when finds it in the log. */
  #say(fields: LogFields, what: string): void {
    this.#options.voice.info(fields, `policy over the API: ${what}`);
  }

  /** Keys that no component reads are no fault: another version of the policy may read them. */
  #judgeConfig(name: string, config: JsonObject): void {
    const { roster, voice } = this.#options;
    const policy = roster.stored.get(name)?.compiled ?? roster.loops.get(name)?.version.policy;
    if (policy === undefined) return;
    const faults = [...formFaults(policy.document, config)].map(([key, why]) => `${key}: ${why}`);
    if (faults.length > 0) {
      throw new Fault("INVALID_ARGUMENT", `dynamic_config: ${faults.join("; ")}`);
    }
    for (const line of unreadKeys(policy.document, config)) voice.warn({ policy: name }, line);
  }

  #notOfFile(name: string): void {
    if (this.#options.roster.files.has(name)) {
      throw new Fault("ALREADY_EXISTS", "a file has a policy of this name: change it there");
    }
  }

  #fitting(name: string, own: Sourced<CompiledPolicy>): CompiledPolicy {
    if (own.of.name !== name) {
      throw refused([`${SOURCE}: wanted a policy without a name, or with that of the request`]);
    }
    if (own.of.dynamicConfig !== undefined) {
      const way = `/v1/dynamic-configs/${name}`;
      throw refused([`${SOURCE}: wanted no dynamicConfig: it goes to ${way}`]);
    }
    const conflicts = this.#options.roster.conflicts(own);
    if (conflicts.length > 0) throw refused(conflicts.map(findingLine));
    return own.of;
  }

  #known(name: string): void {
    const { roster } = this.#options;
    if (!roster.loops.has(name) && !roster.stored.has(name)) throw notFound();
  }

  /** The policy that a configuration is for must not go meanwhile; one of a file is not in the store. */
  async #stillStored(name: string): Promise<readonly Guard[]> {
    const key = STORED_POLICIES + name;
    const { entries } = await this.#options.store.list(key);
    const entry = entries.find((each) => each.key === key);
    if (entry !== undefined) return [{ key, revision: entry.revision }];
    if (!this.#options.roster.files.has(name)) throw notFound();
    return [];
  }

  /** Returns when what was written is in force here. */
  async #commit(ops: readonly Op[], guards: readonly Guard[] = []): Promise<void> {
    const { store, roster, clock } = this.#options;
    const revision = await store.commit(ops, { guards });
    if (revision === undefined) {
      throw new Fault("ABORTED", "the policy was changed or removed meanwhile");
    }
    const late = Promise.withResolvers<void>();
    const disarm = clock.alarm(TAKE_OVER_MS, late.resolve);
    await Promise.race([roster.reached(revision), late.promise]);
    disarm();
  }
}

function view(
  policy: CompiledPolicy | undefined,
  status: PolicyStanding,
  reason: string,
): PolicyView {
  return { policy: policy === undefined ? null : fullPolicy(policy.document), status, reason };
}

/** By `<circuit>/<name>`; null is invalid. */
function readingsOf({ circuit }: Loop): Json {
  const readings = (circuit?.plan.signals ?? []).map((signal, at) => {
    const reading = circuit?.reading(at) ?? Number.NaN;
    const infinite = Number.isNaN(reading) ? null : String(reading);
    return [`${signal.circuit}/${signal.name}`, Number.isFinite(reading) ? reading : infinite];
  });
  return Object.fromEntries(readings);
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function notFound(): Fault {
  return new Fault("NOT_FOUND", "policy not found");
}

function refused(lines: readonly string[]): Fault {
  return new Fault("INVALID_ARGUMENT", `the policy cannot be used: ${lines.join("; ")}`);
}
