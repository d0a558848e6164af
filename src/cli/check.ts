// `sluice check`: asks a running agent about one request, given as flags or as JSON, and says in words what
// it answered and why.

import { Fault } from "#base/fault.ts";
import { loadConfig } from "#config/load.ts";
import { EXIT } from "#host/run.ts";
import { readTextFile } from "#host/text-file.ts";
import { type Command, readArgs, readInput, type Terminal } from "./command.ts";

const OPTIONS = {
  address: { type: "string" },
  json: { type: "boolean" },
  "control-point": { type: "string" },
  method: { type: "string" },
  path: { type: "string" },
  host: { type: "string" },
  header: { type: "string", multiple: true },
  body: { type: "string" },
  "ramp-mode": { type: "boolean" },
  "expect-end": { type: "boolean" },
} as const;

const ROUTE = "/v1/flowcontrol/checkhttp";

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
  const { address, json, ...flags } = values;
  const url = address === undefined ? configuredAddress(terminal) : namedAddress(address);
  const request =
    positionals.length === 0
      ? requestOf(flags)
      : await given(positionals, Object.keys(flags), terminal);
  const answer = await ask(url, request);
  terminal.out(json === true ? `${JSON.stringify(answer)}\n` : inWords(answer));
  return answer.check_response.decision_type === "DECISION_TYPE_ACCEPTED"
    ? EXIT.clean
    : EXIT.refused;
};

async function ask(url: URL, request: string): Promise<Answer> {
  const reply = await fetch(new URL(ROUTE, url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: request,
    signal: AbortSignal.timeout(PATIENCE_MS),
  }).catch((thrown: unknown) => {
    throw nobody(url, whyUnanswered(thrown));
  });
  const body = jsonOf(
    await reply.text().catch((thrown) => Promise.reject(nobody(url, whyUnanswered(thrown)))),
  );
  if (reply.ok && typeof body?.["check_response"] === "object") return body as unknown as Answer;
  const told = body?.["message"];
  if (reply.ok || typeof told !== "string") {
    throw nobody(url, `HTTP ${reply.status} to POST ${ROUTE}, not as an agent answers`);
  }
  const code = reply.status < 500 ? "INVALID_ARGUMENT" : "UNAVAILABLE";
  throw new Fault(code, `the agent at ${url.origin} answered ${reply.status}: ${told}`);
}

function jsonOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === "object" && read !== null ? { ...read } : undefined;
  } catch {
    return undefined;
  }
}

function nobody({ origin }: URL, why: string): Fault {
  const remedy =
    "start one with `sluice standalone --policies DIR`, or name another with --address";
  return new Fault("UNAVAILABLE", `no agent answers at ${origin} (${why}); ${remedy}`);
}

/** Of a failed fetch: the system's code where it has one. Its own message may show a password of the address. */
function whyUnanswered(thrown: unknown): string {
  if (!(thrown instanceof Error)) return "unknown";
  if (thrown.name === "TimeoutError") return `nothing within ${PATIENCE_MS / 1_000} s`;
  const { cause } = thrown;
  if (!(cause instanceof Error)) return "the request cannot be made";
  return "code" in cause && typeof cause.code === "string" ? cause.code : cause.message;
}

/** The text itself is not repeated: it may hold a password. */
function namedAddress(text: string): URL {
  const url = urlOf(text, "http");
  const odd = url === undefined ? "what is none of them" : oddOf(url);
  if (url !== undefined && odd === undefined) return url;
  const wanted = "--address: wanted HOST:PORT, http://HOST:PORT or https://HOST:PORT";
  throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${odd}`);
}

function oddOf({ protocol, username, password, pathname, search, hash }: URL): string | undefined {
  if (protocol !== "http:" && protocol !== "https:") return "another scheme";
  if (username !== "" || password !== "") return "one with a user or a password";
  return pathname !== "/" || search !== "" || hash !== "" ? "one with a path or more" : undefined;
}

/** Where an agent listens that reads the same configuration. */
function configuredAddress({ env }: Terminal): URL {
  const { listener, tls } = loadConfig("agent", { env }).config.server;
  const unix = listener.addr.startsWith("unix:");
  const url = unix ? undefined : urlOf(listener.addr, tls.enabled ? "https" : "http");
  if (url !== undefined) return url;
  const got = `none, and server.listener.addr is ${unix ? "a Unix socket" : "no part of a URL"}`;
  throw new Fault("INVALID_ARGUMENT", `--address: wanted HOST:PORT or a URL, got ${got}`);
}

/** Without a host it is this machine. */
function urlOf(text: string, scheme: "http" | "https"): URL | undefined {
  const local = text.startsWith(":") ? `127.0.0.1${text}` : text;
  const full = /^[a-z]+:\/\//i.test(local) ? local : `${scheme}://${local}`;
  return URL.canParse(full) ? new URL(full) : undefined;
}

/** A request as JSON; flags beside it would be ignored, so they are refused. */
async function given(
  sources: readonly string[],
  flags: readonly string[],
  terminal: Terminal,
): Promise<string> {
  const [source = "-", ...more] = sources;
  if (more.length > 0) {
    throw new Fault("INVALID_ARGUMENT", `check: wanted one FILE, got ${sources.length}`);
  }
  if (flags.length > 0) {
    const got = flags.map((name) => `--${name}`).join(", ");
    throw new Fault(
      "INVALID_ARGUMENT",
      `check: wanted FILE or flags of a request, got FILE and ${got}`,
    );
  }
  return source === "-"
    ? readInput(terminal, MAX_REQUEST_BYTES)
    : readTextFile(source, MAX_REQUEST_BYTES);
}

type RequestFlags = Omit<ReturnType<typeof readArgs<typeof OPTIONS>>["values"], "address" | "json">;

function requestOf(values: RequestFlags): string {
  const headers: Record<string, string> = {};
  for (const header of values.header ?? []) {
    const [, name, value] = /^([^=:]+)[=:]\s*(.*)$/s.exec(header) ?? [];
    if (name === undefined || value === undefined) {
      // Not the text itself: it may be a secret of which only the = is missing.
      const got = /^[=:]/.test(header) ? "one without NAME" : "one without =";
      throw new Fault("INVALID_ARGUMENT", `--header: wanted NAME=VALUE, got ${got}`);
    }
    headers[name.toLowerCase()] = value;
  }
  const { method = "GET", path = "/", host, body } = values;
  return JSON.stringify({
    control_point: values["control-point"] ?? "ingress",
    ramp_mode: values["ramp-mode"] ?? false,
    expect_end: values["expect-end"] ?? false,
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
    const told = error === "ERROR_NONE" ? "no error" : error.replace("ERROR_", "");
    lines.push(`  classifier of ${policy_name}: ${told}`);
  }
  for (const decision of response.limiter_decisions) lines.push(`  ${limiterInWords(decision)}`);
  if (response.limiter_decisions.length === 0) lines.push("  no limiter spoke about this request");
  return `${lines.join("\n")}\n`;
}

function limiterInWords(decision: LimiterDecision): string {
  const [kind = "", info] = Object.entries(decision).find(([name]) => name.endsWith("_info")) ?? [];
  const { label = "", tokens_info: tokens } = (info ?? {}) as LimiterDecision[`${string}_info`];
  const said = decision.dropped ? "refuses" : "grants";
  const keyless = decision.reason === "LIMITER_REASON_KEY_NOT_FOUND";
  const missing = keyless ? " (key label missing)" : "";
  // Without a key no bucket was asked: its zeros say nothing.
  const left =
    tokens && !keyless
      ? `, ${round(tokens.remaining)} left of ${round(tokens.remaining + tokens.current)}`
      : "";
  const name = kind.replace("_info", "").replaceAll("_", " ");
  const key = label === "" ? "" : ` [${label}]`;
  return `${name} ${decision.policy_name}/${decision.component_id}${key} ${said}${missing}${left}`;
}

function round(tokens: number): number {
  return Math.round(tokens * 1_000) / 1_000;
}
