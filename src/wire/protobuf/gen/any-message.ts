// The union of all messages described in this folder. Generated; do not edit.

import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import type * as aperture_autoscale_kubernetes_controlpoints_v1_controlpoints_pb_ts from "./aperture/autoscale/kubernetes/controlpoints/v1/controlpoints_pb.ts";
import type * as aperture_cmd_v1_cmd_pb_ts from "./aperture/cmd/v1/cmd_pb.ts";
import type * as aperture_discovery_entities_v1_entities_pb_ts from "./aperture/discovery/entities/v1/entities_pb.ts";
import type * as aperture_flowcontrol_check_v1_check_pb_ts from "./aperture/flowcontrol/check/v1/check_pb.ts";
import type * as aperture_flowcontrol_checkhttp_v1_checkhttp_pb_ts from "./aperture/flowcontrol/checkhttp/v1/checkhttp_pb.ts";
import type * as aperture_flowcontrol_controlpoints_v1_controlpoints_pb_ts from "./aperture/flowcontrol/controlpoints/v1/controlpoints_pb.ts";
import type * as aperture_flowcontrol_preview_v1_preview_pb_ts from "./aperture/flowcontrol/preview/v1/preview_pb.ts";
import type * as aperture_info_v1_info_pb_ts from "./aperture/info/v1/info_pb.ts";
import type * as aperture_peers_v1_peers_pb_ts from "./aperture/peers/v1/peers_pb.ts";
import type * as aperture_policy_language_v1_autoscale_pb_ts from "./aperture/policy/language/v1/autoscale_pb.ts";
import type * as aperture_policy_language_v1_flowcontrol_pb_ts from "./aperture/policy/language/v1/flowcontrol_pb.ts";
import type * as aperture_policy_language_v1_label_matcher_pb_ts from "./aperture/policy/language/v1/label_matcher_pb.ts";
import type * as aperture_policy_language_v1_policy_pb_ts from "./aperture/policy/language/v1/policy_pb.ts";
import type * as aperture_policy_language_v1_ports_pb_ts from "./aperture/policy/language/v1/ports_pb.ts";
import type * as aperture_policy_language_v1_query_pb_ts from "./aperture/policy/language/v1/query_pb.ts";
import type * as aperture_policy_language_v1_std_components_pb_ts from "./aperture/policy/language/v1/std_components_pb.ts";
import type * as aperture_policy_language_v1_telemetry_collector_pb_ts from "./aperture/policy/language/v1/telemetry_collector_pb.ts";
import type * as aperture_policy_sync_v1_classifier_pb_ts from "./aperture/policy/sync/v1/classifier_pb.ts";
import type * as aperture_policy_sync_v1_common_attributes_pb_ts from "./aperture/policy/sync/v1/common_attributes_pb.ts";
import type * as aperture_policy_sync_v1_concurrency_limiter_pb_ts from "./aperture/policy/sync/v1/concurrency_limiter_pb.ts";
import type * as aperture_policy_sync_v1_concurrency_scheduler_pb_ts from "./aperture/policy/sync/v1/concurrency_scheduler_pb.ts";
import type * as aperture_policy_sync_v1_flux_meter_pb_ts from "./aperture/policy/sync/v1/flux_meter_pb.ts";
import type * as aperture_policy_sync_v1_infra_meter_pb_ts from "./aperture/policy/sync/v1/infra_meter_pb.ts";
import type * as aperture_policy_sync_v1_load_scheduler_pb_ts from "./aperture/policy/sync/v1/load_scheduler_pb.ts";
import type * as aperture_policy_sync_v1_pod_scaler_pb_ts from "./aperture/policy/sync/v1/pod_scaler_pb.ts";
import type * as aperture_policy_sync_v1_policy_pb_ts from "./aperture/policy/sync/v1/policy_pb.ts";
import type * as aperture_policy_sync_v1_quota_scheduler_pb_ts from "./aperture/policy/sync/v1/quota_scheduler_pb.ts";
import type * as aperture_policy_sync_v1_rate_limiter_pb_ts from "./aperture/policy/sync/v1/rate_limiter_pb.ts";
import type * as aperture_policy_sync_v1_sampler_pb_ts from "./aperture/policy/sync/v1/sampler_pb.ts";
import type * as aperture_policy_sync_v1_telemetry_collector_pb_ts from "./aperture/policy/sync/v1/telemetry_collector_pb.ts";
import type * as aperture_policy_sync_v1_tick_pb_ts from "./aperture/policy/sync/v1/tick_pb.ts";
import type * as aperture_status_v1_status_pb_ts from "./aperture/status/v1/status_pb.ts";
import type * as etcdserverpb_rpc_pb_ts from "./etcdserverpb/rpc_pb.ts";
import type * as sluice_fleet_v1_calls_pb_ts from "./sluice/fleet/v1/calls_pb.ts";
import type * as sluice_fleet_v1_counters_pb_ts from "./sluice/fleet/v1/counters_pb.ts";

type In<File> = {
  [Key in keyof File]: File[Key] extends GenMessage<infer M> ? M : never;
}[keyof File];

export type AnyMessage =
  | In<typeof aperture_autoscale_kubernetes_controlpoints_v1_controlpoints_pb_ts>
  | In<typeof aperture_cmd_v1_cmd_pb_ts>
  | In<typeof aperture_discovery_entities_v1_entities_pb_ts>
  | In<typeof aperture_flowcontrol_check_v1_check_pb_ts>
  | In<typeof aperture_flowcontrol_checkhttp_v1_checkhttp_pb_ts>
  | In<typeof aperture_flowcontrol_controlpoints_v1_controlpoints_pb_ts>
  | In<typeof aperture_flowcontrol_preview_v1_preview_pb_ts>
  | In<typeof aperture_info_v1_info_pb_ts>
  | In<typeof aperture_peers_v1_peers_pb_ts>
  | In<typeof aperture_policy_language_v1_autoscale_pb_ts>
  | In<typeof aperture_policy_language_v1_flowcontrol_pb_ts>
  | In<typeof aperture_policy_language_v1_label_matcher_pb_ts>
  | In<typeof aperture_policy_language_v1_policy_pb_ts>
  | In<typeof aperture_policy_language_v1_ports_pb_ts>
  | In<typeof aperture_policy_language_v1_query_pb_ts>
  | In<typeof aperture_policy_language_v1_std_components_pb_ts>
  | In<typeof aperture_policy_language_v1_telemetry_collector_pb_ts>
  | In<typeof aperture_policy_sync_v1_classifier_pb_ts>
  | In<typeof aperture_policy_sync_v1_common_attributes_pb_ts>
  | In<typeof aperture_policy_sync_v1_concurrency_limiter_pb_ts>
  | In<typeof aperture_policy_sync_v1_concurrency_scheduler_pb_ts>
  | In<typeof aperture_policy_sync_v1_flux_meter_pb_ts>
  | In<typeof aperture_policy_sync_v1_infra_meter_pb_ts>
  | In<typeof aperture_policy_sync_v1_load_scheduler_pb_ts>
  | In<typeof aperture_policy_sync_v1_pod_scaler_pb_ts>
  | In<typeof aperture_policy_sync_v1_policy_pb_ts>
  | In<typeof aperture_policy_sync_v1_quota_scheduler_pb_ts>
  | In<typeof aperture_policy_sync_v1_rate_limiter_pb_ts>
  | In<typeof aperture_policy_sync_v1_sampler_pb_ts>
  | In<typeof aperture_policy_sync_v1_telemetry_collector_pb_ts>
  | In<typeof aperture_policy_sync_v1_tick_pb_ts>
  | In<typeof aperture_status_v1_status_pb_ts>
  | In<typeof etcdserverpb_rpc_pb_ts>
  | In<typeof sluice_fleet_v1_calls_pb_ts>
  | In<typeof sluice_fleet_v1_counters_pb_ts>;
