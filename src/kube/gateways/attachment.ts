// The object that makes a gateway call agents about the requests of a target, or the reason why there is none. The controller
// of the gateway's class determines the control plane, and so the kind of object.

import { createHash } from "node:crypto";
import type { Target } from "#policy/document/targets.ts";
import { fieldOf, type KubeObject, type OwnerReference, type Resource } from "../api/objects.ts";
import type { AttachSettings } from "./attach-settings.ts";
import { securityPolicy, unaccepted } from "./envoy-gateway.ts";
import { envoyFilter } from "./istio.ts";

/** A control plane that Sluice can configure. */
export interface ControlPlane {
  readonly name: string;
  readonly kind: string;
  readonly resource: Resource;
  /** The spec of its object; text if it cannot express the target. */
  readonly specOf: (target: Target, settings: AttachSettings) => object | string;
  /** The reason, from the object's status, why the control plane does not apply it; undefined when it does. */
  readonly fault: (object: unknown, generation: number) => string | undefined;
}

/** By the name of the controller in a GatewayClass. */
export const CONTROL_PLANES = {
  "gateway.envoyproxy.io/gatewayclass-controller": {
    name: "Envoy Gateway",
    kind: "SecurityPolicy",
    resource: {
      group: "gateway.envoyproxy.io",
      version: "v1alpha1",
      plural: "securitypolicies",
    },
    specOf: securityPolicy,
    fault: unaccepted,
  },
  "istio.io/gateway-controller": {
    name: "Istio",
    kind: "EnvoyFilter",
    resource: { group: "networking.istio.io", version: "v1alpha3", plural: "envoyfilters" },
    specOf: envoyFilter,
    // Istio writes no status of EnvoyFilters.
    fault: () => undefined,
  },
} as const satisfies Readonly<Record<string, ControlPlane>>;

/** The label by which a controller finds the objects that it wrote. */
export const OWN_LABEL = "fluxninja.com/attached-by";
export const OWN_VALUE = "sluice-controller";

export interface WantedObject {
  readonly plane: ControlPlane;
  readonly object: KubeObject & { readonly spec: object };
}

export interface Attachment {
  readonly wanted: readonly WantedObject[];
  /** Reasons why requests of the target, or some of them, are not checked whatever is applied. */
  readonly faults: readonly string[];
}

/** `controllers` belong to the classes of the target's gateways; `owners` are the policies that attach to the target. */
export function attachmentOf(
  target: Target,
  controllers: readonly string[],
  owners: readonly OwnerReference[],
  settings: AttachSettings,
): Attachment {
  const wanted: WantedObject[] = [];
  const faults: string[] = [];
  for (const controller of new Set(controllers)) {
    const plane = planeOf(controller);
    const spec = plane?.specOf(target, settings) ?? unknownController(controller);
    if (plane === undefined || typeof spec === "string") {
      faults.push(String(spec));
      continue;
    }
    const { group, version } = plane.resource;
    const object = {
      apiVersion: `${group}/${version}`,
      kind: plane.kind,
      metadata: {
        name: objectName(target),
        namespace: target.namespace,
        labels: { [OWN_LABEL]: OWN_VALUE },
        ownerReferences: owners.toSorted((left, right) => (left.uid < right.uid ? -1 : 1)),
      },
      spec,
    };
    wanted.push({ plane, object });
  }
  return { wanted, faults };
}

function planeOf(controller: string): ControlPlane | undefined {
  return Object.entries(CONTROL_PLANES).find(([name]) => name === controller)?.[1];
}

function unknownController(controller: string): string {
  const known = Object.entries(CONTROL_PLANES).map(([name, plane]) => `${plane.name} (${name})`);
  return `Sluice cannot configure its controller ${controller}, only ${known.join(" and ")}`;
}

const MAX_NAME = 253;

/** The same for all policies of a target, because control planes accept one object per target. */
export function objectName({ kind, name, section, controlPoint }: Target): string {
  const plain = `sluice-${kind.toLowerCase()}-${name}`;
  if (section === undefined && plain.length <= MAX_NAME) return plain;
  const digest = createHash("sha256").update(controlPoint).digest("hex").slice(0, 8);
  return `${plain.slice(0, MAX_NAME - digest.length - 1)}-${digest}`;
}

/** True if an object contains all wanted values; the server may have added defaults. */
export function has(found: unknown, wanted: unknown): boolean {
  if (typeof wanted !== "object" || wanted === null) return found === wanted;
  if (Array.isArray(wanted)) {
    if (!Array.isArray(found) || found.length !== wanted.length) return false;
    return wanted.every((each, at) => has(found[at], each));
  }
  return Object.entries(wanted).every(([name, value]) => has(fieldOf(found, name), value));
}
