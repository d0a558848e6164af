// Alerts of circuits on their way to Alertmanagers: each has its own bounded queue, so that one which is
// slow or gone keeps nothing from the others, and nothing from the circuits.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Alert } from "#circuit/component.ts";
import {
  type Environment,
  HttpCaller,
  type HttpClientSettings,
  type ProxySettings,
} from "#wire/http-caller.ts";
import type { Sink, Source } from "./metrics-table.ts";

/** AlertmanagerConfig. */
export interface AlertmanagerSettings {
  /** Names it in the log and in metrics; empty: its address. */
  readonly name: string;
  /** A URL, host:port or a name. */
  readonly address: string;
  /** Empty or `/`: `/api/v2`, where Alertmanagers have their API. */
  readonly base_path: string;
  readonly http_client: HttpClientSettings;
}

/** BatchAlertsConfig; milliseconds. */
export interface AlertBatchSettings {
  /** Most alerts of one request; 0 is no limit. */
  readonly send_batch_max_size: number;
  /** So many alerts are sent at once; 0 leaves it to the timeout. */
  readonly send_batch_size: number;
  readonly timeout: number;
}

export interface AlertsOptions {
  readonly clients: readonly AlertmanagerSettings[];
  /** `alerter.channel_size`: alerts that may wait for each Alertmanager. */
  readonly channel_size: number;
  readonly batch: AlertBatchSettings;
  readonly proxy: ProxySettings;
  readonly env: Environment;
  readonly hostname: string;
  readonly clock: Clock;
  readonly log: AlertLog;
}

interface AlertLog {
  info(fields: Readonly<Record<string, unknown>>, message: string): void;
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
}

/** What becomes of alerts: `dropped` found no room, `failed` could not be sent, `refused` are not liked. */
type AlertEnding = "sent" | "failed" | "refused" | "dropped";

/** As Alertmanager's API has it. */
interface Posted {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly startsAt: string;
  readonly endsAt: string;
  readonly generatorURL: string;
}

const ENDINGS: readonly AlertEnding[] = ["sent", "failed", "refused", "dropped"];
/** Names of refused alerts that are remembered, so that each is told of once. */
const REFUSED = 1_000;
/** The last moment that RFC 3339 has a form for. */
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59);
/** Time that the last batch has when everything ends. */
const CLOSE_MS = 2_000;

export class Alerts implements Source {
  readonly #hostname: string;
  readonly #outlets: readonly Outlet[];

  /** Throws a Fault for an address or TLS files that cannot be used. */
  constructor(options: AlertsOptions) {
    this.#hostname = options.hostname;
    this.#outlets = options.clients.map((client) => new Outlet(client, options));
  }

  /** An alert that fires now, `at` (Unix ms); it resolves by itself unless it fires again. Never waits. */
  fire(alert: Alert, policyName: string, at: number): void {
    const posted = postedOf(alert, policyName, at, this.#hostname);
    for (const outlet of this.#outlets) outlet.put(posted);
  }

  collect(to: Sink): void {
    for (const name of new Set(this.#outlets.map((outlet) => outlet.name))) {
      const same = this.#outlets.filter((outlet) => outlet.name === name);
      for (const ending of ENDINGS) {
        const count = same.reduce((sum, { counts }) => sum + counts[ending], 0);
        to.number("sluice_alerts_total", [name, ending], count);
      }
    }
  }

  /** Sends what waits, for 2 s at most. */
  async close(): Promise<void> {
    await Promise.all(this.#outlets.map((outlet) => outlet.close()));
  }
}

/** §7.3. */
function postedOf(alert: Alert, policyName: string, at: number, hostname: string): Posted {
  return {
    labels: {
      alertname: alert.name,
      severity: alert.severity,
      alert_channels: alert.channels.join(","),
      policy_name: policyName,
      type: "alerter",
      component_id: alert.componentId,
      ...Object.fromEntries(alert.labels),
      is_alert: "true",
    },
    annotations: { namespace: hostname },
    startsAt: new Date(at).toISOString(),
    endsAt: new Date(Math.min(at + alert.resolveMs, LAST_MS)).toISOString(),
    generatorURL: `http://${hostname}/${escaped(policyName)}/${escaped(alert.name)}`,
  };
}

/** Only what would make it no URL, or another one: names stay readable. */
function escaped(name: string): string {
  return name.replace(/[%?#\p{Cc}]/gu, encodeURIComponent);
}

/** One Alertmanager with what waits for it. */
class Outlet {
  readonly name: string;
  readonly counts: Record<AlertEnding, number> = { sent: 0, failed: 0, refused: 0, dropped: 0 };
  readonly #url: string;
  readonly #http: HttpCaller;
  readonly #options: AlertsOptions;
  /** By what makes an alert the same one: firing again while it waits only prolongs it. */
  readonly #waiting = new Map<string, Posted>();
  #disarm: (() => void) | undefined;
  #sending: Promise<void> | undefined;
  readonly #refused = new Set<string>();
  #well = true;
  #closed = false;

  constructor(settings: AlertmanagerSettings, options: AlertsOptions) {
    const { address, base_path: base, http_client } = settings;
    const { clock, proxy, env } = options;
    const url = alertsUrl(settings.name, address, base);
    // An address may hold credentials.
    this.name = settings.name || url.host;
    this.#url = url.href;
    this.#http = new HttpCaller({ settings: http_client, proxy, env, clock });
    this.#options = options;
  }

  put(alert: Posted): void {
    if (this.#closed) return;
    const key = JSON.stringify([alert.labels, alert.generatorURL]);
    const before = this.#waiting.get(key);
    this.#waiting.set(key, before === undefined ? alert : { ...before, endsAt: alert.endsAt });
    const [oldest] = this.#waiting.keys();
    if (this.#waiting.size > Math.max(1, this.#options.channel_size) && oldest !== undefined) {
      this.#waiting.delete(oldest);
      this.counts.dropped += 1;
    }
    this.#arm();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#disarm?.();
    const disarm = this.#options.clock.alarm(CLOSE_MS, () => void this.#http.close());
    await this.#sending;
    // The first failure ends it: an Alertmanager that is gone is not asked once per batch.
    while (this.#waiting.size > 0 && this.#well) await this.#send();
    disarm();
    this.counts.dropped += this.#waiting.size;
    this.#waiting.clear();
    await this.#http.close();
  }

  /** Sends at once what fills a batch, and anything when it has waited its time. One batch at a time. */
  #arm(): void {
    if (this.#closed || this.#sending !== undefined || this.#waiting.size === 0) return;
    const { clock, batch } = this.#options;
    const { send_batch_size: enough, timeout } = batch;
    if (enough > 0 && this.#waiting.size >= enough) this.#begin();
    else this.#disarm ??= clock.alarm(timeout, () => this.#begin());
  }

  #begin(): void {
    this.#disarm?.();
    this.#disarm = undefined;
    this.#sending = this.#send().finally(() => {
      this.#sending = undefined;
      this.#arm();
    });
  }

  async #send(): Promise<void> {
    const most = this.#options.batch.send_batch_max_size || this.#waiting.size;
    const batch = [...this.#waiting].slice(0, most);
    for (const [key] of batch) this.#waiting.delete(key);
    await this.#post(batch.map(([, alert]) => alert));
  }

  /** A batch that is refused goes again in halves, down to the alert that is not liked. */
  async #post(alerts: readonly Posted[]): Promise<void> {
    const outcome = await this.#attempt(alerts);
    if (outcome !== "refused" || alerts.length <= 1) {
      this.counts[outcome] += alerts.length;
      if (outcome === "refused") this.#tellRefused(alerts[0]?.labels["alertname"] ?? "");
      return;
    }
    const half = Math.ceil(alerts.length / 2);
    await this.#post(alerts.slice(0, half));
    await this.#post(alerts.slice(half));
  }

  async #attempt(alerts: readonly Posted[]): Promise<Exclude<AlertEnding, "dropped">> {
    try {
      const { status } = await this.#http.call({
        method: "POST",
        url: this.#url,
        headers: { "content-type": "application/json" },
        body: JSON.stringify(alerts),
      });
      // What it answers to alerts that it cannot take; every other status is about more than these.
      const refused = status === 400 || status === 413 || status === 422;
      const taken = status >= 200 && status < 300;
      this.#tell(taken || refused ? undefined : `it answered with status ${status}`);
      if (taken) return "sent";
      return refused ? "refused" : "failed";
    } catch (thrown) {
      this.#tell(Fault.from(thrown).message);
      return "failed";
    }
  }

  /** One line when it fails and one when it is well again. */
  #tell(trouble: string | undefined): void {
    const { log } = this.#options;
    const alertmanager = this.name;
    if (trouble !== undefined && this.#well) {
      log.warn({ alertmanager, why: trouble }, "alerts do not reach an Alertmanager");
    } else if (trouble === undefined && !this.#well) {
      log.info({ alertmanager }, "alerts reach an Alertmanager again");
    }
    this.#well = trouble === undefined;
  }

  #tellRefused(alert: string): void {
    if (this.#refused.has(alert)) return;
    if (this.#refused.size >= REFUSED) this.#refused.clear();
    this.#refused.add(alert);
    const fields = { alertmanager: this.name, alert };
    this.#options.log.warn(fields, "an Alertmanager does not take an alert");
  }
}

function alertsUrl(name: string, address: string, base: string): URL {
  const url = URL.parse(address.includes("://") ? address : `http://${address}`);
  if (address === "" || url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    const wanted = "wanted host:port, a name or an http:// or https:// URL";
    throw new Fault("INVALID_ARGUMENT", `alertmanagers.clients (${name}): address: ${wanted}`);
  }
  const inside = base.replace(/^\/+|\/+$/g, "") || "api/v2";
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/${inside}/alerts`;
  return url;
}
