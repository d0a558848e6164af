// Finds pods of labelled namespaces that run without an agent although they would be injected now: they are older than the
// label, or were created while no injector answered. They are only counted, listed in the status and reported by events,
// because their owner has to replace them.

import { hash } from "node:crypto";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "#kube/api/client.ts";
import type { KubeObject, Resource } from "#kube/api/objects.ts";
import type { MetricSink, MetricSource } from "#telemetry/metrics/table.ts";
import { hasAgent, inject } from "../mutation/mutate.ts";
import { type Json, readPod } from "../pod.ts";
import type { ClusterAbilities, InjectionSettings, Namespace } from "../settings.ts";
import { livingPods } from "./living-pods.ts";

const EVENTS: Resource = { group: "", version: "v1", plural: "events" };

/** The most pods in the status, and the most events of one search. */
const MAX_SHOWN = 20;
const MAX_EVENTS = 100;
/** The most pods that are remembered to have an event. For others the event is created again, which has no effect. */
const MAX_REPORTED = 10_000;

export interface MissedPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

interface MissedPodsOptions {
  readonly client: KubeClient;
  readonly namespaces: () => Iterable<Namespace>;
  readonly settings: () => InjectionSettings;
  readonly abilities: () => ClusterAbilities;
  /** Unix ms. */
  readonly wall: () => number;
  readonly log: Log;
}

export class MissedPods implements MetricSource {
  readonly #options: MissedPodsOptions;
  /** Undefined before the end of the first search. */
  #found: number | undefined;
  #shown: readonly MissedPod[] = [];
  /** The uids of missed pods that have an event. */
  #reported: ReadonlySet<string> = new Set();

  constructor(options: MissedPodsOptions) {
    this.#options = options;
  }

  collect(to: MetricSink): void {
    if (this.#found !== undefined) to.number("sluice_injector_missed_pods", [], this.#found);
  }

  get #count(): number {
    return this.#found ?? 0;
  }

  get summary(): string {
    if (this.#count === 0) return "no pod of a labelled namespace lacks its agent";
    const names = this.#shown.map(({ namespace, name }) => `${namespace}/${name}`).join(", ");
    const more = this.#count > this.#shown.length ? ", …" : "";
    return `${this.#count} pods of labelled namespaces lack their agent until they are replaced: ${names}${more}`;
  }

  /** @throws Fault when the API server does not answer; the last result stays then */
  async search(signal: AbortSignal): Promise<void> {
    const { namespaces, log } = this.#options;
    let count = 0;
    const shown: MissedPod[] = [];
    const still = new Set<string>();
    let events = 0;
    for (const namespace of [...namespaces()]) {
      for await (const pod of this.#missedIn(namespace, signal)) {
        count++;
        if (shown.length < MAX_SHOWN) shown.push(pod);
        const isReported =
          this.#reported.has(pod.uid) ||
          (events++ < MAX_EVENTS && (await this.#report(pod, signal)));
        if (isReported && still.size < MAX_REPORTED) still.add(pod.uid);
      }
    }
    const before = this.#count;
    this.#found = count;
    this.#shown = shown;
    this.#reported = still;
    if (count > before) log.warn({ missed: count }, this.summary);
    else if (count === 0 && before > 0) log.info({}, this.summary);
  }

  async *#missedIn(namespace: Namespace, signal: AbortSignal): AsyncGenerator<MissedPod> {
    for await (const object of livingPods(this.#options.client, namespace.name, signal)) {
      if (!this.#isMissed(object, namespace)) continue;
      const { name, uid = "" } = object.metadata;
      yield { namespace: namespace.name, name, uid };
    }
  }

  #isMissed(object: KubeObject, namespace: Namespace): boolean {
    if (object.metadata.deletionTimestamp !== undefined) return false;
    // The API server sends JSON.
    const pod = readPod(object as unknown as Json);
    if (hasAgent(pod)) return false;
    const { settings, abilities } = this.#options;
    const { outcome } = inject({ pod, namespace, settings: settings(), abilities: abilities() });
    return outcome === "injected" || outcome === "refused";
  }

  /** The event is named after its pod, so replicas write one together. Returns whether the event exists. */
  async #report({ namespace, name, uid }: MissedPod, signal: AbortSignal): Promise<boolean> {
    const { client, wall, log } = this.#options;
    const at = new Date(wall()).toISOString().replace(/\.\d+Z$/, "Z");
    const event = {
      apiVersion: "v1",
      kind: "Event",
      metadata: { namespace, name: `sluice-missed.${hash("sha256", uid).slice(0, 20)}` },
      involvedObject: { apiVersion: "v1", kind: "Pod", namespace, name, uid },
      type: "Warning",
      reason: "SluiceNotInjected",
      message:
        "The namespace asks for a Sluice agent in its pods, and this pod has none. Replace it, for example by `kubectl rollout restart`.",
      source: { component: "sluice-injector" },
      firstTimestamp: at,
      lastTimestamp: at,
      count: 1,
    };
    try {
      await client.create(EVENTS, event, signal);
      return true;
    } catch (thrown) {
      const { code, message } = Fault.from(thrown);
      if (code === "ALREADY_EXISTS") return true;
      log.warn({ namespace, pod: name }, `the event about a pod was not written: ${message}`);
      return false;
    }
  }
}
