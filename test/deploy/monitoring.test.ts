// The alerts and dashboards of the charts: their metrics exist, Prometheus accepts their expressions, and each alert has a
// runbook page.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { globSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { walk } from "#promql/syntax/ast.ts";
import { parse as parsePromql } from "#promql/syntax/parse.ts";
import type { MetricRow } from "#telemetry/metrics/table/row.ts";
import { METRICS } from "#telemetry/metrics/table.ts";
import { prometheus } from "../../deploy/tools/install.ts";
import { folderOf } from "../kit/folder.ts";
import { type Chart, chartPath } from "../kit/kube/helm.ts";

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}

const ROOT = join(import.meta.dirname, "../..");
const CHARTS = ["sluice-agent", "sluice-controller"] as const;
const file = (chart: Chart, name: string) => chartPath(chart, "files", name);

/** The files with alerts of a chart. */
function alertFiles(chart: Chart): readonly string[] {
  return globSync("*alerts.yaml", { cwd: file(chart, "") }).map((name) => file(chart, name));
}

function alertsOf(chart: Chart): readonly Alert[] {
  return alertFiles(chart).flatMap((path) => {
    const { groups } = parse(readFileSync(path, "utf8"));
    return groups.flatMap(({ rules }: { readonly rules: readonly Alert[] }) => rules);
  });
}

function queriesOf(chart: Chart): readonly string[] {
  const { panels } = JSON.parse(readFileSync(file(chart, "dashboard.json"), "utf8"));
  return panels.flatMap(({ targets }: { readonly targets: readonly { readonly expr: string }[] }) =>
    targets.map(({ expr }) => expr),
  );
}

/** The selectors of an expression, and the labels by which it groups. */
function namesIn(expr: string) {
  const nodes = [...walk(parsePromql(expr.replaceAll("$__rate_interval", "1m")))];
  const grouping = nodes.flatMap((node) => (node.kind === "aggregate" ? node.grouping : []));
  return { selectors: nodes.filter((node) => node.kind === "selector"), grouping };
}

/** Labels that Prometheus gives to what it scrapes, and those of parts of histograms and summaries. */
const OUTER = ["namespace", "instance", "le", "quantile"];

/** The metric of a series: histograms have three series each. */
function metricOf(series: string): MetricRow | undefined {
  const table: Readonly<Record<string, MetricRow>> = METRICS;
  return table[series] ?? table[series.replace(/_(?:bucket|sum|count)$/, "")];
}

for (const chart of CHARTS) {
  test(`alerts and dashboard of ${chart} ask for metrics and labels that exist`, () => {
    const exprs = [...alertsOf(chart).map(({ expr }) => expr), ...queriesOf(chart)];
    assert.ok(exprs.length > 20);
    for (const expr of exprs) {
      const { selectors, grouping } = namesIn(expr);
      assert.ok(selectors.length > 0, expr);
      for (const { name, matchers } of selectors) {
        const metric = metricOf(name);
        assert.ok(metric, `${name} of ${expr}`);
        const known: readonly string[] = [...metric.labels, ...OUTER];
        for (const label of [...matchers.map(({ name: label }) => label), ...grouping])
          assert.ok(known.includes(label), `${label} of ${name} in ${expr}`);
      }
    }
  });

  test(`Prometheus accepts the alerts of ${chart} and the queries of its dashboard`, (t) => {
    prometheus();
    execFileSync("promtool", ["check", "rules", ...alertFiles(chart)], { stdio: "pipe" });
    const asRules = queriesOf(chart).map((expr, at) => ({
      record: `query_${at}`,
      expr: expr.replaceAll("$__rate_interval", "1m"),
    }));
    const text = JSON.stringify({ groups: [{ name: "dashboard", rules: asRules }] });
    const folder = folderOf(t, { "dashboard.yaml": text });
    execFileSync("promtool", ["check", "rules", join(folder, "dashboard.yaml")], { stdio: "pipe" });
  });
}

test("one shed check raises no alert, and an agent that goes on shedding does", (t) => {
  prometheus();
  const [alerts = ""] = alertFiles("sluice-agent");
  const firing = (values: string, exp_alerts: readonly object[]) => ({
    interval: "15s",
    input_series: [{ series: 'sluice_shed_checks_total{instance="a",namespace="n"}', values }],
    alert_rule_test: Array.from({ length: 20 }, (_, minute) => ({
      eval_time: `${minute}m`,
      alertname: "SluiceShedsChecks",
      exp_alerts: minute < 8 ? [] : exp_alerts,
    })),
  });
  const [alert] = alertsOf("sluice-agent").filter(({ alert }) => alert === "SluiceShedsChecks");
  const summary = alert?.annotations["summary"]
    ?.replace("{{ $labels.instance }}", "a")
    .replace("{{ $value }}", "1");
  const fires = {
    exp_labels: { severity: "warning", instance: "a", namespace: "n" },
    exp_annotations: { ...alert?.annotations, summary },
  };
  const tests = [firing("0x19 1x100", []), firing("0x19 15+15x100", [fires])];
  const text = JSON.stringify({ rule_files: [alerts], evaluation_interval: "15s", tests });
  const folder = folderOf(t, { "shed.yaml": text });
  execFileSync("promtool", ["test", "rules", join(folder, "shed.yaml")], { stdio: "pipe" });
});

test("a certificate raises an alert when it ought to be renewed, however long it lives", (t) => {
  prometheus();
  const DAY = 86_400;
  const certificate = (left: number, lifetime: number | undefined) => [
    { name: "certificate_expiry_seconds", value: left },
    ...(lifetime === undefined ? [] : [{ name: "certificate_lifetime_seconds", value: lifetime }]),
  ];
  const cases = [
    // The injector's own: from when it is made until it is replaced.
    { series: certificate(7 * DAY, 7 * DAY), fires: false },
    { series: certificate((7 * DAY) / 3, 7 * DAY), fires: false },
    { series: certificate(0.6 * DAY, 7 * DAY), fires: true },
    { series: certificate(30 * DAY, 365 * DAY), fires: false },
    { series: certificate(6 * DAY, 365 * DAY), fires: true },
    // A process of an older version does not say how long its certificate lives.
    { series: certificate(6 * DAY, undefined), fires: true },
  ];
  const sides = [
    { chart: "sluice-agent", alertname: "SluiceAgentCertificateExpires", leads: false },
    { chart: "sluice-controller", alertname: "SluiceControllerCertificateExpires", leads: true },
  ] as const;
  for (const { chart, alertname, leads } of sides) {
    const text = '{file="tls.crt",instance="a"}';
    const [rule] = alertsOf(chart).filter(({ alert }) => alert === alertname);
    assert.ok(rule);
    const tests = cases.flatMap(({ series, fires }) =>
      [true, false].map((isController) => ({
        interval: "15m",
        input_series: [
          ...series.map(({ name, value }) => ({
            series: `${name}${text}`,
            values: `${value}x20`,
          })),
          ...(isController ? [{ series: 'sluice_leader{instance="a"}', values: "1x20" }] : []),
        ],
        promql_expr_test: [
          {
            expr: `count(${rule.expr}) or vector(0)`,
            eval_time: "2h",
            exp_samples: [{ value: fires && isController === leads ? 1 : 0 }],
          },
        ],
      })),
    );
    assert.equal(tests.length, 2 * cases.length);
    const folder = folderOf(t, {
      "rules.json": JSON.stringify({ rule_files: [], evaluation_interval: "15m", tests }),
    });
    execFileSync("promtool", ["test", "rules", join(folder, "rules.json")], { stdio: "pipe" });
  }
});

test("each alert has a runbook page, and each page an alert", () => {
  const names = CHARTS.flatMap((chart) =>
    alertsOf(chart).map(({ alert, annotations }) => {
      assert.equal(annotations["runbook"], `docs/runbooks/${alert}.md`);
      return `${alert}.md`;
    }),
  );
  assert.deepEqual(readdirSync(join(ROOT, "docs/runbooks")).sort(), names.sort());
});

test("each dependency on the Kubernetes API has an alert, for each program that has it", () => {
  const asks = (file: Chart, dependency: string) =>
    alertsOf(file).some(({ expr }) =>
      namesIn(expr).selectors.some(
        ({ name, matchers }) =>
          name === "sluice_dependency_degraded" &&
          matchers.some(({ value }) => new RegExp(`^(?:${value})$`).test(dependency)),
      ),
    );
  const known = globSync("src/{agent,controller,injector}/**/*.ts", { cwd: ROOT }).flatMap((path) =>
    [...readFileSync(join(ROOT, path), "utf8").matchAll(/health\.dependency\("([^"]+)"\)/g)].map(
      ([, name = ""]): [Chart, string] => [
        path.startsWith("src/agent/") ? "sluice-agent" : "sluice-controller",
        name,
      ],
    ),
  );
  for (const name of ["sidecar-settings", "certificates", "webhook", "kubernetes", "discovery"])
    assert.ok(
      known.some(([, each]) => each === name),
      `${name} is a dependency`,
    );
  // Rules and the leadership have alerts by metrics of their own.
  for (const [chart, name] of known)
    if (!["rules", "leadership"].includes(name)) assert.ok(asks(chart, name), `${chart}: ${name}`);
});

test("runbook pages link to pages that exist", () => {
  const folder = join(ROOT, "docs/runbooks");
  for (const page of readdirSync(folder)) {
    const text = readFileSync(join(folder, page), "utf8");
    for (const [, link = ""] of text.matchAll(/\]\(([^)#]+)/g))
      assert.ok(readFileSync(join(folder, link), "utf8").length > 0, `${page}: ${link}`);
  }
});
