// The decision in a proxy's access log record: base64 of aperture.flowcontrol.check.v1.CheckResponse, of which only
// those parts are read that matter after the request has ended.

import { Fault } from "#base/fault.ts";
import { BYTES, FIXED64, ProtoReader, VARINT } from "../protobuf/reader.ts";
import { SLOT_MEMBERS, WORKLOAD_MEMBERS } from "./decisions/limiter-details.ts";
import { type InflightRef, MAX_REFS, tooManyRefs } from "./request.ts";
import { RESERVATION_ID } from "./response.ts";

export interface LoggedDecision {
  readonly accepted: boolean;
  /** Names of the flux meters that matched, without duplicates. */
  readonly fluxMeters: readonly string[];
  /** Concurrency slots that the flow holds. */
  readonly slots: readonly InflightRef[];
  /** The workloads to which schedulers assigned it. */
  readonly workloads: readonly LoggedWorkload[];
  /** The caller announced that it ends the flow itself. */
  readonly expectEnd: boolean;
  /** Names the estimate that the flow took; empty where nothing is to be settled. */
  readonly reservationId: string;
  /** Only in spans of SDKs. */
  readonly check?: CheckTimes | undefined;
}

/** What identifies a check in the span of an SDK that knows neither slots nor reservations. */
export interface CheckTimes {
  readonly controlPoint: string;
  /** Unix ms, fractions cut off. */
  readonly startMs: number;
  readonly endMs: number;
  /** The label that the check had for telemetry, by its name. */
  readonly labels: (name: string) => unknown;
}

/** A scheduler, and the workload to which it assigned the flow. */
export interface LoggedWorkload {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly workload: string;
}

/** Flows match a handful of meters; a message with more is not a decision of Sluice. */
export const MAX_METERS = 1_000;

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** Throws a Fault with INVALID_ARGUMENT when the text is not base64, or the message is malformed or exceeds a bound. */
export function readLoggedDecision(base64: string): LoggedDecision {
  if (!BASE64.test(base64)) throw new Fault("INVALID_ARGUMENT", "wanted base64, got other text");
  const reader = new ProtoReader(Buffer.from(base64, "base64"));
  const { end } = reader;
  const meters = new Set<string>();
  const slots: InflightRef[] = [];
  const workloads: LoggedWorkload[] = [];
  let accepted = true;
  let expectEnd = false;
  let reservationId = "";
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 8 && reader.wire === VARINT) accepted = reader.uint32(end) === 0;
    else if (field === 11 && reader.wire === BYTES) {
      meters.add(meterName(reader, reader.sub(end)));
      if (meters.size > MAX_METERS) throw tooManyMeters();
    } else if (field === 12 && reader.wire === BYTES) {
      const { workload, ...slot } = readDecision(reader, reader.sub(end));
      const { policyName, policyHash, componentId, requestId } = slot;
      if (requestId !== "") slots.push(slot);
      if (workload !== "") workloads.push({ policyName, policyHash, componentId, workload });
      if (slots.length > MAX_REFS || workloads.length > MAX_REFS) throw tooManyRefs();
    } else if (field === 16 && reader.wire === VARINT) expectEnd = reader.bool(end);
    else if (field === RESERVATION_ID && reader.wire === BYTES) reservationId = reader.text(end);
    else reader.skip(field, end);
  }
  return { accepted, fluxMeters: [...meters], slots, workloads, expectEnd, reservationId };
}

export function tooManyMeters(): Fault {
  return new Fault("INVALID_ARGUMENT", `more than ${MAX_METERS} flux meters`);
}

function meterName(reader: ProtoReader, end: number): string {
  let name = "";
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) name = reader.text(end);
    else reader.skip(field, end);
  }
  return name;
}

type Writable<T> = { -readonly [Key in keyof T]: T[Key] };

interface Logged extends InflightRef {
  readonly workload: string;
}

/** The slot that a LimiterDecision granted, and the workload of the flow: empty texts where it has none. */
function readDecision(reader: ProtoReader, end: number): Logged {
  const slot: Writable<Logged> = {
    policyName: "",
    policyHash: "",
    componentId: "",
    label: "",
    requestId: "",
    tokens: 0,
    workload: "",
  };
  while (reader.at < end) {
    const field = reader.tag(end);
    if (reader.wire !== BYTES) reader.skip(field, end);
    else if (field === 1) slot.policyName = reader.text(end);
    else if (field === 2) slot.policyHash = reader.text(end);
    else if (field === 3) slot.componentId = reader.text(end);
    else {
      const slots = SLOT_MEMBERS.find((each) => each.field === field);
      const workloads = WORKLOAD_MEMBERS.find((each) => each.field === field);
      if (slots === undefined && workloads === undefined) reader.skip(field, end);
      else readInfo(reader, reader.sub(end), slot, { ...NO_FIELDS, ...slots, ...workloads });
    }
  }
  return slot;
}

/** Numbers of fields of a member of the details; `label` is field 1. */
interface InfoFields {
  readonly tokens: number;
  readonly requestId: number;
  readonly workload: number;
}

/** No field has the number 0. */
const NO_FIELDS: InfoFields = { tokens: 0, requestId: 0, workload: 0 };

function readInfo(
  reader: ProtoReader,
  end: number,
  slot: Writable<Logged>,
  { tokens, requestId, workload }: InfoFields,
): void {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (reader.wire !== BYTES) reader.skip(field, end);
    else if (field === workload) slot.workload = reader.text(end);
    else if (field === 1) slot.label = reader.text(end);
    else if (field === tokens) slot.tokens = consumed(reader, reader.sub(end));
    else if (field === requestId) slot.requestId = reader.text(end);
    else reader.skip(field, end);
  }
}

function consumed(reader: ProtoReader, end: number): number {
  let tokens = 0;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 3 && reader.wire === FIXED64) tokens = reader.double(end);
    else reader.skip(field, end);
  }
  return tokens;
}
