// Posts alerts to one Alertmanager (API v2).

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { HttpClient } from "#client/http.ts";
import type { Environment, HttpClientSettings, ProxySettings } from "#client/http-settings.ts";
import type { AlertReceiver, FiredAlert } from "./alerts.ts";

/** AlertmanagerConfig. */
export interface AlertmanagerSettings {
  /** Its name in log lines and metrics; empty means its address. */
  readonly name: string;
  /** A URL, host:port or host name. */
  readonly address: string;
  /** Empty or `/` means `/api/v2`, the path of the Alertmanager API. */
  readonly base_path: string;
  readonly http_client: HttpClientSettings;
}

interface AlertmanagerOptions {
  readonly proxy: ProxySettings;
  readonly env: Environment;
  readonly clock: Clock;
  readonly log?: Pick<Log, "debug" | "info" | "warn">;
  /** Host name of this process, which becomes a part of every alert. */
  readonly hostname: string;
}

/** An alert in Alertmanager's API. */
interface PostedAlert {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly startsAt: string;
  readonly endsAt: string;
  readonly generatorURL: string;
}

/** The last time that RFC 3339 can express. */
const MAX_TIME_MS = Date.UTC(9999, 11, 31, 23, 59, 59);

export class Alertmanager implements AlertReceiver {
  readonly name: string;
  readonly kind = { field: "alertmanager", phrase: "an Alertmanager" };
  readonly #url: string;
  readonly #http: HttpClient;
  readonly #hostname: string;

  /** @throws Fault for an address or TLS file that cannot be used */
  constructor(settings: AlertmanagerSettings, options: AlertmanagerOptions) {
    const { address, base_path: base, http_client } = settings;
    const { clock, proxy, env, hostname, log } = options;
    const url = alertsUrl(settings.name, address, base);
    // An address may hold credentials.
    this.name = settings.name || url.host;
    this.#url = url.href;
    this.#http = new HttpClient({
      settings: http_client,
      key: `alertmanagers.clients ${JSON.stringify(this.name)}: http_client`,
      proxy,
      env,
      clock,
      ...(log === undefined ? {} : { log }),
    });
    this.#hostname = hostname;
  }

  async send(alerts: readonly FiredAlert[]): Promise<"sent" | "refused"> {
    const { status } = await this.#http.call({
      method: "POST",
      url: this.#url,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(alerts.map((fired) => postedOf(fired, this.#hostname))),
    });
    if (status >= 200 && status < 300) return "sent";
    // These statuses reject the alerts; every other failure concerns the Alertmanager itself.
    if (status === 400 || status === 413 || status === 422) return "refused";
    throw new Fault("UNAVAILABLE", `it responded with status ${status}`);
  }

  close(): Promise<void> {
    return this.#http.close();
  }
}

/** The alert as Alertmanager receives it (control-plane specification, §7.3). */
function postedOf(fired: FiredAlert, hostname: string): PostedAlert {
  const { alert, policyName, startsAt, endsAt } = fired;
  return {
    labels: {
      alertname: alert.name,
      severity: alert.severity,
      alert_channels: alert.channels.join(","),
      policy_name: policyName,
      type: "alerter",
      component_id: alert.componentId,
      // Routes and inhibition rules of an Alertmanager can only match labels.
      namespace: hostname,
      ...Object.fromEntries(alert.labels),
      is_alert: "true",
    },
    annotations: {},
    startsAt: new Date(startsAt).toISOString(),
    endsAt: new Date(Math.min(endsAt, MAX_TIME_MS)).toISOString(),
    generatorURL: `http://${hostname}/${escaped(policyName)}/${escaped(alert.name)}`,
  };
}

/** Escapes only characters that would change the structure of the URL, so that names stay readable. */
function escaped(name: string): string {
  return name.replace(/[%?#\p{Cc}]/gu, encodeURIComponent);
}

function alertsUrl(name: string, address: string, base: string): URL {
  const url = URL.parse(address.includes("://") ? address : `http://${address}`);
  if (address === "" || url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    const wanted = "wanted host:port, a host name or an http:// or https:// URL";
    throw new Fault("INVALID_ARGUMENT", `alertmanagers.clients (${name}): address: ${wanted}`);
  }
  const inside = base.replace(/^\/+|\/+$/g, "") || "api/v2";
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/${inside}/alerts`;
  return url;
}
