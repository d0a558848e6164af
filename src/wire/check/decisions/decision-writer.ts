// Writes the LimiterDecisions of a CheckResponse. The constant parts of a component are encoded once. The start of a decision,
// up to the value of its label, is encoded once for each length that occurs.

import { Fragment } from "../../protobuf/base64.ts";
import { ProtoWriter, varintSize } from "../../protobuf/writer.ts";
import { DecisionRun, isUsual, MAX_REST, type RunPart } from "./decision-run.ts";
import {
  type DetailWriter,
  detailWriter,
  KEY_MISSING,
  missingLabels,
  type ReportedDetail,
} from "./limiter-details.ts";
import type { ReportedComponent, ReportedDecision } from "./reported-decision.ts";

/** `limiter_decisions` of CheckResponse. */
const DECISION = 0x62;

/** Sluice's own field `failure_mode` of LimiterDecision. */
const FAILURE_MODE = (2000 << 3) | 2;

/** Sluice's own field `missing_labels` of LimiterDecision. */
const MISSING_LABELS = (2001 << 3) | 2;

/**
 * Start of a LimiterDecision up to the value that ends its label, for decisions that pass. It contains the lengths
 * of what follows, so there is one for each pair of lengths.
 */
interface Head {
  readonly waitMs: number;
  readonly valueLength: number;
  /** Bytes of the detail after the label. */
  readonly restLength: number;
  readonly fragment: Fragment;
}

/** Limit of heads per component. Decisions with values of further lengths are encoded in full. */
const MAX_HEADS = 8;
/** Limit of runs per component. Like heads, they are never replaced. */
const MAX_RUNS = 8;
/** Longest value that a head is kept for. */
const MAX_VALUE = 64;

/** The encoded parts of a component that never change. */
interface KnownComponent {
  /** Fields 1 to 3 of a LimiterDecision. */
  readonly names: Fragment;
  readonly detail: DetailWriter;
  readonly heads: Head[];
  /** Templates of several decisions of which this component's is the first. */
  readonly runs: DecisionRun[];
  /** The prefix of labels with a value; undefined until there was one. */
  prefix: Buffer | undefined;
}

export class DecisionWriter {
  readonly #components = new WeakMap<ReportedComponent, KnownComponent>();

  write(out: ProtoWriter, decisions: readonly ReportedDecision[]): void {
    const [first] = decisions;
    if (first === undefined) return;
    if (decisions.length > 1 && this.#writeRun(out, this.#known(first), decisions)) return;
    for (let at = 0; at < decisions.length; at++) {
      const decision = decisions[at];
      if (decision !== undefined) this.#writeDecision(out, decision);
    }
  }

  /** Writes all decisions of a reply by a template; false, and nothing written, if there is none for them. */
  #writeRun(
    out: ProtoWriter,
    { runs }: KnownComponent,
    decisions: readonly ReportedDecision[],
  ): boolean {
    for (let at = 0; at < runs.length; at++) {
      const run = runs[at];
      if (run === undefined || !run.fill(decisions)) continue;
      out.fragment(run.template);
      return true;
    }
    if (runs.length < MAX_RUNS && decisions.every(isUsual)) this.#learnRun(runs, decisions);
    return false;
  }

  #learnRun(runs: DecisionRun[], decisions: readonly ReportedDecision[]): void {
    const parts: RunPart[] = [];
    for (const decision of decisions) {
      const { component, waitMs, detail } = decision;
      const { value = "" } = detail;
      if (value.length > MAX_VALUE) return;
      const known = this.#known(decision);
      const restLength = known.detail.length(detail);
      if (restLength > MAX_REST) return;
      const head = headOf(decision, known, value, restLength);
      const valueLength = value.length;
      parts.push({ component, detail: known.detail, head, waitMs, valueLength, restLength });
    }
    const run = DecisionRun.of(parts);
    if (run !== undefined) runs.push(run);
  }

  #known({ component }: ReportedDecision): KnownComponent {
    return this.#components.get(component) ?? this.#learn(component);
  }

  #writeDecision(out: ProtoWriter, decision: ReportedDecision): void {
    const { component, detail } = decision;
    const known = this.#known(decision);
    if (this.#writeUsual(out, decision, known)) return;
    const start = out.open(DECISION, 2);
    out.fragment(known.names);
    out.uint32Field(0x20, decision.dropped ? 1 : 0);
    out.uint32Field(0x28, decision.missing & KEY_MISSING);
    out.uint32Field(0x50, component.deniedStatus);
    if (decision.waitMs >= 0) out.time(0x5a, decision.waitMs);
    const info = out.open((known.detail.field << 3) | 2);
    writeLabel(out, detail, known);
    known.detail.write(out, detail);
    out.close(info);
    if (decision.failure !== undefined) out.textField(FAILURE_MODE, decision.failure);
    if (decision.missing > KEY_MISSING) {
      out.textField(MISSING_LABELS, missingLabels(decision.missing));
    }
    out.close(start, 2);
  }

  /** Writes a decision that passes behind a head that is encoded already; false, and nothing written, for others. */
  #writeUsual(out: ProtoWriter, decision: ReportedDecision, known: KnownComponent): boolean {
    const { detail } = decision;
    const { value = "" } = detail;
    if (!isUsual(decision) || value.length > MAX_VALUE) return false;
    const { place } = out;
    if (!out.ascii(value)) return false;
    known.detail.write(out, detail);
    const valueLength = value.length;
    const restLength = out.place - place - valueLength;
    const { heads } = known;
    for (let at = 0; at < heads.length; at++) {
      const head = heads[at];
      if (head?.valueLength !== valueLength || head.restLength !== restLength) continue;
      if (head.waitMs !== decision.waitMs) continue;
      out.fragment(head.fragment, place);
      return true;
    }
    if (heads.length === MAX_HEADS) {
      out.moveTo(place);
      return false;
    }
    const fragment = new Fragment(headOf(decision, known, value, restLength));
    heads.push({ waitMs: decision.waitMs, valueLength, restLength, fragment });
    out.fragment(fragment, place);
    return true;
  }

  #learn(component: ReportedComponent): KnownComponent {
    const out = new ProtoWriter();
    out.textField(0x0a, component.policyName);
    out.textField(0x12, component.policyHash);
    out.textField(0x1a, component.componentId);
    const names = new Fragment(out.copy());
    const detail = detailWriter(component.kind);
    const known: KnownComponent = { names, detail, heads: [], runs: [], prefix: undefined };
    this.#components.set(component, known);
    return known;
  }
}

function writeLabel(
  out: ProtoWriter,
  { label, value }: ReportedDetail,
  known: KnownComponent,
): void {
  if (value === undefined || label === "") {
    out.textField(0x0a, label);
    return;
  }
  known.prefix ??= prefixOf(label, value);
  out.textWithPrefix(0x0a, known.prefix, value);
}

/** The part of a label before its value. */
function prefixOf(label: string, value: string): Buffer {
  return Buffer.from(label.slice(0, label.length - value.length));
}

/** A usual decision up to the value that ends its label. */
function headOf(
  { component, waitMs, detail }: ReportedDecision,
  known: KnownComponent,
  value: string,
  restLength: number,
): Buffer {
  const prefix = prefixOf(detail.label, value);
  const labelLength = prefix.length + value.length;
  const infoLength = 1 + varintSize(labelLength) + labelLength + restLength;
  const out = new ProtoWriter();
  out.raw(known.names.bytes);
  out.uint32Field(0x50, component.deniedStatus);
  if (waitMs >= 0) out.time(0x5a, waitMs);
  out.tag((known.detail.field << 3) | 2);
  out.uint32(infoLength);
  out.tag(0x0a);
  out.uint32(labelLength);
  out.raw(prefix);
  const body = out.copy();
  out.reset();
  out.tag(DECISION);
  out.uint32(body.length + value.length + restLength);
  out.raw(body);
  return out.copy();
}
