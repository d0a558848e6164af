// The policies in force, and the transition from one set to the next: new policies start, changed ones continue in their new
// version, and removed ones stop, all in one write to the store.

import { Fault } from "#base/fault.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import type { Finding } from "#policy/document/finding.ts";
import { validateSet } from "#policy/set.ts";
import { Slices } from "#runtime/life/slices.ts";
import type { StoreWrites } from "../loop/outbox.ts";
import { type LoopContext, PolicyLoop } from "../loop/policy-loop.ts";
import type { PolicyOrigin, PolicySource, PolicyVersion } from "../policy-source.ts";
import { assignOwners, type LeftOut, type Ownership, type RunnableCandidate } from "./ownership.ts";

/** The sources of policies, and the parts of the controller that are told about changes. */
interface Connections {
  /**
   * In order of precedence: of two policies that do not run yet, that of the earlier source owns their name. Of
   * two dynamic configurations for one policy, that of the later source is in force.
   */
  readonly sources: readonly PolicySource[];
  /** Called when a version of a policy came into force. */
  readonly loaded: (loop: PolicyLoop) => void;
  /** Called after each update that changed which versions are in force. */
  readonly changed: (loops: ReadonlyMap<string, PolicyLoop>) => void;
}

export class ActivePolicies {
  readonly #context: LoopContext;
  readonly #failed: (name: string, fault: Fault) => void;
  #connections: Connections = {
    sources: [],
    loaded: () => undefined,
    changed: () => undefined,
  };
  readonly #loops = new Map<string, PolicyLoop>();
  #ownership: Ownership = { owners: new Map(), leftOut: [] };
  #updates: Promise<void> = Promise.resolve();
  #stopped = false;

  /** `failed` is called when a version could not be started; the one before it, if any, stays in force. */
  constructor(context: LoopContext, failed: (name: string, fault: Fault) => void) {
    this.#context = context;
    this.#failed = failed;
  }

  /** Call it once, before the first update. */
  connect(connections: Connections): void {
    this.#connections = connections;
  }

  /** By policy name. */
  get loops(): ReadonlyMap<string, PolicyLoop> {
    return this.#loops;
  }

  /** Policies that own their names, by name: those of sources that were left out are not among them. */
  get owners(): ReadonlyMap<string, RunnableCandidate> {
    return this.#ownership.owners;
  }

  /** The candidates of a source that do not run because of other policies. */
  leftOutOf(origin: PolicyOrigin): readonly LeftOut[] {
    return this.#ownership.leftOut.filter(({ candidate }) => candidate.origin === origin);
  }

  /**
   * The reason why the present document of a policy is not in force; undefined when it is, or when that is unknown.
   */
  faultsOf({ origin, location }: RunnableCandidate): string | undefined {
    return this.#connections.sources
      .find((source) => source.origin === origin)
      ?.faultsOf?.(location);
  }

  /** True if a source has a dynamic configuration for a policy, other than the policy's document. */
  hasConfig(name: string): boolean {
    return this.#connections.sources.some((source) => source.dynamicConfig(name) !== undefined);
  }

  /** Findings because of which this policy cannot run beside those that are there. */
  conflicts(own: CompiledPolicy): readonly Finding[] {
    const others = [...this.owners.values()].filter(({ name }) => name !== own.name);
    const known = others.map(({ location, policy }) => ({ ...policy, source: location }));
    return validateSet([...known, own]).filter(({ source }) => source === own.source);
  }

  /**
   * Starts, changes and stops policies according to the present offers of the sources. Updates run one at a time, in slices
   * between which checks are answered. Resolves when all changes were handed to the outbox in one write.
   */
  update(): Promise<void> {
    const update = this.#updates.then(() => this.#update());
    this.#updates = update.catch(() => undefined);
    return update;
  }

  async #update(): Promise<void> {
    const before = this.#ownership.leftOut;
    const { sources, changed: notify } = this.#connections;
    const slices = new Slices(this.#context.clock);
    const running = new Map([...this.#loops].map(([name, { version }]) => [name, version]));
    this.#ownership = assignOwners(
      sources.map((source) => ({ origin: source.origin, candidates: [...source.candidates()] })),
      running,
    );
    await slices.pause();
    const writes: StoreWrites[] = [];
    const removed = this.#removeOthers(writes);
    const { loaded, configured } = await this.#loadOwners(writes, slices);
    if (this.#stopped) return;
    // Followers of the store may compile a whole plan in the turn of the write.
    await slices.end();
    if (this.#stopped) return;
    this.#context.outbox.put(merged(writes));
    // Only now, so that no decision of a later tick reaches the store before its configuration.
    for (const loop of loaded) loop.startTicks();
    const changed = removed || loaded.length > 0;
    if (changed) notify(this.#loops);
    this.#notifySources(before, changed || configured);
  }

  /** Stops all ticks; published entries stay in the store. */
  stop(): void {
    this.#stopped = true;
    for (const loop of this.#loops.values()) loop.stop();
  }

  /** Returns whether any policy was removed. */
  #removeOthers(writes: StoreWrites[]): boolean {
    const gone = [...this.#loops].filter(([name]) => !this.owners.has(name));
    for (const [name, loop] of gone) {
      this.#loops.delete(name);
      writes.push(loop.unload());
    }
    return gone.length > 0;
  }

  /** Returns the policies that started a version, and whether a running one was reconfigured. */
  async #loadOwners(
    writes: StoreWrites[],
    slices: Slices,
  ): Promise<{ readonly loaded: readonly PolicyLoop[]; readonly configured: boolean }> {
    const loaded: PolicyLoop[] = [];
    let configured = false;
    for (const [name, { policy, origin }] of this.owners) {
      const version = { policy, origin, dynamicConfig: this.#dynamicConfigOf(policy) };
      const loop = this.#loops.get(name);
      if (loop === undefined || !isSameVersion(loop.version, version)) {
        const started = this.#load(name, version, writes);
        if (started !== undefined) loaded.push(started);
        await slices.pause();
        if (this.#stopped) break;
      } else if (!isEqual(loop.version.dynamicConfig, version.dynamicConfig)) {
        writes.push(loop.configure(version.dynamicConfig));
        configured = true;
      }
    }
    return { loaded, configured };
  }

  #load(name: string, version: PolicyVersion, writes: StoreWrites[]): PolicyLoop | undefined {
    const loop = this.#loops.get(name) ?? new PolicyLoop(version, this.#context);
    try {
      writes.push(loop.load(version));
    } catch (thrown) {
      this.#failed(name, Fault.from(thrown));
      return undefined;
    }
    this.#loops.set(name, loop);
    this.#connections.loaded(loop);
    return loop;
  }

  #dynamicConfigOf({ name, dynamicConfig }: CompiledPolicy): JsonObject | undefined {
    const configs = this.#connections.sources.map((source) => source.dynamicConfig(name));
    return configs.findLast((config) => config !== undefined) ?? dynamicConfig;
  }

  #notifySources(before: readonly LeftOut[], changed: boolean): void {
    for (const source of this.#connections.sources) {
      const linesOf = (all: readonly LeftOut[]) =>
        all.flatMap(({ candidate, why }) =>
          candidate.origin === source.origin ? [candidate.name, why] : [],
        );
      const now = linesOf(this.#ownership.leftOut);
      if (changed || now.join() !== linesOf(before).join()) source.inForceChanged?.();
    }
  }
}

/** One write of them all. Puts go last, because a policy may write a key that another one has just deleted. */
function merged(all: readonly StoreWrites[]): StoreWrites {
  const entries = all.flatMap((writes) => [...writes]);
  const isDelete = (entry: (typeof entries)[number]) => entry[1] === undefined;
  return new Map([...entries.filter(isDelete), ...entries.filter((entry) => !isDelete(entry))]);
}

/** The hash of a policy does not cover its targets, because agents do not read them. */
function isSameVersion(left: PolicyVersion, right: PolicyVersion): boolean {
  const targets = ({ policy }: PolicyVersion) => policy.needs.map(({ target }) => target);
  return (
    left.policy.hash === right.policy.hash &&
    left.origin === right.origin &&
    JSON.stringify(targets(left)) === JSON.stringify(targets(right))
  );
}

function isEqual(left: JsonObject | undefined, right: JsonObject | undefined): boolean {
  return left === right || JSON.stringify(left) === JSON.stringify(right);
}
