import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { ConfigFault } from "#config/fault.ts";
import { loadConfig } from "#config/load.ts";
import { configOf } from "../kit/sluice/config.ts";

interface Given {
  readonly yaml?: string;
  readonly dotenv?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
}

function directory(context: TestContext): string {
  const made = mkdtempSync(join(tmpdir(), "sluice-load-"));
  context.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

function load(context: TestContext, { yaml, dotenv = {}, env = {} }: Given) {
  const made = directory(context);
  if (yaml !== undefined) writeFileSync(join(made, "sluice-agent.yaml"), yaml);
  for (const [name, text] of Object.entries(dotenv)) writeFileSync(join(made, name), text);
  return loadConfig("agent", { env, configPath: made, dotenvDir: made });
}

function faults(context: TestContext, given: Given): ConfigFault {
  try {
    load(context, given);
  } catch (thrown) {
    assert.ok(thrown instanceof ConfigFault, String(thrown));
    return thrown;
  }
  assert.fail("nothing was refused");
}

const LEVEL = "SVC_AGENT_LOG_LEVEL";

test("a stronger source wins: default, file, dotenv files in their order, environment", (context) => {
  const yaml = "log: {level: debug}\nagent_info: {agent_group: file}\n";
  const levels: Given[] = [
    {},
    { yaml },
    { yaml, dotenv: { ".env.defaults": `${LEVEL}=trace` } },
    { yaml, dotenv: { ".env.defaults": `${LEVEL}=trace`, ".env": `${LEVEL}=warn` } },
    { yaml, dotenv: { ".env": `${LEVEL}=warn`, ".env.local": `export ${LEVEL}=error` } },
    { yaml, dotenv: { ".env": `${LEVEL}=warn` }, env: { [LEVEL]: "fatal" } },
  ];
  const seen = levels.map((given) => {
    const { config, origins } = load(context, given);
    return [config.log.level, origins.get("log.level")?.source];
  });
  assert.deepEqual(seen, [
    ["info", "default"],
    ["debug", "file"],
    ["trace", "dotenv"],
    ["warn", "dotenv"],
    ["error", "dotenv"],
    ["fatal", "environment"],
  ]);
});

test("the dotenv file of NODE_ENV is read when the given environment sets it", (context) => {
  const dotenv = { ".env": `${LEVEL}=warn`, ".env.staging": `${LEVEL}=error` };
  assert.equal(load(context, { dotenv }).config.log.level, "warn");
  assert.equal(load(context, { dotenv, env: { NODE_ENV: "staging" } }).config.log.level, "error");
});

test("dotenv files do not change the process's own environment", (context) => {
  load(context, { dotenv: { ".env": "SVC_AGENT_AGENT_INFO_AGENT_GROUP=quiet\nOTHER_NAME=1" } });
  assert.equal(process.env["SVC_AGENT_AGENT_INFO_AGENT_GROUP"], undefined);
  assert.equal(process.env["OTHER_NAME"], undefined);
});

test("zero, false, empty text and empty lists override", (context) => {
  const yaml = [
    "server: {listener: {network: ''}, http: {idle_timeout: 0, latency_buckets_ms: []}}",
    "profilers: {register_http_routes: false}",
  ].join("\n");
  const { config } = load(context, { yaml });
  assert.equal(config.server.listener.network, "");
  assert.equal(config.server.http.idle_timeout, 0);
  assert.deepEqual(config.server.http.latency_buckets_ms, []);
  assert.equal(config.profilers.register_http_routes, false);
});

test("null counts as not set, and a note says so", (context) => {
  const yaml = "log: {level: null}\nserver:\nprometheus: {labels: ~}\n";
  const { config, notes, origins } = load(context, { yaml });
  assert.equal(config.log.level, "info");
  assert.equal(origins.get("log.level")?.source, "default");
  const said = notes.filter(({ message }) => message.includes("null")).map(({ path }) => path);
  assert.deepEqual(said, ["log.level", "server", "prometheus.labels"]);
});

test("null in a stronger source does not override a weaker one", (context) => {
  const { config } = load(context, {
    yaml: "log: {level: debug}",
    env: { SVC_AGENT_LOG_: '{"level":null}' },
  });
  assert.equal(config.log.level, "debug");
});

test("all faults of all sources are reported at once, with position, wanted and got", (context) => {
  const fault = faults(context, {
    yaml: [
      "server:",
      "  listner: {addr: ':1'}",
      "  listener:",
      "    addr: 8080",
      "  http: [1]",
      "log: {writers: [{max_size: -1}, nope]}",
    ].join("\n"),
    dotenv: {
      ".env": `# first line\n${LEVEL}=Info\nSVC_AGENT_NO_SUCH_THING=1\nSVC_AGENT_ODD line`,
    },
    env: { SVC_AGENT_SERVER_LISTENER_ADR: "x", SVC_AGENT_METRICS_PEDANTIC: "maybe" },
  });
  const told = fault.errors.map(({ path, where, wanted, got }) => [
    path,
    where.replace(/^.*sluice-load-[^/]+\//, ""),
    wanted.replace(/^(.{0,30}).*$/, "$1"),
    got,
  ]);
  assert.deepEqual(told, [
    ["server.listner", "sluice-agent.yaml:2:3", "a known key: did you mean list", "an unknown key"],
    ["server.listener.addr", "sluice-agent.yaml:4:11", "host:port, :port, [IPv6%zone]:", "8080"],
    ["server.http", "sluice-agent.yaml:5:3", "an object", "a list"],
    ["log.writers[0].max_size", "sluice-agent.yaml:6:28", "a whole number at least 0", "-1"],
    ["log.writers[1]", "sluice-agent.yaml:6:33", "an object", "text"],
    ["", ".env:4 SVC_AGENT_ODD", "NAME=value", "another form"],
    ["log.level", ".env:2 SVC_AGENT_LOG_LEVEL", 'one of "", debug, DEBUG, info,', '"Info"'],
    ["", ".env:3 SVC_AGENT_NO_SUCH_THING", "a name from the reference page", "an unknown name"],
    ["metrics.pedantic", "SVC_AGENT_METRICS_PEDANTIC", "true or false", '"maybe"'],
    ["", "SVC_AGENT_SERVER_LISTENER_ADR", "a known name: did you mean SVC", "an unknown name"],
  ]);
  assert.equal(fault.code, "INVALID_ARGUMENT");
  assert.equal(fault.message.split("\n").length, 1 + told.length);
});

test("a bad value is a fault even where a stronger source overrides it", (context) => {
  const fault = faults(context, { yaml: "log: {level: loud}", env: { [LEVEL]: "info" } });
  assert.deepEqual(
    fault.errors.map(({ path }) => path),
    ["log.level"],
  );
});

for (const [what, yaml, got] of [
  ["a bracket that is not closed", "server: [a", /^no closing \], or bad indent$/],
  ["a brace that is not closed", "server: {a: 1", /^no closing \}, or bad indent$/],
  ["a repeated key", "log: {level: info}\nlog: {level: warn}", /duplicate key/],
  ["two documents", "log: {}\n---\nlog: {}", /multiple docs/],
  ["a list at the top", "- 1", /a list/],
  ["an unknown tag", "log: !secret {}", /tag resolve failed/],
  ["an unknown anchor", "log: *nobody", /an unknown one/],
] as const) {
  test(`a file with ${what} is refused`, (context) => {
    assert.match(faults(context, { yaml }).errors[0]?.got ?? "", got);
  });
}

test("anchors and aliases work within a file", (context) => {
  const yaml = "readiness: {service: &job {execution_period: 1s}}\nliveness: {service: *job}\n";
  assert.equal(load(context, { yaml }).config.liveness.service.execution_period, 1_000);
});

test("an empty file sets nothing", (context) => {
  assert.equal(load(context, { yaml: "# nothing\n" }).config.log.level, "info");
});

test("--config-path: a file, a directory, and a path that does not exist", (context) => {
  const made = directory(context);
  const sources = { env: {}, dotenvDir: made };
  const file = join(made, "any-name.yaml");
  writeFileSync(file, "log: {level: warn}");
  assert.equal(loadConfig("agent", { ...sources, configPath: file }).config.log.level, "warn");

  const { notes } = loadConfig("agent", { ...sources, configPath: made });
  assert.match(notes[0]?.message ?? "", /no such file.*not read: any-name\.yaml/);
  assert.equal(notes[0]?.level, "warn");

  const missing = { ...sources, configPath: join(made, "missing") };
  assert.throws(() => loadConfig("agent", missing), /wanted a file or a directory, got nothing/);

  const folder = join(made, "sluice-agent.yaml");
  mkdirSync(folder);
  assert.throws(
    () => loadConfig("agent", { ...sources, configPath: made }),
    /wanted a regular file/,
  );
});

test("without --config-path the default directory may be absent", (context) => {
  const { notes } = loadConfig("agent", { env: {}, dotenvDir: directory(context) });
  assert.ok(notes.every(({ level }) => level === "info"));
});

test("deprecated keys are reported without their values", (context) => {
  const { notes } = load(context, { yaml: "cloudext: {agent_api_key: hunter2}" });
  assert.equal(notes.length, 1);
  assert.match(JSON.stringify(notes), /deprecated: use cloudext\.api_key/);
  assert.doesNotMatch(JSON.stringify(notes), /hunter2/);
});

test("a number that is too large is shown as it was written, with the true reason", (context) => {
  const yaml = "watchdog: { memory: { heap: { limit: 9007199254740993 } } }\n";
  assert.throws(
    () => load(context, { yaml }),
    /2\^53 - 1\) in size, because larger ones would lose digits, got 9007199254740993$/,
  );
});

test("faults of two trees join into one", () => {
  const one = new ConfigFault([{ process: "agent", path: "a", where: "", wanted: "b", got: "c" }]);
  const other = new ConfigFault([
    { process: "controller", path: "d", where: "e", wanted: "f", got: "g" },
  ]);
  assert.equal(
    ConfigFault.join([one, other]).message,
    "configuration of agent and controller has 2 faults\n  agent: a: wanted b, got c\n  controller: d (e): wanted f, got g",
  );
});

const PAIRS: readonly (readonly [string, Readonly<Record<string, string>>, RegExp | undefined])[] =
  [
    [
      "an address of administration that is switched off",
      { SERVER_ADMINISTRATION_ENABLED: "false", SERVER_ADMINISTRATION_ADDR: "127.0.0.1:8081" },
      /server\.administration\.addr.*: wanted an empty address, because administration is disabled/,
    ],
    [
      "allowed_cn without a CA",
      { SERVER_TLS_ALLOWED_CN: "a.example.com" },
      /server\.tls\.allowed_cn/,
    ],
    [
      "allowed_cn with a CA",
      {
        SERVER_TLS_ALLOWED_CN: "a.example.com",
        SERVER_TLS_CLIENT_CA_FILE: "ca",
        SERVER_TLS_ENABLED: "true",
        SERVER_TLS_CERT_FILE: "c",
        SERVER_TLS_KEY_FILE: "k",
      },
      undefined,
    ],
    [
      "TLS files without TLS",
      { SERVER_TLS_CERT_FILE: "c", SERVER_TLS_KEY_FILE: "k" },
      /server\.tls\.enabled: wanted true, because cert_file is set \(SVC_\w+_SERVER_TLS_CERT_FILE\), got false/,
    ],
    [
      "a client CA without TLS",
      { SERVER_TLS_CLIENT_CA_FILE: "c" },
      /server\.tls\.enabled: wanted true, because client_ca_file is set \(SVC_\w+_SERVER_TLS_CLIENT_CA_FILE\), got false/,
    ],
    [
      "TLS files of the gateway without TLS",
      { SERVER_GRPC_GATEWAY_TLS_CA_FILE: "c" },
      /server\.grpc_gateway\.tls\.enabled: wanted true, because ca_file is set \(SVC_\w+_SERVER_GRPC_GATEWAY_TLS_CA_FILE\), got false/,
    ],
    [
      "TLS without files",
      { SERVER_TLS_ENABLED: "true" },
      /server\.tls\.cert_file.*\n.*server\.tls\.key_file/,
    ],
    [
      "TLS with files",
      { SERVER_TLS_ENABLED: "true", SERVER_TLS_CERT_FILE: "c", SERVER_TLS_KEY_FILE: "k" },
      undefined,
    ],
    ["a client certificate without key", { ETCD_TLS_CERT_FILE: "c" }, /etcd\.tls\.key_file/],
    ["a client key without certificate", { ETCD_TLS_KEY_FILE: "c" }, /etcd\.tls\.cert_file/],
    [
      "a password of etcd without user",
      { ETCD_PASSWORD: "x" },
      /etcd\.username: wanted the name of a user, because password is set, got nothing/,
    ],
    [
      "a user of etcd without password",
      { ETCD_USERNAME: "ann" },
      /etcd\.password: wanted the password/,
    ],
    ["a user of etcd with password", { ETCD_USERNAME: "ann", ETCD_PASSWORD: "x" }, undefined],
    [
      "a batch above its largest",
      { OTEL_BATCH_ALERTS_SEND_BATCH_SIZE: "101", OTEL_BATCH_ALERTS_SEND_BATCH_MAX_SIZE: "100" },
      /send_batch_max_size/,
    ],
    [
      "a batch above the default of its largest",
      { OTEL_BATCH_ALERTS_SEND_BATCH_SIZE: "101" },
      undefined,
    ],
    [
      "a largest batch below the default of a batch",
      { OTEL_BATCH_ALERTS_SEND_BATCH_MAX_SIZE: "7" },
      undefined,
    ],
    [
      "a batch without a largest",
      { OTEL_BATCH_ALERTS_SEND_BATCH_SIZE: "101", OTEL_BATCH_ALERTS_SEND_BATCH_MAX_SIZE: "0" },
      undefined,
    ],
    ["the cloud's group", { AGENT_INFO_AGENT_GROUP: "aperture-cloud" }, /agent_info\.agent_group/],
    [
      "a group that no policy can name",
      { AGENT_INFO_AGENT_GROUP: "a/b" },
      /a name without \/, got "a\/b"/,
    ],
    [
      "the cloud's group in the cloud",
      { AGENT_INFO_AGENT_GROUP: "aperture-cloud", CLOUDEXT_INSTALLATION_MODE: "CLOUD_AGENT" },
      undefined,
    ],
    [
      "a label without a name",
      { PROMETHEUS_LABELS: '[{"value":"v"}]' },
      /prometheus\.labels\[0\]\.name \(/,
    ],
  ];

for (const [what, set, refused] of PAIRS) {
  test(`keys that belong together: ${what}`, () => {
    const env = Object.fromEntries(
      Object.entries(set).map(([name, text]) => [`SVC_AGENT_${name}`, text]),
    );
    if (refused === undefined) configOf("agent", env);
    else assert.throws(() => configOf("agent", env), refused);
  });
}

test("namespaces of policies are refused where no policy resources are run", () => {
  const teams = { SVC_CONTROLLER_POLICIES_NAMESPACES: "shop" };
  assert.throws(
    () => configOf("controller", teams),
    /policies\.cr_watcher\.enabled: wanted true, because policies\.namespaces names some, got false/,
  );
  configOf("controller", { ...teams, SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED: "true" });
});

test("credentials in the addresses of servers are refused where they would have no effect", () => {
  for (const [key, name] of [
    ["etcd.endpoints", "ETCD_ENDPOINTS"],
    ["agent_functions.endpoints", "AGENT_FUNCTIONS_ENDPOINTS"],
  ]) {
    for (const address of [
      "http://ann:hunter2@etcd:2379",
      "https://ann@etcd:2379",
      "http://:hunter2@etcd:2379",
    ]) {
      const env = { [`SVC_AGENT_${name}`]: JSON.stringify(["http://etcd:2379", address]) };
      assert.throws(
        () => configOf("agent", env),
        (thrown: Error) => {
          assert.match(
            thrown.message,
            new RegExp(`${key}.*without user, password, query and fragment`),
          );
          assert.doesNotMatch(thrown.message, /hunter2|ann/);
          return true;
        },
      );
    }
  }
});

test("of the two sizes of a batch, the one that is not set follows the other", () => {
  const sizes = (env: Readonly<Record<string, string>>) => {
    const { batch_alerts } = configOf("agent", env).config.otel;
    return [batch_alerts.send_batch_size, batch_alerts.send_batch_max_size];
  };
  assert.deepEqual(sizes({}), [100, 100]);
  assert.deepEqual(sizes({ SVC_AGENT_OTEL_BATCH_ALERTS_SEND_BATCH_SIZE: "101" }), [101, 101]);
  assert.deepEqual(sizes({ SVC_AGENT_OTEL_BATCH_ALERTS_SEND_BATCH_SIZE: "7" }), [7, 100]);
  assert.deepEqual(sizes({ SVC_AGENT_OTEL_BATCH_ALERTS_SEND_BATCH_MAX_SIZE: "7" }), [7, 7]);
  assert.deepEqual(sizes({ SVC_AGENT_OTEL_BATCH_ALERTS_SEND_BATCH_MAX_SIZE: "0" }), [100, 0]);
});
