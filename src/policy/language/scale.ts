// Components that change the number of replicas of a Kubernetes object.

import {
  arm,
  duration,
  durationOr,
  each,
  int64,
  list,
  message,
  nested,
  number,
  part,
  text,
  type ValueOf,
} from "./field.ts";
import { input, ins, output, outs, reading } from "./ports.ts";
import { agentGroup } from "./selector.ts";
import { alerterParameters, checkSetpoint, dryRun } from "./signals.ts";

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
    agent_group: agentGroup(1),
    namespace: text(2, { form: NAMESPACE }).required.about("Namespace of the object."),
    api_version: text(3, { form: API_VERSION }).required.about(
      "Group and version, such as `apps/v1`.",
    ),
    kind: text(4, { form: KIND }).required.about("Kind, such as `Deployment`."),
    name: text(5, { form: OBJECT_NAME }).required.about("Name of the object."),
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
const scaledObject = (tag: number) =>
  part(tag, kubernetesObjectSelector).required.about("The Kubernetes object to scale.");

const SCALES_NOTHING = "scales nothing";
const reported = {
  actual_replicas: output(1, "Replicas that are running."),
  configured_replicas: output(2, "Replicas that the object specifies."),
} as const;

const tooMany = (replicas: number | bigint) =>
  `${replicas} replicas are more than the ${PODS_OF_A_CLUSTER} pods for which Kubernetes is designed`;

const podScalerIns = message(
  "PodScaler.Ins",
  {
    replicas: input(
      1,
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
  in_ports: part(1, podScalerIns).about("In-ports."),
  out_ports: outs(2, reported),
  ...dryRun(3, SCALES_NOTHING),
  kubernetes_object_selector: scaledObject(5),
});
export type PodScaler = ValueOf<typeof podScaler>;

const kubernetesReplicas = message(
  "AutoScaler.ScalingBackend.KubernetesReplicas",
  {
    kubernetes_object_selector: scaledObject(1),
    min_replicas: int64(2, { min: 0 }).about("Lower bound of replicas."),
    max_replicas: int64(3, { default: MAX_INT64, above: 0 }).about("Upper bound of replicas."),
    out_ports: outs(4, {
      ...reported,
      desired_replicas: output(3, "Replicas that the auto scaler requests."),
    }),
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

const gradientIns = (tag: number) =>
  ins(
    tag,
    {
      signal: input(1, "The measured signal."),
      setpoint: input(2, "Target value of the signal."),
    },
    { check: ({ setpoint }, _, warn) => checkSetpoint(setpoint, warn) },
  );
const slope = (tag: number) =>
  number(tag, { default: 1 }).about("Exponent of the ratio of signal to setpoint.");

const increasingGradient = message("IncreasingGradient", {
  in_ports: gradientIns(1),
  parameters: nested(2, "Parameters", {
    slope: slope(1),
    max_gradient: number(3, { default: Number.MAX_VALUE, min: 1, special: "infinities" }).about(
      "Largest factor by which replicas are multiplied.",
    ),
  }).about("Slope and bound of the gradient."),
});

const decreasingGradient = message("DecreasingGradient", {
  in_ports: gradientIns(1),
  parameters: nested(2, "Parameters", {
    slope: slope(1),
    min_gradient: number(2, { default: -Number.MAX_VALUE, max: 1, special: "infinities" }).about(
      "Smallest factor by which replicas are multiplied.",
    ),
  }).about("Slope and bound of the gradient."),
});

const periodicDecrease = message("PeriodicDecrease", {
  period: duration(1, { positive: true }).required.about("Time between two proposals."),
  scale_in_percentage: number(2, { above: 0, max: 100 }).required.about(
    "Percentage of the running replicas to remove; at least one replica.",
  ),
});

const proposalAlert = (tag: number) =>
  part(tag, alerterParameters).required.about(
    "Alert raised while the controller proposes a change.",
  );

const scaleOutController = message("ScaleOutController", {
  controller: nested(
    1,
    "Controller",
    {
      gradient: arm(1, "controller", increasingGradient).about(
        "Proposes more replicas while the signal is beyond its setpoint.",
      ),
    },
    { oneOf: { controller: "scale-out controller" } },
  ).required.about("The controller."),
  alerter: proposalAlert(2),
});

const scaleInController = message("ScaleInController", {
  controller: nested(
    1,
    "Controller",
    {
      gradient: arm(1, "controller", decreasingGradient).about(
        "Proposes fewer replicas while the signal is below its setpoint.",
      ),
      periodic: arm(2, "controller", periodicDecrease).about(
        "Proposes fewer replicas periodically.",
      ),
    },
    { oneOf: { controller: "scale-in controller" } },
  ).required.about("The controller."),
  alerter: proposalAlert(2),
});

const STEPS = ["max_scale_out_percentage", "max_scale_in_percentage"] as const;

const scalingParameters = message(
  "AutoScaler.ScalingParameters",
  {
    max_scale_out_percentage: number(1, { default: 10, special: "infinities" }).about(
      "Maximum number of replicas added in one step, in percent of the running ones; at least one.",
    ),
    max_scale_in_percentage: number(2, { default: 1, special: "infinities" }).about(
      "Maximum number of replicas removed in one step, in percent of the running ones; at least one.",
    ),
    scale_out_cooldown: durationOr(3, 30_000).about(
      "Time after scaling out during which no further scaling happens.",
    ),
    scale_in_cooldown: durationOr(4, 120_000).about(
      "Time after scaling in during which there is no further scaling in.",
    ),
    cooldown_override_percentage: number(5, { default: 50, special: "infinities" }).about(
      "A proposal that exceeds the last one by this percentage ends the scale-out cooldown.",
    ),
    scale_out_alerter: part(6, alerterParameters).required.about("Alert raised when scaling out."),
    scale_in_alerter: part(7, alerterParameters).required.about("Alert raised when scaling in."),
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
  scaling_backend: nested(
    1,
    "ScalingBackend",
    {
      kubernetes_replicas: arm(1, "scaler", kubernetesReplicas).about(
        "Replicas of a Kubernetes object.",
      ),
    },
    { oneOf: { scaler: "scaling backend" } },
  ).required.about("What to scale."),
  scale_out_controllers: list(2, each(scaleOutController)).about(
    "Controllers that propose more replicas; the greatest proposal wins.",
  ),
  scale_in_controllers: list(3, each(scaleInController)).about(
    "Controllers that propose fewer replicas; the greatest proposal wins.",
  ),
  scaling_parameters: part(4, scalingParameters).required.about(
    "Step sizes, cooldowns and alerts.",
  ),
  ...dryRun(5, SCALES_NOTHING),
});
export type AutoScaler = ValueOf<typeof autoScaler>;

export const autoScale = message(
  "AutoScale",
  {
    pod_scaler: arm(1, "component", podScaler).about(
      "Requests a number of replicas: the input truncated to a whole number of at least 0. While the input is invalid, the scale stays as it is.",
    ),
    auto_scaler: arm(2, "component", autoScaler).about(
      "Scales by the proposals of its controllers, with bounds and cooldowns.",
    ),
  },
  { oneOf: { component: "auto_scale component" } },
);
