import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

/** The law of the tree: who may import whom. `base` is open to all and knows nobody. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: [],
  flow: [],
  circuit: [],
  policy: ["flow", "circuit"],
  wire: [],
  config: [],
  host: [],
  api: ["flow", "wire", "serve"],
  fleet: ["flow", "wire"],
  serve: ["wire"],
  store: ["flow", "circuit", "wire"],
  kube: ["wire"],
  prometheus: ["wire"],
  telemetry: ["flow", "circuit", "wire"],
  agent: [
    ...["flow", "api", "wire", "config", "serve", "store"],
    ...["fleet", "kube", "prometheus", "telemetry", "host"],
  ],
  controller: [
    ...["flow", "circuit", "policy", "api", "wire", "config", "serve", "store"],
    ...["kube", "prometheus", "telemetry", "host"],
  ],
  standalone: ["agent", "controller", "config", "store", "host"],
  cli: [
    ...["agent", "controller", "standalone", "config", "host"],
    ...["flow", "circuit", "policy", "api", "wire", "store"],
  ],
};

/** Rooms that touch no socket, file, clock or environment; packages only where listed. */
const PURE: Readonly<Record<string, readonly string[]>> = {
  base: [],
  flow: ["re2js", "flatqueue"],
  circuit: [],
  policy: ["yaml", "re2js"],
};

const IMPORT = /(?:from|import)\s*\(?\s*"([^"]+)"/g;

const files = globSync("src/**/*.ts");

test("there is something to check", () => assert.notEqual(files.length, 0));

for (const file of files) {
  const room = file.split("/")[1] ?? "";
  test(file, () => {
    assert.ok(room in MAY_IMPORT, `${room} is not a room`);
    for (const [, target = ""] of readFileSync(file, "utf8").matchAll(IMPORT)) {
      if (target.startsWith("#")) {
        const [other = "", ...inner] = target.slice(1).split("/");
        const known = other === room || other === "base" || MAY_IMPORT[room]?.includes(other);
        assert.ok(known, `${room} may not import ${other}`);
        assert.ok(
          other === room || inner.length === 1,
          `${target}: folders inside a room are private`,
        );
      } else if (target.startsWith(".")) {
        const inside = join(dirname(file), target).startsWith(`src/${room}/`);
        assert.ok(inside, `${target}: cross rooms with #room/`);
      } else {
        assert.ok(
          PURE[room]?.includes(target) ?? true,
          `${room} is pure and may not import ${target}`,
        );
      }
    }
  });
}
