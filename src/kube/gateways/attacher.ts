// Attaches policies to gateways and routes: follows gateways, routes and the status of control planes, and writes the objects
// that make gateways call agents. The writes are a function of the known objects, so their order does not matter.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { Target } from "#policy/document/targets.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";
import { needsAttachment } from "#policy/unmet-needs.ts";
import type { KubeClient } from "../api/client.ts";
import { fieldOf, listOf, type OwnerReference, pathOf } from "../api/objects.ts";
import type { AttachSettings } from "./attach-settings.ts";
import {
  type Attachment,
  attachmentOf,
  CONTROL_PLANES,
  type ControlPlane,
  has,
  objectName,
  type WantedObject,
} from "./attachment.ts";
import { GatewayClasses, GatewayObjects } from "./followed.ts";

export interface AttacherOptions {
  readonly client: KubeClient;
  readonly settings: AttachSettings;
  /** Called when the fault of a target changed. */
  readonly changed: () => void;
  /** Called with a fault when gateways and routes are unknown, and with undefined when they are known. */
  readonly followed: (fault: Fault | undefined) => void;
  /** Called after `close`. */
  readonly closed: () => void;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Pick<Log, "info" | "warn">;
}

/** A policy resource and its targets. */
export interface Attached {
  readonly namespace: string;
  readonly owner: OwnerReference;
  /** Undefined for an invalid document: existing objects stay. */
  readonly targets: readonly Target[] | undefined;
}

const MANAGER = "sluice-controller";
/** Milliseconds until an object that could not be written, or that somebody else changed, is written again. */
const RETRY_MS = 5_000;
const WRITTEN = "it has just been configured";
const UNDER_WAY = "the controller has not looked at it yet";

interface Write {
  readonly text: string;
  readonly at: number;
  /** The version that it replaced; undefined for a new object. */
  readonly replaced: string | undefined;
  /** True if it reverted somebody else's change of the previous write. */
  readonly corrects: boolean;
  /** True if the watch has reported it. */
  seen: boolean;
}

export class Attacher {
  readonly #options: AttacherOptions;
  readonly #classes: GatewayClasses;
  /** By namespace. */
  readonly #objects = new Map<string, GatewayObjects>();
  readonly #closing = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  #policies: readonly Attached[] = [];
  /** Control points of their targets. */
  #wanted: ReadonlySet<string> = new Set();
  /** The last `set` as JSON, for comparison. */
  #text = "";
  /** By control point; undefined for a target whose requests are checked. */
  #faults: ReadonlyMap<string, string | undefined> = new Map();
  #due = false;
  /** The first failed write or removal of the last round. */
  #writeFault: Fault | undefined;
  #working: Promise<void> | undefined;
  /** The last write of each object, by path. */
  readonly #writes = new Map<string, Write>();
  #disarm: () => void = () => undefined;

  constructor(options: AttacherOptions) {
    this.#options = options;
    this.#classes = new GatewayClasses({ ...options, changed: () => this.#wake() });
  }

  /** Attaches exactly these policies. */
  set(policies: readonly Attached[]): void {
    const text = JSON.stringify(policies);
    if (text === this.#text || this.#stop.signal.aborted) return;
    this.#text = text;
    this.#policies = policies;
    this.#wanted = new Set(
      policies.flatMap(({ targets = [] }) => targets.map(({ controlPoint }) => controlPoint)),
    );
    const namespaces = new Set(policies.map(({ namespace }) => namespace));
    for (const [namespace, objects] of this.#objects) {
      if (namespaces.has(namespace)) continue;
      // The policies own the objects, so the cluster deletes them together.
      this.#objects.delete(namespace);
      this.#close(objects.close());
    }
    for (const namespace of namespaces) {
      if (this.#objects.has(namespace)) continue;
      const changed = () => this.#wake();
      this.#objects.set(namespace, new GatewayObjects({ ...this.#options, namespace, changed }));
    }
    if (namespaces.size > 0) this.#classes.follow();
    this.#wake();
  }

  /** The reason why requests of a target are not checked; undefined when they are. */
  faultOf({ controlPoint }: Target): string | undefined {
    return this.#faults.has(controlPoint) ? this.#faults.get(controlPoint) : UNDER_WAY;
  }

  /** Warnings about a target in a policy of any source. */
  warningsOf(target: Target): readonly Omit<PolicyWarning, "path">[] {
    const { kind, namespace, name, controlPoint } = target;
    // The targets of an invalid policy are unknown.
    if (!this.#wanted.has(controlPoint))
      return this.#policies.some(({ targets }) => targets === undefined)
        ? []
        : needsAttachment(target);
    const why = this.faultOf(target);
    const text = `requests of the ${kind} ${namespace}/${name} are not checked, or only some of them`;
    return why === undefined ? [] : [{ code: "not_attached", text, why }];
  }

  /** The reason why gateways are unknown; undefined when they are known, or the cluster lacks their kinds. */
  get #fault(): Fault | undefined {
    const all = [this.#classes.fault, ...[...this.#objects.values()].map(({ fault }) => fault)];
    return all.find((fault) => fault !== undefined && fault.code !== "NOT_FOUND");
  }

  /** Stops following. Written objects stay. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#disarm();
    for (const objects of this.#objects.values()) this.#close(objects.close());
    await Promise.all([...this.#closing, this.#classes.close(), this.#working]);
    this.#options.closed();
  }

  #close(closed: Promise<void>): void {
    const closing = closed.finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  #wake(): void {
    this.#due = true;
    if (this.#stop.signal.aborted) return;
    this.#working ??= this.#rounds().finally(() => {
      this.#working = undefined;
      // A wake-up may have come after the last round.
      if (this.#due) this.#wake();
    });
  }

  async #rounds(): Promise<void> {
    const { signal } = this.#stop;
    // Changes of one turn of the event loop share a round.
    await undefined;
    while (this.#due && !signal.aborted) {
      this.#due = false;
      const faults = await this.#round();
      if (signal.aborted) return;
      this.#options.followed(this.#fault ?? this.#writeFault);
      const isSame = JSON.stringify([...faults]) === JSON.stringify([...this.#faults]);
      this.#faults = faults;
      if (!isSame) this.#options.changed();
    }
  }

  /** Writes missing objects, removes unwanted ones, and returns the fault of each target. */
  async #round(): Promise<ReadonlyMap<string, string | undefined>> {
    const faults = new Map<string, string | undefined>();
    /** Paths of objects that stay. */
    const kept = new Set<string>();
    this.#writeFault = undefined;
    for (const { target, owners } of this.#targets()) {
      const found = this.#attachmentOf(target, [...owners, ...this.#faultyOwnersOf(target)]);
      if (typeof found === "string") {
        // Existing objects stay until more is known.
        for (const plane of Object.values(CONTROL_PLANES)) kept.add(placeOf(plane, target));
        faults.set(target.controlPoint, found);
        continue;
      }
      const whys = [...found.faults];
      for (const wanted of found.wanted) {
        const place = placeOf(wanted.plane, target);
        kept.add(place);
        const why = await this.#apply(wanted, place);
        if (why !== undefined) whys.push(why);
      }
      faults.set(target.controlPoint, whys.length === 0 ? undefined : whys.join("; "));
    }
    for (const path of this.#writes.keys()) if (!kept.has(path)) this.#writes.delete(path);
    await this.#removeAllBut(kept);
    if (this.#writeFault !== undefined) this.#retry();
    return faults;
  }

  /** All targets, each with the policies that attach to it. */
  #targets(): Iterable<{ readonly target: Target; readonly owners: readonly OwnerReference[] }> {
    const targets = new Map<string, { target: Target; owners: OwnerReference[] }>();
    for (const { owner, targets: own = [] } of this.#policies) {
      for (const target of own) {
        const known = targets.get(target.controlPoint) ?? { target, owners: [] };
        known.owners.push(owner);
        targets.set(target.controlPoint, known);
      }
    }
    return targets.values();
  }

  /** Text if the target's gateways are unknown; existing objects stay. */
  #attachmentOf(target: Target, owners: readonly OwnerReference[]): Attachment | string {
    const controllers = this.#objects.get(target.namespace)?.controllersOf(target, this.#classes);
    if (controllers === undefined) return UNDER_WAY;
    if (typeof controllers === "string") return controllers;
    return attachmentOf(target, controllers, owners, this.#options.settings);
  }

  /** Returns the reason why requests are not checked; undefined when they are. */
  async #apply({ plane, object }: WantedObject, path: string): Promise<string | undefined> {
    const { client, clock, log } = this.#options;
    const { signal } = this.#stop;
    const { namespace = "", name } = object.metadata;
    const followed = this.#objects.get(namespace);
    const before = followed?.written(plane, name);
    const text = JSON.stringify(object);
    const last = this.#writes.get(path);
    if (before !== undefined && isWritten(before, object)) {
      if (last?.text === text) last.seen = true;
      return plane.fault(before, before.metadata.generation ?? 0);
    }
    // Before the first list it is unknown whether the object exists.
    const away = followed?.awayFrom(plane);
    if (away !== undefined) return `the controller cannot follow ${plane.resource.plural}: ${away}`;
    const isRecent = last?.text === text && clock.now() - last.at < RETRY_MS;
    if (isRecent) this.#retry();
    const version = before?.metadata.resourceVersion;
    // The watch has reported nothing since the write.
    if (isRecent && !last.seen && version === last.replaced) return WRITTEN;
    if (isRecent && last.corrects) {
      // Otherwise two controllers could revert each other's changes without end.
      const why = `somebody else keeps changing the ${plane.kind} ${name}, which is written again within ${RETRY_MS / 1_000} s`;
      this.#writeFault ??= new Fault("ABORTED", why);
      return why;
    }
    try {
      const patch = { apply: object, manager: MANAGER };
      const stored = await client.patch(plane.resource, { namespace, name }, patch, signal);
      if (!isWritten(stored, object)) {
        const why = "the API server stored something else, because of its version or a webhook";
        throw new Fault("FAILED_PRECONDITION", why);
      }
      const at = clock.now();
      this.#writes.set(path, { text, at, replaced: version, corrects: isRecent, seen: false });
      log.info({ namespace, name }, `wrote the ${plane.kind} of an attached policy`);
      // The watch will report it with its status.
      return WRITTEN;
    } catch (thrown) {
      const { code, message } = Fault.from(thrown);
      const why = `the ${plane.kind} ${name} was not written: ${message}`;
      this.#writeFault ??= new Fault(code, why);
      return why;
    }
  }

  /** Removes objects of this controller that no policy wants any more. */
  async #removeAllBut(kept: ReadonlySet<string>): Promise<void> {
    const { client, log } = this.#options;
    const { signal } = this.#stop;
    const faulty = this.#faulty;
    for (const [namespace, objects] of this.#objects) {
      for (const plane of Object.values(CONTROL_PLANES)) {
        for (const { metadata } of objects.allWritten(plane)) {
          const { name, ownerReferences = [] } = metadata;
          if (kept.has(pathOf(plane.resource, { namespace, name }))) continue;
          if (ownerReferences.some(({ uid }) => faulty.has(uid))) continue;
          try {
            await client.delete(plane.resource, { namespace, name }, signal);
            log.info(
              { namespace, name },
              `removed the ${plane.kind} that no policy wants any more`,
            );
          } catch (thrown) {
            if (signal.aborted) return;
            const { code, message } = Fault.from(thrown);
            const why = `the ${plane.kind} ${name} was not removed: ${message}`;
            this.#writeFault ??= new Fault(code, why);
          }
        }
      }
    }
  }

  /** The uids of invalid policies. Their objects stay. */
  get #faulty(): ReadonlySet<string> {
    return new Set(
      this.#policies.flatMap(({ owner, targets }) => (targets === undefined ? [owner.uid] : [])),
    );
  }

  /** The invalid policies that own an object of this target: they keep owning it. */
  #faultyOwnersOf(target: Target): readonly OwnerReference[] {
    const faulty = this.#faulty;
    const objects = this.#objects.get(target.namespace);
    const owners = Object.values(CONTROL_PLANES).flatMap((plane) => {
      const { ownerReferences = [] } = objects?.written(plane, objectName(target))?.metadata ?? {};
      return ownerReferences.filter(({ uid }) => faulty.has(uid));
    });
    return [...new Map(owners.map((owner) => [owner.uid, owner])).values()];
  }

  #retry(): void {
    this.#disarm();
    if (this.#stop.signal.aborted) return;
    this.#disarm = this.#options.clock.alarm(RETRY_MS, () => this.#wake());
  }
}

function placeOf({ resource }: ControlPlane, target: Target): string {
  return pathOf(resource, { namespace: target.namespace, name: objectName(target) });
}

function isWritten(found: object, { metadata, ...wanted }: WantedObject["object"]): boolean {
  const of = fieldOf(found, "metadata");
  const owners = listOf(of, "ownerReferences") as readonly OwnerReference[];
  const sorted = owners.toSorted((left, right) => (left.uid < right.uid ? -1 : 1));
  const { labels, ownerReferences } = metadata;
  return (
    has(sorted, ownerReferences) &&
    has(fieldOf(of, "labels"), labels) &&
    has(fieldOf(found, "spec"), wanted.spec)
  );
}
