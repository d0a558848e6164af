// The JSON routes of an agent that forwards them to another gRPC server instead of judging flows itself.

import { readFile } from "node:fs/promises";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { Route } from "#base/handler.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#process/process.ts";

/** The forwarding routes; undefined where `server.grpc_gateway.grpc_server_address` is empty. */
export async function forwardingRoutes(
  { scope, clock, chance }: SluiceProcess,
  { grpc_gateway, tls }: AgentConfig["server"],
): Promise<readonly Route[] | undefined> {
  const { grpc_server_address: address } = grpc_gateway;
  if (address === "") return undefined;
  const [{ GrpcClient }, { forwardTo, gatewayRoutes }] = await Promise.all([
    import("#client/grpc.ts"),
    import("#api/gateway.ts"),
  ]);
  const client = new GrpcClient({ address, ...(await clientTls(tls)) });
  scope.add("gateway", () => client.close());
  return gatewayRoutes(forwardTo(client, clock), chance);
}

/** The agent presents the same certificate to the other server as to its own callers. */
async function clientTls({
  enabled,
  cert_file,
  key_file,
  client_ca_file,
}: AgentConfig["server"]["tls"]) {
  if (!enabled) return {};
  const [cert, key] = await Promise.all([
    tlsFile("cert_file", cert_file),
    tlsFile("key_file", key_file),
  ]);
  const ca = client_ca_file === "" ? {} : { ca: await tlsFile("client_ca_file", client_ca_file) };
  return { tls: { cert, key, ...ca } };
}

async function tlsFile(key: string, path: string): Promise<Buffer> {
  return readFile(path).catch((thrown: unknown) => {
    const wanted = `server.tls.${key}: wanted a file that can be read at ${path}`;
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${systemErrorText(thrown)}`);
  });
}
