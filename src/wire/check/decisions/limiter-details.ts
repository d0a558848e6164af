// Writers of the detail of a decision, by kind of limiter: one row for each kind, used by the binary writer
// and by the JSON writer. The label, which every detail has, is written by the writers themselves.

import { fragment, type JsonWriter } from "../../json/writer.ts";
import { type ProtoWriter, varintSize } from "../../protobuf/writer.ts";

export interface LabelDetail {
  readonly label: string;
  /** The end of `label`; what comes before it is the same in all decisions of a component. */
  readonly value: string | undefined;
}

interface TokenDetail extends LabelDetail {
  readonly remaining: number;
  readonly current: number;
  readonly consumed: number;
}

interface SlotDetail extends TokenDetail {
  readonly requestId: string;
}

interface WorkloadDetail extends TokenDetail {
  readonly workload: string;
  /** 0 for a flow that no queue has judged: it has no tokens either. */
  readonly priority: number;
}

interface DetailRow<Detail> {
  /** Field of LimiterDecision, a member of its oneof `details`, in which the label is field 1. */
  readonly field: number;
  readonly name: string;
  /** Name of field 1; absent for `label`. */
  readonly labelName?: string;
  /** Writes the fields after the label. */
  write(out: ProtoWriter, detail: Detail): void;
  /** Number of bytes that `write` writes. */
  length(detail: Detail): number;
  /** Writes the members after the label, each with its comma. */
  writeJson(out: JsonWriter, detail: Detail): void;
}

/** `tokens_info` of the messages that have one. */
const TOKENS_INFO = 0x12;
/** The same where `workload_index` is before it. */
const WORKLOAD_TOKENS_INFO = 0x1a;

const REMAINING = fragment(',"tokens_info":{"remaining":');
const CURRENT = fragment(',"current":');
const CONSUMED = fragment(',"consumed":');

function tokensLength({ remaining, current, consumed }: TokenDetail): number {
  return 2 + doubleLength(remaining) + doubleLength(current) + doubleLength(consumed);
}

function doubleLength(value: number): number {
  return value === 0 && !Object.is(value, -0) ? 0 : 9;
}

function writeTokensJson(out: JsonWriter, { remaining, current, consumed }: TokenDetail): void {
  out.raw(REMAINING);
  out.double(remaining);
  out.raw(CURRENT);
  out.double(current);
  out.raw(CONSUMED);
  out.double(consumed);
  out.literal("}");
}

const SAMPLER: DetailRow<LabelDetail> = {
  field: 22,
  name: "sampler_info",
  write() {},
  length: () => 0,
  writeJson() {},
};

const RATE_LIMITER: DetailRow<TokenDetail> = {
  field: 20,
  name: "rate_limiter_info",
  write(out, { remaining, current, consumed }) {
    out.doubles(TOKENS_INFO, remaining, current, consumed);
  },
  length: tokensLength,
  writeJson: writeTokensJson,
};

const CONCURRENCY_LIMITER: DetailRow<SlotDetail> = {
  field: 24,
  name: "concurrency_limiter_info",
  write(out, { remaining, current, consumed, requestId }) {
    out.doubles(TOKENS_INFO, remaining, current, consumed);
    out.textField(0x1a, requestId);
  },
  length(detail) {
    return tokensLength(detail) + textLength(detail.requestId);
  },
  writeJson(out, detail) {
    writeTokensJson(out, detail);
    out.literal(',"request_id":');
    out.text(detail.requestId);
  },
};

/** Details of a load scheduler, whose label is the workload. */
const LOAD_SCHEDULER: DetailRow<WorkloadDetail> = {
  field: 21,
  name: "load_scheduler_info",
  labelName: "workload_index",
  write(out, { remaining, current, consumed, priority }) {
    out.doubles(TOKENS_INFO, remaining, current, consumed);
    out.doubleField(0x19, priority);
  },
  length: (detail) => tokensLength(detail) + doubleLength(detail.priority),
  writeJson(out, detail) {
    writeTokensJson(out, detail);
    out.literal(',"priority":');
    out.double(detail.priority);
  },
};

const QUOTA_SCHEDULER: DetailRow<WorkloadDetail> = {
  field: 23,
  name: "quota_scheduler_info",
  write: writeWorkload,
  length: workloadLength,
  writeJson: writeWorkloadJson,
};

const CONCURRENCY_SCHEDULER: DetailRow<WorkloadDetail & SlotDetail> = {
  field: 25,
  name: "concurrency_scheduler_info",
  write(out, detail) {
    writeWorkload(out, detail);
    out.textField(0x2a, detail.requestId);
  },
  length: (detail) => workloadLength(detail) + textLength(detail.requestId),
  writeJson(out, detail) {
    writeWorkloadJson(out, detail);
    out.literal(',"request_id":');
    out.text(detail.requestId);
  },
};

function writeWorkload(out: ProtoWriter, detail: WorkloadDetail): void {
  const { workload, priority, remaining, current, consumed } = detail;
  out.textField(0x12, workload);
  if (priority > 0) out.doubles(WORKLOAD_TOKENS_INFO, remaining, current, consumed);
  out.doubleField(0x21, priority);
}

function workloadLength(detail: WorkloadDetail): number {
  const { workload, priority } = detail;
  const tokens = priority > 0 ? tokensLength(detail) : 0;
  return textLength(workload) + tokens + doubleLength(priority);
}

function writeWorkloadJson(out: JsonWriter, detail: WorkloadDetail): void {
  out.literal(',"workload_index":');
  out.text(detail.workload);
  if (detail.priority > 0) writeTokensJson(out, detail);
  else out.literal(',"tokens_info":null');
  out.literal(',"priority":');
  out.double(detail.priority);
}

/** Bytes of a text field with a tag of one byte. */
function textLength(text: string): number {
  const length = Buffer.byteLength(text);
  return length === 0 ? 0 : 1 + varintSize(length) + length;
}

const ROWS = {
  rate_limiter: RATE_LIMITER,
  concurrency_limiter: CONCURRENCY_LIMITER,
  sampler: SAMPLER,
  ramp_sampler: SAMPLER,
  load_scheduler: LOAD_SCHEDULER,
  quota_scheduler: QUOTA_SCHEDULER,
  concurrency_scheduler: CONCURRENCY_SCHEDULER,
} as const;

/** The members of a decision that say which slot it granted: name in JSON, and fields of the message. */
export const SLOT_MEMBERS = [
  { name: CONCURRENCY_LIMITER.name, field: CONCURRENCY_LIMITER.field, tokens: 2, requestId: 3 },
  { name: CONCURRENCY_SCHEDULER.name, field: CONCURRENCY_SCHEDULER.field, tokens: 3, requestId: 5 },
] as const;

/** The members of a decision that say to which workload the flow belongs: name in JSON, and fields of the message. */
export const WORKLOAD_MEMBERS = [
  { name: LOAD_SCHEDULER.name, field: LOAD_SCHEDULER.field, workload: 1 },
  { name: QUOTA_SCHEDULER.name, field: QUOTA_SCHEDULER.field, workload: 2 },
  { name: CONCURRENCY_SCHEDULER.name, field: CONCURRENCY_SCHEDULER.field, workload: 2 },
] as const;

export type ReportedKind = keyof typeof ROWS;
type DetailOf<Row> = Row extends DetailRow<infer Detail> ? Detail : never;
export type ReportedDetail = DetailOf<(typeof ROWS)[ReportedKind]>;

/** A row as writers use it: they give it only details of its own kind, since a component has one kind. */
export type DetailWriter = DetailRow<ReportedDetail>;

export function detailWriter(kind: ReportedKind): DetailWriter {
  return ROWS[kind];
}

/** The bit of `missing` that is the reason KEY_NOT_FOUND: the limiter did not judge the flow. */
export const KEY_MISSING = 1;

/** Labels that a flow lacks although it was judged, by what the limiter reads them for. */
export function missingLabels(missing: number): string {
  const [key, tokens] = [(missing & 2) !== 0, (missing & 4) !== 0];
  if (key) return tokens ? "key,tokens" : "key";
  return tokens ? "tokens" : "";
}
