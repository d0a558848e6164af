// The JSON routes of an agent that forwards them to another gRPC server
// (`server.grpc_gateway.grpc_server_address`) instead of judging itself: same input rules, same paths.

import type { DescMessage } from "@bufbuild/protobuf";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Call, HttpHandler, Route } from "#serve/handler.ts";
import {
  writeCheckHttpRequest,
  writeCheckRequest,
  writeFlowEndRequest,
} from "#wire/check-request-writer.ts";
import type { GrpcClient } from "#wire/grpc-client.ts";
import { HeaderNames } from "#wire/headers.ts";
import { checkFromJson, checkHttpFromJson, flowEndFromJson } from "#wire/json-request.ts";
import { DECISION_ID } from "./door.ts";
import { CHECK_HTTP_SERVICE, CHECK_SERVICE, jsonRoutes } from "./doors.ts";
import { jsonReply } from "./json-door.ts";

/** Carries one encoded message to the other server. Throws Fault. */
export type Forward = (method: string, message: Uint8Array, call: Call) => Promise<Uint8Array>;

/** Forwards over a client, within the caller's deadline and as long as the caller stays. */
export function forwardTo(client: GrpcClient, clock: Clock): Forward {
  return (method, message, call) =>
    client.call(method, message, {
      timeoutMs: call.deadline - clock.now(),
      signal: call.signal(),
      header: (name, value) => {
        if (name === DECISION_ID) call.reply(name, value);
      },
    });
}

export function gatewayRoutes(forward: Forward, chance: Chance): readonly Route[] {
  const names = new HeaderNames(chance);
  return jsonRoutes({
    checkHttp: route(forward, CHECK_HTTP_SERVICE, "CheckHTTP", (body) =>
      writeCheckHttpRequest(checkHttpFromJson(body, names)),
    ),
    check: route(forward, CHECK_SERVICE, "Check", (body) => writeCheckRequest(checkFromJson(body))),
    flowEnd: route(forward, CHECK_SERVICE, "FlowEnd", (body) =>
      writeFlowEndRequest(flowEndFromJson(body)),
    ),
  });
}

function route(
  forward: Forward,
  service: string,
  method: string,
  encode: (body: Uint8Array) => Uint8Array,
): HttpHandler {
  let output: Promise<DescMessage> | undefined;
  return async ({ body }, call) => {
    const reply = await forward(`/${service}/${method}`, encode(body), call);
    // The generated code is large: it is imported when the first reply has to be written.
    output ??= describe(service, method);
    const { binaryToJson } = await import("#wire/protojson.ts");
    return jsonReply(binaryToJson(await output, reply));
  };
}

async function describe(service: string, method: string): Promise<DescMessage> {
  const { loadRegistry } = await import("#wire/descriptors.ts");
  const methods = (await loadRegistry([service])).getService(service)?.methods ?? [];
  const found = methods.find(({ name }) => name === method);
  if (found === undefined) throw new Error(`${service}/${method} has no description`);
  return found.output;
}
