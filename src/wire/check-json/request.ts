// Reads requests in JSON, strictly, to the same plain objects as the protobuf readers.

import { isUtf8 } from "node:buffer";
import type { HeaderNames } from "../check/headers.ts";
import {
  type CacheLookup,
  type CheckHttpRequest,
  type CheckRequest,
  ClaimedLabels,
  DescribedRequest,
  type DescribedSocket,
  type FlowEndRequest,
  type InflightRef,
  ListedHeaders,
  MAX_CACHE_KEYS,
  MAX_REFS,
  tooManyCacheKeys,
  tooManyRefs,
} from "../check/request.ts";
import {
  exactNumber,
  fieldNames,
  int64Text,
  invalid,
  type Parsed,
  parseBody,
  readBoolean,
  readDouble,
  readFields,
  readInt64,
  readObject,
  readText,
  readTexts,
  readUint32,
  THE_BODY,
  type UnknownMember,
} from "../json/strict.ts";
import { asBuffer } from "../protobuf/reader.ts";
import { CHECK_HTTP_MEMBERS, REQUEST_MEMBERS, SOCKET_MEMBERS } from "./members.ts";

const CHECK_HTTP = fieldNames(CHECK_HTTP_MEMBERS);
const SOCKET = fieldNames(SOCKET_MEMBERS);
const REQUEST = fieldNames(REQUEST_MEMBERS);
const CHECK = fieldNames({
  control_point: 1,
  labels: 2,
  ramp_mode: 3,
  cache_lookup_request: 4,
  expect_end: 5,
});
const LOOKUP = fieldNames({ control_point: 1, result_cache_key: 2, global_cache_keys: 3 });
const FLOW_END = fieldNames({
  control_point: 1,
  inflight_requests: 2,
  reservation_id: 3,
  cost: 4,
  status_code: 5,
});
const REF = fieldNames({
  policy_name: 1,
  policy_hash: 2,
  component_id: 3,
  label: 4,
  request_id: 5,
  tokens: 6,
});

const ABSENT: Readonly<Parsed> = { value: {}, text: "{}" };

/**
 * Parses a body. An empty body is an empty message, as in canonical protobuf JSON. Text that is not Unicode is replaced
 * and not refused: the client of a gateway chooses it, and gateways let requests pass on errors.
 */
function readBody(body: Uint8Array, maxDepth: number | undefined): Parsed {
  const parsed = parseBody(body, maxDepth, "repair") ?? ABSENT;
  readObject(parsed.value, THE_BODY);
  return parsed;
}

export function checkHttpFromJson(
  body: Uint8Array,
  names: HeaderNames,
  maxDepth?: number,
  unknown?: UnknownMember,
): CheckHttpRequest {
  const parsed = readBody(body, maxDepth);
  const fields = readFields(parsed.value, CHECK_HTTP, THE_BODY, unknown) ?? [];
  return {
    source: readSocket(fields[1], "source", unknown),
    destination: readSocket(fields[2], "destination", unknown),
    request: readRequest(fields[3], names, parsed, unknown),
    controlPoint: readControlPoint(fields[4], body, CHECK_HTTP, 4),
    rampMode: readBoolean(fields[5], "ramp_mode"),
    expectEnd: readBoolean(fields[6], "expect_end"),
  };
}

const PERHAPS_BYTES = /[\x80-\xff]/;

/**
 * The name of the control point, with U+FFFD for what is not Unicode. The caller chooses it and not the caller's client, so
 * it is not repaired as other text is: under a repaired name no policy would apply.
 */
function readControlPoint(
  value: unknown,
  body: Uint8Array,
  names: ReturnType<typeof fieldNames>,
  field: number,
): string {
  const text = readText(value, "control_point");
  if (!PERHAPS_BYTES.test(text) || isUtf8(body)) return text;
  const unrepaired: unknown = JSON.parse(asBuffer(body).toString("utf8"));
  const asWritten = readText(readFields(unrepaired, names, THE_BODY)?.[field], "control_point");
  return asWritten.includes("\ufffd") ? asWritten : text;
}

function readSocket(
  value: unknown,
  what: string,
  unknown?: UnknownMember,
): DescribedSocket | undefined {
  const fields = readFields(value, SOCKET, what, unknown);
  if (fields === undefined) return undefined;
  return {
    protocol: readProtocol(fields[1], `${what}.protocol`),
    address: readText(fields[2], `${what}.address`),
    // Gateways write an empty text for what they do not know.
    port: fields[3] === "" ? 0 : readUint32(fields[3], `${what}.port`),
  };
}

const PROTOCOLS: ReadonlyMap<string, number> = new Map([
  ["TCP", 0],
  ["UDP", 1],
  ["", 0],
]);

/** Name, in any case, or number of a protocol. Unknown numbers are judged with the rest of the message. */
function readProtocol(value: unknown, what: string): number {
  if (value === undefined) return 0;
  const named = typeof value === "string" ? PROTOCOLS.get(value.toUpperCase()) : undefined;
  if (named !== undefined) return named;
  if (typeof value === "number" && (value | 0) === value) return value;
  throw invalid(`${what} must be TCP or UDP`);
}

const LEADING_ZEROS = /^0+(?=\d)/;

function readRequest(
  value: unknown,
  names: HeaderNames,
  { text }: Parsed,
  unknown?: UnknownMember,
): DescribedRequest | undefined {
  const fields = readFields(value, REQUEST, "request", unknown);
  if (fields === undefined) return undefined;
  const request = new DescribedRequest();
  request.method = readText(fields[1], "request.method");
  if (fields[2] !== undefined) request.headers = readHeaders(fields[2], names);
  request.path = readText(fields[3], "request.path");
  request.host = readText(fields[4], "request.host");
  request.scheme = readText(fields[5], "request.scheme");
  request.sizeText = readSize(fields[6], text);
  request.protocol = readText(fields[7], "request.protocol");
  request.body = readText(fields[8], "request.body");
  request.finish();
  return request;
}

/**
 * Decimal text of an int64. Gateways copy a text from their client's `content-length`, so one that is not a size
 * counts as absent and is not refused.
 */
function readSize(value: unknown, text: string): string {
  if (typeof value === "string") return int64Text(value.replace(LEADING_ZEROS, "")) ?? "0";
  return readInt64(value, "request.size", () => exactNumber(text, ["size"]));
}

/** A map from name to value, or to a list of values where the header was repeated. */
function readHeaders(value: unknown, names: HeaderNames): ListedHeaders {
  const headers = new ListedHeaders("join", names.maxHeaders);
  const members = readObject(value, "request.headers");
  for (const name of Object.keys(members)) {
    const member = members[name];
    const kept = names.ofText(name);
    if (typeof member === "string") headers.add(kept, member);
    else if (Array.isArray(member)) {
      for (const item of member) headers.add(kept, headerItem(item));
    } else headerItem(undefined);
  }
  return headers;
}

function headerItem(value: unknown): string {
  if (typeof value === "string") return value;
  throw invalid("request.headers must have texts, or lists of texts, as values");
}

export function checkFromJson(
  body: Uint8Array,
  maxDepth?: number,
  maxLabels?: number,
  unknown?: UnknownMember,
): CheckRequest {
  const fields = readFields(readBody(body, maxDepth).value, CHECK, THE_BODY, unknown) ?? [];
  const labels = readLabels(fields[2], maxLabels);
  return {
    controlPoint: readControlPoint(fields[1], body, CHECK, 1),
    labels: labels.values,
    refusal: labels.refusal,
    rampMode: readBoolean(fields[3], "ramp_mode"),
    cacheLookup: readLookup(fields[4], unknown),
    expectEnd: readBoolean(fields[5], "expect_end"),
  };
}

function readLabels(value: unknown, limit: number | undefined): ClaimedLabels {
  const labels = new ClaimedLabels(limit);
  if (value === undefined) return labels;
  const members = readObject(value, "labels");
  for (const name of Object.keys(members)) {
    const member = members[name];
    if (typeof member !== "string") throw invalid("labels must have texts as values");
    labels.add(name, member);
  }
  return labels;
}

function readLookup(value: unknown, unknown?: UnknownMember): CacheLookup | undefined {
  const fields = readFields(value, LOOKUP, "cache_lookup_request", unknown);
  if (fields === undefined) return undefined;
  readText(fields[1], "cache_lookup_request.control_point");
  const resultKey = readText(fields[2], "cache_lookup_request.result_cache_key");
  const globalKeys = readTexts(fields[3], "cache_lookup_request.global_cache_keys");
  if (globalKeys.length > MAX_CACHE_KEYS) throw tooManyCacheKeys();
  return { resultKey, globalKeys };
}

export function flowEndFromJson(
  body: Uint8Array,
  maxDepth?: number,
  unknown?: UnknownMember,
): FlowEndRequest {
  const fields = readFields(readBody(body, maxDepth).value, FLOW_END, THE_BODY, unknown) ?? [];
  const refs = fields[2] ?? [];
  if (!Array.isArray(refs)) throw invalid("inflight_requests must be a list");
  if (refs.length > MAX_REFS) throw tooManyRefs();
  return {
    controlPoint: readControlPoint(fields[1], body, FLOW_END, 1),
    refs: refs.map((ref) => readRef(ref, unknown)),
    reservationId: readText(fields[3], "reservation_id"),
    cost: fields[4] === undefined ? undefined : readDouble(fields[4], "cost"),
    status: readUint32(fields[5], "status_code"),
  };
}

function readRef(value: unknown, unknown?: UnknownMember): InflightRef {
  const what = "inflight_requests";
  const fields = readFields(value, REF, what, unknown);
  if (fields === undefined) throw invalid(`${what} must be a list of objects`);
  return {
    policyName: readText(fields[1], `${what}.policy_name`),
    policyHash: readText(fields[2], `${what}.policy_hash`),
    componentId: readText(fields[3], `${what}.component_id`),
    label: readText(fields[4], `${what}.label`),
    requestId: readText(fields[5], `${what}.request_id`),
    tokens: readDouble(fields[6], `${what}.tokens`),
  };
}
