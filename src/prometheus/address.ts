// The address of a Prometheus server, and the URLs of its API.

import { Fault } from "#base/fault.ts";

/**
 * The URL of a path of the server. Credentials in the address stay; its own path comes first.
 * @throws Fault INVALID_ARGUMENT, without secrets, for an address that is not host:port, a name or an HTTP URL
 */
export function serverUrl(address: string, path: string): string {
  const url = URL.parse(address.includes("://") ? address : `http://${address}`);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    const wanted = "wanted host:port, a name or an http:// or https:// URL";
    const got = JSON.stringify(withoutSecrets(address));
    throw new Fault("INVALID_ARGUMENT", `prometheus.address: ${wanted}, got ${got}`);
  }
  url.pathname = `${url.pathname.replace(/\/+$/, "")}${path}`;
  url.search = "";
  url.hash = "";
  return url.href;
}

/** An address without its user name, password, query and fragment. It need not be a valid URL. */
function withoutSecrets(address: string): string {
  return address.replace(/^((?:[a-z][a-z0-9+.-]*:\/\/)?).*@/is, "$1***@").replace(/[?#].*$/s, "");
}
