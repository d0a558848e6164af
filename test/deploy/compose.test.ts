// deploy/compose: the files fit the schemas and each other, and the same processes without containers fill the dashboards.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { parse } from "yaml";
import { loadInjector } from "#injector/config.ts";
import { composeSchema } from "../../deploy/tools/compose.ts";
import { envoy } from "../../deploy/tools/install.ts";
import { folderOf } from "../kit/folder.ts";
import { variables } from "../kit/process.ts";
import { startEnvoy, startService } from "../kit/servers/envoy.ts";
import { startPrometheus } from "../kit/servers/prometheus.ts";
import { passes } from "../kit/sluice/check.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const DEPLOY = join(import.meta.dirname, "../../deploy");
const COMPOSE = join(DEPLOY, "compose");
const read = (...path: readonly string[]) => readFileSync(join(DEPLOY, ...path), "utf8");

interface Service {
  readonly image: string;
  readonly volumes?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

const compose: { readonly services: Readonly<Record<string, Service>> } = parse(
  read("compose", "compose.yaml"),
);

/** The file on this machine that a container sees at a path. */
function behind(service: string, path: string): string {
  for (const volume of compose.services[service]?.volumes ?? []) {
    const [from = "", to = ""] = volume.split(":");
    if (path === to || path.startsWith(`${to}/`))
      return join(resolve(COMPOSE, from), path.slice(to.length));
  }
  assert.fail(`${service} has nothing at ${path}`);
}

test("compose.yaml fits the schema of Compose, and its mounts exist", () => {
  const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(
    JSON.parse(readFileSync(composeSchema(), "utf8")),
  );
  assert.ok(validate(compose), JSON.stringify(validate.errors));
  const { sluice = assert.fail() } = compose.services;
  assert.ok(!validate({ services: { sluice: { ...sluice, volume: [] } } }), "keys are checked");
  for (const { volumes = [] } of Object.values(compose.services))
    for (const volume of volumes) {
      const [from = ""] = volume.split(":");
      assert.ok(existsSync(resolve(COMPOSE, from)), from);
    }
});

test("images have the versions that the charts and injected pods have", (t) => {
  const { prometheus } = parse(read("charts", "sluice", "values.yaml"));
  const { registry, repository, tag } = prometheus.image;
  assert.equal(compose.services["prometheus"]?.image, `${registry}/${repository}:${tag}`);
  const injected = loadInjector({
    env: variables("injector", { SIDECAR_IMAGE: "sluice:1" }),
    configPath: folderOf(t),
  });
  const envoyImage = `docker.io/${injected.injector.config.envoy.image}`;
  assert.equal(compose.services["envoy"]?.image, envoyImage);
});

test("Grafana finds the data source and the dashboards", () => {
  const provisioning = (kind: string) => {
    const folder = behind("grafana", `/etc/grafana/provisioning/${kind}`);
    return readdirSync(folder).map((name) => parse(readFileSync(join(folder, name), "utf8")));
  };
  const [{ datasources }] = provisioning("datasources");
  assert.deepEqual(
    datasources.map(({ type, url }: { readonly type: string; readonly url: string }) => [
      type,
      url,
    ]),
    [["prometheus", "http://prometheus:9090"]],
  );
  const [{ providers }] = provisioning("dashboards");
  const found = readdirSync(behind("grafana", providers[0].options.path));
  assert.deepEqual(found, readdirSync(join(DEPLOY, "grafana")));
  const home =
    compose.services["grafana"]?.environment?.["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"];
  assert.ok(existsSync(behind("grafana", home ?? "")));
});

test("Envoy accepts the bootstrap of deploy/compose, which listens where the published port leads", () => {
  const file = join(COMPOSE, "envoy.yaml");
  execFileSync(envoy(), ["--mode", "validate", "--config-path", file], { stdio: "pipe" });
  const { static_resources } = parse(read("compose", "envoy.yaml"));
  assert.deepEqual(static_resources.listeners[0].address, {
    socket_address: { address: "0.0.0.0", port_value: 10_000 },
  });
});

interface Panel {
  readonly title: string;
  readonly targets: readonly { readonly expr: string }[];
}

const panelsOf = (file: string): readonly Panel[] => JSON.parse(read("grafana", file)).panels;

/** Panels about other processes, shared counters, a metrics server that agents write to, and receivers of alerts. */
const EMPTY = ["Engine of shared counters", "Samples written to Prometheus", "Leaders", "Alerts"];

/** Refuses every flow at a limiter and at a scheduler. */
const CLOSED = `circuit:
  evaluation_interval: 1s
  components:
    - flow_control:
        concurrency_limiter:
          selectors: [{ control_point: limited }]
          in_ports: { max_concurrency: { constant_signal: { value: 0 } } }
          parameters: { max_inflight_duration: 60s }
    - flow_control:
        concurrency_scheduler:
          selectors: [{ control_point: scheduled }]
          in_ports: { max_concurrency: { constant_signal: { value: 0 } } }
          concurrency_limiter: { max_inflight_duration: 60s }
          scheduler: { default_workload_parameters: { queue_timeout: 0s } }
`;

test("Sluice, Envoy and Prometheus without containers fill the panels of the dashboards", async (t) => {
  const sluice = await standaloneProcess(t, {
    policies: {
      "closed.yaml": CLOSED,
      "per-user.yaml": read("policies", "per-user.yaml"),
      "adaptive-concurrency.yaml": read("scenarios", "policies", "adaptive-concurrency.yaml"),
      "priorities.yaml": read("scenarios", "policies", "priorities.yaml"),
    },
  });
  const envoyed = await startEnvoy(t, { agent: sluice.address, service: await startService(t) });
  const configuration = parse(read("compose", "prometheus.yaml"));
  configuration.global = { scrape_interval: "1s", evaluation_interval: "1s" };
  const [job] = configuration.scrape_configs;
  assert.deepEqual(job.static_configs, [{ targets: ["sluice:8080"] }]);
  job.static_configs = [{ targets: [sluice.address] }];
  configuration.rule_files = configuration.rule_files.map((path: string) =>
    behind("prometheus", path),
  );
  const { address } = await startPrometheus(t, { configuration });
  // biome-ignore lint/suspicious/noExplicitAny: replies of two kinds, whose fields the test names
  const ask = async (path: string): Promise<any> => {
    const reply = await (await fetch(`${address}/api/v1/${path}`)).text();
    const { status, data } = JSON.parse(reply);
    assert.equal(status, "success", reply);
    return data;
  };
  const send = () =>
    Promise.all(
      Array.from({ length: 8 }, (_, at) =>
        fetch(envoyed.url, { headers: { "x-user": `${at % 2}` } }).then((reply) => reply.text()),
      ),
    );
  const all = [...panelsOf("agents.json"), ...panelsOf("controllers.json")];
  const empty = async () => {
    await send();
    for (const point of ["limited", "scheduled"]) await passes(sluice.address, point);
    const filled = await Promise.all(
      all.map(async ({ title, targets }) => {
        const answers = await Promise.all(
          targets.map(({ expr }) =>
            ask(`query?query=${encodeURIComponent(expr.replaceAll("$__rate_interval", "10s"))}`),
          ),
        );
        return answers.some(({ result }) => result.length > 0) ? [] : [title];
      }),
    );
    return filled.flat();
  };
  let last: readonly string[] = [];
  await until("panels have data", async () => {
    last = await empty();
    return last.length === EMPTY.length;
    // The assertion says which panels have none.
  }).catch(() => undefined);
  assert.deepEqual(last, EMPTY);
  const { groups } = await ask("rules");
  assert.deepEqual(
    groups.map(({ name }: { readonly name: string }) => name),
    ["sluice-agent", "sluice-controller"],
  );
});
