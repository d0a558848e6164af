// The decision in a proxy's access log record: base64 of aperture.flowcontrol.check.v1.CheckResponse, of which only
// those parts are read that matter after the request has ended.

import { Fault } from "#base/fault.ts";
import { BYTES, FIXED64, ProtoReader, VARINT } from "../protobuf/reader.ts";
import { type InflightRef, MAX_REFS, tooManyRefs } from "./request.ts";

export interface LoggedDecision {
  readonly accepted: boolean;
  /** Names of the flux meters that matched, without duplicates. */
  readonly fluxMeters: readonly string[];
  /** Concurrency slots that the flow holds. */
  readonly slots: readonly InflightRef[];
  /** The caller announced that it ends the flow itself. */
  readonly expectEnd: boolean;
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
  let accepted = true;
  let expectEnd = false;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 8 && reader.wire === VARINT) accepted = reader.uint32(end) === 0;
    else if (field === 11 && reader.wire === BYTES) {
      meters.add(meterName(reader, reader.sub(end)));
      if (meters.size > MAX_METERS) throw tooManyMeters();
    } else if (field === 12 && reader.wire === BYTES) {
      const slot = slotOf(reader, reader.sub(end));
      if (slot.requestId !== "") slots.push(slot);
      if (slots.length > MAX_REFS) throw tooManyRefs();
    } else if (field === 16 && reader.wire === VARINT) expectEnd = reader.bool(end);
    else reader.skip(field, end);
  }
  return { accepted, fluxMeters: [...meters], slots, expectEnd };
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

/** The slot that a LimiterDecision granted; the request id is empty when it granted none. */
function slotOf(reader: ProtoReader, end: number): InflightRef {
  const slot: Writable<InflightRef> = {
    policyName: "",
    policyHash: "",
    componentId: "",
    label: "",
    requestId: "",
    tokens: 0,
  };
  while (reader.at < end) {
    const field = reader.tag(end);
    if (reader.wire !== BYTES) reader.skip(field, end);
    else if (field === 1) slot.policyName = reader.text(end);
    else if (field === 2) slot.policyHash = reader.text(end);
    else if (field === 3) slot.componentId = reader.text(end);
    else if (field === 24) readSlotInfo(reader, reader.sub(end), slot);
    else reader.skip(field, end);
  }
  return slot;
}

/** ConcurrencyLimiterInfo: label = 1, tokens_info = 2 { consumed = 3 }, request_id = 3. */
function readSlotInfo(reader: ProtoReader, end: number, slot: Writable<InflightRef>): void {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (reader.wire !== BYTES) reader.skip(field, end);
    else if (field === 1) slot.label = reader.text(end);
    else if (field === 2) slot.tokens = consumed(reader, reader.sub(end));
    else if (field === 3) slot.requestId = reader.text(end);
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
