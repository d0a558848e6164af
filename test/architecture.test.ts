// The rules of the source tree as tests: which room may import which, which folders are private, what pure
// rooms must not touch, how many files share a folder, and that no module keeps state.

import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { circlesIn, fileOf, importsOf } from "./lint/imports.ts";
import { moduleState, parse, readonlyTypes } from "./lint/module-state.ts";

/**
 * The rooms that each room may import, besides `base`, which every room may import and which imports none. A
 * row for a floor (`room/floor`) replaces its room's row for the files of that floor. Where a row names a
 * floor or a file, only that floor or file of the room may be imported.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: [],
  flow: [],
  circuit: [],
  promql: [],
  policy: ["flow", "circuit", "promql"],
  // Pure all the same: a simulation runs the real encoding between controller and agent, and the real metrics.
  simulate: [
    "flow",
    "circuit",
    "policy",
    "promql",
    "store/store.ts",
    "sync",
    "telemetry/flows",
    "telemetry/metrics",
  ],
  wire: [],
  client: ["runtime/life"],
  config: [],
  runtime: [],
  // A library: it knows no other room, so that it could be published.
  h2: [],
  serve: ["h2", "wire/protobuf", "runtime/life"],
  api: ["flow", "wire", "client"],
  store: [],
  // The one store that is another server.
  "store/etcd": ["client", "wire/protobuf"],
  sync: ["circuit", "policy", "wire/protobuf"],
  // Agents follow; they load nothing of the policy language.
  "sync/follow": ["flow", "circuit", "wire/protobuf", "store"],
  fleet: ["store", "sync/keys.ts", "wire/protobuf"],
  "fleet/calls": ["client", "store", "sync/keys.ts", "wire/protobuf"],
  counters: [
    "flow",
    "fleet",
    "client",
    "store",
    "sync/keys.ts",
    "wire/protobuf",
    "telemetry/metrics",
    "runtime/life",
  ],
  kube: [],
  "kube/api": ["client", "runtime/life"],
  "kube/discovery": ["client", "runtime/life"],
  "kube/gateways": ["policy"],
  "kube/policies": ["policy"],
  "kube/scale": ["policy", "store", "sync/follow", "sync/keys.ts", "telemetry/metrics"],
  prometheus: ["circuit", "promql", "client", "wire/protobuf"],
  telemetry: ["flow", "circuit", "wire", "client", "runtime/life"],
  daemon: [
    "h2/read-scheduler.ts",
    "wire/protobuf",
    "config",
    "serve",
    "store",
    "telemetry",
    "runtime",
  ],
  agent: [
    "flow",
    "fleet",
    "counters",
    "api",
    "client",
    "config",
    "kube/discovery",
    "prometheus",
    "store",
    "sync/entities.ts",
    "sync/follow",
    "sync/keys.ts",
    "telemetry/flows",
    "telemetry/metrics",
    "runtime/life",
    "daemon",
  ],
  controller: [
    "circuit",
    "policy",
    "promql",
    "prometheus",
    "api",
    "wire/protobuf",
    "client",
    "fleet",
    "config",
    "kube",
    "store",
    "sync",
    "telemetry/alerts",
    "telemetry/metrics",
    "runtime",
    "daemon",
  ],
  standalone: ["agent", "controller", "daemon", "config", "store"],
  injector: [
    "kube/api",
    "config",
    "serve",
    "store",
    "telemetry/metrics",
    "runtime/status",
    "daemon",
  ],
  cli: [
    "agent",
    "controller",
    "injector",
    "standalone",
    "daemon",
    "config",
    "store",
    "runtime",
    "policy",
    "promql",
    "simulate",
    "circuit",
    "telemetry/metrics",
    // `sluice check` reads what it sends as an agent will.
    "wire",
  ],
};

/**
 * Rooms with floors: folders whose own files other rooms may import, as they may import a room's top-level
 * files. Every other folder inside a room is private.
 */
const FLOORS: Readonly<Record<string, readonly string[]>> = {
  base: ["async", "http", "net", "text"],
  flow: ["counters", "overload"],
  policy: ["document", "diagram"],
  promql: ["syntax"],
  wire: ["access-log", "check", "check-json", "json", "otlp", "protobuf"],
  telemetry: ["log", "metrics", "flows", "alerts", "crash"],
  runtime: ["life", "status", "profiling", "watchdog"],
  sync: ["publish", "follow"],
  fleet: ["calls"],
  kube: ["api", "discovery", "gateways", "policies", "scale"],
  api: ["fleet"],
};

/** The layers inside one folder. */
interface Layers {
  /**
   * Files beside the folders that all parts may import and that import no part. Undefined: all files beside the
   * folders that are no parts, and these may import the parts as well.
   */
  readonly shared?: readonly string[];
  /** Each folder, and files beside them that have a place in the order, with the parts that it may import. */
  readonly parts: Readonly<Record<string, readonly string[]>>;
}

/**
 * The import law inside a room: which of its parts may import which. A part can only name parts that stand
 * before it. All other files beside the folders join the parts and may import them all. Rooms and folders
 * without a row have no such rule.
 */
const INSIDE: Readonly<Record<string, Layers>> = {
  flow: {
    parts: {
      classify: [],
      match: [],
      counters: [],
      limit: ["counters"],
      schedule: ["match", "limit"],
      check: ["limit"],
      plan: ["classify", "match", "counters", "limit", "schedule", "check"],
      overload: ["counters", "check", "plan"],
    },
  },
  "flow/counters": {
    shared: ["counter-engine.ts"],
    parts: {
      adaptive: [],
      "adaptive-limits.ts": ["adaptive"],
      local: ["adaptive", "adaptive-limits.ts"],
    },
  },
  circuit: {
    shared: ["component.ts", "decision.ts", "plan.ts", "ticks.ts"],
    parts: { functions: [], components: ["functions"] },
  },
  policy: {
    shared: [],
    parts: {
      document: [],
      language: ["document"],
      "compiled.ts": ["document", "language"],
      "walk.ts": ["document", "language"],
      "message.ts": ["language", "compiled.ts"],
      needs: ["document", "language", "walk.ts"],
      validate: ["document", "language", "walk.ts"],
      compile: ["document", "language", "compiled.ts", "message.ts", "walk.ts"],
      diagram: ["language", "compiled.ts"],
    },
  },
  api: {
    shared: ["service-lookup.ts"],
    parts: {
      labels: [],
      reply: ["labels"],
      "context.ts": ["labels"],
      "fast-path": ["labels", "reply", "context.ts"],
      policies: [],
      "policies.ts": ["reply", "policies"],
      fleet: ["reply", "policies", "policies.ts"],
      reports: [],
    },
  },
  fleet: { parts: { calls: [] } },
  counters: { parts: { leases: [], redis: ["leases"], peers: ["leases"] } },
  telemetry: {
    shared: [],
    parts: { log: [], metrics: [], flows: ["metrics"], alerts: ["metrics"], crash: [] },
  },
  controller: {
    shared: ["digest.ts", "policy-directory.ts", "policy-source.ts", "query-backend.ts"],
    parts: {
      diagnosis: [],
      checkpoint: ["diagnosis"],
      compiling: [],
      loop: ["diagnosis"],
      policies: ["diagnosis", "loop"],
      warnings: ["diagnosis", "loop"],
      discovery: ["loop"],
      agents: [],
      leadership: [],
    },
  },
  wire: {
    shared: [],
    parts: {
      protobuf: [],
      json: ["protobuf"],
      check: ["protobuf", "json"],
      otlp: ["protobuf", "json"],
      "access-log": ["protobuf"],
      "check-json": ["protobuf", "json", "check"],
    },
  },
  kube: {
    shared: [],
    parts: {
      api: [],
      discovery: ["api"],
      gateways: ["api"],
      policies: ["api", "gateways"],
      scale: ["api"],
    },
  },
  injector: {
    shared: ["patch.ts", "pod.ts", "settings.ts"],
    parts: { mutation: [], tls: [], cluster: ["mutation", "tls"] },
  },
  sync: { shared: ["keys.ts"], parts: { publish: [], follow: [] } },
  h2: {
    shared: [
      "exchange.ts",
      "limits.ts",
      "read-buffers.ts",
      "read-scheduler.ts",
      "unconfirmed-replies.ts",
    ],
    parts: {
      frames: [],
      hpack: [],
      fields: ["frames", "hpack"],
      streams: ["frames", "hpack"],
      connection: ["frames", "hpack", "fields", "streams"],
    },
  },
  serve: {
    shared: ["cancellable-call.ts", "grpc-timeout.ts", "settings.ts", "transport.ts"],
    parts: {
      standard: [],
      grpc: [],
      "grpc-js": ["grpc"],
      http: [],
      tls: [],
      administration: [],
      listen: [],
    },
  },
  "serve/http": {
    shared: [
      "body.ts",
      "context.ts",
      "costly-queue.ts",
      "exchange.ts",
      "reply.ts",
      "request.ts",
      "router.ts",
    ],
    parts: { http1: [], http2: [] },
  },
};

/** Rooms that touch no socket, file, clock or environment variable, with the only packages they may import. */
const PURE: Readonly<Record<string, readonly string[]>> = {
  base: [],
  flow: ["re2js"],
  circuit: [],
  promql: ["@lezer/common", "@prometheus-io/lezer-promql", "re2js"],
  policy: ["yaml", "re2js"],
  simulate: ["yaml"],
};

/** Module-level objects that could change, each with the reason why two users of the module never notice. */
const SHARED: Readonly<Record<string, string>> = {
  "src/wire/protobuf/messages.ts definitions":
    "remembers definitions made from a file of the package; who asks first changes nothing",
  "src/h2/frames/format.ts PREFACE": "bytes to compare with; there is no readonly Buffer type",
  "src/wire/protobuf/base64.ts ALPHABET": "bytes to copy from",
  "src/wire/check/http-reply.ts KEY_FIELD": "bytes to copy from",
  "src/wire/check/ext-authz.ts NOTHING": "no bytes",
  "src/flow/check.ts NO_DECISIONS": "empty: the first decision of a check replaces it",
  "src/api/reply/check-reply.ts NO_KEYS": "an empty list, which remembers its encoded forms",
};

/** Most source files beside each other in one folder. A folder that needs more lacks a concept. */
const MAX_FILES = 10;

const files = globSync("src/**/*.ts");

const ROOMS = Object.keys(MAY_IMPORT).filter((name) => !name.includes("/"));

test("the table of imports names exactly the rooms that exist", () => {
  const rooms = new Set(files.map((file) => file.split("/")[1]));
  assert.deepEqual([...rooms].sort(), ROOMS.toSorted());
});

test("the tables of rooms, floors, layers and pure rooms name folders and files that exist", () => {
  const floors = Object.entries(FLOORS).flatMap(([room, names]) =>
    names.map((name) => `${room}/${name}`),
  );
  const shared = Object.entries(INSIDE).flatMap(([folder, layers]) =>
    [...(layers.shared ?? []), ...Object.keys(layers.parts)].map((name) => `${folder}/${name}`),
  );
  const imported = Object.values(MAY_IMPORT).flat();
  const named = [...Object.keys(MAY_IMPORT), ...imported, ...floors, ...shared];
  for (const path of [...named, ...Object.keys(PURE)]) {
    assert.ok(existsSync(`src/${path}`), `src/${path}`);
  }
});

test("every room has a README", () => {
  for (const room of ROOMS) assert.ok(existsSync(`src/${room}/README.md`), room);
});

for (const file of files) {
  const [, room = "", floor = ""] = file.split("/");
  const allowed = MAY_IMPORT[`${room}/${floor}`] ?? MAY_IMPORT[room] ?? [];
  test(file, () => {
    assert.ok(ROOMS.includes(room), `${room} is not a room`);
    for (const target of importsOf(readFileSync(file, "utf8"))) {
      if (target.startsWith("#gen/")) {
        assert.equal(`${room}/${floor}`, "wire/protobuf", "only it loads generated descriptors");
      } else if (target.startsWith("#")) {
        const [other = "", ...inner] = target.slice(1).split("/");
        const known =
          other === room ||
          other === "base" ||
          allowed.includes(other) ||
          allowed.includes(`${other}/${inner[0]}`);
        assert.ok(known, `${room} may not import ${target}`);
        assert.ok(
          other === room || inner.length === 1 || isFloor(other, inner),
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

function isFloor(room: string, inner: readonly string[]): boolean {
  return inner.length === 2 && (FLOORS[room]?.includes(inner[0] ?? "") ?? false);
}

for (const [folder, layers] of Object.entries(INSIDE)) {
  test(`the layers inside ${folder}`, () => {
    const names = Object.keys(layers.parts);
    const found = files
      .filter((file) => file.startsWith(`src/${folder}/`))
      .map((file) => file.split("/").slice(folder.split("/").length + 1))
      .filter(({ length }) => length > 1);
    const folders = names.filter((name) => !name.endsWith(".ts"));
    assert.deepEqual([...new Set(found.map(([name]) => name))].sort(), folders.toSorted());
    for (const [at, name] of names.entries()) {
      for (const below of layers.parts[name] ?? []) {
        assert.ok(names.slice(0, at).includes(below), `${below} must stand before ${name}`);
      }
    }
    for (const file of files) {
      for (const target of importsOf(readFileSync(file, "utf8"))) {
        const imported = fileOf(file, target);
        if (imported === undefined) continue;
        const known = mayImportInside(`src/${folder}/`, layers, file, imported);
        assert.ok(known, `${file} may not import ${imported}`);
      }
    }
  });
}

/** True if the layers of a folder allow an import; they say nothing about files outside of that folder. */
function mayImportInside(
  folder: string,
  { shared, parts }: Layers,
  file: string,
  imported: string,
): boolean {
  if (!file.startsWith(folder) || !imported.startsWith(folder)) return true;
  const [from = ""] = file.slice(folder.length).split("/");
  const [to = ""] = imported.slice(folder.length).split("/");
  if (from === to || parts[from]?.includes(to)) return true;
  const isShared = shared?.includes(to) ?? (to.endsWith(".ts") && !(to in parts));
  return isShared || !(from in parts || shared?.includes(from));
}

test("imports against the layers of a room are found", () => {
  const layers = {
    shared: ["words.ts"],
    parts: { low: [], "middle.ts": ["low"], high: ["low", "middle.ts"] },
  };
  const allowedBy = (rules: Layers) => (file: string, imported: string) =>
    mayImportInside("src/room/", rules, `src/room/${file}`, `src/room/${imported}`);
  const allowed = allowedBy(layers);
  assert.equal(allowed("high/a.ts", "low/inner/b.ts"), true);
  assert.equal(allowed("high/a.ts", "middle.ts"), true);
  assert.equal(allowed("low/b.ts", "high/a.ts"), false);
  assert.equal(allowed("low/b.ts", "middle.ts"), false);
  assert.equal(allowed("low/b.ts", "words.ts"), true);
  assert.equal(allowed("low/b.ts", "front.ts"), false);
  assert.equal(allowed("middle.ts", "low/b.ts"), true);
  assert.equal(allowed("middle.ts", "high/a.ts"), false);
  assert.equal(allowed("words.ts", "low/b.ts"), false);
  assert.equal(allowed("front.ts", "high/a.ts"), true);

  const open = allowedBy({ parts: layers.parts });
  assert.equal(open("low/b.ts", "front.ts"), true);
  assert.equal(open("low/b.ts", "middle.ts"), false);
  assert.equal(open("front.ts", "high/a.ts"), true);
});

test("the table of imports allows nothing that no file needs", () => {
  const needed = new Set<string>();
  for (const file of files) {
    const [, room = "", floor = ""] = file.split("/");
    const row = `${room}/${floor}` in MAY_IMPORT ? `${room}/${floor}` : room;
    for (const target of importsOf(readFileSync(file, "utf8"))) {
      const [other = "", inner = ""] = target.slice(1).split("/");
      if (target.startsWith("#")) needed.add(`${row} ${other}`).add(`${row} ${other}/${inner}`);
    }
  }
  const allowed = Object.entries(MAY_IMPORT).flatMap(([row, targets]) =>
    targets.map((target) => `${row} ${target}`),
  );
  assert.deepEqual(
    allowed.filter((each) => !needed.has(each)),
    [],
  );
});

/** Files of which there must be one: each with the only files that may load it. Type-only imports do not count. */
const ONLY_USERS: Readonly<Record<string, readonly string[]>> = {
  // One runner takes a circuit through the versions of its policy, for the controller and for simulations.
  "src/circuit/circuit.ts": ["src/circuit/runner.ts", "src/controller/checkpoint/checkpoint.ts"],
  // One file judges dynamic configuration by the code with which components read it.
  "src/circuit/overrides.ts": ["src/circuit/circuit.ts", "src/policy/dynamic.ts"],
};

for (const [used, users] of Object.entries(ONLY_USERS)) {
  test(`only ${users.join(" and ")} may load ${used}`, () => {
    const found = files.filter((file) => {
      const text = readFileSync(file, "utf8").replaceAll(/^import type [^;]*;/gm, "");
      return importsOf(text).some((target) => fileOf(file, target) === used);
    });
    assert.deepEqual(found.sort(), users.toSorted());
  });
}

test("no circle of imports, type-only ones included", () => {
  const circles = circlesIn(files.map((file) => [file, readFileSync(file, "utf8")] as const));
  assert.deepEqual(circles, []);
});

test("circles of imports are found", () => {
  assert.deepEqual(
    circlesIn([
      ["src/a/one.ts", 'import type { Two } from "./inner/two.ts";'],
      ["src/a/inner/two.ts", 'import { three } from "#b/three.ts";'],
      ["src/b/three.ts", 'export const load = () => import("#a/one.ts");'],
      ["src/b/four.ts", 'import { three } from "./three.ts";'],
    ]),
    [["src/a/inner/two.ts", "src/a/one.ts", "src/b/three.ts"]],
  );
});

test(`no folder has more than ${MAX_FILES} source files beside each other`, () => {
  const counts = new Map<string, number>();
  for (const file of globSync("{src,test/kit,test/lab,test/bench}/**/*.{ts,js,py,go}")) {
    const folder = dirname(file);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  assert.ok(counts.size > 0, "no folder was found");
  const tooLarge = [...counts].filter(([, count]) => count > MAX_FILES);
  assert.deepEqual(tooLarge, []);
});

test("no two files of a folder differ by a plural", () => {
  const all = new Set(files);
  assert.deepEqual(
    files.filter((file) => all.has(file.replace(/\.ts$/, "s.ts"))),
    [],
  );
});

test("no module keeps state: two agents can live in one process", () => {
  const parsed = files.map((file) => parse(file, readFileSync(file, "utf8")));
  const known = readonlyTypes(parsed);
  const found = parsed.flatMap((file) =>
    moduleState(file, known).map((offence) => `${file.fileName} ${offence}`),
  );
  const named = found.map((each) => each.slice(0, each.indexOf(":")));
  assert.deepEqual(
    found.filter((_, at) => !((named[at] ?? "") in SHARED)),
    [],
  );
  for (const name of Object.keys(SHARED))
    assert.ok(named.includes(name), `${name} no longer exists`);
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

test("values that cannot change are not state", () => {
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
