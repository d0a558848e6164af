// Components that change the number of replicas of a Kubernetes object.

import {
  arm,
  duration,
  durationOr,
  flag,
  int64,
  list,
  message,
  number,
  part,
  required,
  text,
  type ValueOf,
} from "./field.ts";
import { input, output } from "./ports.ts";
import { alerterParameters } from "./signals.ts";

const MAX_INT64 = 9223372036854775807n;

const kubernetesObjectSelector = message("KubernetesObjectSelector", {
  agent_group: text({ default: "default", filled: true, noSlash: true }),
  namespace: required(text()),
  api_version: required(text()),
  kind: required(text()),
  name: required(text()),
});

export const podScaler = message("PodScaler", {
  in_ports: part(message("PodScaler.Ins", { replicas: input() })),
  out_ports: part(
    message("PodScaler.Outs", { actual_replicas: output(), configured_replicas: output() }),
  ),
  dry_run: flag(),
  dry_run_config_key: text(),
  kubernetes_object_selector: required(part(kubernetesObjectSelector)),
});
export type PodScaler = ValueOf<typeof podScaler>;

const kubernetesReplicas = message(
  "KubernetesReplicas",
  {
    kubernetes_object_selector: required(part(kubernetesObjectSelector)),
    min_replicas: int64({ min: 0 }),
    max_replicas: int64({ default: MAX_INT64, above: 0 }),
    out_ports: part(
      message("KubernetesReplicas.Outs", {
        actual_replicas: output(),
        configured_replicas: output(),
        desired_replicas: output(),
      }),
    ),
  },
  {
    check({ min_replicas, max_replicas }, say) {
      if (max_replicas < min_replicas) {
        say(["max_replicas"], `at least min_replicas (${min_replicas})`, String(max_replicas));
      }
    },
  },
);

const gradientIns = part(message("Gradient.Ins", { signal: input(), setpoint: input() }));

const increasingGradient = message("IncreasingGradient", {
  in_ports: gradientIns,
  parameters: part(
    message("IncreasingGradient.Parameters", {
      slope: number({ default: 1 }),
      max_gradient: number({ default: Number.MAX_VALUE, min: 1 }),
    }),
  ),
});

const decreasingGradient = message("DecreasingGradient", {
  in_ports: gradientIns,
  parameters: part(
    message("DecreasingGradient.Parameters", {
      slope: number({ default: 1 }),
      min_gradient: number({ default: -Number.MAX_VALUE, max: 1 }),
    }),
  ),
});

const periodicDecrease = message("PeriodicDecrease", {
  period: required(duration({ positive: true })),
  scale_in_percentage: required(number({ above: 0, max: 100 })),
});

const scaleOutController = message("ScaleOutController", {
  controller: required(
    part(
      message(
        "ScaleOutController.Controller",
        { gradient: arm("controller", increasingGradient) },
        { oneOf: { controller: "scale-out controller" } },
      ),
    ),
  ),
  alerter: required(part(alerterParameters)),
});

const scaleInController = message("ScaleInController", {
  controller: required(
    part(
      message(
        "ScaleInController.Controller",
        {
          gradient: arm("controller", decreasingGradient),
          periodic: arm("controller", periodicDecrease),
        },
        { oneOf: { controller: "scale-in controller" } },
      ),
    ),
  ),
  alerter: required(part(alerterParameters)),
});

const scalingParameters = message("AutoScaler.ScalingParameters", {
  max_scale_out_percentage: number({ default: 10 }),
  max_scale_in_percentage: number({ default: 1 }),
  scale_out_cooldown: durationOr(30_000),
  scale_in_cooldown: durationOr(120_000),
  cooldown_override_percentage: number({ default: 50 }),
  scale_out_alerter: required(part(alerterParameters)),
  scale_in_alerter: required(part(alerterParameters)),
});

export const autoScaler = message("AutoScaler", {
  scaling_backend: required(
    part(
      message(
        "AutoScaler.ScalingBackend",
        { kubernetes_replicas: arm("scaler", kubernetesReplicas) },
        { oneOf: { scaler: "scaling backend" } },
      ),
    ),
  ),
  scale_out_controllers: list(part(scaleOutController)),
  scale_in_controllers: list(part(scaleInController)),
  scaling_parameters: required(part(scalingParameters)),
  dry_run: flag(),
  dry_run_config_key: text(),
});
export type AutoScaler = ValueOf<typeof autoScaler>;

export const autoScale = message(
  "AutoScale",
  {
    pod_scaler: arm("component", podScaler, "refused"),
    auto_scaler: arm("component", autoScaler, "refused"),
  },
  { oneOf: { component: "auto_scale component" } },
);
