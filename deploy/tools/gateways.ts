// Definitions of the configuration of Istio, Envoy Gateway and Contour, from their own modules: tests compare recipes
// with them. The modules are only downloaded.

import { execFileSync } from "node:child_process";
import { cpSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fromModule } from "./go-module.ts";

/** Definitions of custom resources in each module. Those of the Gateway API come with Envoy Gateway. */
const DEFINITIONS: Readonly<Record<string, string>> = {
  "istio.io/api": "kubernetes/*.yaml",
  "github.com/envoyproxy/gateway": "charts/gateway-helm/charts/crds/crds/**/*.yaml",
  "github.com/projectcontour/contour": "examples/contour/01-crds.yaml",
};
const MESH = "mesh/v1alpha1/config.proto";
const BUF = join(import.meta.dirname, "../../node_modules/.bin/buf");

export interface GatewayDefinitions {
  /** Path of a file with all CustomResourceDefinitions. */
  readonly resources: string;
  /** Path of a FileDescriptorSet that describes `istio.mesh.v1alpha1.MeshConfig`, which is no resource. */
  readonly mesh: string;
}

interface Downloaded {
  readonly Path: string;
  readonly Dir: string;
}

/** Downloads the modules if they are missing. */
export function gatewayDefinitions(): GatewayDefinitions {
  const folder = fromModule("gateways", { module: "gateways" }, (go, target) => {
    const texts: string[] = [];
    // The command prints one object after the other.
    const objects = go("mod", "download", "-json").trim().replaceAll("}\n{", "},{");
    for (const { Path, Dir } of JSON.parse(`[${objects}]`) as readonly Downloaded[]) {
      const found = globSync(DEFINITIONS[Path] ?? "", { cwd: Dir }).sort();
      if (found.length === 0) throw new Error(`${Path} has no definitions`);
      texts.push(...found.map((file) => readFileSync(join(Dir, file), "utf8")));
      if (Path === "istio.io/api") describeMesh(Dir, target);
    }
    writeFileSync(join(target, "resources.yaml"), texts.join("\n---\n"));
  });
  return { resources: join(folder, "resources.yaml"), mesh: join(folder, "mesh.binpb") };
}

/** buf takes a folder in which every import is found, which the module is not. */
function describeMesh(module: string, target: string): void {
  const protos = join(target, "protos");
  for (const own of ["mesh", "networking", "type"])
    copyProtos(join(module, own), join(protos, own));
  copyProtos(join(module, "common-protos/google/api"), join(protos, "google/api"));
  const out = join(target, "mesh.binpb");
  execFileSync(BUF, ["build", ".", "--path", MESH, "-o", out], { cwd: protos, stdio: "pipe" });
}

/** Copies the files one by one, because modules in Go's cache are read-only, folders included. */
function copyProtos(from: string, to: string): void {
  for (const file of globSync("**/*.proto", { cwd: from })) {
    cpSync(join(from, file), join(to, file), { recursive: true });
  }
}
