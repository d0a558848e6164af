// What the controller takes of its configuration, by the documented names.

import type { JobGroupSettings, JobSettings } from "#host/jobs.ts";
import type { AskerSettings } from "#prometheus/asker.ts";
import type { PrometheusSettings } from "#prometheus/client.ts";
import type { AlertBatchSettings, AlertmanagerSettings } from "#telemetry/alertmanager.ts";
import type { HttpClientSettings, ProxySettings } from "#wire/http-caller.ts";

export interface ControllerSettings {
  readonly policies: { readonly promql_jobs_scheduler: AskerSettings };
  readonly prometheus: PrometheusSettings & { readonly http_client: HttpClientSettings };
  readonly client: { readonly proxy: ProxySettings };
  readonly alerter: { readonly channel_size: number };
  readonly alertmanagers: { readonly clients: readonly AlertmanagerSettings[] };
  readonly otel: { readonly batch_alerts: AlertBatchSettings };
  readonly liveness: { readonly scheduler: JobGroupSettings; readonly service: JobSettings };
}
