// An agent's reply to `sluice check` in words: the outcome with its reason, the labels that were added to those of
// the request, and what each limiter decided.

import { printable } from "#base/text/printable.ts";
import { mayBeSecret } from "#base/text/secret.ts";
import { STATUS_CODES } from "#runtime/life/node-http.ts";
import type { Paint } from "../terminal.ts";

interface LimiterDecision {
  readonly policy_name: string;
  readonly component_id: string;
  readonly dropped: boolean;
  readonly reason: string;
  /** `Empty` where the policy sets none. */
  readonly denied_response_status_code: string;
  readonly failure_mode?: string;
  /** The uses of the labels that are missing, separated by commas: `key`, `tokens`. */
  readonly missing_labels?: string;
  readonly [info: `${string}_info`]: Info;
}

interface Info {
  /** Absent for load schedulers, which have one queue for all flows. */
  readonly label?: string;
  /** Only schedulers report one. */
  readonly workload_index?: string;
  readonly tokens_info?: Tokens | null;
  /** Only limiters that hold slots report one. */
  readonly request_id?: string;
}

interface Tokens {
  readonly remaining: number;
  readonly current: number;
  readonly consumed: number;
}

interface ClassifierInfo {
  readonly policy_name: string;
  readonly error: string;
  /** The reason for which the source of a label could not be read. */
  readonly unreadable?: string;
}

export interface Reply {
  /** `message` says why a flow was refused before any rule judged it. */
  readonly status?: { readonly message: string };
  readonly denied_response?: { readonly status: number; readonly headers: Record<string, string> };
  readonly check_response: {
    readonly decision_type: string;
    readonly reject_reason: string;
    readonly limiter_decisions: readonly LimiterDecision[];
    readonly classifier_infos: readonly ClassifierInfo[];
    readonly flow_label_keys: readonly string[];
    readonly telemetry_flow_labels: Readonly<Record<string, string>>;
  };
}

export function replyText(reply: Reply, paint: Paint): string {
  const response = reply.check_response;
  const accepted = response.decision_type === "DECISION_TYPE_ACCEPTED";
  const lines = [accepted ? paint("good", "accepted") : paint("bad", refusalText(reply))];
  for (const { policy_name, error, unreadable = "" } of response.classifier_infos) {
    const fault = unreadable || error.replace("ERROR_", "");
    lines.push(`  classifier of ${policy_name}: ${fault === "NONE" ? "no error" : fault}`);
  }
  for (const label of addedLabels(reply)) lines.push(`  label ${label}`);
  for (const decision of response.limiter_decisions) {
    lines.push(`  ${limiterText(decision, accepted, paint)}`);
  }
  if (response.limiter_decisions.length === 0) {
    const asked = whyUnjudged(reply) === "" ? "applies to this request" : "was asked";
    lines.push(`  no limiter ${asked}`);
  }
  return `${lines.join("\n")}\n`;
}

function whyUnjudged({ status }: Reply): string {
  return status?.message ?? "";
}

/** Reason and status in the same words: the reason of the stage alone says RATE_LIMITED of every limiter. */
function refusalText(reply: Reply): string {
  const { check_response: response, denied_response: denied } = reply;
  const first = response.limiter_decisions.find(({ dropped }) => dropped);
  const by = first === undefined ? "" : ` by ${nameOf(first)}: ${reasonOf(first)}`;
  const stage = response.reject_reason.replace("REJECT_REASON_", "");
  const unjudged = printable(whyUnjudged(reply));
  const why = unjudged === "" ? `${by} (${stage})` : `: ${unjudged}`;
  const status = denied?.status ?? 0;
  const set = first !== undefined && first.denied_response_status_code !== "Empty";
  const words = `HTTP ${status} ${STATUS_CODES[status] ?? ""}`.trimEnd();
  const retry = denied?.headers["retry-after"];
  const after = retry ? `, retry after ${retry} s` : "";
  return `rejected${why}; the caller gets ${words}${set ? ", which the policy sets" : ""}${after}`;
}

function reasonOf(decision: LimiterDecision): string {
  if (isKeyless(decision)) return "the key label is missing";
  if (decision.failure_mode === "closed") return "it cannot decide, and its on_failure is closed";
  const info = infoOf(decision);
  if (!info?.tokens_info) return "not in the sample";
  const queued = info.workload_index === undefined ? "" : ", and no more time to wait";
  return `${holdsSlots(info) ? "too many in flight" : "too few tokens left"}${queued}`;
}

function isKeyless({ reason }: LimiterDecision): boolean {
  return reason === "LIMITER_REASON_KEY_NOT_FOUND";
}

const INFO = "_info";

function kindOf(decision: LimiterDecision): string {
  return (Object.keys(decision).find((name) => name.endsWith(INFO)) ?? "").slice(0, -INFO.length);
}

function infoOf(decision: LimiterDecision): Info | undefined {
  return decision[`${kindOf(decision)}_info`];
}

function holdsSlots(info: Info | undefined): boolean {
  return info?.request_id !== undefined;
}

function nameOf(decision: LimiterDecision): string {
  const kind = kindOf(decision).replaceAll("_", " ");
  return `${kind} ${decision.policy_name}/${decision.component_id}`;
}

/** The rest is counted after the flow, for every kind: the reply has it after the take or, of slots, before. */
function limiterText(decision: LimiterDecision, accepted: boolean, paint: Paint): string {
  const info = infoOf(decision);
  const { label = "", workload_index: workload, tokens_info: tokens } = info ?? {};
  const missing = (decision.missing_labels ?? "").split(",");
  const notes = [
    isKeyless(decision) ? "key label missing" : "",
    missing.includes("key") ? "key label missing, judged under the default key" : "",
    missing.includes("tokens") ? "tokens label missing, counts as 1" : "",
    decision.failure_mode === undefined ? "" : `on_failure: ${decision.failure_mode}`,
    // Rejected flows keep nothing, and how much came back is not in the reply.
    !accepted && !decision.dropped && tokens && tokens.consumed === 0 ? "given back" : "",
  ].filter((note) => note !== "");
  // Without a key, without valid numbers and after a return the counts mean nothing.
  const counted = tokens && !isKeyless(decision) && !notes.includes("given back");
  const standing = decision.failure_mode === "open" || decision.failure_mode === "closed";
  // A load scheduler that limits nothing yet has no tokens.
  const unlimited = workload !== undefined && counted && tokens.remaining + tokens.current === 0;
  const left = counted && !standing && !unlimited ? leftOf(tokens, holdsSlots(info)) : "";
  const of = workload === undefined ? "" : `, workload ${masked("", workload)}`;
  const key = label === "" ? "" : ` [${masked(...keyAndValue(label))}]`;
  const outcome = decision.dropped ? paint("bad", "refuses") : "grants";
  const said = notes.length === 0 ? "" : paint("doubtful", ` (${notes.join("; ")})`);
  return `${nameOf(decision)}${key} ${outcome}${said}${of}${left}`;
}

function leftOf({ remaining, current, consumed }: Tokens, beforeTake: boolean): string {
  const left = Math.max(0, remaining - (beforeTake ? consumed : 0));
  return `, ${round(left)} left of ${round(remaining + current)}`;
}

function round(tokens: number): number {
  return Math.round(tokens * 1_000) / 1_000;
}

/** A reported label as its name with the colon, and its value. */
function keyAndValue(label: string): readonly [string, string] {
  const at = label.indexOf(":");
  return at < 0 ? ["", label] : [label.slice(0, at + 1), label.slice(at + 1)];
}

/** Names of the labels that only attributes of the request set: baggage must not. */
export const ATTRIBUTE = /^(?:http|aperture)\./;

/** Labels that are not attributes of the request: those of classifiers, and of the request's baggage. */
function addedLabels({ check_response: response }: Reply): readonly string[] {
  const values = response.telemetry_flow_labels;
  return response.flow_label_keys
    .filter((name) => !ATTRIBUTE.test(name))
    .map((name) => {
      const value = Object.hasOwn(values, name) ? values[name] : undefined;
      return value === undefined
        ? `${printable(name)} (its value is not for telemetry)`
        : masked(`${name}: `, value);
    });
}

/** A JSON Web Token, or a long text without spaces in which letters and digits alternate. */
const SECRET_VALUE = /^ey[\w-]+\.[\w-]+|^(?=.*\d)(?=.*[a-z])[\w+/=.-]{24,}$/i;

const SMALL_NUMBER = /^\d{0,6}$/;

/** The value, or stars where name or value look like a secret: terminals are recorded and shown to others. */
function masked(name: string, value: string): string {
  const secret = mayBeSecret(name) || SECRET_VALUE.test(value);
  return printable(secret && !SMALL_NUMBER.test(value) ? `${name}***` : `${name}${value}`);
}
