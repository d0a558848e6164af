// The door for callers that describe an HTTP request themselves: CheckHTTP, in binary and in JSON.

import { Fault } from "#base/fault.ts";
import { type Flow, Pending } from "#flow/flow.ts";
import type { Call, HttpHandler, UnaryHandler } from "#serve/handler.ts";
import {
  type CheckHttpRequest,
  DescribedRequest,
  type DescribedSocket,
  readCheckHttpRequest,
} from "#wire/check-request.ts";
import type { HttpAnswer } from "#wire/http-answer.ts";
import { checkHttpFromJson } from "#wire/json-request.ts";
import { andThen, answer, DECISION_ID, type Door, requireControlPoint, wait } from "./door.ts";
import { JsonCheck } from "./json-check.ts";
import { jsonReply } from "./json-door.ts";
import { httpAnswer } from "./reply.ts";
import { RequestLabels } from "./request-labels.ts";
import { find, servicesLabel } from "./services.ts";

/** The field rules that the message's own definition states. */
function validate({ source, destination }: CheckHttpRequest): void {
  validateSocket(source, "source");
  validateSocket(destination, "destination");
}

function validateSocket(socket: DescribedSocket | undefined, what: string): void {
  if (socket === undefined) return;
  if (socket.address === "") fail(`${what}.address must not be empty`);
  if (socket.port > 65_535) fail(`${what}.port must be at most 65535`);
  if (socket.protocol !== 0 && socket.protocol !== 1) fail(`${what}.protocol must be TCP or UDP`);
}

function fail(message: string): never {
  throw new Fault("INVALID_ARGUMENT", message);
}

/** Judges a described request, whatever tongue it came in. */
function checkHttp(
  door: Door,
  message: CheckHttpRequest,
  call: Call,
): HttpAnswer | Promise<HttpAnswer> {
  validate(message);
  requireControlPoint(message.controlPoint);
  const http = message.request ?? new DescribedRequest();
  http.source = message.source;
  http.destination = message.destination;
  const services = find(door.lookup, message.destination?.address ?? "");
  const labels = new RequestLabels(
    http,
    http.headers,
    message.request === undefined ? "none" : "described",
    servicesLabel(find(door.lookup, message.source?.address ?? "")),
    servicesLabel(services),
    door.mind.observer,
  );
  const flow: Flow = {
    controlPoint: message.controlPoint,
    type: "http",
    services,
    labels,
    http,
    rampMode: message.rampMode,
    expectEnd: message.expectEnd,
    deadline: call.deadline,
  };
  return answer(door.mind.judge(flow), call, (verdict) => {
    call.reply(DECISION_ID, door.nextId());
    return httpAnswer(flow, labels, verdict, door.shapes);
  });
}

export function checkHttpBinary(door: Door): UnaryHandler {
  return (message, call) =>
    andThen(checkHttp(door, readCheckHttpRequest(message, door.names), call), (made) =>
      door.proto.writeCheckHttp(made),
    );
}

export function checkHttpJson(door: Door): HttpHandler {
  let spare: JsonCheck | undefined;
  return ({ body }, call) => {
    const check = spare ?? new JsonCheck(door);
    // Whatever throws or waits on the way: nobody else gets this one.
    spare = undefined;
    if (!check.begin(body, call)) {
      spare = check;
      return checkHttpParsed(door, body, call);
    }
    const judged = door.mind.judge(check);
    if (judged instanceof Pending) {
      check.http.keep();
      return wait(judged, call.signal(), (verdict) => jsonReply(check.reply(verdict, call, false)));
    }
    const reply = jsonReply(check.reply(judged, call, call.copiesReply === true));
    check.http.release();
    spare = check;
    return reply;
  };
}

/** The same of a body in whatever form. */
function checkHttpParsed(door: Door, body: Uint8Array, call: Call) {
  return andThen(checkHttp(door, checkHttpFromJson(body, door.names), call), (made) =>
    jsonReply(door.json.checkHttp(made)),
  );
}
