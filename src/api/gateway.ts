// The JSON routes of an agent that forwards them to another gRPC server
// (`server.grpc_gateway.grpc_server_address`) instead of checking itself. Paths and input rules are the same.

import type { DescMessage } from "@bufbuild/protobuf";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Call, HttpHandler, Route } from "#base/handler.ts";
import type { GrpcClient } from "#client/grpc.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import {
  writeCheckHttpRequest,
  writeCheckRequest,
  writeFlowEndRequest,
} from "#wire/check/request-writer.ts";
import { checkFromJson, checkHttpFromJson, flowEndFromJson } from "#wire/check-json/request.ts";
import { readReply, writeRecords } from "#wire/otlp/protobuf.ts";
import { REPLY_HEADERS, type RequestBounds } from "./context.ts";
import {
  CHECK_HTTP_SERVICE,
  CHECK_SERVICE,
  flowControlRoutes,
  type JsonHandlers,
  OTLP_SERVICES,
  type UnreadHandlers,
} from "./endpoints.ts";
import { jsonReply } from "./reply/json-reply.ts";
import { otlpRoutes } from "./reports/otlp.ts";

/** Headers of the other server's replies that ours have as well. */
const PASSED_ON: ReadonlySet<string> = new Set(REPLY_HEADERS.keys());

/** Sends one encoded message to the other server and resolves with its reply. Throws Fault. */
export type Forward = (method: string, message: Uint8Array, call: Call) => Promise<Uint8Array>;

/** Forwards over a gRPC client, within the caller's deadline, and cancels the call when the caller disconnects. */
export function forwardTo(client: GrpcClient, clock: Clock): Forward {
  return (method, message, call) =>
    client
      .call(method, message, {
        timeoutMs: call.deadline - clock.now(),
        signal: call.signal(),
        onHeader: (name, value) => {
          if (PASSED_ON.has(name)) call.reply(name, value);
        },
      })
      .catch((thrown: unknown) => {
        const fault = Fault.from(thrown);
        // Callers need not know how the server is reached.
        throw fault.code === "UNAVAILABLE" ? new Fault(fault.code, AWAY, { cause: fault }) : fault;
      });
}

const AWAY = "the gRPC server behind this route is unavailable";

/** @param unread what was not read cannot be forwarded, so it is answered here. */
export function gatewayRoutes(
  forward: Forward,
  chance: Chance,
  unread: UnreadHandlers,
  { max_headers, max_labels, max_json_depth }: RequestBounds = {},
): readonly Route[] {
  const names = new HeaderNames(chance, max_headers);
  const handlers: JsonHandlers = {
    checkHttp: route(forward, CHECK_HTTP_SERVICE, "CheckHTTP", (body) =>
      writeCheckHttpRequest(checkHttpFromJson(body, names, max_json_depth)),
    ),
    check: route(forward, CHECK_SERVICE, "Check", (body) =>
      writeCheckRequest(checkFromJson(body, max_json_depth, max_labels)),
    ),
    flowEnd: route(forward, CHECK_SERVICE, "FlowEnd", (body) =>
      writeFlowEndRequest(flowEndFromJson(body, max_json_depth)),
    ),
  };
  const telemetry = otlpRoutes(async (signal, records, call) => {
    const message = writeRecords(signal, records);
    return readReply(await forward(`/${OTLP_SERVICES[signal]}/Export`, message, call));
  });
  return [...flowControlRoutes(handlers, unread), ...telemetry];
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
    // The library is large, so it is imported with the first reply.
    output ??= describe(service, method);
    const { binaryToJson } = await import("#wire/protobuf/protojson.ts");
    return jsonReply(binaryToJson(await output, reply));
  };
}

async function describe(service: string, method: string): Promise<DescMessage> {
  const { registry } = await import("#wire/protobuf/descriptors.ts");
  const methods = registry.getService(service)?.methods ?? [];
  const found = methods.find(({ name }) => name === method);
  if (found === undefined) throw new Error(`${service}/${method} has no description`);
  return found.output;
}
