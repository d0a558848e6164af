// The policy service of a controller: lists policies, their decisions and dynamic configuration, and stores, dry-runs
// or removes a policy. Writes go to the store, from which every controller applies them.

import type { PolicyOperations, PolicyRollout, PolicyStanding, PolicyView } from "#api/policies.ts";
import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log, LogFields } from "#base/log.ts";
import { MAX_LISTED } from "#base/text/listed.ts";
import { DECISION_KINDS } from "#circuit/decision.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { dot, type Graph, graphOf, mermaid } from "#policy/diagram/graph.ts";
import { quote } from "#policy/document/tree.ts";
import { dynamicKeys, unreadKeys, unreadReason } from "#policy/dynamic.ts";
import { findingLine, warningLine } from "#policy/format.ts";
import { fullPolicy } from "#policy/message.ts";
import type { CompiledSet } from "#policy/set.ts";
import type { Guard, Op, Store } from "#store/store.ts";
import { API_DYNAMIC_CONFIGS, API_POLICIES } from "#sync/keys.ts";
import { decisionEntries, decisionJson } from "#sync/publish/decision.ts";
import { unfitReasons } from "../loop/dynamic-config.ts";
import type { PolicyLoop } from "../loop/policy-loop.ts";
import { POLICY_ORIGINS } from "../policy-source.ts";
import type { ActivePolicies } from "./active-policies.ts";
import type { ApiSource } from "./api-source.ts";
import type { KeptSource } from "./kept-source.ts";
import type { RunnableCandidate } from "./ownership.ts";

type Json = Readonly<Record<string, unknown>>;

interface PolicyServiceOptions {
  readonly active: ActivePolicies;
  readonly api: ApiSource;
  readonly kept: Pick<KeptSource, "release">;
  readonly store: Pick<Store, "list" | "commit">;
  /** Resolves when the commit with this revision is in force here, or when the signal aborts. */
  readonly reached: (revision: number, givenUp: AbortSignal) => Promise<void>;
  readonly clock: Clock;
  readonly compile: (source: string, name: string, text: string) => Promise<CompiledSet>;
  readonly log: Log;
  /** The rollout of a policy among agents; absent if agents are not followed. */
  readonly rollout?: ((policy: CompiledPolicy) => PolicyRollout | undefined) | undefined;
}

/** The name of a document of the API in findings. */
const SOURCE = "policy_string";

/** Milliseconds that a call waits for a store that does not answer. */
const STORE_MS = 2_000;

/** Milliseconds that a call waits until its finished write is in force. */
const LONGEST_WAIT_MS = 5_000;

/**
 * Largest dynamic configuration, as JSON in UTF-16 units. The thread that answers checks examines it within milliseconds.
 */
const LARGEST_CONFIG = 256 * 1024;

/** Formats of drawn circuits. */
const FORMATS: Readonly<
  Record<string, { type: string; draw: (graph: Graph, loop: PolicyLoop) => string }>
> = {
  mermaid: { type: "text/plain; charset=utf-8", draw: (graph) => mermaid(graph) },
  dot: { type: "text/vnd.graphviz", draw: (graph) => dot(graph) },
  json: {
    type: "application/json",
    draw: (graph, loop) =>
      JSON.stringify({ ...graph, origin: loop.version.origin, readings: readingsOf(loop) }),
  },
};

export class PolicyService implements PolicyOperations {
  readonly #options: PolicyServiceOptions;
  /** The last pending change of each policy. */
  readonly #changes = new Map<string, Promise<unknown>>();

  constructor(options: PolicyServiceOptions) {
    this.#options = options;
  }

  list(): ReadonlyMap<string, PolicyView> {
    const { active, api } = this.#options;
    const names = new Set([...active.loops.keys(), ...api.policies.keys()]);
    return new Map([...names].sort().map((name) => [name, this.get(name)]));
  }

  get(name: string): PolicyView {
    const running = this.#options.active.loops.get(name)?.version.policy;
    const rollout = running === undefined ? undefined : this.#options.rollout?.(running);
    return rollout === undefined ? this.#view(name) : { ...this.#view(name), rollout };
  }

  #view(name: string): PolicyView {
    const { active, api } = this.#options;
    const running = active.loops.get(name)?.version;
    const stored = api.policies.get(name);
    const owner = this.#otherOwner(name);
    if (owner !== undefined) return this.#viewOfOther(owner, running?.policy ?? owner.policy);
    const leftOut = active.leftOutOf("api").find(({ candidate }) => candidate.name === name);
    const why = leftOut?.why ?? stored?.faults ?? "";
    if (running === undefined) {
      if (stored === undefined) throw notFound();
      if (stored.document === undefined) return view(undefined, "INVALID", why);
      return view(stored.document, "NOT_LOADED", why || "not loaded into the controller");
    }
    const { document } = running.policy;
    if (stored === undefined) {
      const candidate = active.owners.get(name);
      const reason = candidate && active.faultsOf(candidate);
      return view(document, "STALE", reason ?? "no longer stored");
    }
    if (stored.compiled?.hash === running.policy.hash) {
      const unread = unreadWarnings(running.policy, api.dynamicConfig(name));
      return view(document, "VALID", unread.join("; "));
    }
    return view(document, "OUTDATED", why || "another version is stored");
  }

  upsert(name: string, text: string, peer?: string): Promise<string> {
    return this.#inTurn(name, async () => {
      const policy = await this.#compileValid(name, text);
      const stored = JSON.stringify(fullPolicy(policy.document));
      const withdraw = this.#options.api.announce(name, stored, policy);
      try {
        await this.#commit([{ kind: "put", key: API_POLICIES + name, value: bytesOf(stored) }]);
      } finally {
        withdraw();
      }
      this.#logChange({ policy: name, policy_hash: policy.hash, peer }, "stored");
      return policy.hash;
    });
  }

  remove(name: string, peer?: string): Promise<void> {
    return this.#inTurn(name, () => this.#remove(name, peer));
  }

  async validate(name: string, text: string): Promise<Json> {
    const set = await this.#options.compile(SOURCE, name, text);
    const held = this.#heldByOther(name);
    const faults = [...(held === undefined ? [] : [held]), ...this.#faultsOf(name, set)];
    return {
      valid: faults.length === 0,
      policy_hash: faults.length === 0 ? (set.policies[0]?.hash ?? "") : "",
      faults,
      warnings: set.warnings.map(warningLine),
    };
  }

  graph(name: string, format: string, depth: number) {
    const loop = this.#options.active.loops.get(name);
    if (loop === undefined) throw notFound();
    const chosen = Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined;
    if (chosen === undefined) {
      const wanted = Object.keys(FORMATS).join(", ");
      throw new Fault("INVALID_ARGUMENT", `format: wanted one of ${wanted}, got ${quote(format)}`);
    }
    return { type: chosen.type, text: chosen.draw(graphOf(loop.version.policy, depth), loop) };
  }

  dynamicConfig(name: string): JsonObject | undefined {
    this.#assertKnown(name);
    const { active, api } = this.#options;
    return api.dynamicConfig(name) ?? active.loops.get(name)?.version.dynamicConfig;
  }

  configure(name: string, config: Json | undefined, peer?: string): Promise<readonly string[]> {
    return this.#inTurn(name, () => this.#configure(name, config as JsonObject | undefined, peer));
  }

  async decisions(kind: string): Promise<Readonly<Record<string, string>>> {
    if (kind !== "" && !DECISION_KINDS.some((each) => each === kind)) {
      const wanted = DECISION_KINDS.join(", ");
      throw new Fault("INVALID_ARGUMENT", `decision_type: wanted one of ${wanted}, or nothing`);
    }
    const prefix = kind === "" ? "/decisions/" : `/decisions/${kind}/`;
    const found: [string, string][] = [];
    for (const { version, decisions } of this.#options.active.loops.values()) {
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

  async #remove(name: string, peer: string | undefined): Promise<void> {
    const { active, api, kept } = this.#options;
    const owner = this.#otherOwner(name);
    if (owner !== undefined) {
      const { came } = POLICY_ORIGINS[owner.origin];
      throw new Fault("FAILED_PRECONDITION", `the policy came ${came}: remove it there`);
    }
    const isStored = api.policies.has(name) || api.dynamicConfig(name) !== undefined;
    if (isStored) {
      await this.#commit([
        { kind: "delete", key: API_POLICIES + name },
        { kind: "delete", key: API_DYNAMIC_CONFIGS + name },
      ]);
    }
    if (kept.release(name)) await active.update();
    else if (!isStored) return;
    this.#logChange({ policy: name, peer }, "removed");
  }

  async #configure(
    name: string,
    config: JsonObject | undefined,
    peer: string | undefined,
  ): Promise<readonly string[]> {
    this.#assertKnown(name);
    const text = config && JSON.stringify(config);
    if (text !== undefined && text.length > LARGEST_CONFIG) throw tooLarge(text.length);
    const warnings = config === undefined ? [] : this.#checkConfig(name, config);
    const key = API_DYNAMIC_CONFIGS + name;
    const op: Op =
      text === undefined ? { kind: "delete", key } : { kind: "put", key, value: bytesOf(text) };
    await this.#commit([op], await this.#stillStored(name));
    const what = config === undefined ? "removed" : "replaced";
    this.#logChange({ policy: name, peer }, `dynamic configuration ${what}`);
    for (const warning of warnings) this.#options.log.warn({ policy: name }, warning);
    return warnings;
  }

  /** The owner of a policy that cannot be changed over the API; undefined for all others. */
  #otherOwner(name: string): RunnableCandidate | undefined {
    const owner = this.#options.active.owners.get(name);
    return owner === undefined || POLICY_ORIGINS[owner.origin].changedOverApi ? undefined : owner;
  }

  #viewOfOther(owner: RunnableCandidate, policy: CompiledPolicy): PolicyView {
    const why = this.#options.active.faultsOf(owner);
    return view(policy.document, why === undefined ? "VALID" : "OUTDATED", why ?? "");
  }

  /** Runs the changes of one policy one after the other, so that none overtakes another. */
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

  async #compileValid(name: string, text: string): Promise<CompiledPolicy> {
    if (text.trim() === "") throw refused(["the policy is empty"]);
    this.#assertNotOfOther(name);
    const set = await this.#options.compile(SOURCE, name, text);
    // Another source may offer this name by now.
    this.#assertNotOfOther(name);
    const [own] = set.policies;
    const faults = this.#faultsOf(name, set);
    if (own === undefined || faults.length > 0) throw refused(faults);
    return own;
  }

  #logChange(fields: LogFields, what: string): void {
    this.#options.log.info(fields, `policy over the API: ${what}`);
  }

  /** Keys that no component reads only cause warnings, because another version of the policy may read them. */
  #checkConfig(name: string, config: JsonObject): readonly string[] {
    const { active, api } = this.#options;
    const policy = api.policies.get(name)?.compiled ?? active.loops.get(name)?.version.policy;
    if (policy === undefined) return [];
    const faults = [...unfitReasons(policy, config)].map(([key, why]) => `${key}: ${why}`);
    if (faults.length > 0) {
      throw new Fault("INVALID_ARGUMENT", `dynamic_config: ${faults.join("; ")}`);
    }
    return unreadWarnings(policy, config);
  }

  /** The fault of a name that another source owns; undefined for none. */
  #heldByOther(name: string): string | undefined {
    const owner = this.#otherOwner(name);
    if (owner === undefined) return undefined;
    return `${POLICY_ORIGINS[owner.origin].owner} has a policy of this name: change it there`;
  }

  #assertNotOfOther(name: string): void {
    const held = this.#heldByOther(name);
    if (held !== undefined) throw new Fault("ALREADY_EXISTS", held);
  }

  /** Reasons why a compiled text cannot become the policy of this name. */
  #faultsOf(name: string, { policies, findings }: CompiledSet): readonly string[] {
    const [own, ...more] = policies;
    if (more.length > 0) {
      return [`${SOURCE}: wanted one document with one policy, got ${policies.length} policies`];
    }
    if (findings.length > 0 || own === undefined) return findings.map(findingLine);
    if (own.name !== name) {
      return [`${SOURCE}: wanted a policy without a name, or with that of the request`];
    }
    if (own.dynamicConfig !== undefined) {
      const way = `/v1/dynamic-configs/${name}`;
      return [`${SOURCE}: wanted no dynamicConfig: it goes to ${way}`];
    }
    return this.#options.active.conflicts(own).map(findingLine);
  }

  #assertKnown(name: string): void {
    const { active, api } = this.#options;
    if (!active.loops.has(name) && !api.policies.has(name)) throw notFound();
  }

  /** Guards a configuration against the concurrent removal of its policy. Policies of other sources need no guard. */
  async #stillStored(name: string): Promise<readonly Guard[]> {
    const key = API_POLICIES + name;
    const { entries } = await this.#options.store.list(key, { timeoutMs: STORE_MS });
    const entry = entries.find((each) => each.key === key);
    if (entry !== undefined) return [{ key, revision: entry.revision }];
    const owner = this.#options.active.owners.get(name);
    if (owner === undefined || owner.origin === "api") throw notFound();
    return [];
  }

  /** Resolves when the write is in force in this controller. */
  async #commit(ops: readonly Op[], guards: readonly Guard[] = []): Promise<void> {
    const { store, reached, clock } = this.#options;
    const revision = await store.commit(ops, { guards, timeoutMs: STORE_MS });
    if (revision === undefined) {
      throw new Fault("ABORTED", "the policy was changed or removed meanwhile");
    }
    const givenUp = new AbortController();
    const inForce = reached(revision, givenUp.signal);
    await within(LONGEST_WAIT_MS, clock, inForce).finally(() => givenUp.abort());
  }
}

function unreadWarnings(policy: CompiledPolicy, config: JsonObject | undefined): readonly string[] {
  if (config === undefined) return [];
  const unread = unreadKeys(dynamicKeys(policy.document), config, MAX_LISTED);
  return unread.map((each) => `dynamic configuration: ${unreadReason(each)}`);
}

function view(
  document: CompiledPolicy["document"] | undefined,
  status: PolicyStanding,
  reason: string,
): PolicyView {
  return { policy: document === undefined ? null : fullPolicy(document), status, reason };
}

/** Readings of all signals by `<circuit>/<name>`; null is invalid. */
function readingsOf({ circuit }: PolicyLoop): Json {
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

function tooLarge(length: number): Fault {
  const message = `dynamic_config: wanted at most ${LARGEST_CONFIG} characters of JSON, got ${length}`;
  return new Fault("RESOURCE_EXHAUSTED", message, { http: 413 });
}

function notFound(): Fault {
  return new Fault("NOT_FOUND", "policy not found");
}

function refused(lines: readonly string[]): Fault {
  return new Fault("INVALID_ARGUMENT", `the policy cannot be used: ${lines.join("; ")}`);
}
