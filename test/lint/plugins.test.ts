// Our own lint rules, against clocks, randomness and environment variables in pure rooms and against literals that are
// spread: they report each form, and nothing else.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, test } from "node:test";

const BANNED = [
  "export const x = Date.now();",
  "export const x = new Date();",
  "export const x = Date;",
  "export const x = globalThis.Date;",
  'export const x = globalThis["Date"];',
  "export const { now } = Date;",
  "export const x = performance.now();",
  "export const x = performance;",
  "export const x = process.hrtime();",
  "export const x = process.hrtime.bigint();",
  "export const x = process.uptime();",
  "export const { env } = process;",
  'export const x = process.env["X"];',
  "export const x = Math.random();",
  "export const x = Math.random;",
  "export const x = crypto.randomUUID();",
  "export const x = crypto.getRandomValues(new Uint8Array(1));",
  'import { randomUUID } from "node:crypto"; export const x = randomUUID;',
  "setTimeout(() => {}, 1);",
  "setInterval(() => {}, 1);",
  "setImmediate(() => {});",
  "queueMicrotask(() => {});",
  "export const x = queueMicrotask;",
];
const SPREADS: readonly string[] = [
  "export const x = { ...{ a: 1 } };",
  "export const x = [...[1, 2]];",
];
const FINE = "export const x = (now: () => number, date: string) => Math.floor(now()) + date;";

const root = await mkdtemp(join(tmpdir(), "lint-plugins-"));
after(() => rm(root, { recursive: true }));

/** Lints other files with the repository's own configuration, and returns the paths that have errors. */
async function lint(files: ReadonlyMap<string, string>): Promise<ReadonlySet<string>> {
  await mkdir(join(root, "test/lint"), { recursive: true });
  await cp("biome.json", join(root, "biome.json"));
  for (const file of ["no-ambient-time.grit", "no-spread-literal.grit"])
    await cp(join("test/lint", file), join(root, "test/lint", file));
  await symlink(resolve("node_modules"), join(root, "node_modules"));
  for (const [path, text] of files) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  const biome = resolve("node_modules/.bin/biome");
  const args = ["lint", "--only=plugin", "--reporter=json", "--max-diagnostics=none", "src"];
  const { promise, resolve: done } = Promise.withResolvers<string>();
  execFile(biome, args, { cwd: root }, (_, output) => done(output));
  const { diagnostics } = JSON.parse(await promise) as Report;
  return new Set(
    diagnostics
      .filter(({ category, severity }) => category === "plugin" && severity === "error")
      .map(({ location }) => location.path),
  );
}

interface Report {
  readonly diagnostics: readonly {
    readonly category: string;
    readonly severity: string;
    readonly location: { readonly path: string };
  }[];
}

test("pure rooms cannot reach clocks, randomness or environment variables by any name, and no room spreads literals", async () => {
  const snippets = BANNED.map((text, at) => [`src/flow/bad-${at}.ts`, text] as const);
  const rooms = ["base", "policy"].map((room) => [`src/${room}/bad.ts`, BANNED[0] ?? ""] as const);
  const spreads = SPREADS.map((text, at) => [`src/runtime/spread-${at}.ts`, text] as const);
  const fine = [
    ["src/flow/fine.ts", FINE],
    ["src/runtime/life/clock.ts", BANNED[0] ?? ""],
    ["src/runtime/fine.ts", "export const x = (a: object, b: number[]) => [{ ...a }, ...b];"],
  ] as const;
  const hit = await lint(new Map([...snippets, ...rooms, ...spreads, ...fine]));
  for (const [path, text] of [...snippets, ...rooms, ...spreads])
    assert.ok(hit.has(path), `${path}: ${text}`);
  for (const [path, text] of fine) assert.ok(!hit.has(path), `${path}: ${text}`);
});
