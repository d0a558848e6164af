// `sluice agents`: the agents of a controller, the control points that they have seen, or the objects that it could scale.

import { EXIT } from "#runtime/life/run.ts";
import { type Command, readArgs } from "../command.ts";
import { CONTROLLER_OPTIONS, type Json, openController } from "./ask.ts";
import { tableText } from "./table.ts";

export const agentsCommand: Command = async (args, terminal) => {
  const options = {
    ...CONTROLLER_OPTIONS,
    "agent-group": { type: "string" },
    "control-points": { type: "boolean" },
    "auto-scale": { type: "boolean" },
  } as const;
  const { values } = readArgs(args, options);
  const group = values["agent-group"];
  const controller = await openController(values, terminal);
  const query = group === undefined ? "" : `?agent_group=${encodeURIComponent(group)}`;
  const [path, text] = values["auto-scale"]
    ? (["/v1/autoscale/kubernetes/controlpoints", scalePointsText] as const)
    : values["control-points"]
      ? (["/v1/agents/controlpoints", pointsText] as const)
      : ([`/v1/agents${query}`, agentsText] as const);
  const reply = await controller.call("GET", path);
  terminal.out(
    values.json === true ? `${JSON.stringify(reply, undefined, 2)}\n` : text(reply, group),
  );
  return EXIT.clean;
};

function agentsText({ details }: Json): string {
  const agents = listOf(details);
  if (agents.length === 0) return "no agents\n";
  const rows = agents.map((agent) =>
    ["address", "hostname", "agent_group", "reached_by"].map((key) => String(agent[key] ?? "")),
  );
  return tableText(["ADDRESS", "HOST", "GROUP", "REACHED BY"], rows);
}

function pointsText({ global_flow_control_points, errors_count }: Json, group?: string): string {
  const rows = listOf(global_flow_control_points)
    .filter(({ agent_group }) => group === undefined || agent_group === group)
    .map(({ flow_control_point, agent_group }) => {
      const { control_point, type, service } = (flow_control_point ?? {}) as Json;
      return [control_point, type, service || "-", agent_group].map((cell) => String(cell ?? ""));
    });
  const text =
    rows.length === 0
      ? "no control points\n"
      : tableText(["CONTROL POINT", "TYPE", "SERVICE", "GROUP"], rows);
  const silent = Number(errors_count ?? 0);
  return silent === 0
    ? text
    : `${text}${silent} ${silent === 1 ? "agent" : "agents"} did not answer; the controller's log names them\n`;
}

function scalePointsText({ auto_scale_kubernetes_control_points }: Json): string {
  const rows = listOf(auto_scale_kubernetes_control_points).map((point) =>
    ["api_version", "kind", "namespace", "name"].map((key) => String(point[key] ?? "")),
  );
  return rows.length === 0
    ? "no objects that policies could scale: auto_scale.kubernetes.enabled of the controller is false, or it may list none\n"
    : tableText(["API VERSION", "KIND", "NAMESPACE", "NAME"], rows);
}

function listOf(value: unknown): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : [];
}
