// The law of the tree as a test: which room may import which, what is private to a room, and what pure
// rooms keep away from.

import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

/** Who may import whom. `base` is open to all and knows nobody. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: [],
  flow: [],
  policy: ["flow"],
  wire: [],
  config: [],
  host: [],
  serve: ["wire"],
  api: ["flow", "wire", "serve"],
  store: ["flow", "wire"],
  telemetry: ["flow", "wire"],
  agent: ["flow", "api", "wire", "config", "serve", "store", "telemetry", "host"],
  controller: ["flow", "policy", "config", "store", "telemetry", "host"],
  standalone: ["agent", "controller", "config", "store", "telemetry", "host"],
  cli: ["standalone", "config", "host", "policy"],
};

/** Rooms that touch no socket, file, clock or environment; packages only where listed. */
const PURE: Readonly<Record<string, readonly string[]>> = {
  base: [],
  flow: ["re2js"],
  policy: ["yaml", "re2js"],
};

const IMPORT = /(?:\bfrom\s+|\bimport\s+|\bimport\(\s*)"([^"]+)"/g;

const files = globSync("src/**/*.ts");

test("every room of the table is there, and no other", () => {
  const rooms = new Set(files.map((file) => file.split("/")[1]));
  assert.deepEqual([...rooms].sort(), Object.keys(MAY_IMPORT).sort());
});

test("every room says in a README what it is", () => {
  for (const room of Object.keys(MAY_IMPORT)) assert.ok(existsSync(`src/${room}/README.md`), room);
});

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
