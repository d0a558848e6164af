// The JSON routes of an agent that forwards them to another gRPC server instead of judging flows itself.

import type { OperationContext } from "#api/context.ts";
import { unreadHandlers } from "#api/endpoints.ts";
import type { Route } from "#base/handler.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#daemon/process.ts";

/** The forwarding routes; undefined where `server.grpc_gateway.grpc_server_address` is empty. */
export async function forwardingRoutes(
  { scope, clock, chance, log, env, settings }: SluiceProcess,
  { grpc_gateway, tls: own }: AgentConfig["server"],
  context: OperationContext,
): Promise<readonly Route[] | undefined> {
  const { grpc_server_address: address, tls } = grpc_gateway;
  if (address === "") return undefined;
  const [{ GrpcClient }, { grpcProxy }, { TlsFiles }, { forwardTo, gatewayRoutes }] =
    await Promise.all([
      import("#client/grpc.ts"),
      import("#client/grpc-proxy.ts"),
      import("#client/tls-files.ts"),
      import("#api/gateway.ts"),
    ]);
  const options = { clock, log: log.child("gateway"), key: "server.grpc_gateway.tls" };
  // A port that requires TLS must not forward its calls in cleartext.
  const secure = tls.enabled || own.enabled ? { tls: new TlsFiles(tls, options) } : {};
  const around = { settings: settings.client.proxy, env };
  const proxy = grpcProxy(address, secure.tls !== undefined, around);
  const client = new GrpcClient({ address, ...secure, proxy });
  scope.add("gateway", () => client.close());
  return gatewayRoutes(forwardTo(client, clock), chance, unreadHandlers(context), context.bounds);
}
