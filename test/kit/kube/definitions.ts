// The custom resource definitions of Istio, Envoy Gateway, Contour and the Gateway API, for a real API server.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { gatewayDefinitions } from "../../../deploy/tools/gateways.ts";
import { type KubeClient, objectsIn } from "./client.ts";

/** Group and kind, of an object or of what a definition defines. */
export const nameOf = (group: string, kind: string) => `${group}/${kind}`;

/** Installs the definitions of these kinds, which stay there; the others would only cost time. */
export async function define(client: KubeClient, wanted: ReadonlySet<string>): Promise<void> {
  const text = readFileSync(gatewayDefinitions().resources, "utf8");
  const found = objectsIn(text).filter(
    ({ kind, spec }) =>
      kind === "CustomResourceDefinition" && wanted.has(nameOf(spec.group, spec.names.kind)),
  );
  assert.deepEqual(
    found.map(({ spec }) => nameOf(spec.group, spec.names.kind)).sort(),
    [...wanted].sort(),
  );
  for (const definition of found) {
    await client.apply([definition]);
    const { apiVersion, kind, metadata } = definition;
    const ref = { apiVersion, kind, name: metadata.name };
    await client.wait(ref, "it is established", ({ status }) =>
      (status?.conditions ?? []).some(
        (each: { type: string; status: string }) =>
          each.type === "Established" && each.status === "True",
      ),
    );
  }
}
