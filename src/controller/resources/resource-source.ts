// Policies that are Kubernetes resources in the namespace of the controller. Each is compiled on its own; what became of
// it is written into its status. A resource that turns bad keeps the version that runs.

import type { PolicyRollout } from "#api/policies.ts";
import { pause } from "#base/async/wait.ts";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "#kube/api/client.ts";
import type { RecordEvent } from "#kube/api/events.ts";
import { type Following, Reflector } from "#kube/api/reflector.ts";
import type { Attached, Attacher } from "#kube/gateways/attacher.ts";
import {
  type FindingText,
  POLICY_RESOURCES,
  type PolicyResource,
  policyResource,
} from "#kube/policies/resource.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import type { Target } from "#policy/document/targets.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";
import type { PolicySet } from "#policy/set.ts";
import type { ActivePolicies } from "../policies/active-policies.ts";
import type { Offer, PolicySource } from "../policy-source.ts";
import { eventsBetween, hasStatus, type Known, statusOf } from "./resource-status.ts";

export interface ResourceSourceOptions {
  readonly client: KubeClient;
  readonly active: () => ActivePolicies;
  readonly compile: (source: string, name: string, text: string) => Promise<PolicySet>;
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
  readonly followed: (following: Following) => void;
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
}

/** The most resources: each is a circuit that runs. */
const MAX_POLICIES = 10_000;
/** Milliseconds between looks at what statuses say about agents and running policies. */
const REFRESH_MS = 30_000;
/** Milliseconds after which statuses that could not be written are tried again. */
const RETRY_MS = 5_000;
/** Milliseconds that a compiler that was stopped is left alone. */
const COMPILER_MS = 1_000;

const SUBJECT = {
  apiVersion: `${POLICY_RESOURCES.group}/${POLICY_RESOURCES.version}`,
  kind: "Policy",
} as const;

export class ResourceSource implements PolicySource {
  readonly origin = "resource";
  readonly #options: ResourceSourceOptions;
  readonly #reflector: Reflector<PolicyResource>;
  readonly #held = new Map<string, Held>();
  /** Resources that changed and are not compiled yet, by name; undefined for one that is gone. */
  #changed = new Map<string, PolicyResource | undefined>();
  readonly #stop = new AbortController();
  #working: Promise<void> | undefined;
  #writing: Promise<void> | undefined;
  /** Statuses are to be looked at again by the round under way; `all`: also for the number of agents. */
  #due: "nothing" | "state" | "all" = "nothing";
  #failing = "";
  #disarm: () => void = () => undefined;

  constructor(options: ResourceSourceOptions) {
    this.#options = options;
    const { client, clock, chance } = options;
    this.#reflector = new Reflector({
      client,
      resource: POLICY_RESOURCES,
      selection: { namespace: client.namespace },
      keep: policyResource,
      changed: ({ puts, deletes }) => {
        for (const resource of puts.values()) this.#changed.set(resource.name, resource);
        for (const key of deletes) this.#changed.set(key.slice(key.indexOf("/") + 1), undefined);
        this.#work();
      },
      followed: options.followed,
      clock,
      chance,
      most: MAX_POLICIES,
    });
  }

  async start(): Promise<void> {
    await this.#reflector.start().catch((thrown: unknown) => {
      throw startFault(Fault.from(thrown));
    });
    await this.#working;
    this.#refresh(REFRESH_MS);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#disarm();
    await this.#reflector.close();
    await this.#working;
    await this.#writing;
    this.#options.followed({ state: "starting" });
  }

  /** Whether there is a resource of this name, with or without faults. */
  has(name: string): boolean {
    return this.#held.has(name);
  }

  *offers(): Generator<Offer> {
    for (const [name, { offered }] of this.#held) {
      yield { name, location: this.#locationOf(name), policy: offered };
    }
  }

  /** Dynamic configuration of a resource is part of its document. */
  dynamicConfig(): JsonObject | undefined {
    return undefined;
  }

  faultsOf(location: string): string | undefined {
    const held = this.#held.get(location.slice(location.lastIndexOf("/") + 1));
    if (held === undefined || held.findings.length === 0) return undefined;
    return held.findings.map(({ path, message }) => `${path}: ${message}`).join("; ");
  }

  inForceChanged(): void {
    this.#write();
  }

  #locationOf(name: string): string {
    const { group, plural } = POLICY_RESOURCES;
    return `${plural}.${group}/${this.#options.client.namespace}/${name}`;
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
      try {
        if (await this.#read(changed)) await active().update();
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
      this.#write();
    }
  }

  /** Returns whether anything is to be applied: a status that changed is not. */
  async #read(changed: ReadonlyMap<string, PolicyResource | undefined>): Promise<boolean> {
    let isNew = false;
    for (const [name, resource] of changed) {
      const before = this.#held.get(name);
      if (resource === undefined) {
        this.#held.delete(name);
        isNew = true;
      } else if (before !== undefined && isSameDocument(before.resource, resource)) {
        this.#held.set(name, { ...before, resource });
      } else {
        this.#held.set(name, await this.#compile(resource));
        isNew = true;
      }
      if (this.#stop.signal.aborted) return false;
    }
    return isNew;
  }

  async #compile(resource: PolicyResource): Promise<Held> {
    const { compile, active, lastGood, log } = this.#options;
    const { name, text } = resource;
    const location = this.#locationOf(name);
    const result = await compile(location, name, text).then(readingOf, (thrown: unknown) => {
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
      return { ...result, resource, offered: compiled };
    }
    const [first] = findings;
    const path = first?.path ? `${first.path}: ` : "";
    const line = `the policy resource has faults, and what runs stays: ${path}${first?.message}`;
    log.error({ policy: name, generation: resource.generation, faults: findings.length }, line);
    const runs = active().loops.get(name)?.version.origin === this.origin;
    const left = runs ? undefined : await this.#earlier(name, await lastGood(name));
    return { ...result, resource, offered: left };
  }

  /** The version of an earlier leader. */
  async #earlier(name: string, text: string | undefined): Promise<CompiledPolicy | undefined> {
    if (text === undefined) return undefined;
    const { compiled } = readingOf(await this.#options.compile(this.#locationOf(name), name, text));
    return compiled;
  }

  #refresh(ms: number): void {
    this.#disarm();
    if (this.#stop.signal.aborted) return;
    this.#disarm = this.#options.clock.alarm(ms, () => {
      this.#write("all");
      this.#refresh(REFRESH_MS);
    });
  }

  /** Writes the statuses that are no longer right, each once. Agents come and go too often to write each time. */
  #write(due: "state" | "all" = "state"): void {
    // What is not compiled yet may have targets, too.
    if (this.#changed.size === 0) this.#options.attacher?.set(this.#attached());
    if (this.#due !== "all") this.#due = due;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
      if (this.#due !== "nothing" && !this.#stop.signal.aborted) this.#write("state");
    });
  }

  async #writeAll(): Promise<void> {
    const { client, clock, log, record } = this.#options;
    const { signal } = this.#stop;
    while (this.#due !== "nothing" && !signal.aborted) {
      const due = this.#due;
      this.#due = "nothing";
      for (const { resource, ...known } of this.#knowledge()) {
        const status = statusOf({ resource, ...known }, clock.wall());
        const { agents, ...state } = status;
        if (hasStatus(resource, due === "all" ? { ...state, agents } : state)) continue;
        if (signal.aborted) return;
        const { name, namespace } = resource;
        const place = { name, namespace, subresource: "status" } as const;
        try {
          const patch = { merge: { metadata: { uid: resource.uid }, status } };
          const written = await client.patch(POLICY_RESOURCES, place, patch, signal);
          this.#written(policyResource(written));
          for (const event of eventsBetween(resource.status, status))
            record({ ...SUBJECT, namespace, name, uid: resource.uid }, event);
          if (this.#failing !== "") log.info({}, "statuses of policy resources are written again");
          this.#failing = "";
        } catch (thrown) {
          if (signal.aborted) return;
          const { code, message } = Fault.from(thrown);
          // It was deleted, or made again, which the watch tells.
          if (code === "NOT_FOUND" || code === "ABORTED") continue;
          if (message !== this.#failing) {
            log.warn({ policy: name }, `a status was not written, will be retried: ${message}`);
          }
          this.#failing = message;
          return this.#refresh(RETRY_MS);
        }
      }
    }
  }

  /** Notes a status, unless the resource has changed meanwhile. */
  #written(resource: PolicyResource): void {
    const held = this.#held.get(resource.name);
    if (held?.resource.uid === resource.uid && held.resource.generation === resource.generation) {
      this.#held.set(resource.name, { ...held, resource });
    }
  }

  #leftOut(): ReadonlyMap<string, string> {
    const all = this.#options.active().leftOutOf(this.origin);
    return new Map(all.map(({ claim, why }) => [claim.name, why]));
  }

  #attached(): readonly Attached[] {
    const leftOut = this.#leftOut();
    return [...this.#held.values()].map(({ resource, compiled }) => {
      const { namespace, name, uid } = resource;
      const targets = leftOut.has(name) ? [] : compiled && targetsOf(compiled);
      return { namespace, owner: { ...SUBJECT, name, uid }, targets };
    });
  }

  #knowledge(): readonly Known[] {
    const { active, attacher, warnings, overridesConfig, rollout } = this.#options;
    const policies = active();
    const leftOut = this.#leftOut();
    return [...this.#held.values()].map((held): Known => {
      const { name } = held.resource;
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
        rollout: running && rollout?.(running),
      };
    });
  }
}

const NOT_ATTACHED =
  "no controller attaches policies: gateway_api.enabled is false (gatewayApi.enabled of the chart)";

function targetsOf(policy: CompiledPolicy | undefined): readonly Target[] {
  return (policy?.needs ?? []).flatMap(({ target }) => (target === undefined ? [] : [target]));
}

function readingOf({ policies, findings, warnings }: PolicySet) {
  return {
    compiled: findings.length === 0 ? policies[0]?.of : undefined,
    findings: findings.map(({ of }) => ({
      path: of.path,
      message: `wanted ${of.wanted}, got ${of.got}`,
    })),
    warnings: warnings.map(({ of }) => of),
  };
}

function isSameDocument(left: PolicyResource, right: PolicyResource): boolean {
  return left.uid === right.uid && left.text === right.text && left.generation === right.generation;
}

/** The fault of a start at which the resources cannot be read, in the words of the person who installs them. */
function startFault({ code, message, cause }: Fault): Fault {
  const words = "policies.cr_watcher: the policy resources cannot be read";
  if (code !== "NOT_FOUND") return new Fault(code, `${words}: ${message}`, { cause });
  const missing = `the cluster has no custom resource definition ${POLICY_RESOURCES.plural}.${POLICY_RESOURCES.group}`;
  return new Fault("FAILED_PRECONDITION", `${words}: ${missing}`, { cause });
}
