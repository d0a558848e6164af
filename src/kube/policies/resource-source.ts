// A source of policies: the policy resources of the controllers' namespace and of the teams' namespaces. Each resource is
// compiled on its own, and its status reports the result. A resource that becomes invalid keeps the version that runs.

import { pause } from "#base/async/wait.ts";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import type { Target } from "#policy/document/targets.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";
import type { CompiledSet } from "#policy/set.ts";
import type { KubeClient } from "../api/client.ts";
import type { RecordEvent } from "../api/events.ts";
import type { Attached, Attacher } from "../gateways/attacher.ts";
import { PolicyNamespaces, type PolicyNamespacesOptions } from "./policy-namespaces.ts";
import { beyondQuota } from "./quota.ts";
import {
  type FindingText,
  namespaceOfPolicy,
  POLICY_KIND,
  POLICY_RESOURCES,
  type PolicyResource,
  policyNameOf,
} from "./resource.ts";
import type { ResourceState, Rollout } from "./resource-status.ts";
import { StatusWriter } from "./status-writer.ts";

/** Compiles one document. A namespace confines its policy. */
export type CompileText = (
  source: string,
  name: string,
  text: string,
  namespace?: string,
) => Promise<CompiledSet>;

/** The policies in force, of all sources. The controller implements it. */
export interface PoliciesInForce {
  /** Applies the present offers of all sources. */
  update(): Promise<void>;
  /** The version that runs under a name. */
  of(name: string): RunningPolicy | undefined;
  /** Reasons why valid policies of resources do not run, by policy name. */
  leftOut(): ReadonlyMap<string, string>;
  /** True if another source has a dynamic configuration for the policy, which overrides the resource's. */
  overridesConfig(name: string): boolean;
}

interface RunningPolicy {
  readonly policy: CompiledPolicy;
  /** The kind of its source: `resource` for those of this one. */
  readonly origin: string;
  /** Reasons why the last dynamic configuration was refused, by key. */
  readonly refusedConfig: ReadonlyMap<string, string>;
}

export interface ResourceSourceOptions {
  readonly client: KubeClient;
  /** The namespaces of teams. Their policies are confined to them. */
  readonly namespaces: readonly string[];
  /** How many policies of a team's namespace may be in force. */
  readonly quota: number;
  readonly inForce: PoliciesInForce;
  readonly compile: CompileText;
  /** The document of a resource's policy that an earlier leader left in the store; undefined without one. */
  readonly lastGood: (name: string) => Promise<string | undefined>;
  /** Warnings that a running policy gives. */
  readonly warnings: (name: string) => readonly PolicyWarning[];
  /** Attaches policies to gateways and routes; absent where none is attached. */
  readonly attacher?: Pick<Attacher, "set" | "faultOf"> | undefined;
  readonly record: RecordEvent;
  readonly rollout: ((policy: CompiledPolicy) => Rollout | undefined) | undefined;
  /** Called with `starting` when this source is closed. */
  readonly followed: PolicyNamespacesOptions["followed"];
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Log;
}

/** A resource and the result of compiling it. */
interface HeldResource {
  readonly resource: PolicyResource;
  /** Undefined where the document has faults. */
  readonly compiled: CompiledPolicy | undefined;
  /** The version that this source offers: the compiled document, or the one of an earlier leader after a start. */
  readonly offered: CompiledPolicy | undefined;
  readonly findings: readonly FindingText[];
  readonly warnings: readonly PolicyWarning[];
  /** True if it exceeds the quota of its namespace, and so is not compiled. */
  readonly isOver: boolean;
}

/** Milliseconds until a failed round is repeated. */
const RETRY_MS = 1_000;

/** Implements the controller's `PolicySource`. */
export class ResourceSource {
  readonly origin = "resource";
  readonly #options: ResourceSourceOptions;
  readonly #namespaces: PolicyNamespaces;
  /** By the name of the policy, as in all maps here. */
  readonly #held = new Map<string, HeldResource>();
  /** Resources that are not compiled yet; undefined for a deleted one. */
  #changed = new Map<string, PolicyResource | undefined>();
  /** The namespaces that have been listed, and those whose resources have been compiled. */
  readonly #listed = new Set<string>();
  #read: ReadonlySet<string> = new Set();
  readonly #stop = new AbortController();
  #working: Promise<void> | undefined;
  readonly #statuses: StatusWriter;

  constructor(options: ResourceSourceOptions) {
    this.#options = options;
    this.#statuses = new StatusWriter({
      ...options,
      states: () => this.#states(),
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

  /** True if this policy has a resource, even an invalid one. */
  has(policy: string): boolean {
    return this.#held.has(policy);
  }

  /** True while nobody knows if the policy has a resource, because its namespace could not be read yet. */
  isUnread(policy: string): boolean {
    const { client, namespaces } = this.#options;
    const namespace = namespaceOfPolicy(policy, client.namespace);
    return namespaces.includes(namespace) && !this.#read.has(namespace);
  }

  *candidates() {
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
    this.#publish();
  }

  /** Updates gateways and statuses. */
  #publish(): void {
    // A resource that is not compiled yet may have targets that would be missing here.
    if (this.#changed.size === 0) this.#options.attacher?.set(this.#attached());
    this.#statuses.write();
  }

  /** Compiles and applies changes, one round after the other. */
  #work(): void {
    this.#working ??= this.#rounds().finally(() => {
      this.#working = undefined;
      // A change may have come after the last round.
      if (this.#changed.size > 0 && !this.#stop.signal.aborted) this.#work();
    });
  }

  async #rounds(): Promise<void> {
    const { inForce, log, clock } = this.#options;
    const { signal } = this.#stop;
    while (this.#changed.size > 0 && !signal.aborted) {
      const changed = this.#changed;
      this.#changed = new Map();
      const listed = new Set(this.#listed);
      try {
        const isNew = await this.#hold(changed);
        const isFirst = listed.size > this.#read.size;
        this.#read = listed;
        if (isNew || isFirst) await inForce.update();
      } catch (thrown) {
        if (signal.aborted) return;
        // Newer changes win.
        this.#changed = new Map([...changed, ...this.#changed]);
        const { message } = Fault.from(thrown);
        log.error(
          { error: thrown },
          `policy resources were not applied, will be retried: ${message}`,
        );
        await pause(RETRY_MS, clock, signal);
      }
      this.#publish();
    }
  }

  /** Returns whether a document changed; a changed status does not count. */
  async #hold(changed: ReadonlyMap<string, PolicyResource | undefined>): Promise<boolean> {
    const { client, quota } = this.#options;
    const resources = new Map([...this.#held].map(([policy, { resource }]) => [policy, resource]));
    for (const [policy, resource] of changed) {
      if (resource === undefined) resources.delete(policy);
      else resources.set(policy, resource);
    }
    const over = beyondQuota(resources.values(), client.namespace, quota);
    // A deleted resource may free a place in the quota for an unchanged one.
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
        this.#held.set(policy, isOver ? overQuota(resource) : await this.#compile(resource));
        isNew = true;
      }
      if (this.#stop.signal.aborted) return false;
    }
    return isNew;
  }

  async #compile(resource: PolicyResource): Promise<HeldResource> {
    const { log } = this.#options;
    const { policy: name, text } = resource;
    const result = await this.#compileText(resource, text).then(outcomeOf, (thrown: unknown) => {
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
    return { ...result, resource, offered: await this.#lastGood(resource), isOver: false };
  }

  /** The version of an earlier leader, unless a version of this source runs and so continues by itself. */
  async #lastGood(resource: PolicyResource): Promise<CompiledPolicy | undefined> {
    const { inForce, lastGood } = this.#options;
    const running = inForce.of(resource.policy);
    if (running?.origin === this.origin) return undefined;
    if (running?.origin === "kept") return running.policy;
    const text = await lastGood(resource.policy);
    if (text === undefined) return undefined;
    return outcomeOf(await this.#compileText(resource, text)).compiled;
  }

  #compileText(resource: PolicyResource, text: string): Promise<CompiledSet> {
    const { client, compile } = this.#options;
    const { namespace, policy } = resource;
    const confined = namespace === client.namespace ? undefined : namespace;
    return compile(locationOf(resource), policy, text, confined);
  }

  /** Remembers a written status, unless the resource has changed since. */
  #written(resource: PolicyResource): void {
    const held = this.#held.get(resource.policy);
    if (held?.resource.uid === resource.uid && held.resource.generation === resource.generation) {
      this.#held.set(resource.policy, { ...held, resource });
    }
  }

  #attached(): readonly Attached[] {
    const leftOut = this.#options.inForce.leftOut();
    return [...this.#held.values()].map(({ resource, compiled, isOver }) => {
      const { namespace, name, policy, uid } = resource;
      const isOut = isOver || leftOut.has(policy);
      const targets = isOut ? [] : compiled && targetsOf(compiled);
      return { namespace, owner: { ...POLICY_KIND, name, uid }, targets };
    });
  }

  #states(): readonly ResourceState[] {
    const { inForce, attacher, quota, warnings, rollout } = this.#options;
    const leftOut = inForce.leftOut();
    return [...this.#held.values()].map((held): ResourceState => {
      const { policy: name } = held.resource;
      const found = inForce.of(name);
      const running = found?.origin === this.origin ? found.policy : undefined;
      return {
        resource: held.resource,
        hash: held.compiled?.hash,
        findings: held.findings,
        warnings: [...held.warnings, ...(running === undefined ? [] : warnings(name))],
        dynamicConfig: held.compiled?.dynamicConfig && {
          refused: found?.refusedConfig ?? new Map(),
          isOverridden: inForce.overridesConfig(name),
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

function overQuota(resource: PolicyResource): HeldResource {
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

function outcomeOf({ policies, findings, warnings }: CompiledSet) {
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
