// Writes the statuses of policy resources when they change, and events about the changes. A status that cannot be written is
// retried later and delays no other status, unless the API server is away.

import type { Clock } from "#base/clock.ts";
import { Fault, isServerAway } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "../api/client.ts";
import type { RecordEvent } from "../api/events.ts";
import { POLICY_KIND, POLICY_RESOURCES, type PolicyResource, policyResource } from "./resource.ts";
import { eventsBetween, hasStatus, type ResourceState, statusOf } from "./resource-status.ts";

interface StatusWriterOptions {
  readonly client: KubeClient;
  readonly states: () => readonly ResourceState[];
  /** Called with a resource as it is stored with its new status. */
  readonly written: (resource: PolicyResource) => void;
  readonly record: RecordEvent;
  readonly clock: Clock;
  readonly log: Log;
}

/** Milliseconds between two comparisons of everything that statuses say, rollouts included. */
const REFRESH_MS = 30_000;
/** Milliseconds until statuses that could not be written are retried. */
const RETRY_MS = 5_000;

export class StatusWriter {
  readonly #options: StatusWriterOptions;
  readonly #stop = new AbortController();
  #writing: Promise<void> | undefined;
  /** What the next round compares: nothing, statuses without rollouts, or everything. */
  #due: "nothing" | "state" | "all" = "nothing";
  /** Reasons why statuses cannot be written, by policy name; empty for one that was not logged. */
  readonly #failing = new Map<string, string>();
  #disarm: () => void = () => undefined;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
  }

  /** Refreshes all statuses periodically until `close`. */
  start(): void {
    this.#refreshAfter(REFRESH_MS);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#disarm();
    await this.#writing;
  }

  /** Writes the statuses that differ. Agents come and go too often for a write each time, so `state` leaves them out. */
  write(due: "state" | "all" = "state"): void {
    if (this.#due !== "all") this.#due = due;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
      if (this.#due !== "nothing" && !this.#stop.signal.aborted) this.write("state");
    });
  }

  #refreshAfter(ms: number): void {
    this.#disarm();
    if (this.#stop.signal.aborted) return;
    this.#disarm = this.#options.clock.alarm(ms, () => {
      this.write("all");
      this.#refreshAfter(REFRESH_MS);
    });
  }

  async #writeAll(): Promise<void> {
    const { signal } = this.#stop;
    while (this.#due !== "nothing" && !signal.aborted) {
      const due = this.#due;
      this.#due = "nothing";
      /** Namespaces in which this controller may not write statuses. */
      const forbidden = new Set<string>();
      let isFaulty = false;
      for (const state of this.#inOrder()) {
        if (signal.aborted) return;
        const { namespace } = state.resource;
        if (forbidden.has(namespace)) continue;
        const fault = await this.#writeOne(state, due);
        if (fault === undefined) continue;
        isFaulty = true;
        if (fault.code === "PERMISSION_DENIED") forbidden.add(namespace);
        if (isServerAway(fault)) break;
      }
      if (isFaulty) return this.#refreshAfter(RETRY_MS);
    }
  }

  /** Statuses that failed come last, the latest at the end, so that a slow one does not keep the others waiting. */
  #inOrder(): readonly ResourceState[] {
    const states = new Map(this.#options.states().map((state) => [state.resource.policy, state]));
    const failed: ResourceState[] = [];
    for (const policy of [...this.#failing.keys()]) {
      const state = states.get(policy);
      if (state === undefined) this.#failing.delete(policy);
      else failed.push(state);
      states.delete(policy);
    }
    return [...states.values(), ...failed];
  }

  /** Returns the fault because of which the status was not written and is to be retried. */
  async #writeOne(state: ResourceState, due: "state" | "all"): Promise<Fault | undefined> {
    const { client, clock, log, record, written } = this.#options;
    const { signal } = this.#stop;
    const { resource } = state;
    const status = statusOf(state, clock.wall());
    const { agents, ...withoutAgents } = status;
    if (hasStatus(resource, due === "all" ? status : withoutAgents)) return undefined;
    const { name, namespace, policy, uid } = resource;
    const place = { name, namespace, subresource: "status" } as const;
    try {
      const patch = { merge: { metadata: { uid }, status } };
      const stored = await client.patch(POLICY_RESOURCES, place, patch, signal);
      written(policyResource(stored, client.namespace));
      for (const event of eventsBetween(resource.status, status))
        record({ ...POLICY_KIND, namespace, name, uid }, event);
      if (this.#failing.get(policy)) log.info({ policy }, "its status is written again");
      this.#failing.delete(policy);
      return undefined;
    } catch (thrown) {
      const fault = Fault.from(thrown);
      const { code, message } = fault;
      // The resource was deleted or recreated; the watch reports that.
      if (signal.aborted || code === "NOT_FOUND" || code === "ABORTED") return undefined;
      const before = this.#failing.get(policy) ?? "";
      this.#failing.delete(policy);
      // While the API server is away, one line is enough.
      const isLogged =
        isServerAway(fault) && [...this.#failing.values()].some((each) => each !== "");
      if (message !== before && !isLogged)
        log.warn({ policy }, `its status was not written, will be retried: ${message}`);
      this.#failing.set(policy, isLogged ? before : message);
      return fault;
    }
  }
}
