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

interface DetailRow<Detail> {
  /** Field of LimiterDecision, a member of its oneof `details`, in which `label` is field 1. */
  readonly field: number;
  readonly name: string;
  /** Writes the fields after the label. */
  write(out: ProtoWriter, detail: Detail): void;
  /** Number of bytes that `write` writes. */
  length(detail: Detail): number;
  /** Writes the members after the label, each with its comma. */
  writeJson(out: JsonWriter, detail: Detail): void;
}

/** `tokens_info` of the messages that have one. */
const TOKENS_INFO = 0x12;

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
    const id = Buffer.byteLength(detail.requestId);
    return tokensLength(detail) + (id === 0 ? 0 : 1 + varintSize(id) + id);
  },
  writeJson(out, detail) {
    writeTokensJson(out, detail);
    out.literal(',"request_id":');
    out.text(detail.requestId);
  },
};

const ROWS = {
  rate_limiter: RATE_LIMITER,
  concurrency_limiter: CONCURRENCY_LIMITER,
  sampler: SAMPLER,
  ramp_sampler: SAMPLER,
} as const;

/** The member of a decision in JSON that says which slot it granted. */
export const SLOT_MEMBER = CONCURRENCY_LIMITER.name;

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
