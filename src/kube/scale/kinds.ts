// The kinds of objects that have a `/scale` sub-resource, from the API discovery of the server, including custom resources.
// Every account may read it.

import { Fault } from "#base/fault.ts";
import type { KubeClient } from "../api/client.ts";
import { fieldOf, listOf, type Resource, textOf } from "../api/objects.ts";

export interface ScalableKind {
  readonly apiVersion: string;
  readonly kind: string;
  readonly resource: Resource;
}

/** The most kinds of a cluster; about ten are usual. */
const MAX_KINDS = 1_000;

/** One document for all groups, available since Kubernetes 1.27. */
const DISCOVERY = ["v2", "v2beta1"]
  .map((version) => `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`)
  .join();

/** @throws Fault when they cannot be read */
export async function scalableKinds(
  client: KubeClient,
  signal?: AbortSignal,
): Promise<readonly ScalableKind[]> {
  const documents = await Promise.all(
    ["/api", "/apis"].map((path) => client.read(path, signal, DISCOVERY)),
  );
  const kinds = documents.flatMap(kindsIn);
  if (kinds.length <= MAX_KINDS) return kinds;
  const message = `the cluster has ${kinds.length} kinds with a scale, more than ${MAX_KINDS}`;
  throw new Fault("RESOURCE_EXHAUSTED", message);
}

function kindsIn(document: unknown): readonly ScalableKind[] {
  if (textOf(document, "kind") !== "APIGroupDiscoveryList") {
    const wanted = "wanted the discovery of all API groups, which Kubernetes has since 1.27";
    throw new Fault("FAILED_PRECONDITION", `${wanted}, got ${textOf(document, "kind") || "none"}`);
  }
  return listOf(document, "items").flatMap((of) => {
    const group = textOf(fieldOf(of, "metadata"), "name");
    return listOf(of, "versions").flatMap((served) => {
      const version = textOf(served, "version");
      return listOf(served, "resources")
        .filter(isScalable)
        .map((resource) => ({
          apiVersion: group === "" ? version : `${group}/${version}`,
          kind: textOf(fieldOf(resource, "responseKind"), "kind"),
          resource: { group, version, plural: textOf(resource, "resource") },
        }));
    });
  });
}

/** Policies cannot name cluster-scoped objects. */
function isScalable(resource: unknown): boolean {
  return (
    textOf(resource, "scope") === "Namespaced" &&
    listOf(resource, "subresources").some(
      (each) =>
        textOf(each, "subresource") === "scale" &&
        textOf(fieldOf(each, "responseKind"), "kind") === "Scale",
    )
  );
}
