// The gRPC client of a configured endpoint.

import type { ChannelOptions } from "@grpc/grpc-js";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import { joinHostPort, namedServer } from "#base/net/host-port.ts";
import { GrpcClient } from "./grpc.ts";
import { grpcProxy } from "./grpc-proxy.ts";
import type { ClientTlsSettings, Environment, ProxySettings } from "./http-settings.ts";
import { TlsFiles } from "./tls-files.ts";

/** GRPCClientConfig, as far as it concerns connections. */
export interface GrpcServerSettings {
  /** Use cleartext if the endpoint has no scheme. */
  readonly insecure: boolean;
  readonly use_proxy: boolean;
  readonly tls: ClientTlsSettings;
}

interface GrpcServerOptions {
  /** `host:port`, a host name, or either as a URL with `http` or `https`. */
  readonly endpoint: string;
  /** The port where the endpoint names none. */
  readonly defaultPort: number;
  readonly settings: GrpcServerSettings;
  readonly proxy: ProxySettings;
  readonly env: Environment;
  readonly clock: Clock;
  readonly log?: Pick<Log, "info" | "warn">;
  /** Keys of the endpoint and of the TLS settings, in messages. */
  readonly key: string;
  readonly tlsKey: string;
  readonly channel?: ChannelOptions;
}

/** Returns a client that connects at its first call. @throws Fault INVALID_ARGUMENT for unusable TLS files */
export function grpcServer(options: GrpcServerOptions): {
  readonly client: GrpcClient;
  /** `host:port`, for messages. */
  readonly address: string;
} {
  const { endpoint, defaultPort, settings, proxy, env, clock, log, channel = {} } = options;
  if (endpoint.startsWith("unix:")) {
    return { client: new GrpcClient({ address: endpoint, channel }), address: endpoint };
  }
  const { scheme, host, port } = namedServer(endpoint);
  const secure = scheme === undefined ? !settings.insecure : scheme === "https";
  const usual = scheme === undefined ? defaultPort : secure ? 443 : 80;
  const address = joinHostPort(host, port || usual);
  const files = () => new TlsFiles(settings.tls, { clock, log, key: options.tlsKey });
  const client = new GrpcClient({
    address,
    channel,
    ...(secure ? { tls: files(), tlsOptions: settings.tls } : {}),
    hints: {
      forCleartext: `say http:// in ${options.key}`,
      forTls: `say https:// in ${options.key}`,
    },
    proxy: settings.use_proxy ? grpcProxy(address, secure, { settings: proxy, env }) : undefined,
  });
  return { client, address };
}
