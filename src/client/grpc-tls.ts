// TLS of a gRPC client: the credentials of its channel.

import { appendFile } from "node:fs";
import { isIP } from "node:net";
import { connect } from "node:tls";
import type { ChannelCredentials } from "@grpc/grpc-js";
import type { TlsMaterial } from "./tls-files.ts";

export interface GrpcTlsOptions {
  /** Accept any server certificate. */
  readonly insecure_skip_verify?: boolean;
  /** File to which session keys are appended; empty or absent for none. */
  readonly key_log_file?: string;
}

/** Credentials for a server at `host:port`. */
export function secureCredentials(
  grpc: typeof import("@grpc/grpc-js"),
  material: TlsMaterial,
  address: string,
  { insecure_skip_verify = false, key_log_file = "" }: GrpcTlsOptions,
): ChannelCredentials {
  const rejectUnauthorized = !insecure_skip_verify;
  const { context: secureContext } = material;
  const host = address.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
  const credentials = grpc.credentials.createFromSecureContext(secureContext, {
    rejectUnauthorized,
  });
  // The library's own connections send the name of the server even if it is an IP address, which Node refuses, and
  // cannot report session keys.
  credentials._createSecureConnector = (_target, _options, callCredentials) => ({
    waitForReady: async () => undefined,
    getCallCredentials: () => callCredentials ?? grpc.CallCredentials.createEmpty(),
    destroy: () => undefined,
    connect: (socket) =>
      new Promise((resolve, reject) => {
        const servername = isIP(host) === 0 ? { servername: host } : {};
        const own = { socket, secureContext, host, rejectUnauthorized, ALPNProtocols: ["h2"] };
        const secured = connect({ ...own, ...servername }, () =>
          resolve({ socket: secured, secure: true }),
        );
        secured.on("error", reject);
        if (key_log_file === "") return;
        // A line that is lost only matters for debugging.
        secured.on("keylog", (line) =>
          appendFile(key_log_file, line, { mode: 0o600 }, () => undefined),
        );
      }),
  });
  return credentials;
}
