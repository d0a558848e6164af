// The law of the tree as a test: which room may import which, what is private to a room, and what pure
// rooms keep away from.

import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { moduleState, parse, readonlyTypes } from "./lint/module-state.ts";

/** Who may import whom. `base` is open to all and knows nobody. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: [],
  flow: [],
  circuit: [],
  promql: [],
  policy: ["flow", "circuit", "promql"],
  wire: [],
  config: [],
  host: [],
  serve: ["wire"],
  api: ["flow", "wire", "serve"],
  store: ["flow", "circuit", "policy", "wire"],
  prometheus: ["circuit", "promql", "wire"],
  telemetry: ["flow", "circuit", "wire"],
  simulate: ["flow", "circuit", "policy", "promql", "store", "telemetry"],
  agent: ["flow", "api", "wire", "config", "serve", "store", "telemetry", "host"],
  controller: [
    "circuit",
    "policy",
    "promql",
    "prometheus",
    "api",
    "serve",
    "wire",
    "config",
    "store",
    "telemetry",
    "host",
  ],
  standalone: ["agent", "controller", "config", "store", "telemetry", "host"],
  cli: ["standalone", "config", "host", "policy", "promql", "simulate"],
};

/** Rooms that touch no socket, file, clock or environment; packages only where listed. */
const PURE: Readonly<Record<string, readonly string[]>> = {
  base: [],
  flow: ["re2js"],
  circuit: [],
  promql: ["@lezer/common", "@prometheus-io/lezer-promql", "re2js"],
  policy: ["yaml", "re2js"],
  simulate: ["yaml"],
};

/** Module-level objects that change, or could, and why no two users of the module notice. */
const SHARED: Readonly<Record<string, string>> = {
  "src/wire/messages.ts messages":
    "remembers definitions made from a file of the package; who asks first changes nothing",
  "src/serve/listen/tongue.ts PREFACE": "bytes to compare with; there is no readonly Buffer type",
  "src/wire/base64.ts ALPHABET": "bytes to copy from",
  "src/wire/http-answer.ts KEY_FIELD": "bytes to copy from",
  "src/wire/ext-authz.ts NOTHING": "no bytes",
  "src/flow/check.ts NO_DECISIONS": "empty: the first decision of a check replaces it",
  "src/api/reply.ts NO_KEYS": "an empty list, which remembers its encoded forms",
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

test("no module keeps state: two agents can live in one process", () => {
  const parsed = files
    .filter((file) => !file.startsWith("src/wire/gen/"))
    .map((file) => parse(file, readFileSync(file, "utf8")));
  const known = readonlyTypes(parsed);
  const found = parsed.flatMap((file) =>
    moduleState(file, known).map((offence) => `${file.fileName} ${offence}`),
  );
  const named = found.map((each) => each.slice(0, each.indexOf(":")));
  assert.deepEqual(
    found.filter((_, at) => !((named[at] ?? "") in SHARED)),
    [],
  );
  for (const name of Object.keys(SHARED)) assert.ok(named.includes(name), `${name} is no more`);
});

const DECLARED = `
  interface Fixed { readonly a: number; f(): void }
  interface Loose { a: number }
  type Both = Fixed | "none";
`;

for (const bad of [
  "let x = 1;",
  "export let x: number;",
  "var x = 1;",
  "const x = new Map();",
  "export const x = new Map<string, string>();",
  "const x: Map<string, string> = new Map();",
  "const x = new Set(['a']);",
  "const x = new WeakMap();",
  "const x = new Own();",
  "const x = new Float64Array(1);",
  "const x = [];",
  "const x: string[] = [];",
  "const x = ([1] as number[]);",
  "const x = {};",
  "const x = { a: 1 } satisfies Fixed;",
  "const x: Loose = { a: 1 };",
  "const x: Unknown = { a: 1 };",
  "const x: Record<string, string> = {};",
  "const x = Array.from({ length: 2 });",
  "const x = Buffer.alloc(1);",
  "const x = Object.fromEntries([]);",
  "const x = 'a b'.split(' ');",
  "class X { static x = 1; }",
])
  test(`module state: ${bad}`, () => {
    const file = parse("bad.ts", DECLARED + bad);
    assert.equal(moduleState(file, new Set()).length, 1);
  });

test("what nobody can change is no state", () => {
  const fine = `${DECLARED}
    const a = 1, b = "x", c = /x/, d = () => new Map(), e = Symbol("e");
    const f = new TextDecoder(), g = new Uint8Array(0), h = Object.freeze({ a: [] });
    const i: ReadonlyMap<string, string> = new Map(), j: ReadonlySet<string> = new Set();
    const k: readonly number[] = [1], l: Readonly<Record<string, string>> = {};
    const m = { a: 1 } as const, n: Fixed = { a: 1, f() {} }, o: Both = { a: 1, f() {} };
    class X { static readonly x = 1; y = 2; }
    function f() { let x = 1; const y = new Map(); }
  `;
  const file = parse("fine.ts", fine);
  assert.deepEqual(moduleState(file, readonlyTypes([file])), []);
});
