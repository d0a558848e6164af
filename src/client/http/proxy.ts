// Selects the proxy of each call: from the settings, else from the environment variables, with the exceptions
// that `no_proxy` lists.

import { BlockList, isIP } from "node:net";
import { Fault } from "#base/fault.ts";
import type { Environment, ProxySettings } from "../http-settings.ts";

/** The proxy for a URL; undefined means a direct connection. */
export type ProxySelector = (url: URL) => URL | undefined;

/**
 * The environment variables, in upper or lower case, count only when the settings are all empty.
 * @throws Fault INVALID_ARGUMENT for a proxy that is neither host:port nor an HTTP URL
 */
export function proxySelector(settings: ProxySettings, env: Environment): ProxySelector {
  const isSet = settings.http !== "" || settings.https !== "" || settings.no_proxy.length > 0;
  const effective = isSet ? settings : fromEnvironment(env);
  const http = parseProxy("client.proxy.http", effective.http);
  const https = parseProxy("client.proxy.https", effective.https);
  const direct = effective.no_proxy.flatMap((item) => parseException(item.trim()) ?? []);
  return (url) => {
    const proxy = url.protocol === "https:" ? https : http;
    if (proxy === undefined) return undefined;
    const host = hostOf(url);
    const port = url.port || (url.protocol === "https:" ? "443" : "80");
    return direct.some((matches) => matches(host, port)) ? undefined : proxy;
  };
}

function fromEnvironment(env: Environment): ProxySettings {
  const named = (name: string) => env[name] || env[name.toLowerCase()] || "";
  return {
    http: named("HTTP_PROXY"),
    https: named("HTTPS_PROXY"),
    no_proxy: named("NO_PROXY").split(","),
  };
}

function parseProxy(key: string, text: string): URL | undefined {
  if (text === "") return undefined;
  const url = URL.parse(text.includes("://") ? text : `http://${text}`);
  if (url !== null && (url.protocol === "http:" || url.protocol === "https:")) return url;
  // The message leaves the value out, because it may hold a password.
  throw new Fault("INVALID_ARGUMENT", `${key}: wanted host:port or an http:// or https:// URL`);
}

type Matcher = (host: string, port: string) => boolean;

/**
 * One entry of `no_proxy`: `*`, an address or CIDR range, a host name with its subdomains, or `.domain` for the
 * subdomains alone. Names and addresses may have a port.
 */
function parseException(item: string): Matcher | undefined {
  if (item === "") return undefined;
  if (item === "*") return () => true;
  const range = item.includes("/") ? parseRange(item) : undefined;
  if (range !== undefined) return range;
  const [, bracketed, bare, wantedPort] = /^(?:\[(.+)\]|([^:]+))(?::(\d+))?$/.exec(item) ?? [];
  const wanted = (bracketed ?? bare ?? item).toLowerCase();
  const fits = (port: string) => wantedPort === undefined || wantedPort === port;
  if (isIP(wanted) !== 0) {
    const same = new BlockList();
    same.addAddress(wanted, family(wanted));
    return (host, port) => fits(port) && isIP(host) !== 0 && same.check(host, family(host));
  }
  const suffix = wanted.replace(/^\*?\.?/, ".");
  return (host, port) => fits(port) && (host === wanted || host.endsWith(suffix));
}

function parseRange(item: string): Matcher | undefined {
  const [network = "", bits = ""] = item.split("/");
  const version = isIP(network);
  if (version === 0 || !/^\d+$/.test(bits) || Number(bits) > (version === 4 ? 32 : 128)) {
    return undefined;
  }
  const range = new BlockList();
  range.addSubnet(network, Number(bits), family(network));
  return (host) => isIP(host) !== 0 && range.check(host, family(host));
}

function family(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, "").toLowerCase();
}
