import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, beforeEach, test } from "node:test";
import fc from "fast-check";
import { stringify } from "yaml";
import { ConfigFault } from "#config/fault.ts";
import { type Loaded, loadConfig } from "#config/load.ts";
import { printJson, printYaml } from "#config/print.ts";
import { nameOf } from "#config/read/variables.ts";
import { leaves, PROCESSES } from "#config/tree.ts";

const directory = mkdtempSync(join(tmpdir(), "sluice-secrets-"));
const file = join(directory, "sluice-agent.yaml");
after(() => rmSync(directory, { recursive: true }));
beforeEach(() => {
  for (const left of [file, join(directory, ".env")]) rmSync(left, { force: true });
});

const SECRETS = leaves(PROCESSES.agent.table).filter(({ row }) => row.secret === true);

test("the secret keys are these", () => {
  assert.deepEqual(
    SECRETS.map(({ path }) => path),
    [
      "agent_functions.client.http.proxy_connect_header",
      "agent_functions.token",
      "cloudext.agent_api_key",
      "cloudext.api_key",
      "cloudext.client.http.proxy_connect_header",
      "counters.redis.password",
      "counters.redis.sentinel.password",
      "crashreport.dsn",
      "etcd.password",
      "kubernetes_client.http_client.proxy_connect_header",
      "prometheus.http_client.proxy_connect_header",
      "server.administration.token",
    ],
  );
});

// A core that cannot occur by chance, between parts that upset parsers, quoting and matching.
const secret = fc
  .tuple(
    fc.string({ maxLength: 8 }),
    fc.stringMatching(/^[a-z]{12}$/),
    fc.constantFrom("", "\n", '"', "': ", "}", "@", "$&", "*a", "{[", "\0"),
  )
  .map(([odd, core, mark]) => ({ core: `zq${core}`, text: `${odd}zq${core}${mark}` }));

/** The output that a person can see: the report of faults, or notes and printed trees. */
function seen(load: () => Loaded): string {
  try {
    const loaded = load();
    return [JSON.stringify(loaded.notes), printYaml(loaded), printJson(loaded)].join("\n");
  } catch (thrown) {
    assert.ok(thrown instanceof ConfigFault, String(thrown));
    return `${thrown.message} ${JSON.stringify(thrown.errors)} ${String(thrown.cause)}`;
  }
}

function nested(path: string, inner: unknown): Record<string, unknown> {
  const [first = "", ...rest] = path.split(".");
  return { [first]: rest.length === 0 ? inner : nested(rest.join("."), inner) };
}

const shapes: readonly ((text: string) => unknown)[] = [
  (text) => text,
  (text) => [text],
  (text) => ({ Authorization: [text] }),
  (text) => ({ Authorization: text }),
  (text) => [{ deep: { deeper: [text] } }],
];

test("a secret is never shown, whatever its form and source", () => {
  fc.assert(
    fc.property(
      secret,
      fc.constantFrom(...SECRETS),
      fc.constantFrom(...shapes),
      fc.constantFrom("file", "leaf", "object", "dotenv", "raw"),
      ({ core, text }, { path }, shape, way) => {
        const value = shape(text);
        const env: Record<string, string> = {};
        writeFileSync(file, way === "file" ? stringify(nested(path, value)) : "");
        writeFileSync(join(directory, ".env"), "");
        const json = typeof value === "string" ? value : JSON.stringify(value);
        const leaf = nameOf("agent", path, "leaf");
        if (way === "leaf") env[leaf] = json;
        if (way === "dotenv") writeFileSync(join(directory, ".env"), `${leaf}='${json}'`);
        if (way === "object") env["SVC_AGENT_"] = JSON.stringify(nested(path, value));
        // Not JSON at all: the text that fails to parse holds the secret.
        if (way === "raw") env["SVC_AGENT_ETCD_"] = `{"password": ${text}`;
        const shown = seen(() =>
          loadConfig("agent", { env, configPath: directory, dotenvDir: directory }),
        );
        assert.ok(!shown.includes(core), `${way} ${path}`);
      },
    ),
    { numRuns: 400 },
  );
});

test("broken YAML is not quoted", () => {
  for (const text of [
    "etcd: {password: hunter2",
    "etcd:\n  password: hunter2\n password: x",
    "a: 'hunter2",
  ]) {
    writeFileSync(file, text);
    const shown = seen(() =>
      loadConfig("agent", { env: {}, configPath: file, dotenvDir: directory }),
    );
    assert.match(shown, /well-formed YAML/);
    assert.doesNotMatch(shown, /hunter2/);
  }
});

test("credentials inside addresses are masked, whether the address is valid or not", () => {
  writeFileSync(file, "");
  for (const address of [
    "http://user:hunter2@proxy:3128",
    "user:hunter2@proxy:port",
    "http://u:hunt/er2@p",
  ]) {
    const env = {
      SVC_AGENT_CLIENT_PROXY_HTTP: address,
      SVC_AGENT_ETCD_ENDPOINTS: JSON.stringify([address]),
    };
    const shown = seen(() => loadConfig("agent", { env, configPath: file, dotenvDir: directory }));
    assert.match(shown, /\*\*\*@p/);
    assert.doesNotMatch(shown, /hunt/);
  }
});

test("a query or fragment of an address is refused where it has no meaning, and its values are never repeated", () => {
  writeFileSync(file, "");
  for (const [key, address] of [
    ["COUNTERS_REDIS_URL", "redis://redis:6379?password=hunter2"],
    ["COUNTERS_REDIS_URL", 'redis://redis:6379/2?user=ann&password=hunter2 x"hunter2'],
    ["COUNTERS_REDIS_URL", "redis://redis:6379#hunter2"],
    ["COUNTERS_REDIS_URL", "redis:6379?password=hunter2"],
    ["ETCD_ENDPOINTS", "[http://etcd:2379?password=hunter2]"],
    ["ETCD_ENDPOINTS", '["https://etcd:2379/#hunter2"]'],
    ["ETCD_ENDPOINTS", "[etcd:2379?password=hunter2]"],
    ["AGENT_FUNCTIONS_ENDPOINTS", "[https://controller?token=hunter2]"],
  ] as const) {
    const env = { [`SVC_AGENT_${key}`]: address };
    const load = () => loadConfig("agent", { env, configPath: file, dotenvDir: directory });
    assert.throws(load, ConfigFault, address);
    const shown = seen(load);
    assert.match(shown, /without user, password, query and fragment, .*got .*[?#]\*\*\*/);
    assert.doesNotMatch(shown, /hunter2/);
  }
  // For an address that may have a query, the printed tree masks the query's values.
  const proxied = { SVC_AGENT_CLIENT_PROXY_HTTP: "http://proxy:3128/?key=hunter2" };
  const printed = seen(() =>
    loadConfig("agent", { env: proxied, configPath: file, dotenvDir: directory }),
  );
  assert.doesNotMatch(printed, /hunter2/);
});

test("etcd needs both user and password, or neither", () => {
  writeFileSync(file, "");
  for (const [given, wanted] of [
    [
      { SVC_AGENT_ETCD_USERNAME: "ann" },
      /etcd\.password.*: wanted the password of the user, because username is set, got nothing/,
    ],
    [
      { SVC_AGENT_ETCD_PASSWORD: "hunter2" },
      /etcd\.username.*: wanted the name of a user, because password is set, got nothing/,
    ],
  ] as const) {
    const shown = seen(() =>
      loadConfig("agent", { env: given, configPath: file, dotenvDir: directory }),
    );
    assert.match(shown, wanted);
    assert.doesNotMatch(shown, /hunter2/);
  }
});
