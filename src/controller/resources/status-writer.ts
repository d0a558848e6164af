// Writes the statuses of policy resources when they are no longer right, and events about what changed. A status that cannot
// be written is tried again later, and the others do not wait for it, unless the API server is away.

import type { Clock } from "#base/clock.ts";
import { Fault, isServerAway } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "#kube/api/client.ts";
import type { RecordEvent } from "#kube/api/events.ts";
import {
  POLICY_KIND,
  POLICY_RESOURCES,
  type PolicyResource,
  policyResource,
} from "#kube/policies/resource.ts";
import { eventsBetween, hasStatus, type Known, statusOf } from "./resource-status.ts";

export interface StatusWriterOptions {
  readonly client: KubeClient;
  /** What is known of each resource now. */
  readonly known: () => readonly Known[];
  /** Called with a resource as it is stored with its new status. */
  readonly written: (resource: PolicyResource) => void;
  readonly record: RecordEvent;
  readonly clock: Clock;
  readonly log: Log;
}

/** Milliseconds between looks at what statuses say about agents and running policies. */
const REFRESH_MS = 30_000;
/** Milliseconds after which statuses that could not be written are tried again. */
const RETRY_MS = 5_000;

export class StatusWriter {
  readonly #options: StatusWriterOptions;
  readonly #stop = new AbortController();
  #writing: Promise<void> | undefined;
  /** Statuses are to be looked at again by the round under way; `all`: also for the number of agents. */
  #due: "nothing" | "state" | "all" = "nothing";
  /** Why a status cannot be written, by the name of its policy. */
  readonly #failing = new Map<string, string>();
  #disarm: () => void = () => undefined;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
  }

  /** From now on looks at all statuses now and then, until `close`. */
  start(): void {
    this.#refresh(REFRESH_MS);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#disarm();
    await this.#writing;
  }

  /** Writes the statuses that are no longer right, each once. Agents come and go too often to write each time. */
  write(due: "state" | "all" = "state"): void {
    if (this.#due !== "all") this.#due = due;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
      if (this.#due !== "nothing" && !this.#stop.signal.aborted) this.write("state");
    });
  }

  #refresh(ms: number): void {
    this.#disarm();
    if (this.#stop.signal.aborted) return;
    this.#disarm = this.#options.clock.alarm(ms, () => {
      this.write("all");
      this.#refresh(REFRESH_MS);
    });
  }

  async #writeAll(): Promise<void> {
    const { signal } = this.#stop;
    while (this.#due !== "nothing" && !signal.aborted) {
      const due = this.#due;
      this.#due = "nothing";
      const all = this.#options.known();
      this.#forgetAllBut(all.map(({ resource }) => resource.policy));
      /** Namespaces in which this controller may write no status. */
      const forbidden = new Set<string>();
      let isFaulty = false;
      for (const known of all) {
        if (signal.aborted) return;
        const { namespace } = known.resource;
        if (forbidden.has(namespace)) continue;
        const fault = await this.#writeOne(known, due);
        if (fault === undefined) continue;
        isFaulty = true;
        if (fault.code === "PERMISSION_DENIED") forbidden.add(namespace);
        if (isServerAway(fault)) break;
      }
      if (isFaulty) return this.#refresh(RETRY_MS);
    }
  }

  /** Returns the fault for which the status was not written and is to be tried again. */
  async #writeOne(known: Known, due: "state" | "all"): Promise<Fault | undefined> {
    const { client, clock, log, record, written } = this.#options;
    const { signal } = this.#stop;
    const { resource } = known;
    const status = statusOf(known, clock.wall());
    const { agents, ...state } = status;
    if (hasStatus(resource, due === "all" ? { ...state, agents } : state)) return undefined;
    const { name, namespace, policy, uid } = resource;
    const place = { name, namespace, subresource: "status" } as const;
    try {
      const patch = { merge: { metadata: { uid }, status } };
      const stored = await client.patch(POLICY_RESOURCES, place, patch, signal);
      written(policyResource(stored, client.namespace));
      for (const event of eventsBetween(resource.status, status))
        record({ ...POLICY_KIND, namespace, name, uid }, event);
      if (this.#failing.delete(policy)) log.info({ policy }, "its status is written again");
      return undefined;
    } catch (thrown) {
      const fault = Fault.from(thrown);
      const { code, message } = fault;
      // It was deleted, or made again, which the watch tells.
      if (signal.aborted || code === "NOT_FOUND" || code === "ABORTED") return undefined;
      if (message !== this.#failing.get(policy)) {
        log.warn({ policy }, `its status was not written, will be retried: ${message}`);
      }
      this.#failing.set(policy, message);
      return fault;
    }
  }

  #forgetAllBut(policies: readonly string[]): void {
    const kept = new Set(policies);
    for (const policy of this.#failing.keys()) if (!kept.has(policy)) this.#failing.delete(policy);
  }
}
