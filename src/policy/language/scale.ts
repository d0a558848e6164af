// Components that change the number of replicas of a Kubernetes object.

import {
  about,
  arm,
  configKey,
  duration,
  durationOr,
  flag,
  int64,
  list,
  message,
  number,
  part,
  published,
  required,
  text,
  type ValueOf,
} from "./field.ts";
import { input, ins, output, outs } from "./ports.ts";
import { agentGroup } from "./selector.ts";
import { alerterParameters } from "./signals.ts";

const MAX_INT64 = 9223372036854775807n;

const kubernetesObjectSelector = message("KubernetesObjectSelector", {
  agent_group: agentGroup(),
  namespace: about("Namespace of the object.", required(text())),
  api_version: about("Group and version, such as `apps/v1`.", required(text())),
  kind: about("Kind, such as `Deployment`.", required(text())),
  name: about("Name of the object.", required(text())),
});
const scaledObject = () =>
  about("The object that is scaled.", required(part(kubernetesObjectSelector)));

const dryRun = () =>
  ({
    dry_run: about("Decides and reports, but scales nothing.", flag()),
    dry_run_config_key: about(
      "Name under which dynamic configuration overrides `dry_run`.",
      configKey("boolean"),
    ),
  }) as const;

const reported = {
  actual_replicas: output("Replicas that run."),
  configured_replicas: output("Replicas that the object asks for."),
} as const;

export const podScaler = message("PodScaler", {
  in_ports: ins(message("PodScaler.Ins", { replicas: input("Replicas that are wanted.") })),
  out_ports: outs(message("PodScaler.Outs", reported)),
  ...dryRun(),
  kubernetes_object_selector: scaledObject(),
});
export type PodScaler = ValueOf<typeof podScaler>;

const kubernetesReplicas = message(
  "KubernetesReplicas",
  {
    kubernetes_object_selector: scaledObject(),
    min_replicas: about("Never fewer.", int64({ min: 0 })),
    max_replicas: about("Never more.", int64({ default: MAX_INT64, above: 0 })),
    out_ports: outs(
      message("KubernetesReplicas.Outs", {
        ...reported,
        desired_replicas: output("Replicas that the scaler asks for."),
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

const gradientIns = () =>
  ins(
    message("Gradient.Ins", {
      signal: input("What is measured."),
      setpoint: input("What the signal should be."),
    }),
  );
const slope = () =>
  about(
    "How strongly replicas answer to the ratio of signal and setpoint.",
    number({ default: 1 }),
  );

const increasingGradient = message("IncreasingGradient", {
  in_ports: gradientIns(),
  parameters: about(
    "How it answers.",
    part(
      message("IncreasingGradient.Parameters", {
        slope: slope(),
        max_gradient: about(
          "Greatest factor on the replicas.",
          number({ default: Number.MAX_VALUE, min: 1 }),
        ),
      }),
    ),
  ),
});

const decreasingGradient = message("DecreasingGradient", {
  in_ports: gradientIns(),
  parameters: about(
    "How it answers.",
    part(
      message("DecreasingGradient.Parameters", {
        slope: slope(),
        min_gradient: about(
          "Least factor on the replicas.",
          number({ default: -Number.MAX_VALUE, max: 1 }),
        ),
      }),
    ),
  ),
});

const periodicDecrease = message("PeriodicDecrease", {
  period: about("How often it proposes fewer.", required(duration({ positive: true }))),
  scale_in_percentage: about(
    "How many fewer, in percent of those that run; at least one.",
    required(number({ above: 0, max: 100 })),
  ),
});

const proposalAlert = () =>
  about("Alert that is raised when it proposes a change.", required(part(alerterParameters)));

const scaleOutController = message("ScaleOutController", {
  controller: about(
    "What proposes.",
    required(
      part(
        message(
          "ScaleOutController.Controller",
          {
            gradient: about(
              "Proposes more replicas while the signal is beyond its setpoint.",
              arm("controller", increasingGradient),
            ),
          },
          { oneOf: { controller: "scale-out controller" } },
        ),
      ),
    ),
  ),
  alerter: proposalAlert(),
});

const scaleInController = message("ScaleInController", {
  controller: about(
    "What proposes.",
    required(
      part(
        message(
          "ScaleInController.Controller",
          {
            gradient: about(
              "Proposes fewer replicas while the signal is below its setpoint.",
              arm("controller", decreasingGradient),
            ),
            periodic: about(
              "Proposes fewer replicas from time to time.",
              arm("controller", periodicDecrease),
            ),
          },
          { oneOf: { controller: "scale-in controller" } },
        ),
      ),
    ),
  ),
  alerter: proposalAlert(),
});

const scalingParameters = message("AutoScaler.ScalingParameters", {
  max_scale_out_percentage: about(
    "Most replicas that are added at once, in percent of those that run; at least one.",
    number({ default: 10 }),
  ),
  max_scale_in_percentage: about(
    "Most replicas that are taken away at once, in percent; at least one.",
    number({ default: 1 }),
  ),
  scale_out_cooldown: about("Wait after more replicas were asked for.", durationOr(30_000)),
  scale_in_cooldown: about("Wait after fewer replicas were asked for.", durationOr(120_000)),
  cooldown_override_percentage: about(
    "A proposal so far above the one that is held ends the wait for more, in percent.",
    number({ default: 50 }),
  ),
  scale_out_alerter: about("Alert when it scales out.", required(part(alerterParameters))),
  scale_in_alerter: about("Alert when it scales in.", required(part(alerterParameters))),
});

export const autoScaler = message("AutoScaler", {
  scaling_backend: about(
    "What is scaled.",
    required(
      part(
        message(
          "AutoScaler.ScalingBackend",
          {
            kubernetes_replicas: about(
              "Replicas of a Kubernetes object.",
              arm("scaler", kubernetesReplicas),
            ),
          },
          { oneOf: { scaler: "scaling backend" } },
        ),
      ),
    ),
  ),
  scale_out_controllers: about(
    "What asks for more; the greatest proposal counts.",
    list(part(scaleOutController)),
  ),
  scale_in_controllers: about(
    "What asks for fewer; the greatest proposal counts.",
    list(part(scaleInController)),
  ),
  scaling_parameters: about("Bounds, waits and alerts.", required(part(scalingParameters))),
  ...dryRun(),
});
export type AutoScaler = ValueOf<typeof autoScaler>;

export const autoScale = message(
  "AutoScale",
  {
    pod_scaler: about(
      "Asks for a number of replicas: the reading, cut to a whole number of at least 0. An invalid one leaves the scale alone.",
      published(arm("component", podScaler)),
    ),
    auto_scaler: about(
      "Scales by what its controllers propose, within bounds and with waits in between.",
      published(arm("component", autoScaler)),
    ),
  },
  { oneOf: { component: "auto_scale component" } },
);
