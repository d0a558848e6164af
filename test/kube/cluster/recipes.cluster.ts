// The recipes for meshes and gateways, applied to a real API server that has the definitions of Istio, Envoy Gateway, Contour and
// the Gateway API: every field exists there and has a value that is allowed. The configuration of Istio's mesh, which is no
// resource, is compared with its definition.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { createFileRegistry, fromBinary, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { parse } from "yaml";
import { gatewayDefinitions } from "../../../deploy/tools/gateways.ts";
import { type Answer, type KubeObject, objectsIn } from "../../kit/kube/client.ts";
import { namespaceOf, sharedCluster } from "../../kit/kube/control-plane.ts";
import { define, nameOf } from "../../kit/kube/definitions.ts";

const { client } = await sharedCluster({ after });

const RECIPES = join(import.meta.dirname, "../../../deploy/recipes");
/** Values of a chart, which are no objects. */
const VALUES = "istio/mesh.yaml";
const FILES = globSync("*/*.yaml", { cwd: RECIPES }).filter((file) => file !== VALUES);

const recipe = (file: string) => objectsIn(readFileSync(join(RECIPES, file), "utf8"));

const kindOf = ({ apiVersion, kind }: KubeObject) => nameOf(apiVersion.split("/")[0] ?? "", kind);

/** Applies an object as `kubectl apply --server-side --validate=strict` does. */
async function apply(object: KubeObject, namespace: string): Promise<Answer> {
  const { apiVersion, kind, metadata } = object;
  const path = await client.pathOf({ apiVersion, kind, name: metadata.name, namespace });
  return client.call(
    "PATCH",
    `${path}?fieldManager=test&fieldValidation=Strict`,
    { ...object, metadata: { ...metadata, namespace } },
    "application/apply-patch+yaml",
  );
}

// The kinds of what the recipes consist of.
await define(client, new Set(FILES.flatMap((file) => recipe(file).map(kindOf))));

for (const file of FILES) {
  test(`${file} is accepted, and with a field that does not exist it is not`, async (t) => {
    const namespace = await namespaceOf(t, client);
    for (const object of recipe(file)) {
      const { status, body, warnings } = await apply(object, namespace);
      assert.ok(status === 200 || status === 201, `${object.kind}: ${JSON.stringify(body)}`);
      assert.deepEqual(warnings, [], object.kind);
      const wrong = await apply({ ...object, spec: { ...object["spec"], sluice: {} } }, namespace);
      assert.match(`${wrong.status} ${wrong.body.message}`, /^(400|500) .*\.spec\.sluice/);
    }
  });
}

test("values that Envoy Gateway's and Contour's rules exclude are refused", async (t) => {
  const namespace = await namespaceOf(t, client);
  const changed = async (
    file: string,
    kind: string,
    change: (spec: KubeObject["spec"]) => void,
  ) => {
    const object = structuredClone(recipe(file).find((each) => each.kind === kind));
    assert.ok(object, kind);
    change(object["spec"]);
    const { status, body } = await apply(object, namespace);
    return `${status} ${body.message}`;
  };
  const extension = await changed("envoy-gateway/gateway.yaml", "SecurityPolicy", (spec) => {
    spec.extAuth.contextExtensions[0].type = "Literal";
  });
  assert.match(extension, /^422 .*contextExtensions\[0\].type: Unsupported value/);
  const timeout = await changed("contour/httpproxy.yaml", "HTTPProxy", (spec) => {
    spec.virtualhost.authorization.responseTimeout = "a while";
  });
  assert.match(timeout, /^422 .*responseTimeout/);
});

test(`${VALUES}: the configuration of the mesh has no field that MeshConfig lacks`, () => {
  const files = fromBinary(FileDescriptorSetSchema, readFileSync(gatewayDefinitions().mesh));
  const mesh = createFileRegistry(files).getMessage("istio.mesh.v1alpha1.MeshConfig");
  assert.ok(mesh);
  const { meshConfig } = parse(readFileSync(join(RECIPES, VALUES), "utf8"));
  fromJson(mesh, meshConfig as JsonValue);
  const text = JSON.stringify(meshConfig);
  assert.throws(() => fromJson(mesh, JSON.parse(text.replace("failOpen", "failureModeAllow"))));
});
