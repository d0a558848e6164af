// The objects on which attachment depends: the gateways and routes of a namespace, the objects that were written for them, and
// the gateway classes of the cluster.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Fault } from "#base/fault.ts";
import { TARGET_GROUP, type Target } from "#policy/document/targets.ts";
import type { KubeClient } from "../api/client.ts";
import { fieldOf, type KubeObject, listOf, type Resource, textOf } from "../api/objects.ts";
import { Reflector } from "../api/reflector.ts";
import { CONTROL_PLANES, type ControlPlane, OWN_LABEL, OWN_VALUE } from "./attachment.ts";

interface FollowedOptions {
  readonly client: KubeClient;
  /** Called after each change. */
  readonly changed: () => void;
  readonly clock: Clock;
  readonly chance: Chance;
}

type Followed = Pick<Reflector<unknown>, "follow" | "following" | "close">;

const gatewayApi = (plural: string): Resource => ({ group: TARGET_GROUP, version: "v1", plural });

export class GatewayClasses {
  readonly #reflector: Reflector<string>;
  #begun = false;

  constructor({ client, changed, clock, chance }: FollowedOptions) {
    this.#reflector = new Reflector({
      client,
      resource: gatewayApi("gatewayclasses"),
      keep: (object) => textOf(fieldOf(object, "spec"), "controllerName"),
      changed,
      followed: changed,
      clock,
      chance,
    });
  }

  follow(): void {
    if (!this.#begun) this.#reflector.follow();
    this.#begun = true;
  }

  /** The controller of a class; undefined if the class does not exist. */
  controllerOf(name: string): string | undefined {
    return this.#reflector.get(name);
  }

  /** The reason why the classes are unknown; undefined when they are known. */
  get away(): string | undefined {
    return awayOf(this.#reflector);
  }

  get fault(): Fault | undefined {
    return faultOf(this.#reflector);
  }

  close(): Promise<void> {
    return this.#reflector.close();
  }
}

/** The part of an object that is kept: the class of a Gateway, or the controllers of an HTTPRoute's gateways. */
type Parent = string | readonly string[];

export class GatewayObjects {
  readonly #targets: Readonly<Record<Target["kind"], Reflector<Parent>>>;
  readonly #written: ReadonlyMap<ControlPlane, Reflector<KubeObject>>;
  readonly #namespace: string;

  constructor({
    client,
    namespace,
    changed,
    clock,
    chance,
  }: FollowedOptions & { readonly namespace: string }) {
    this.#namespace = namespace;
    const own = { client, changed, followed: changed, clock, chance };
    const selection = { namespace };
    this.#targets = {
      Gateway: new Reflector<Parent>({
        ...own,
        selection,
        resource: gatewayApi("gateways"),
        keep: (object) => textOf(fieldOf(object, "spec"), "gatewayClassName"),
      }),
      HTTPRoute: new Reflector<Parent>({
        ...own,
        selection,
        resource: gatewayApi("httproutes"),
        keep: controllersIn,
      }),
    };
    const labelled = { ...selection, labelSelector: `${OWN_LABEL}=${OWN_VALUE}` };
    this.#written = new Map(
      Object.values(CONTROL_PLANES).map((plane) => [
        plane,
        new Reflector({
          ...own,
          selection: labelled,
          resource: plane.resource,
          keep: (object) => object,
        }),
      ]),
    );
    for (const reflector of this.#all()) reflector.follow();
  }

  /** The controllers of a target's gateways; text if they are unknown or the target does not exist. */
  controllersOf(
    { kind, namespace, name }: Target,
    classes: GatewayClasses,
  ): readonly string[] | string {
    const away = awayOf(this.#targets[kind]);
    if (away !== undefined) return `the controller cannot follow objects of kind ${kind}: ${away}`;
    const parent = this.#targets[kind].get(`${namespace}/${name}`);
    if (parent === undefined) return `there is no ${kind} ${namespace}/${name}`;
    if (typeof parent !== "string") {
      return parent.length > 0 ? parent : "no controller of a gateway has accepted the route yet";
    }
    if (classes.away !== undefined)
      return `the controller cannot follow objects of kind GatewayClass: ${classes.away}`;
    const controller = classes.controllerOf(parent);
    return controller === undefined ? `there is no GatewayClass ${parent}` : [controller];
  }

  written(plane: ControlPlane, name: string): KubeObject | undefined {
    return this.#written.get(plane)?.get(`${this.#namespace}/${name}`);
  }

  *allWritten(plane: ControlPlane): Generator<KubeObject> {
    for (const [, object] of this.#written.get(plane)?.entries() ?? []) yield object;
  }

  /** The reason why the objects of a control plane are unknown; undefined when they are known. */
  awayFrom(plane: ControlPlane): string | undefined {
    const reflector = this.#written.get(plane);
    return reflector && awayOf(reflector);
  }

  get fault(): Fault | undefined {
    return this.#all()
      .map(faultOf)
      .find((fault) => fault !== undefined && fault.code !== "NOT_FOUND");
  }

  async close(): Promise<void> {
    await Promise.all(this.#all().map((reflector) => reflector.close()));
  }

  #all(): readonly Followed[] {
    return [...Object.values(this.#targets), ...this.#written.values()];
  }
}

/** A route's status has an entry for each of its gateways, which may be in other namespaces. */
function controllersIn(route: KubeObject): readonly string[] {
  const parents = listOf(fieldOf(route, "status"), "parents");
  const controllers = parents.map((parent) => textOf(parent, "controllerName"));
  return [...new Set(controllers.filter((controller) => controller !== ""))].sort();
}

function faultOf({ following }: Followed): Fault | undefined {
  return following.state === "away" ? following.fault : undefined;
}

function awayOf({ following }: Followed): string | undefined {
  if (following.state === "following") return undefined;
  return following.state === "away" ? following.fault.message : "they are being listed";
}
