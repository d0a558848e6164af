// `sluice agents`: the agents of a controller, the control points that they have seen, or the objects that it could scale.

import { EXIT } from "#runtime/life/run.ts";
import type { Json } from "../server.ts";
import type { Command } from "../subcommands.ts";
import { printJson } from "../terminal.ts";
import { openController } from "./ask.ts";
import { tableText } from "./table.ts";

export const agentsCommand: Command<"agents"> = async ({ flags }, terminal) => {
  const group = flags["agent-group"];
  const controller = await openController(flags, terminal);
  const query = group === undefined ? "" : `?agent_group=${encodeURIComponent(group)}`;
  const [path, text] = flags["auto-scale"]
    ? (["/v1/autoscale/kubernetes/controlpoints", scalePointsText] as const)
    : flags["control-points"]
      ? (["/v1/agents/controlpoints", pointsText] as const)
      : ([`/v1/agents${query}`, agentsText] as const);
  const reply = await controller.call("GET", path);
  if (flags.json) printJson(terminal, reply);
  else terminal.out(text(reply, group));
  return EXIT.clean;
};

function agentsText({ details }: Json): string {
  const rows = rowsOf(listOf(details), ["address", "hostname", "agent_group", "reached_by"]);
  return tableText("no agents", ["ADDRESS", "HOST", "GROUP", "REACHED BY"], rows);
}

function pointsText({ global_flow_control_points, errors_count }: Json, group?: string): string {
  const points = listOf(global_flow_control_points)
    .filter(({ agent_group }) => group === undefined || agent_group === group)
    .map(({ flow_control_point, agent_group }) => {
      const { service, ...point } = (flow_control_point ?? {}) as Json;
      return { ...point, service: service || "-", agent_group };
    });
  const rows = rowsOf(points, ["control_point", "type", "service", "agent_group"]);
  const text = tableText("no control points", ["CONTROL POINT", "TYPE", "SERVICE", "GROUP"], rows);
  const silent = Number(errors_count ?? 0);
  return silent === 0
    ? text
    : `${text}${silent} ${silent === 1 ? "agent" : "agents"} did not answer; the controller's log names them\n`;
}

function scalePointsText({ auto_scale_kubernetes_control_points }: Json): string {
  const points = listOf(auto_scale_kubernetes_control_points);
  const rows = rowsOf(points, ["api_version", "kind", "namespace", "name"]);
  return tableText(
    "no objects that policies could scale: auto_scale.kubernetes.enabled of the controller is false, or it may list none",
    ["API VERSION", "KIND", "NAMESPACE", "NAME"],
    rows,
  );
}

function rowsOf(objects: readonly Json[], keys: readonly string[]): readonly (readonly string[])[] {
  return objects.map((object) => keys.map((key) => String(object[key] ?? "")));
}

function listOf(value: unknown): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : [];
}
