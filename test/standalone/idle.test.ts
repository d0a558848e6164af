// The table of keys without effect is equal to what the process really leaves unread. Two runs, since some
// keys are read only where others ask for it (TLS, forwarding, profiles).

import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import { idleKeys } from "#config/effects.ts";
import { leaves, PROCESSES } from "#config/tree.ts";
import { realClock } from "#host/clock.ts";
import { startStandalone } from "#standalone/standalone.ts";
import { call } from "../kit/check.ts";
import { configOf, recordReads } from "../kit/config.ts";
import { folderOf } from "../kit/folder.ts";
import { until } from "../kit/port.ts";
import { authority } from "../kit/tls.ts";

/** Asks, and alerts, at every tick. */
const LOOP = `circuit:
  evaluation_interval: 0.05s
  components:
    - query: { promql: { query_string: up, evaluation_interval: 0.05s, out_ports: { output: { signal_name: UP } } } }
    - alerter:
        in_ports: { signal: { constant_signal: { value: 1 } } }
        parameters: { alert_name: a }
`;

type Env = Readonly<Record<string, string>>;

/** Boots with these variables, stops, and tells which keys of either tree were looked at. */
async function readBy(policies: string, env: Env, controllerEnv: Env = {}) {
  const agent = configOf("agent", {
    SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SVC_AGENT_LOG_LEVEL: "error",
    SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
    ...env,
  });
  const controller = configOf("controller", controllerEnv);
  const agentReads = recordReads("agent", agent.config);
  const controllerReads = recordReads("controller", controller.config);
  const scope = new Scope();
  const { port } = await startStandalone({
    config: {
      agent: { ...agent, config: agentReads.config },
      controller: { ...controller, config: controllerReads.config },
    },
    policies,
    chance: seededChance(1),
    life: {
      argv: [],
      env: {},
      clock: realClock(),
      scope,
      stopping: new AbortController().signal,
      speakThrough: ({ close }) => scope.add("log", () => close?.()),
      fail: (message) => assert.fail(message),
    },
  });
  // Some settings are looked at when a request comes.
  if (env["SVC_AGENT_SERVER_TLS_ENABLED"] === undefined)
    await call(port.address, "GET", "/metrics");
  // Others when a circuit asks or alerts.
  if (controllerEnv["SVC_CONTROLLER_PROMETHEUS_ADDRESS"] !== undefined) {
    const { read } = controllerReads;
    await until("a query and an alert were on their way", () =>
      [
        "prometheus.http_client.proxy_connect_header",
        "otel.batch_alerts.send_batch_max_size",
      ].every((key) => read.has(key)),
    );
  }
  await scope.close("drain");
  return { agent: agentReads.read, controller: controllerReads.read };
}

test("what has no effect is what nobody reads", async (t) => {
  const folder = folderOf(t);
  const files = authority(folderOf(t), "own");
  const runs = [
    await readBy(
      folderOf(t, { "loop.yaml": LOOP }),
      { SVC_AGENT_SERVER_GRPC_GATEWAY_GRPC_SERVER_ADDRESS: "127.0.0.1:1" },
      {
        SVC_CONTROLLER_PROMETHEUS_ADDRESS: "https://metrics.invalid:1",
        SVC_CONTROLLER_CLIENT_PROXY_HTTPS: "http://127.0.0.1:1",
        SVC_CONTROLLER_PROMETHEUS_HTTP_CLIENT_USE_PROXY: "true",
        SVC_CONTROLLER_ALERTMANAGERS_CLIENTS: '[{"address":"127.0.0.1:1"}]',
        SVC_CONTROLLER_OTEL_BATCH_ALERTS_TIMEOUT: "1ms",
      },
    ),
    await readBy(folder, {
      SVC_AGENT_SERVER_TLS_ENABLED: "true",
      SVC_AGENT_SERVER_TLS_CERT_FILE: files.certFile,
      SVC_AGENT_SERVER_TLS_KEY_FILE: files.keyFile,
      SVC_AGENT_PROFILERS_CPU_PROFILER: "true",
      SVC_AGENT_PROFILERS_PROFILES_PATH: folderOf(t),
      SVC_AGENT_LOG_WRITERS: '[{"file":"stderr"}]',
    }),
  ];
  for (const process of ["agent", "controller"] as const) {
    const read = new Set(runs.flatMap((run) => [...run[process]]));
    const unread = leaves(PROCESSES[process].table)
      .map(({ path }) => path)
      .filter((path) => !read.has(path));
    assert.deepEqual(unread, idleKeys(process));
  }
});
