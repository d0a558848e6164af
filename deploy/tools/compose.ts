// The schema of Compose files, from the module that Compose itself reads them by.

import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { fromModule } from "./go-module.ts";

/** Path of the JSON Schema. Downloads the module if it is missing. */
export function composeSchema(): string {
  const folder = fromModule("compose", { module: "compose" }, (go, target) => {
    const { Dir: module }: { readonly Dir: string } = JSON.parse(go("mod", "download", "-json"));
    copyFileSync(join(module, "schema/compose-spec.json"), join(target, "schema.json"));
  });
  return join(folder, "schema.json");
}
