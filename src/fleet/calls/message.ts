// The messages of requests to agents: a request is a google.protobuf.Any, and an answer a reply or a fault.

import { CODES, type Code, Fault } from "#base/fault.ts";
import type { Decoded } from "#wire/protobuf/message-types.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { BYTES, ByteSpan, ProtoReader } from "#wire/protobuf/reader.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";

/** A request as its sender states it. */
export interface Request {
  /** Full name of the message, which names the function. */
  readonly name: string;
  readonly message: Uint8Array;
}

export type Answer = { readonly reply: Uint8Array } | { readonly fault: Fault };

/** Requests are a few fields. */
export const MAX_REQUEST_BYTES = 64 * 1024;
/** Largest reply: the size limit of a value in etcd, less room for the rest of the message. */
export const MAX_REPLY_BYTES = 1024 * 1024;

const TYPE_URL = 1;
const VALUE = 2;
const PREFIX = "type.googleapis.com/";

export function writeRequest({ name, message }: Request): Uint8Array {
  const writer = new ProtoWriter();
  writer.textField(tagOf(TYPE_URL), `${PREFIX}${name}`);
  writer.bytesField(tagOf(VALUE), message);
  return writer.copy();
}

/** @throws Fault INVALID_ARGUMENT, RESOURCE_EXHAUSTED */
export function readRequest(bytes: Uint8Array): Request {
  if (bytes.length > MAX_REQUEST_BYTES) throw tooLarge(bytes, MAX_REQUEST_BYTES);
  const reader = new ProtoReader(bytes);
  const span = new ByteSpan();
  let url = "";
  let message: Uint8Array = new Uint8Array();
  while (reader.at < reader.end) {
    const field = reader.tag(reader.end);
    if (field === TYPE_URL && reader.wire === BYTES) url = reader.text(reader.end);
    else if (field === VALUE && reader.wire === BYTES) {
      reader.span(reader.end, span);
      message = Buffer.from(bytes.subarray(span.start, span.end));
    } else reader.skip(field, reader.end);
  }
  return { name: url.slice(url.lastIndexOf("/") + 1), message };
}

function tagOf(field: number): number {
  return (field << 3) | BYTES;
}

const ANSWER = "sluice.fleet.v1.Answer";

/** The fields of an encoded answer. `id` is that of the request, where the answer must say it. */
export function answerFields(answer: Answer, id = "") {
  if ("reply" in answer) return { id, reply: answer.reply };
  const { code, message } = answer.fault;
  return { id, failure: { code: CODES[code].number, message } };
}

export function writeAnswer(answer: Answer): Uint8Array {
  return encode(ANSWER, answerFields(answer));
}

/** @throws Fault INVALID_ARGUMENT, RESOURCE_EXHAUSTED */
export function readAnswer(bytes: Uint8Array): Answer {
  if (bytes.length > MAX_REPLY_BYTES + MAX_REQUEST_BYTES) throw tooLarge(bytes, MAX_REPLY_BYTES);
  return answerOf(decode(ANSWER, bytes));
}

export function answerOf({ reply, failure }: Decoded<typeof ANSWER>): Answer {
  if (failure !== undefined && failure !== null) {
    return { fault: new Fault(codeOf(failure.code), failure.message.slice(0, 1_000)) };
  }
  if (reply === undefined) throw new Fault("INVALID_ARGUMENT", "an answer without a result");
  return { reply };
}

function codeOf(wanted: number): Code {
  const found = (Object.keys(CODES) as Code[]).find((code) => CODES[code].number === wanted);
  return found === undefined || found === "OK" ? "UNKNOWN" : found;
}

export function tooLarge(bytes: Uint8Array, limit: number): Fault {
  const wanted = `wanted at most ${limit} bytes, got ${bytes.length}`;
  return new Fault("RESOURCE_EXHAUSTED", wanted);
}
