// Writes the requests of our own check services in protobuf, for JSON routes that forward to another server. Two parts
// of them occur in replies as well.

import { BYTES, FIXED64, VARINT } from "../protobuf/reader.ts";
import { ProtoWriter } from "../protobuf/writer.ts";
import { headersAsMap } from "./headers.ts";
import {
  type CheckHttpRequest,
  type CheckRequest,
  type DescribedSocket,
  FLOW_END_FIELDS,
  type FlowEndRequest,
  type InflightRef,
} from "./request.ts";

export function writeCheckHttpRequest(message: CheckHttpRequest): Buffer {
  const out = new ProtoWriter();
  writeSocket(out, 0x0a, message.source);
  writeSocket(out, 0x12, message.destination);
  const { request } = message;
  if (request !== undefined) {
    const start = out.open(0x1a);
    out.textField(0x0a, request.method);
    for (const [name, value] of headersAsMap(request.headers)) writePair(out, 0x12, name, value);
    out.textField(0x1a, request.path);
    out.textField(0x22, request.host);
    out.textField(0x2a, request.scheme);
    if (request.sizeText !== "0") {
      out.tag(0x30);
      out.int64(BigInt(request.sizeText));
    }
    out.textField(0x3a, request.protocol);
    out.textField(0x42, request.body);
    out.close(start);
  }
  out.textField(0x22, message.controlPoint);
  out.uint32Field(0x28, Number(message.rampMode));
  out.uint32Field(0x30, Number(message.expectEnd));
  return out.copy();
}

function writeSocket(out: ProtoWriter, tag: number, socket: DescribedSocket | undefined): void {
  if (socket === undefined) return;
  const start = out.open(tag);
  if (socket.protocol !== 0) {
    out.tag(0x08);
    out.int64(socket.protocol);
  }
  out.textField(0x12, socket.address);
  out.uint32Field(0x18, socket.port);
  out.close(start);
}

/** An entry of a map from string to string. */
export function writePair(out: ProtoWriter, tag: number, key: string, value: string): void {
  const start = out.open(tag);
  out.text(0x0a, key);
  out.text(0x12, value);
  out.close(start);
}

export function writeCheckRequest(message: CheckRequest): Buffer {
  const out = new ProtoWriter();
  out.textField(0x0a, message.controlPoint);
  for (const [key, value] of message.labels) writePair(out, 0x12, key, value);
  out.uint32Field(0x18, Number(message.rampMode));
  if (message.cacheLookup !== undefined) {
    const start = out.open(0x22);
    out.textField(0x12, message.cacheLookup.resultKey);
    for (const key of message.cacheLookup.globalKeys) out.text(0x1a, key);
    out.close(start);
  }
  out.uint32Field(0x28, Number(message.expectEnd));
  return out.copy();
}

export function writeFlowEndRequest(message: FlowEndRequest): Buffer {
  const out = new ProtoWriter();
  out.textField(0x0a, message.controlPoint);
  for (const ref of message.refs) writeRef(out, 0x12, ref);
  const own = FLOW_END_FIELDS;
  out.textField((own.reservationId << 3) | BYTES, message.reservationId);
  if (message.cost !== undefined) {
    out.tag((own.cost << 3) | FIXED64);
    out.double(message.cost);
  }
  out.uint32Field((own.status << 3) | VARINT, message.status);
  return out.copy();
}

export function writeRef(out: ProtoWriter, tag: number, ref: InflightRef): void {
  const start = out.open(tag);
  out.textField(0x0a, ref.policyName);
  out.textField(0x12, ref.policyHash);
  out.textField(0x1a, ref.componentId);
  out.textField(0x22, ref.label);
  out.textField(0x2a, ref.requestId);
  out.doubleField(0x31, ref.tokens);
  out.close(start);
}
