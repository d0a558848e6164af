// `sluice check`: asks a running agent about one request, given as flags or as JSON, and says in words what
// it answered and why.

import { Fault } from "#base/fault.ts";
import { EXIT } from "#host/run.ts";
import { readTextFile } from "#host/text-file.ts";
import { type Command, readArgs, type Terminal } from "./command.ts";

const OPTIONS = {
  address: { type: "string", default: "http://127.0.0.1:8080" },
  "control-point": { type: "string", default: "ingress" },
  method: { type: "string", default: "GET" },
  path: { type: "string", default: "/" },
  host: { type: "string" },
  header: { type: "string", multiple: true, default: [] as string[] },
  body: { type: "string" },
  "ramp-mode": { type: "boolean", default: false },
  "expect-end": { type: "boolean", default: false },
  json: { type: "boolean", default: false },
} as const;

/** The agent takes no larger body. */
const MAX_REQUEST_BYTES = 1024 * 1024;

/** Longest wait for an answer: an agent that needs more is broken. */
const PATIENCE_MS = 10_000;

interface LimiterDecision {
  readonly policy_name: string;
  readonly component_id: string;
  readonly dropped: boolean;
  readonly reason: string;
  readonly [info: `${string}_info`]: {
    readonly label: string;
    readonly tokens_info?: { readonly remaining: number; readonly current: number } | null;
  };
}

interface Answer {
  readonly denied_response?: { readonly status: number; readonly headers: Record<string, string> };
  readonly check_response: {
    readonly decision_type: string;
    readonly reject_reason: string;
    readonly limiter_decisions: readonly LimiterDecision[];
    readonly classifier_infos: readonly { policy_name: string; error: string }[];
    readonly telemetry_flow_labels: Readonly<Record<string, string>>;
  };
}

export const checkCommand: Command = async (args, terminal) => {
  const { values, positionals } = readArgs(args, OPTIONS, true);
  const [source] = positionals;
  const request = source === undefined ? requestOf(values) : await given(source, terminal);
  const url = new URL("/v1/flowcontrol/checkhttp", base(values.address));
  const reply = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: request,
    signal: AbortSignal.timeout(PATIENCE_MS),
  }).catch((cause: unknown) => {
    throw new Fault("UNAVAILABLE", `no agent answers at ${url.origin}`, { cause });
  });
  const text = await reply.text();
  if (!reply.ok) {
    terminal.err(`the agent answered ${reply.status}: ${text}\n`);
    return EXIT.usage;
  }
  const answer: Answer = JSON.parse(text);
  terminal.out(values.json ? `${text}\n` : inWords(answer));
  return answer.check_response.decision_type === "DECISION_TYPE_ACCEPTED"
    ? EXIT.clean
    : EXIT.refused;
};

function base(address: string): string {
  return /^https?:\/\//.test(address) ? address : `http://${address}`;
}

async function given(source: string, terminal: Terminal): Promise<string> {
  if (source !== "-") return readTextFile(source, MAX_REQUEST_BYTES);
  const chunks: Buffer[] = [];
  for await (const chunk of terminal.stdin) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString();
}

function requestOf(values: ReturnType<typeof readArgs<typeof OPTIONS>>["values"]): string {
  const headers: Record<string, string> = {};
  for (const header of values.header) {
    const [, name, value] = /^([^=:]+)[=:]\s*(.*)$/s.exec(header) ?? [];
    if (name === undefined || value === undefined) {
      throw new Fault("INVALID_ARGUMENT", "--header wants NAME=VALUE");
    }
    headers[name.toLowerCase()] = value;
  }
  const { method, path, host, body } = values;
  return JSON.stringify({
    control_point: values["control-point"],
    ramp_mode: values["ramp-mode"],
    expect_end: values["expect-end"],
    request: { method, path, host, body, headers },
  });
}

function inWords({ check_response: response, denied_response: denied }: Answer): string {
  const accepted = response.decision_type === "DECISION_TYPE_ACCEPTED";
  const reason = response.reject_reason.replace("REJECT_REASON_", "");
  const retry = denied?.headers["retry-after"];
  const refusal = `rejected: ${reason}, HTTP ${denied?.status}${retry ? `, retry after ${retry} s` : ""}`;
  const lines = [accepted ? "accepted" : refusal];
  for (const { policy_name, error } of response.classifier_infos) {
    lines.push(`  classifier of ${policy_name}: ${error.replace("ERROR_", "")}`);
  }
  for (const decision of response.limiter_decisions) lines.push(`  ${limiterInWords(decision)}`);
  if (response.limiter_decisions.length === 0) lines.push("  no limiter spoke about this request");
  return `${lines.join("\n")}\n`;
}

function limiterInWords(decision: LimiterDecision): string {
  const [kind = "", info] = Object.entries(decision).find(([name]) => name.endsWith("_info")) ?? [];
  const { label = "", tokens_info: tokens } = (info ?? {}) as LimiterDecision[`${string}_info`];
  const said = decision.dropped ? "refuses" : "grants";
  const missing = decision.reason === "LIMITER_REASON_KEY_NOT_FOUND" ? " (key label missing)" : "";
  const left = tokens
    ? `, ${round(tokens.remaining)} left of ${round(tokens.remaining + tokens.current)}`
    : "";
  const name = kind.replace("_info", "").replaceAll("_", " ");
  const key = label === "" ? "" : ` [${label}]`;
  return `${name} ${decision.policy_name}/${decision.component_id}${key} ${said}${missing}${left}`;
}

function round(tokens: number): number {
  return Math.round(tokens * 1_000) / 1_000;
}
