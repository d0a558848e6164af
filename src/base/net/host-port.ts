// Addresses of the form `host:port`, as settings, sockets and records of agents have them.

export interface HostPort {
  /** Without brackets. Empty if there is none, which means every interface or this machine. */
  readonly host: string;
  /** Digits. Empty where none is named. */
  readonly port: string;
}

/** The parts of `host:port`, `:port`, `[IPv6]:port` or `[IPv6]`. The port follows the last colon. */
export function splitHostPort(text: string): HostPort {
  const at = text.endsWith("]") ? -1 : text.lastIndexOf(":");
  const host = at < 0 ? text : text.slice(0, at);
  return { host: withoutBrackets(host), port: at < 0 ? "" : text.slice(at + 1) };
}

/** `host:port`, with an IPv6 address in brackets. */
export function joinHostPort(host: string, port: string | number): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/**
 * The address by which other machines reach a listener that is bound to `host`. An empty or unspecified host means
 * every interface; then `own` names this machine.
 */
export function reachableAddress(host: string, port: string, own: () => string): string {
  const isEvery = host === "" || host === "0.0.0.0" || host === "::";
  return joinHostPort(isEvery ? own() : host, port);
}

/** The reason why a bind to `address` (`host:port` or a path) failed, with a remedy where there is one. */
export function whyNotBound(address: string, cause: Error & { readonly code?: string }): string {
  const { code = cause.message } = cause;
  if (code === "EADDRNOTAVAIL") return `this machine does not have the address (${address})`;
  if (code !== "EADDRINUSE") return `${code} (${address})`;
  const remedy = "stop the process that listens there, or choose another address";
  return `the address is in use (${address}); ${remedy}`;
}

/** `::1` of `[::1]`, as URLs have it. Other text is returned unchanged. */
export function withoutBrackets(host: string): string {
  return host.startsWith("[") && host.endsWith("]") ? host.slice(1, -1) : host;
}

/** A server as a setting names it: `host`, `host:port`, `http://host:port` or `https://host:port`. */
export interface NamedServer extends HostPort {
  /** Undefined where the text has none. */
  readonly scheme: "http" | "https" | undefined;
}

/** The port of the text, even the default of the scheme, which a URL would omit. */
export function namedServer(text: string): NamedServer {
  const [, found, rest = text] = /^(https?):\/\/(.*)$/i.exec(text) ?? [];
  const { hostname } = new URL(`http://${rest}`);
  const port = /^[^/]*:(\d+)(?:\/|$)/.exec(rest)?.[1] ?? "";
  const scheme = found === undefined ? undefined : found.length === 5 ? "https" : "http";
  return { scheme, host: withoutBrackets(hostname), port };
}

/**
 * The URL of a server that a person names as `host:port`, as `:port` for this machine, or as a URL. `scheme` is for
 * text without one. Undefined for other text.
 */
export function urlOfServer(text: string, scheme: "http" | "https"): URL | undefined {
  const local = text.startsWith(":") ? `127.0.0.1${text}` : text;
  const full = /^[a-z]+:\/\//i.test(local) ? local : `${scheme}://${local}`;
  return URL.canParse(full) ? new URL(full) : undefined;
}
