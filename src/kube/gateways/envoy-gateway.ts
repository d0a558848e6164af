// The SecurityPolicy that makes Envoy Gateway call agents. Its context extensions contain the control point, and its status
// tells for each Gateway whether Envoy Gateway accepts it.

import { TARGET_GROUP, type Target } from "#policy/document/targets.ts";
import { fieldOf, listOf, textOf } from "../api/objects.ts";
import type { AttachSettings } from "./attach-settings.ts";

export function securityPolicy(
  { kind, name, section, controlPoint }: Target,
  { agents, failOpen }: AttachSettings,
): object {
  const [host = "", port] = agents.split(":");
  const [service, namespace] = host.split(".");
  return {
    targetRefs: [
      {
        group: TARGET_GROUP,
        kind,
        name,
        ...(section === undefined ? {} : { sectionName: section }),
      },
    ],
    // Otherwise this would replace another SecurityPolicy of the whole Gateway, such as a login.
    ...(kind === "HTTPRoute" ? { mergeType: "StrategicMerge" } : {}),
    extAuth: {
      grpc: { backendRefs: [{ name: service, namespace, port: Number(port) }] },
      timeout: "250ms",
      failOpen,
      // Clients would mistake the default, 403, for a rejection.
      statusOnError: 503,
      contextExtensions: [
        { name: "control-point", type: "Value", value: controlPoint },
        // Clients of a gateway choose their baggage, so its members must not become labels.
        { name: "client-baggage", type: "Value", value: "ignore" },
      ],
    },
  };
}

/** The reason why Envoy Gateway does not apply all of a SecurityPolicy; undefined when it does. */
export function unaccepted(policy: unknown, generation: number): string | undefined {
  const ancestors = listOf(fieldOf(policy, "status"), "ancestors").map((ancestor) =>
    listOf(ancestor, "conditions"),
  );
  const conditions = ancestors.flat();
  const of = (type: string, status: string) =>
    conditions.find((each) => textOf(each, "type") === type && textOf(each, "status") === status);
  const refused = of("Accepted", "False") ?? of("Overridden", "True");
  if (refused !== undefined)
    return `Envoy Gateway says ${textOf(refused, "reason")}: ${textOf(refused, "message")}`;
  const isSeen = (each: unknown) =>
    textOf(each, "type") === "Accepted" &&
    Number(fieldOf(each, "observedGeneration") ?? 0) >= generation;
  if (ancestors.length > 0 && ancestors.every((each) => each.some(isSeen))) return undefined;
  return "Envoy Gateway has not said yet whether it accepts its SecurityPolicy";
}
