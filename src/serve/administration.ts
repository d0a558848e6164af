// Access to administration, the routes and services that show and change what the process does. Decided once per
// listener, then checked for each request before its body is read.

import { WarningLimiter } from "#base/async/warning-limiter.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import {
  type Call,
  type GrpcService,
  isAdministration,
  type Method,
  type Route,
  type StreamHandler,
  type UnaryHandler,
} from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import {
  hostName,
  refuseCrossOrigin,
  requireJsonType,
  requireKnownHost,
} from "./administration/browser.ts";
import { openToken, type Token } from "./administration/token.ts";
import { isLocalBinding, readAddress } from "./listen/address.ts";
import type { AdministrationSettings, PortSettings } from "./settings.ts";

/**
 * The credential that callers of administration need on a listener.
 *
 * - `token`: the configured token, whoever they are.
 * - `certificate`: the client certificate that the listener requires of everyone.
 * - `local`: nothing, since only this machine reaches the listener.
 * - `insecure`: nothing, although other machines reach the listener.
 * - `refused`: nothing helps, since other machines reach the listener and no credential is configured.
 */
export type Requirement = "token" | "certificate" | "local" | "insecure" | "refused";

/** Makes routes and services of administration check the credential first; others are unchanged. */
export interface AccessControl {
  route(route: Route): Route;
  service(service: GrpcService): GrpcService;
}

/** For ports without administration. */
export const NO_ACCESS_CONTROL: AccessControl = {
  route: (route) => route,
  service: (service) => service,
};

export interface Administration extends AccessControl {
  readonly requirement: Requirement;
  close(): void;
}

interface AdministrationOptions extends Pick<PortSettings, "listener" | "tls"> {
  readonly settings: AdministrationSettings;
  readonly clock: Clock;
  readonly log: Log;
}

/** @throws Fault INVALID_ARGUMENT if the configured token cannot be used */
export async function openAdministration(options: AdministrationOptions): Promise<Administration> {
  const { settings, listener, tls, clock, log } = options;
  const { allowed_hosts, insecure } = settings;
  const binding = await readAddress(listener);
  const token = openToken(settings, clock, log);
  const requirement =
    token !== undefined
      ? "token"
      : tls.enabled && tls.client_ca_file !== ""
        ? "certificate"
        : isLocalBinding(binding)
          ? "local"
          : insecure
            ? "insecure"
            : "refused";
  // A page has no token, is not shown under a name that the server's certificate lacks, and cannot reach a Unix socket.
  const anyHost = requirement === "token" || requirement === "certificate";
  const hosts =
    anyHost || binding.kind === "unix" ? undefined : new Set(allowed_hosts.map(hostName));
  const scheme = tls.enabled ? "https" : "http";
  const warnings = new WarningLimiter(clock, log);
  /** `route` is undefined for calls over gRPC. They need not name a host, since browsers cannot make them. */
  const admit = (call: Call, route?: Route): void => {
    try {
      if (requirement === "refused") throw noCredential();
      if (token !== undefined) requireToken(call, token);
      refuseCrossOrigin(call, scheme);
      const host = call.header("host") ?? (route === undefined ? undefined : "");
      if (hosts !== undefined && host !== undefined) requireKnownHost(host, hosts);
      if (route?.body === "json") requireJsonType(call);
    } catch (thrown) {
      const { method, peer } = call;
      const message = `refused a request of administration: ${Fault.from(thrown).message}`;
      warnings.warn(message, (count) => ({
        method,
        peer: peer === "" ? "a Unix socket" : peer,
        refused_since_last_line: count,
      }));
      throw thrown;
    }
  };
  return {
    requirement,
    route: (route) =>
      isAdministration(route) ? { ...route, admit: (call) => admit(call, route) } : route,
    service: (service) => (isAdministration(service) ? checkedService(service, admit) : service),
    close: () => token?.close(),
  };
}

type Admit = (call: Call) => void;

function checkedService(service: GrpcService, admit: Admit): GrpcService {
  const methods = Object.entries(service.methods).map(([name, method]) => [
    name,
    checkedMethod(method, admit),
  ]);
  return { ...service, methods: Object.fromEntries(methods) };
}

function checkedMethod(method: Method, admit: Admit): Method {
  if (method.kind === "unary") {
    const unary: UnaryHandler = (message, call) => {
      admit(call);
      return method.handle(message, call);
    };
    return { ...method, handle: unary };
  }
  const stream: StreamHandler = async (messages, call) => {
    admit(call);
    return method.handle(messages, call);
  };
  return { ...method, handle: stream };
}

/** The scheme is case-insensitive (RFC 9110 §11.1). */
const BEARER = /^bearer +(\S+) *$/i;

function requireToken(call: Call, token: Token): void {
  const given = call.header("authorization");
  const [, presented] = BEARER.exec(given ?? "") ?? [];
  if (presented !== undefined && token.matches(presented)) return;
  const why =
    given === undefined
      ? "administration requires a token: send `authorization: Bearer TOKEN`"
      : "wrong administration token";
  throw new Fault("UNAUTHENTICATED", why, { headers: { "www-authenticate": "Bearer" } });
}

function noCredential(): Fault {
  return new Fault(
    "PERMISSION_DENIED",
    "administration is refused here: other machines reach this address, and neither a token (server.administration.token) nor client certificates (server.tls.client_ca_file) is configured",
  );
}
