// `sluice check`: asks a running agent whether one request may pass. The request is given as flags or as JSON; the
// decision and its reasons are printed in words or as JSON.

import { Fault } from "#base/fault.ts";
import { loadConfig } from "#config/load.ts";
import { EXIT } from "#host/life/run.ts";
import { readTextFile } from "#host/life/text-file.ts";
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

/** The largest body that an agent accepts. */
const MAX_REQUEST_BYTES = 1024 * 1024;

/** Milliseconds to wait for a reply: an agent that takes longer is broken. */
const TIMEOUT_MS = 10_000;

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

interface ClassifierInfo {
  readonly policy_name: string;
  readonly error: string;
  /** Why the source of a label could not be read. */
  readonly unreadable?: string;
}

interface Reply {
  readonly denied_response?: { readonly status: number; readonly headers: Record<string, string> };
  readonly check_response: {
    readonly decision_type: string;
    readonly reject_reason: string;
    readonly limiter_decisions: readonly LimiterDecision[];
    readonly classifier_infos: readonly ClassifierInfo[];
    readonly telemetry_flow_labels: Readonly<Record<string, string>>;
  };
}

export const checkCommand: Command = async (args, terminal) => {
  const { values, positionals } = readArgs(args, OPTIONS, true);
  const { address, json, ...flags } = values;
  const url = address === undefined ? configuredAddress(terminal) : namedAddress(address);
  const request =
    positionals.length === 0
      ? requestOfFlags(flags)
      : await requestFrom(positionals, Object.keys(flags), terminal);
  const reply = await post(url, request);
  terminal.out(json === true ? `${JSON.stringify(reply)}\n` : replyText(reply));
  return reply.check_response.decision_type === "DECISION_TYPE_ACCEPTED"
    ? EXIT.clean
    : EXIT.refused;
};

async function post(url: URL, request: string): Promise<Reply> {
  const reply = await fetch(new URL(ROUTE, url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: request,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  }).catch((thrown: unknown) => {
    throw noAgent(url, failureText(thrown));
  });
  const body = jsonOf(
    await reply.text().catch((thrown) => Promise.reject(noAgent(url, failureText(thrown)))),
  );
  if (reply.ok && typeof body?.["check_response"] === "object") return body as unknown as Reply;
  const message = body?.["message"];
  if (reply.ok || typeof message !== "string") {
    throw noAgent(url, `HTTP ${reply.status} to POST ${ROUTE}, unlike an agent`);
  }
  const code = reply.status < 500 ? "INVALID_ARGUMENT" : "UNAVAILABLE";
  throw new Fault(code, `the agent at ${url.origin} answered ${reply.status}: ${message}`);
}

function jsonOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === "object" && read !== null ? { ...read } : undefined;
  } catch {
    return undefined;
  }
}

function noAgent({ origin }: URL, why: string): Fault {
  const remedy =
    "start one with `sluice standalone --policies DIR`, or name another with --address";
  return new Fault("UNAVAILABLE", `no agent answers at ${origin} (${why}); ${remedy}`);
}

/** Why a fetch failed: the code of the system error, if there is one. The message of fetch may show a password. */
function failureText(thrown: unknown): string {
  if (!(thrown instanceof Error)) return "unknown";
  if (thrown.name === "TimeoutError") return `nothing within ${TIMEOUT_MS / 1_000} s`;
  const { cause } = thrown;
  // fetch refuses a list of ports by itself, such as 1 and 6000, and never connects.
  if (cause instanceof Error && cause.message === "bad port") {
    return "this client must not connect to that port; choose another port for the agent";
  }
  if (!(cause instanceof Error)) return "the request cannot be made";
  return "code" in cause && typeof cause.code === "string" ? cause.code : cause.message;
}

/** The message does not repeat the text, which may hold a password. */
function namedAddress(text: string): URL {
  const url = urlOf(text, "http");
  const unwanted = url === undefined ? unreadable(text) : unwantedPart(url);
  if (url !== undefined && unwanted === undefined) return url;
  const wanted = "--address: wanted HOST:PORT, http://HOST:PORT or https://HOST:PORT";
  throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${unwanted}`);
}

function unreadable(text: string): string {
  const [, port] = /:(\d+)\/?$/.exec(text) ?? [];
  return Number(port) > 65_535 ? "a port above 65535" : "something else";
}

function unwantedPart({
  protocol,
  username,
  password,
  pathname,
  search,
  hash,
}: URL): string | undefined {
  if (protocol !== "http:" && protocol !== "https:") return "another scheme";
  if (username !== "" || password !== "") return "one with a user name or password";
  return pathname !== "/" || search !== "" || hash !== ""
    ? "one with a path, query or fragment"
    : undefined;
}

/** The address on which an agent with the same configuration listens. */
function configuredAddress({ env }: Terminal): URL {
  const { listener, tls } = loadConfig("agent", { env }).config.server;
  const unix = listener.addr.startsWith("unix:");
  const url = unix ? undefined : urlOf(listener.addr, tls.enabled ? "https" : "http");
  if (url !== undefined) return url;
  const got = `none, and server.listener.addr is ${unix ? "a Unix socket" : "not part of a URL"}`;
  throw new Fault("INVALID_ARGUMENT", `--address: wanted HOST:PORT or a URL, got ${got}`);
}

/** A missing host means this machine. */
function urlOf(text: string, scheme: "http" | "https"): URL | undefined {
  const local = text.startsWith(":") ? `127.0.0.1${text}` : text;
  const full = /^[a-z]+:\/\//i.test(local) ? local : `${scheme}://${local}`;
  return URL.canParse(full) ? new URL(full) : undefined;
}

/** The request as JSON from a file or standard input. Flags of a request beside it are refused, not ignored. */
async function requestFrom(
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

function requestOfFlags(values: RequestFlags): string {
  const headers: Record<string, string> = {};
  for (const header of values.header ?? []) {
    const [, name, value] = /^([^=:]+)[=:]\s*(.*)$/s.exec(header) ?? [];
    if (name === undefined || value === undefined) {
      // The message does not repeat the text: it may be a secret whose = is missing.
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

function replyText({ check_response: response, denied_response: denied }: Reply): string {
  const accepted = response.decision_type === "DECISION_TYPE_ACCEPTED";
  const reason = response.reject_reason.replace("REJECT_REASON_", "");
  const retry = denied?.headers["retry-after"];
  const refusal = `rejected: ${reason}, HTTP ${denied?.status}${retry ? `, retry after ${retry} s` : ""}`;
  const lines = [accepted ? "accepted" : refusal];
  for (const { policy_name, error, unreadable = "" } of response.classifier_infos) {
    const fault = unreadable || error.replace("ERROR_", "");
    lines.push(`  classifier of ${policy_name}: ${fault === "NONE" ? "no error" : fault}`);
  }
  for (const decision of response.limiter_decisions) lines.push(`  ${limiterText(decision)}`);
  if (response.limiter_decisions.length === 0) lines.push("  no limiter applies to this request");
  return `${lines.join("\n")}\n`;
}

function limiterText(decision: LimiterDecision): string {
  const [kind = "", info] = Object.entries(decision).find(([name]) => name.endsWith("_info")) ?? [];
  const { label = "", tokens_info: tokens } = (info ?? {}) as LimiterDecision[`${string}_info`];
  const outcome = decision.dropped ? "refuses" : "grants";
  const keyless = decision.reason === "LIMITER_REASON_KEY_NOT_FOUND";
  const missing = keyless ? " (key label missing)" : "";
  // Without a key no bucket was consulted, and its zeros mean nothing.
  const left =
    tokens && !keyless
      ? `, ${round(tokens.remaining)} left of ${round(tokens.remaining + tokens.current)}`
      : "";
  const name = kind.replace("_info", "").replaceAll("_", " ");
  const key = label === "" ? "" : ` [${label}]`;
  return `${name} ${decision.policy_name}/${decision.component_id}${key} ${outcome}${missing}${left}`;
}

function round(tokens: number): number {
  return Math.round(tokens * 1_000) / 1_000;
}
