// The part of the configuration that the controller reads, under the documented names.

import type { HttpClientSettings, ProxySettings } from "#client/http-settings.ts";
import type { PrometheusSettings } from "#prometheus/client.ts";
import type { QueryRunnerSettings } from "#prometheus/query-runner.ts";
import type { JobGroupSettings, JobSettings } from "#runtime/life/jobs.ts";
import type { AlertmanagerSettings } from "#telemetry/alerts/alertmanager.ts";
import type { AlertBatchSettings } from "#telemetry/alerts/alerts.ts";
import type { CheckpointSettings } from "./checkpoint/checkpoint-keeper.ts";

export interface ControllerSettings {
  readonly policies: {
    readonly default_agent_group: string;
    readonly promql_jobs_scheduler: QueryRunnerSettings;
    readonly checkpoints: CheckpointSettings;
    readonly removal_guard: number;
    readonly cr_watcher: { readonly enabled: boolean };
    readonly namespaces: readonly string[];
    readonly namespace_quota: number;
  };
  readonly auto_scale: { readonly kubernetes: { readonly enabled: boolean } };
  readonly gateway_api: {
    readonly enabled: boolean;
    readonly agents: string;
    readonly fail_open: boolean;
  };
  readonly kubernetes_client: { readonly http_client: HttpClientSettings };
  readonly prometheus: PrometheusSettings & { readonly http_client: HttpClientSettings };
  readonly client: { readonly proxy: ProxySettings };
  readonly alerter: { readonly channel_size: number };
  readonly alertmanagers: { readonly clients: readonly AlertmanagerSettings[] };
  readonly otel: { readonly batch_alerts: AlertBatchSettings };
  readonly liveness: { readonly scheduler: JobGroupSettings; readonly service: JobSettings };
}
