// Which transport carries an HTTP/2 connection: the own one, or the gRPC library for peers of other machines,
// whom it has met for years. Decided per connection, before its TLS handshake and after it alike.

import type { Transport } from "../lifetime/transport.ts";
import type { GrpcSettings } from "../settings.ts";
import { type Binding, type Ends, isLocalBinding, isLocalPeer } from "./address.ts";
import type { PlainTongue } from "./tongue.ts";

/** What can carry: at least one of the two. */
export type Carriers =
  | { readonly own: Transport; readonly library: Transport | undefined }
  | { readonly own: undefined; readonly library: Transport };

export interface Http2 {
  readonly transports: readonly Transport[];
  carrierOf(ends: Ends): Transport;
  /**
   * What ALPN takes of a client that offers both. The own transport brings JSON and gRPC; the library brings
   * gRPC alone, whose clients offer h2 alone, so who offers both to it wants JSON.
   */
  prefers(ends: Ends): PlainTongue;
}

/**
 * What the port needs, so that nothing else is loaded. Whoever reaches an address that only this machine has is
 * taken to be on it.
 */
export function makesFor(
  choice: GrpcSettings["transport"],
  binding: Binding,
): "own" | "library" | "both" {
  if (choice === "auto") return isLocalBinding(binding) ? "own" : "both";
  return choice === "own" ? "own" : "library";
}

export function http2Of(carriers: Carriers, kind: Binding["kind"]): Http2 {
  const { own, library } = carriers;
  const others = carriers.own === undefined ? carriers.library : (library ?? carriers.own);
  const carrierOf = (ends: Ends) => (own !== undefined && isLocalPeer(kind, ends) ? own : others);
  return {
    transports: [own, library].filter((transport) => transport !== undefined),
    carrierOf,
    prefers: (ends) => (carrierOf(ends) === own ? "http2" : "http1"),
  };
}
