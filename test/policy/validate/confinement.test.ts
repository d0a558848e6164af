// What a policy of a namespace may reach. Each rule is shown by a policy that is fine without a namespace.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findingLine } from "#policy/format.ts";
import { compileSet } from "#policy/set.ts";
import { CONSTANT_PORTS, circuit, OPTIONS } from "../kit.ts";

const SERVICE = "web.shop.svc.cluster.local";

function limiter(selectors: string): string {
  return `flow_control: {rate_limiter: {in_ports: {${CONSTANT_PORTS}}, parameters: {interval: 1s}, selectors: [${selectors}]}}`;
}

function refused(text: string, namespace: string | undefined = "shop"): readonly string[] {
  const policy = { source: "p.yaml", defaultName: "p", text, namespace };
  return compileSet([policy], OPTIONS).findings.map(findingLine);
}

/** The faults that a policy has only because it is confined. */
function confined(text: string): readonly string[] {
  const [free] = [compileSet([{ source: "p.yaml", defaultName: "p", text }], OPTIONS)];
  assert.deepEqual(free.findings.map(findingLine), []);
  return refused(text);
}

describe("a policy of a namespace", () => {
  it("selects the services of its namespace, in any domain", () => {
    for (const service of [SERVICE, "web.shop.svc.example.com", "a-b.shop.svc.local"])
      assert.deepEqual(confined(circuit(limiter(`{control_point: a, service: ${service}}`))), []);
  });

  it("selects the gateways and routes of its namespace, whatever the service, and no others", () => {
    for (const kind of ["gateway", "httproute"]) {
      const at = (namespace: string) =>
        confined(circuit(limiter(`{control_point: ${kind}/${namespace}/web}`)));
      assert.deepEqual(at("shop"), []);
      for (const other of ["pay", "shop2", "SHOP"]) assert.equal(at(other).length, 1, other);
    }
    assert.equal(confined(circuit(limiter("{control_point: shop/web}"))).length, 1);
  });

  it("is of the namespace, also where its document does not say so", () => {
    const object = (metadata: string, spec: string) =>
      refused(
        `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: {${metadata}}\nspec:\n  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: web}]\n${spec.replace(/^/gm, "  ")}`,
      );
    const spec = circuit(limiter("{}"));
    assert.deepEqual(object("name: p", spec), []);
    assert.deepEqual(object("name: p, namespace: shop", spec), []);
    const lines = object("name: p, namespace: pay", spec);
    assert.match(lines.join("\n"), /metadata\.namespace: wanted shop, got "pay"/);
  });

  it("selects no other service, and not every one", () => {
    const others = [
      "web.pay.svc.cluster.local",
      "shop",
      "web.shop",
      "web.shop.svc",
      "web.shop.svc.",
      ".shop.svc.cluster.local",
      "shop.svc.cluster.local",
      "a.web.shop.svc.cluster.local",
      "web.shop.pod.cluster.local",
      "web.SHOP.svc.cluster.local",
    ];
    for (const service of others) {
      const [line = ""] = confined(circuit(limiter(`{control_point: a, service: ${service}}`)));
      assert.match(
        line,
        /selectors\[0\]\.service: wanted a service of the namespace shop, such as/,
      );
      assert.ok(line.includes(`got "${service}"`), line);
    }
    for (const selector of ["{control_point: a}", "{control_point: a, service: any}"]) {
      const own = `{control_point: a, service: ${SERVICE}}`;
      const [line = "", ...more] = confined(circuit(limiter(`${own}, ${selector}`)));
      assert.match(line, /selectors\[1\]\.service: .*, got any, which is every service$/);
      assert.deepEqual(more, []);
    }
  });

  it("is confined in nested circuits and in resources as well", () => {
    const nested = circuit(`nested_circuit: {components: [{${limiter("{control_point: a}")}}]}`);
    assert.match(
      confined(nested)[0] ?? "",
      /components\[0\]\.nested_circuit\.components\[0\]\..*selectors\[0\]\.service: /,
    );
    const selectors = "selectors: [{control_point: a}]";
    const resources = `resources: {flow_control: {
      classifiers: [{rules: {user: {extractor: {from: request.http.host}}}, ${selectors}}],
      flux_meters: {shop/latency: {${selectors}}}}}`;
    assert.deepEqual(
      confined(resources).map((line) => /resources\.[^:]*/.exec(line)?.[0]),
      [
        "resources.flow_control.classifiers[0].selectors[0].service",
        'resources.flow_control.flux_meters["shop/latency"].selectors[0].service',
      ],
    );
  });

  it("scales what is in its namespace", () => {
    const scaler = (namespace: string) =>
      circuit(
        `auto_scale: {pod_scaler: {in_ports: {replicas: {constant_signal: {value: 3}}}, kubernetes_object_selector: {namespace: ${namespace}, api_version: apps/v1, kind: Deployment, name: api}}}`,
      );
    assert.deepEqual(confined(scaler("shop")), []);
    assert.match(
      confined(scaler("pay"))[0] ?? "",
      /kubernetes_object_selector\.namespace: wanted shop: .*, got "pay"$/,
    );
  });

  it("calls flux meters after its namespace, since their names are everybody's", () => {
    const meter = (name: string) =>
      `resources: {flow_control: {flux_meters: {${name}: {selectors: [{control_point: a, service: ${SERVICE}}]}}}}`;
    assert.deepEqual(confined(meter("shop/latency")), []);
    for (const name of ["latency", "shopping/latency", "pay/latency"])
      assert.match(
        confined(meter(name))[0] ?? "",
        /flux_meters.*wanted a name that begins with shop\//,
      );
  });

  it("has no infra meters, which agents run for everybody", () => {
    const meters = "{load: {receivers: {a: {}}}}";
    assert.match(
      confined(`resources: {infra_meters: ${meters}}`)[0] ?? "",
      /resources\.infra_meters: wanted none: .*, got 1$/,
    );
    assert.match(
      confined(`resources: {telemetry_collectors: [{infra_meters: ${meters}}]}`)[0] ?? "",
      /resources\.telemetry_collectors: wanted none: /,
    );
  });

  it("does not raise alerts in the name of another policy", () => {
    const alerter = (label: string) =>
      circuit(
        `alerter: {in_ports: {signal: {constant_signal: {value: 1}}}, parameters: {alert_name: a, labels: {${label}: b}}}`,
      );
    assert.deepEqual(confined(alerter("team")), []);
    for (const label of ["policy_name", "alertname", "namespace", "severity", "component_id"]) {
      const [line = ""] = confined(alerter(label));
      assert.ok(line.includes(`parameters.labels.${label}: wanted another label`), line);
    }
  });

  it("takes no more of the controller than a tick a second of a thousand components", () => {
    const own = limiter(`{control_point: a, service: ${SERVICE}}`);
    const every = (interval: string) =>
      circuit(own).replace("circuit:", `$&\n  evaluation_interval: ${interval}`);
    assert.deepEqual(confined(every("1s")), []);
    assert.match(
      confined(every("0.5s"))[0] ?? "",
      /circuit\.evaluation_interval: wanted 0s, or at least 1s, .*, got 0\.5s$/,
    );
    const many = (count: number) =>
      circuit(...Array.from({ length: count }, () => "and: {in_ports: {}}"));
    assert.deepEqual(confined(many(1_000)), []);
    assert.match(
      confined(many(1_001))[0] ?? "",
      /circuit\.components: wanted at most 1000 components, .*, got 1001$/,
    );
  });
});
