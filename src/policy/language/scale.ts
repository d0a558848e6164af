// Components that change the number of replicas of a Kubernetes object.

import { checkSetpoint } from "./control.ts";
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
  required,
  text,
  type ValueOf,
} from "./field.ts";
import { input, ins, output, outs, reading } from "./ports.ts";
import { agentGroup } from "./selector.ts";
import { alerterParameters } from "./signals.ts";

const MAX_INT64 = 9223372036854775807n;

/** The greatest number of replicas that Kubernetes can hold, an int32. */
const MOST_REPLICAS = 2 ** 31 - 1;

/** The number of pods for which Kubernetes clusters are designed (https://kubernetes.io/docs/setup/best-practices/cluster-large/). */
const PODS_OF_A_CLUSTER = 150_000;

const LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN = `${LABEL}(?:\\.${LABEL})*`;

// Kubernetes has no object under any other name, whatever a policy would do with it.
const NAMESPACE = {
  pattern: `^(?=.{1,63}$)${LABEL}$`,
  wanted: "a namespace: at most 63 lower case letters, digits and dashes",
} as const;
const API_VERSION = {
  pattern: `^(?:${SUBDOMAIN}/${LABEL}|v[a-z0-9]*)$`,
  wanted: "a group and a version such as apps/v1, or v1",
} as const;
const KIND = {
  pattern: "^[A-Za-z][A-Za-z0-9]*$",
  wanted: "a kind such as Deployment: letters and digits",
} as const;
const OBJECT_NAME = {
  pattern: `^(?=.{1,253}$)${SUBDOMAIN}$`,
  wanted: "a name of lower case letters, digits, dashes and dots, such as checkout-api",
} as const;

/** Kinds of Kubernetes' own objects that have a number of replicas, by their only group and version. */
const SCALABLE: ReadonlyMap<string, readonly string[]> = new Map([
  ["apps/v1", ["Deployment", "ReplicaSet", "StatefulSet"]],
  ["v1", ["ReplicationController"]],
]);

const SCALABLE_TEXT = [...SCALABLE]
  .map(([version, kinds]) => `${kinds.join(", ")} (${version})`)
  .join(" or ");

/** True for a version of a group that Kubernetes defines: others have a domain for a name, and any kinds. */
function isBuiltIn(apiVersion: string): boolean {
  const [group = ""] = apiVersion.includes("/") ? apiVersion.split("/") : [];
  return !group.includes(".") || group.endsWith(".k8s.io");
}

export const kubernetesObjectSelector = message(
  "KubernetesObjectSelector",
  {
    agent_group: agentGroup(),
    namespace: about("Namespace of the object.", required(text({ form: NAMESPACE }))),
    api_version: about(
      "Group and version, such as `apps/v1`.",
      required(text({ form: API_VERSION })),
    ),
    kind: about("Kind, such as `Deployment`.", required(text({ form: KIND }))),
    name: about("Name of the object.", required(text({ form: OBJECT_NAME }))),
  },
  {
    check({ api_version: version, kind }, _, warn) {
      if (!isBuiltIn(version) || SCALABLE.get(version)?.includes(kind) === true) return;
      const text = `Kubernetes has no ${kind} of ${version} with replicas to change: those of its own are ${SCALABLE_TEXT}`;
      warn("unusual_value", ["kind"], text);
    },
  },
);
export type KubernetesObjectSelector = ValueOf<typeof kubernetesObjectSelector>;
const scaledObject = () =>
  about("The Kubernetes object to scale.", required(part(kubernetesObjectSelector)));

const dryRun = () =>
  ({
    dry_run: about("Makes and reports decisions, but scales nothing.", flag()),
    dry_run_config_key: about(
      "Key of the dynamic configuration value that overrides `dry_run`.",
      configKey("boolean"),
    ),
  }) as const;

const reported = {
  actual_replicas: output("Replicas that are running."),
  configured_replicas: output("Replicas that the object specifies."),
} as const;

const tooMany = (replicas: number | bigint) =>
  `${replicas} replicas are more than the ${PODS_OF_A_CLUSTER} pods for which Kubernetes is designed`;

const podScalerIns = message(
  "PodScaler.Ins",
  {
    replicas: input(
      `Desired number of replicas. A constant must be a whole number from 0 to ${MOST_REPLICAS}.`,
    ),
  },
  {
    // A signal may be anything, and is truncated. A constant like that is a mistake of the author.
    check({ replicas }, refuse, warn) {
      const constant = replicas?.constant_signal;
      if (constant === undefined) return;
      const number = reading(constant);
      const key = constant.special_value === undefined ? "value" : "special_value";
      const path = ["replicas", "constant_signal", key];
      if (Number.isNaN(number)) {
        warn("unusual_value", path, "never a valid number, so the scale stays as it is");
      } else if (!Number.isInteger(number) || number < 0 || number > MOST_REPLICAS) {
        refuse(path, `a whole number from 0 to ${MOST_REPLICAS}`, String(number));
      } else if (number > PODS_OF_A_CLUSTER) warn("unusual_value", path, tooMany(number));
    },
  },
);

export const podScaler = message("PodScaler", {
  in_ports: ins(podScalerIns),
  out_ports: outs(message("PodScaler.Outs", reported)),
  ...dryRun(),
  kubernetes_object_selector: scaledObject(),
});
export type PodScaler = ValueOf<typeof podScaler>;

const kubernetesReplicas = message(
  "KubernetesReplicas",
  {
    kubernetes_object_selector: scaledObject(),
    min_replicas: about("Lower bound of replicas.", int64({ min: 0 })),
    max_replicas: about("Upper bound of replicas.", int64({ default: MAX_INT64, above: 0 })),
    out_ports: outs(
      message("KubernetesReplicas.Outs", {
        ...reported,
        desired_replicas: output("Replicas that the auto scaler requests."),
      }),
    ),
  },
  {
    check({ min_replicas, max_replicas }, refuse, warn) {
      if (max_replicas < min_replicas) {
        refuse(["max_replicas"], `at least min_replicas (${min_replicas})`, String(max_replicas));
      } else if (min_replicas > PODS_OF_A_CLUSTER) {
        warn("unusual_value", ["min_replicas"], tooMany(min_replicas));
      }
    },
  },
);

const gradientIns = () =>
  ins(
    message(
      "Gradient.Ins",
      {
        signal: input("The measured signal."),
        setpoint: input("Target value of the signal."),
      },
      { check: ({ setpoint }, _, warn) => checkSetpoint(setpoint, warn) },
    ),
  );
const slope = () => about("Exponent of the ratio of signal to setpoint.", number({ default: 1 }));

const increasingGradient = message("IncreasingGradient", {
  in_ports: gradientIns(),
  parameters: about(
    "Slope and bound of the gradient.",
    part(
      message("IncreasingGradient.Parameters", {
        slope: slope(),
        max_gradient: about(
          "Largest factor by which replicas are multiplied.",
          number({ default: Number.MAX_VALUE, min: 1, special: "infinities" }),
        ),
      }),
    ),
  ),
});

const decreasingGradient = message("DecreasingGradient", {
  in_ports: gradientIns(),
  parameters: about(
    "Slope and bound of the gradient.",
    part(
      message("DecreasingGradient.Parameters", {
        slope: slope(),
        min_gradient: about(
          "Smallest factor by which replicas are multiplied.",
          number({ default: -Number.MAX_VALUE, max: 1, special: "infinities" }),
        ),
      }),
    ),
  ),
});

const periodicDecrease = message("PeriodicDecrease", {
  period: about("Time between two proposals.", required(duration({ positive: true }))),
  scale_in_percentage: about(
    "Percentage of the running replicas to remove; at least one replica.",
    required(number({ above: 0, max: 100 })),
  ),
});

const proposalAlert = () =>
  about("Alert raised while the controller proposes a change.", required(part(alerterParameters)));

const scaleOutController = message("ScaleOutController", {
  controller: about(
    "The controller.",
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
    "The controller.",
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
              "Proposes fewer replicas periodically.",
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

const STEPS = ["max_scale_out_percentage", "max_scale_in_percentage"] as const;

const scalingParameters = message(
  "AutoScaler.ScalingParameters",
  {
    max_scale_out_percentage: about(
      "Maximum number of replicas added in one step, in percent of the running ones; at least one.",
      number({ default: 10, special: "infinities" }),
    ),
    max_scale_in_percentage: about(
      "Maximum number of replicas removed in one step, in percent of the running ones; at least one.",
      number({ default: 1, special: "infinities" }),
    ),
    scale_out_cooldown: about(
      "Time after scaling out during which no further scaling happens.",
      durationOr(30_000),
    ),
    scale_in_cooldown: about(
      "Time after scaling in during which there is no further scaling in.",
      durationOr(120_000),
    ),
    cooldown_override_percentage: about(
      "A proposal that exceeds the last one by this percentage ends the scale-out cooldown.",
      number({ default: 50, special: "infinities" }),
    ),
    scale_out_alerter: about("Alert raised when scaling out.", required(part(alerterParameters))),
    scale_in_alerter: about("Alert raised when scaling in.", required(part(alerterParameters))),
  },
  {
    check(parameters, _, warn) {
      for (const step of STEPS) {
        const percentage = parameters[step];
        if (percentage < 0)
          warn("unusual_value", [step], `${percentage}, so that each step is one replica`);
      }
    },
  },
);

export const autoScaler = message("AutoScaler", {
  scaling_backend: about(
    "What to scale.",
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
    "Controllers that propose more replicas; the greatest proposal wins.",
    list(part(scaleOutController)),
  ),
  scale_in_controllers: about(
    "Controllers that propose fewer replicas; the greatest proposal wins.",
    list(part(scaleInController)),
  ),
  scaling_parameters: about("Step sizes, cooldowns and alerts.", required(part(scalingParameters))),
  ...dryRun(),
});
export type AutoScaler = ValueOf<typeof autoScaler>;

export const autoScale = message(
  "AutoScale",
  {
    pod_scaler: about(
      "Requests a number of replicas: the input truncated to a whole number of at least 0. While the input is invalid, the scale stays as it is.",
      arm("component", podScaler),
    ),
    auto_scaler: about(
      "Scales by the proposals of its controllers, with bounds and cooldowns.",
      arm("component", autoScaler),
    ),
  },
  { oneOf: { component: "auto_scale component" } },
);
