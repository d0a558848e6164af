// Chooses the transport of each HTTP/2 connection: Sluice's own, or the gRPC library for peers on other machines, to
// whom it has been exposed for years. The choice is the same before and after the TLS handshake.

import type { GrpcSettings } from "../settings.ts";
import type { ApplicationProtocol, Transport } from "../transport/transport.ts";
import { type Binding, type ConnectionAddresses, isLocalBinding, isLocalPeer } from "./address.ts";

/** The available transports: at least one of the two. */
export type Http2Transports =
  | { readonly sluice: Transport; readonly library: Transport | undefined }
  | { readonly sluice: undefined; readonly library: Transport };

export interface Http2Choice {
  readonly transports: readonly Transport[];
  transportFor(addresses: ConnectionAddresses): Transport;
  /**
   * The protocol to select by ALPN if a client offers both. Sluice's transport carries JSON and gRPC. The library
   * carries gRPC only, and gRPC clients offer h2 alone, so a client that offers both to it wants JSON.
   */
  preferredProtocol(addresses: ConnectionAddresses): ApplicationProtocol;
}

/**
 * Which transports the port needs, so that no other is loaded. A listener on a local address only has local peers.
 */
export function requiredTransports(
  choice: GrpcSettings["transport"],
  binding: Binding,
): "sluice" | "library" | "both" {
  if (choice === "auto") return isLocalBinding(binding) ? "sluice" : "both";
  return choice === "own" ? "sluice" : "library";
}

export function chooseHttp2(transports: Http2Transports, kind: Binding["kind"]): Http2Choice {
  const { sluice, library } = transports;
  const others =
    transports.sluice === undefined ? transports.library : (library ?? transports.sluice);
  const transportFor = (addresses: ConnectionAddresses) =>
    sluice !== undefined && isLocalPeer(kind, addresses) ? sluice : others;
  return {
    transports: [sluice, library].filter((transport) => transport !== undefined),
    transportFor,
    preferredProtocol: (addresses) => (transportFor(addresses) === sluice ? "http2" : "http1"),
  };
}
