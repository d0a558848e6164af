// gRPC connections through a proxy. The library's own rules for proxies, by other environment variables, are switched
// off, so that one set of rules (`http/proxy.ts`) holds for all calls.

import type { ChannelOptions } from "@grpc/grpc-js";
import { Fault } from "#base/fault.ts";
import { proxySelector } from "./http/proxy.ts";
import type { Environment, ProxySettings } from "./http-settings.ts";

/** `client.proxy`, and the environment variables that count where it is empty. */
export interface GrpcProxySettings {
  readonly settings: ProxySettings;
  readonly env: Environment;
}

/**
 * The proxy of a server at `host:port`; undefined for a direct connection and for Unix sockets.
 * @throws Fault INVALID_ARGUMENT for a proxy that is itself reached over TLS, which the gRPC library does not support
 */
export function grpcProxy(
  address: string,
  isSecure: boolean,
  { settings, env }: GrpcProxySettings,
): URL | undefined {
  const url = address.startsWith("unix:")
    ? null
    : URL.parse(`${isSecure ? "https" : "http"}://${address}`);
  const proxy = url === null ? undefined : proxySelector(settings, env)(url);
  if (proxy === undefined || proxy.protocol === "http:") return proxy;
  const key = isSecure ? "client.proxy.https" : "client.proxy.http";
  throw new Fault("INVALID_ARGUMENT", `${key}: wanted an http:// proxy for gRPC, got https://`);
}

export interface GrpcRoute {
  /** The address that the library connects to. */
  readonly target: string;
  readonly channel: ChannelOptions;
}

/** The route to a server: direct without a proxy, else a tunnel (CONNECT), with or without TLS inside. */
export function grpcRoute(address: string, proxy: URL | undefined): GrpcRoute {
  const direct = { target: address, channel: { "grpc.enable_http_proxy": 0 } };
  if (proxy === undefined) return direct;
  const { hostname, port, username, password } = proxy;
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return {
    target: `${hostname}:${port || "80"}`,
    channel: {
      ...direct.channel,
      "grpc.http_connect_target": `dns:${address}`,
      ...(credentials === ":" ? {} : { "grpc.http_connect_creds": credentials }),
      // TLS verifies the server, and calls name it as `:authority`, not the proxy.
      "grpc.default_authority": address,
    },
  };
}
