// Policies that are Kubernetes resources, of the controllers' namespace and of those of teams. Each is compiled on its own;
// what became of it is written into its status. A resource that turns bad keeps the version that runs.

import type { PolicyRollout } from "#api/policies.ts";
import { pause } from "#base/async/wait.ts";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "#kube/api/client.ts";
import type { RecordEvent } from "#kube/api/events.ts";
import type { Attached, Attacher } from "#kube/gateways/attacher.ts";
import {
  type FindingText,
  namespaceOfPolicy,
  POLICY_KIND,
  POLICY_RESOURCES,
  type PolicyResource,
  policyNameOf,
} from "#kube/policies/resource.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import type { Target } from "#policy/document/targets.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";
import type { CompiledSet } from "#policy/set.ts";
import type { ActivePolicies } from "../policies/active-policies.ts";
import type { PolicyCandidate, PolicySource } from "../policy-source.ts";
import { PolicyNamespaces, type PolicyNamespacesOptions } from "./policy-namespaces.ts";
import { beyondQuota } from "./quota.ts";
import type { Known } from "./resource-status.ts";
import { StatusWriter } from "./status-writer.ts";

/** Compiles one text. A namespace confines its policy. */
export type CompileText = (
  source: string,
  name: string,
  text: string,
  namespace?: string,
) => Promise<CompiledSet>;

export interface ResourceSourceOptions {
  readonly client: KubeClient;
  /** Namespaces of teams, whose policies are confined to them. */
  readonly namespaces: readonly string[];
  /** The most policies of a namespace of a team that are in force. */
  readonly quota: number;
  readonly active: () => ActivePolicies;
  readonly compile: CompileText;
  /**
   * The version of a policy that the store has from an earlier leader and that came from a resource, as a document;
   * undefined where there is none.
   */
  readonly lastGood: (name: string) => Promise<string | undefined>;
  /** Warnings that a running policy gives. */
  readonly warnings: (name: string) => readonly PolicyWarning[];
  /** True where another source has a dynamic configuration for the policy, which is in force instead of the resource's. */
  readonly overridesConfig: (name: string) => boolean;
  /** Attaches policies to gateways and routes; absent where none is attached. */
  readonly attacher?: Pick<Attacher, "set" | "faultOf"> | undefined;
  readonly record: RecordEvent;
  readonly rollout: ((policy: CompiledPolicy) => PolicyRollout | undefined) | undefined;
  /** `starting` when this source is closed. */
  readonly followed: PolicyNamespacesOptions["followed"];
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Log;
}

/** A resource and what its document compiled to. */
interface Held {
  readonly resource: PolicyResource;
  /** Undefined where the document has faults. */
  readonly compiled: CompiledPolicy | undefined;
  /**
   * The version that this source offers: the compiled document, or after a start the version that an earlier leader
   * left.
   */
  readonly offered: CompiledPolicy | undefined;
  readonly findings: readonly FindingText[];
  readonly warnings: readonly PolicyWarning[];
  /** True where it is beyond the quota of its namespace, and so is not compiled. */
  readonly isOver: boolean;
}

/** Milliseconds that a compiler that was stopped is left alone. */
const COMPILER_MS = 1_000;

export class ResourceSource implements PolicySource {
  readonly origin = "resource";
  readonly #options: ResourceSourceOptions;
  readonly #namespaces: PolicyNamespaces;
  /** By the name of the policy, as in all maps here. */
  readonly #held = new Map<string, Held>();
  /** Resources that changed and are not compiled yet; undefined for one that is gone. */
  #changed = new Map<string, PolicyResource | undefined>();
  /** Namespaces that have been listed, and those of them whose resources are all held. */
  readonly #listed = new Set<string>();
  #read: ReadonlySet<string> = new Set();
  readonly #stop = new AbortController();
  #working: Promise<void> | undefined;
  readonly #statuses: StatusWriter;

  constructor(options: ResourceSourceOptions) {
    this.#options = options;
    this.#statuses = new StatusWriter({
      ...options,
      known: () => this.#knowledge(),
      written: (resource) => this.#written(resource),
    });
    this.#namespaces = new PolicyNamespaces({
      ...options,
      changed: (namespace, resources) => {
        this.#listed.add(namespace);
        for (const [policy, resource] of resources) this.#changed.set(policy, resource);
        this.#work();
      },
    });
  }

  async start(): Promise<void> {
    await this.#namespaces.start();
    await this.#working;
    this.#statuses.start();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    const written = this.#statuses.close();
    await this.#namespaces.close();
    await this.#working;
    await written;
  }

  /** Whether there is a resource of this policy, with or without faults. */
  has(policy: string): boolean {
    return this.#held.has(policy);
  }

  /** Whether the policy is of a team whose resources could not be read yet, so that nobody knows if its own is there. */
  isUnread(policy: string): boolean {
    const { client, namespaces } = this.#options;
    const namespace = namespaceOfPolicy(policy, client.namespace);
    return namespaces.includes(namespace) && !this.#read.has(namespace);
  }

  *candidates(): Generator<PolicyCandidate> {
    for (const [name, { resource, offered, isOver }] of this.#held) {
      if (!isOver) yield { name, location: locationOf(resource), policy: offered };
    }
  }

  /** Dynamic configuration of a resource is part of its document. */
  dynamicConfig(): JsonObject | undefined {
    return undefined;
  }

  faultsOf(location: string): string | undefined {
    const [name = "", namespace = ""] = location.split("/").reverse();
    const held = this.#held.get(policyNameOf({ namespace, name }, this.#options.client.namespace));
    if (held === undefined || held.findings.length === 0) return undefined;
    return held.findings.map(({ path, message }) => `${path}: ${message}`).join("; ");
  }

  inForceChanged(): void {
    this.#tell();
  }

  /** Tells gateways and people what is in force. */
  #tell(): void {
    // A resource that is not compiled yet may have targets that would be missing here.
    if (this.#changed.size === 0) this.#options.attacher?.set(this.#attached());
    this.#statuses.write();
  }

  /** Compiles what changed and applies it, one round after the other. */
  #work(): void {
    this.#working ??= this.#rounds().finally(() => {
      this.#working = undefined;
      // Others may have changed after its last look.
      if (this.#changed.size > 0 && !this.#stop.signal.aborted) this.#work();
    });
  }

  async #rounds(): Promise<void> {
    const { active, log, clock } = this.#options;
    const { signal } = this.#stop;
    while (this.#changed.size > 0 && !signal.aborted) {
      const changed = this.#changed;
      this.#changed = new Map();
      const listed = new Set(this.#listed);
      try {
        const isNew = await this.#hold(changed);
        const isFirst = listed.size > this.#read.size;
        this.#read = listed;
        if (isNew || isFirst) await active().update();
      } catch (thrown) {
        if (signal.aborted) return;
        // Resources that failed are compiled again, unless they changed meanwhile.
        this.#changed = new Map([...changed, ...this.#changed]);
        const { message } = Fault.from(thrown);
        log.error(
          { error: thrown },
          `policy resources were not applied, will be retried: ${message}`,
        );
        await pause(COMPILER_MS, clock, signal);
      }
      this.#tell();
    }
  }

  /** Returns whether anything is to be applied: a status that changed is not. */
  async #hold(changed: ReadonlyMap<string, PolicyResource | undefined>): Promise<boolean> {
    const { client, quota } = this.#options;
    const resources = new Map([...this.#held].map(([policy, { resource }]) => [policy, resource]));
    for (const [policy, resource] of changed) {
      if (resource === undefined) resources.delete(policy);
      else resources.set(policy, resource);
    }
    const over = beyondQuota(resources.values(), client.namespace, quota);
    // One that is gone may leave its place to another, which has not changed.
    const moved = [...this.#held].filter(([policy, { isOver }]) => isOver !== over.has(policy));
    let isNew = false;
    for (const policy of new Set([...changed.keys(), ...moved.map(([policy]) => policy)])) {
      const resource = resources.get(policy);
      const before = this.#held.get(policy);
      const isOver = over.has(policy);
      if (resource === undefined) {
        this.#held.delete(policy);
        isNew = true;
      } else if (before?.isOver === isOver && isSameDocument(before.resource, resource)) {
        this.#held.set(policy, { ...before, resource });
      } else {
        this.#held.set(policy, isOver ? waiting(resource) : await this.#compile(resource));
        isNew = true;
      }
      if (this.#stop.signal.aborted) return false;
    }
    return isNew;
  }

  async #compile(resource: PolicyResource): Promise<Held> {
    const { log } = this.#options;
    const { policy: name, text } = resource;
    const result = await this.#judge(resource, text).then(readingOf, (thrown: unknown) => {
      const fault = Fault.from(thrown);
      if (fault.code === "UNAVAILABLE") throw fault;
      return {
        compiled: undefined,
        findings: [{ path: "", message: fault.message }],
        warnings: [],
      };
    });
    const { compiled, findings } = result;
    if (compiled !== undefined) {
      log.info({ policy: name, hash: compiled.hash }, "read the policy resource");
      return { ...result, resource, offered: compiled, isOver: false };
    }
    const [first] = findings;
    const path = first?.path ? `${first.path}: ` : "";
    const line = `the policy resource has faults, and what runs stays: ${path}${first?.message}`;
    log.error({ policy: name, generation: resource.generation, faults: findings.length }, line);
    return { ...result, resource, offered: await this.#earlier(resource), isOver: false };
  }

  /** The version of an earlier leader, unless one of this source runs, which goes on by itself. */
  async #earlier(resource: PolicyResource): Promise<CompiledPolicy | undefined> {
    const { active, lastGood } = this.#options;
    const running = active().loops.get(resource.policy)?.version;
    if (running?.origin === this.origin) return undefined;
    if (running?.origin === "kept") return running.policy;
    const text = await lastGood(resource.policy);
    if (text === undefined) return undefined;
    return readingOf(await this.#judge(resource, text)).compiled;
  }

  #judge(resource: PolicyResource, text: string): Promise<CompiledSet> {
    const { client, compile } = this.#options;
    const { namespace, policy } = resource;
    const confined = namespace === client.namespace ? undefined : namespace;
    return compile(locationOf(resource), policy, text, confined);
  }

  /** Notes a status, unless the resource has changed meanwhile. */
  #written(resource: PolicyResource): void {
    const held = this.#held.get(resource.policy);
    if (held?.resource.uid === resource.uid && held.resource.generation === resource.generation) {
      this.#held.set(resource.policy, { ...held, resource });
    }
  }

  #leftOut(): ReadonlyMap<string, string> {
    const all = this.#options.active().leftOutOf(this.origin);
    return new Map(all.map(({ candidate, why }) => [candidate.name, why]));
  }

  #attached(): readonly Attached[] {
    const leftOut = this.#leftOut();
    return [...this.#held.values()].map(({ resource, compiled, isOver }) => {
      const { namespace, name, policy, uid } = resource;
      const isOut = isOver || leftOut.has(policy);
      const targets = isOut ? [] : compiled && targetsOf(compiled);
      return { namespace, owner: { ...POLICY_KIND, name, uid }, targets };
    });
  }

  #knowledge(): readonly Known[] {
    const { active, attacher, quota, warnings, overridesConfig, rollout } = this.#options;
    const policies = active();
    const leftOut = this.#leftOut();
    return [...this.#held.values()].map((held): Known => {
      const { policy: name } = held.resource;
      const loop = policies.loops.get(name);
      const running = loop?.version.origin === this.origin ? loop.version.policy : undefined;
      return {
        resource: held.resource,
        hash: held.compiled?.hash,
        findings: held.findings,
        warnings: [...held.warnings, ...(running === undefined ? [] : warnings(name))],
        dynamicConfig: held.compiled?.dynamicConfig && {
          refused: loop?.refusedConfig ?? new Map(),
          isOverridden: overridesConfig(name),
        },
        scales:
          running?.needs.some(({ object, dryRun }) => object !== undefined && !dryRun) ?? false,
        targets: targetsOf(running).map((target) => ({
          controlPoint: target.controlPoint,
          fault: attacher === undefined ? NOT_ATTACHED : attacher.faultOf(target),
        })),
        running: running?.hash,
        leftOut: leftOut.get(name),
        quota: held.isOver ? quota : undefined,
        rollout: running && rollout?.(running),
      };
    });
  }
}

/** A resource beyond the quota of its namespace. */
function waiting(resource: PolicyResource): Held {
  const nothing = { compiled: undefined, offered: undefined, findings: [], warnings: [] };
  return { ...nothing, resource, isOver: true };
}

function locationOf({ namespace, name }: PolicyResource): string {
  const { group, plural } = POLICY_RESOURCES;
  return `${plural}.${group}/${namespace}/${name}`;
}

const NOT_ATTACHED =
  "no controller attaches policies: gateway_api.enabled is false (gatewayApi.enabled of the chart)";

function targetsOf(policy: CompiledPolicy | undefined): readonly Target[] {
  return (policy?.needs ?? []).flatMap(({ target }) => (target === undefined ? [] : [target]));
}

function readingOf({ policies, findings, warnings }: CompiledSet) {
  return {
    compiled: findings.length === 0 ? policies[0] : undefined,
    findings: findings.map(({ path, wanted, got }) => ({
      path,
      message: `wanted ${wanted}, got ${got}`,
    })),
    warnings,
  };
}

function isSameDocument(left: PolicyResource, right: PolicyResource): boolean {
  return left.uid === right.uid && left.text === right.text && left.generation === right.generation;
}
