// Probes and hooks in the specification of an injected pod: those of the application's port ask Envoy, all others stay.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isObject, type JsonObject } from "#injector/pod.ts";
import {
  application,
  assertValid,
  containerOf,
  injected,
  injectInto,
  OLD,
  podWith,
  SETTINGS,
} from "../kit.ts";

const WITH_ENVOY = { "sluice/envoy-inject": "true" };

function listenersOf(pod: JsonObject): readonly string[] {
  const [, text] = containerOf(pod, "sluice-envoy")["args"] as readonly string[];
  const { listeners } = JSON.parse(text ?? "").static_resources;
  return listeners.map(({ name }: { readonly name: string }) => name);
}

function mutated(fields: JsonObject, annotations: object = {}, changed = {}) {
  const pod = podWith({
    annotations: { ...WITH_ENVOY, ...annotations },
    spec: { containers: [application(fields)] },
  });
  const found = injected(pod, changed);
  return { ...found, own: containerOf(found.whole, "application") };
}

const times = { initialDelaySeconds: 3, periodSeconds: 7, timeoutSeconds: 2, failureThreshold: 4 };
const asked = {
  startupProbe: { tcpSocket: { port: 9_000 }, ...times },
  readinessProbe: {
    httpGet: { path: "/ready", port: 9_000, httpHeaders: [{ name: "a", value: "b" }] },
    ...times,
  },
  livenessProbe: { grpc: { port: 9_000, service: "shop" }, ...times },
};

test("probes and hooks of the application's port ask Envoy, with everything else that they say", () => {
  const postStart = { httpGet: { path: "/begun", port: 9_000, scheme: "HTTPS" } };
  const { whole, warnings, own } = mutated({ ...asked, lifecycle: { postStart } });
  assertValid(whole);
  assert.deepEqual(listenersOf(whole), ["ingress", "probes"]);
  const port = 14_580;
  assert.deepEqual(own["startupProbe"], {
    httpGet: { path: "/.sluice/tcp", port, scheme: "HTTP" },
    ...times,
  });
  assert.deepEqual(own["readinessProbe"], {
    httpGet: { path: "/ready", port, scheme: "HTTP", httpHeaders: [{ name: "a", value: "b" }] },
    ...times,
  });
  assert.deepEqual(own["livenessProbe"], { grpc: { port, service: "shop" }, ...times });
  assert.ok(isObject(own["lifecycle"]));
  assert.deepEqual(own["lifecycle"]["postStart"], {
    httpGet: { path: "/.sluice/https/begun", port, scheme: "HTTP" },
  });
  assert.match(
    warnings.join("\n"),
    /application speaks TLS to port 9000, to which Envoy speaks cleartext/,
  );
  assert.deepEqual(injectInto(whole).outcome, "unchanged");
});

test("probes stay as they are where they ask something else, or the pod wants it", () => {
  const ports = [
    { name: "http", containerPort: 9_000 },
    { name: "admin", containerPort: 9_001 },
  ];
  const others = {
    ports,
    startupProbe: { exec: { command: ["true"] } },
    readinessProbe: { httpGet: { path: "/", port: "admin" } },
    livenessProbe: { tcpSocket: { port: 9_000, host: "192.0.2.1" } },
  };
  for (const [fields, annotations] of [
    [others, {}],
    [{ ports, ...asked }, { "sluice/envoy-probes": "false" }],
  ] as const) {
    const { whole, own } = mutated(fields, annotations);
    for (const [name, probe] of Object.entries(fields)) assert.deepEqual(own[name], probe, name);
    assert.deepEqual(listenersOf(whole), ["ingress"]);
  }
  const without = injected(podWith({ spec: { containers: [application(asked)] } }));
  assert.deepEqual(
    containerOf(without.whole, "application")["readinessProbe"],
    asked.readinessProbe,
  );
});

test("a pod of an old cluster, too; and the port gives way to one that the pod mentions", () => {
  const env = [{ name: "OTHER", value: "http://127.0.0.1:14580" }];
  const { own, whole } = mutated({ ...asked, env }, {}, { abilities: OLD });
  assert.deepEqual(listenersOf(whole), ["ingress", "probes"]);
  const { httpGet } = own["readinessProbe"] as JsonObject;
  assert.ok(isObject(httpGet));
  assert.equal(httpGet["port"], 14_581);
  assert.equal(injectInto(whole, { abilities: OLD }).outcome, "unchanged");
});

test("an Envoy with a configuration of its own leaves probes as they are", () => {
  const spec = {
    containers: [
      application(asked),
      { name: "sluice-envoy", image: "own:1", args: ["--config-path", "/own.yaml"] },
    ],
  };
  const settings = { ...SETTINGS, envoy: { ...SETTINGS.envoy, inject: true } };
  const { whole } = injected(podWith({ spec }), { settings });
  const { readinessProbe } = containerOf(whole, "application");
  assert.deepEqual(readinessProbe, asked.readinessProbe);
});
