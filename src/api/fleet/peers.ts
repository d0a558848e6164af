// The agents of a group as a gRPC service and JSON routes.

import { Fault } from "#base/fault.ts";
import type { GrpcService, Route } from "#base/handler.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { administrationService, viewRoute } from "../reply/json-reply.ts";

export interface Peer {
  readonly address: string;
  readonly hostname: string;
  /** Addresses by name of the service. */
  readonly services: Readonly<Record<string, string>>;
  readonly id: string;
}

export interface Peers {
  /** Undefined until this process has announced itself. */
  readonly self: Peer | undefined;
  readonly list: readonly Peer[];
}

/** The fields of a record, without anything else that the object may have. */
function view({ address, hostname, services, id }: Peer): Peer {
  return { address, hostname, services, id };
}

function all({ self, list }: Peers) {
  return {
    self: self === undefined ? null : view(self),
    peers: Object.fromEntries(list.map((peer) => [peer.address, view(peer)])),
  };
}

function one({ list }: Peers, address: string): Peer {
  const found = list.find((peer) => peer.address === address);
  if (found === undefined) throw new Fault("NOT_FOUND", "peer not found");
  return view(found);
}

export function peerRoutes(peers: Peers): readonly Route[] {
  return [
    viewRoute(
      "/v1/peers",
      "The agents of this agent's group, this one included, by address.",
      () => {
        const { self: self_peer, peers: found } = all(peers);
        return { self_peer, peers: found };
      },
    ),
    viewRoute(
      "/v1/peers/address/{address}",
      "The agent of this address.",
      ({ params }) => one(peers, params["address"] ?? ""),
      { costly: false },
    ),
  ];
}

export function peerGrpcService(peers: Peers): GrpcService {
  return administrationService("aperture.peers.v1.PeerDiscoveryService", {
    GetPeers() {
      const { self: selfPeer, peers: found } = all(peers);
      return encode("aperture.peers.v1.Peers", { selfPeer, peers: found });
    },
    GetPeer(message) {
      const { address } = decode("aperture.peers.v1.PeerRequest", message);
      return encode("aperture.peers.v1.Peer", one(peers, address));
    },
  });
}
