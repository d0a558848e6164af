// Logs at start which routes and services of a port other machines can use, and with which credential.

import { type GrpcService, isAdministration, type Route } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import type { Requirement } from "#serve/administration.ts";

/** A port that other machines can reach. */
export interface Reachable {
  readonly address: string;
  /** Key of the address. */
  readonly key: string;
  readonly tls: boolean;
  /** The credential that administration requires. */
  readonly requirement: Requirement;
  readonly routes: readonly Route[];
  readonly services: readonly GrpcService[];
}

export function logReach({ address, key, tls, requirement, ...served }: Reachable, log: Log): void {
  const open = names(served, (each) => !isAdministration(each), whole);
  if (!tls && open !== undefined) {
    const what = "other machines can use these without TLS and without a credential";
    log.warn({ address, ...open }, `${what}; bind ${key} to loopback or turn server.tls on`);
  }
  const administration = names(served, isAdministration, firstSegments);
  if (administration === undefined) return;
  if (requirement === "insecure") {
    const what = "other machines can use administration without a credential";
    const why = "server.administration.insecure is true";
    log.warn({ address, ...administration }, `${what}, because ${why}`);
  } else if (requirement === "refused") {
    const remedy =
      "configure server.administration.token or client certificates, or give it a local address with server.administration.addr";
    log.info({ address }, `administration is refused on ${address}; to use it, ${remedy}`);
  } else if (!tls) {
    const what = "the token of administration crosses the network unencrypted";
    log.warn({ address }, `${what}; turn server.tls on`);
  }
}

/** The paths of these routes and the full names of these services; undefined if there are none. */
function names(
  { routes, services }: Pick<Reachable, "routes" | "services">,
  keep: (served: Route | GrpcService) => boolean,
  shown: (path: string) => string,
): { readonly routes: readonly string[]; readonly grpc?: readonly string[] } | undefined {
  const paths = new Set(routes.filter(keep).map(({ path }) => shown(path)));
  const grpc = services.filter(keep).map(({ name }) => name);
  if (paths.size + grpc.length === 0) return undefined;
  return { routes: [...paths], ...(grpc.length > 0 && { grpc }) };
}

const whole = (path: string): string => path;

/** `/v1/policies` of `/v1/policies/{name}/graph`. */
function firstSegments(path: string): string {
  return path.split("/", 3).join("/");
}
