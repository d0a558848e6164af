// Alerts on a fake clock, with the log lines and counts that they cause.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { Alert } from "#circuit/component.ts";
import { Alertmanager, type AlertmanagerSettings } from "#telemetry/alerts/alertmanager.ts";
import { type AlertReceiver, Alerts, type AlertsOptions } from "#telemetry/alerts/alerts.ts";
import { fakeClock } from "../../kit/clock.ts";
import { logTo } from "../../kit/sluice/log.ts";
import { clientSettings, type Heard, NO_PROXY } from "../../prometheus/kit.ts";

export const AT = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

export const WRONG: Alert = {
  componentId: "root.1",
  name: "Something is wrong",
  severity: "crit",
  resolveMs: 30_000,
  channels: ["ops", "dev"],
  labels: new Map([["team", "a"]]),
};

export function named(name: string): Alert {
  return { ...WRONG, name };
}

export function alertmanager(
  address: string,
  over: Partial<AlertmanagerSettings> = {},
): AlertmanagerSettings {
  return { name: "", address, base_path: "/", http_client: clientSettings(), ...over };
}

/** Alerts that are sent to Alertmanagers. */
export function alerts(
  t: TestContext,
  clients: readonly AlertmanagerSettings[],
  over: Partial<Pick<AlertsOptions, "queueSize" | "batch">> = {},
) {
  const environment = { clock: fakeClock(1_000, AT), proxy: NO_PROXY, env: {}, hostname: "HOST" };
  const receivers = clients.map((settings) => new Alertmanager(settings, environment));
  return alertsTo(t, receivers, environment.clock, over);
}

/** Alerts that are sent to any receivers. */
export function alertsTo(
  t: TestContext,
  receivers: readonly AlertReceiver[],
  clock = fakeClock(1_000, AT),
  over: Partial<Pick<AlertsOptions, "queueSize" | "batch">> = {},
) {
  const lines: string[] = [];
  const log = logTo((level, fields, message) => {
    lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  });
  const all = new Alerts({
    receivers,
    queueSize: 100,
    batch: { send_batch_max_size: 100, send_batch_size: 100, timeout: 1_000 },
    clock,
    log,
    ...over,
  });
  t.after(() => all.close());
  const counts = (only?: string): Readonly<Record<string, number>> => {
    const found: Record<string, number> = {};
    all.collect({
      wants: () => true,
      number: (metric, [name, ending], count) => {
        assert.equal(metric, "sluice_alerts_total");
        if (count > 0 && (only ?? name) === name) found[`${ending}`] = count;
      },
      buckets: () => assert.fail(),
      summary: () => assert.fail(),
    });
    return found;
  };
  return { all, clock, lines, counts };
}

export interface Post {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly startsAt: string;
  readonly endsAt: string;
  readonly generatorURL: string;
}

export function posted({ body }: Heard): readonly Post[] {
  return JSON.parse(body);
}

export function names(heard: readonly Heard[]): readonly (readonly string[])[] {
  return heard.map((each) => posted(each).map(({ labels }) => labels["alertname"] ?? ""));
}
