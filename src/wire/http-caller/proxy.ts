// Which proxy a call goes through: that of the settings, or else of the environment, except for what is
// called directly.

import { BlockList, isIP } from "node:net";
import { Fault } from "#base/fault.ts";
import type { Environment, ProxySettings } from "../http-caller.ts";

/** The proxy that a URL is called through; undefined is a direct call. */
export type Route = (url: URL) => URL | undefined;

/** Any setting silences the whole environment; without one its variables count, in upper or lower case. */
export function routeOf(settings: ProxySettings, env: Environment): Route {
  const isSet = settings.http !== "" || settings.https !== "" || settings.no_proxy.length > 0;
  const inForce = isSet ? settings : proxiesOf(env);
  const http = proxyOf("client.proxy.http", inForce.http);
  const https = proxyOf("client.proxy.https", inForce.https);
  const direct = inForce.no_proxy.flatMap((item) => exceptionOf(item.trim()) ?? []);
  return (url) => {
    const proxy = url.protocol === "https:" ? https : http;
    if (proxy === undefined) return undefined;
    const host = hostOf(url);
    const port = url.port || (url.protocol === "https:" ? "443" : "80");
    return direct.some((matches) => matches(host, port)) ? undefined : proxy;
  };
}

function proxiesOf(env: Environment): ProxySettings {
  const named = (name: string) => env[name] || env[name.toLowerCase()] || "";
  return {
    http: named("HTTP_PROXY"),
    https: named("HTTPS_PROXY"),
    no_proxy: named("NO_PROXY").split(","),
  };
}

function proxyOf(key: string, text: string): URL | undefined {
  if (text === "") return undefined;
  const url = URL.parse(text.includes("://") ? text : `http://${text}`);
  if (url !== null && (url.protocol === "http:" || url.protocol === "https:")) return url;
  // The value may hold a password.
  throw new Fault("INVALID_ARGUMENT", `${key}: wanted host:port or an http:// or https:// URL`);
}

type Exception = (host: string, port: string) => boolean;

/** One entry of no_proxy: `*`, an address, a range, a name with what is below it, `.below`, each with a port. */
function exceptionOf(item: string): Exception | undefined {
  if (item === "") return undefined;
  if (item === "*") return () => true;
  const range = item.includes("/") ? rangeOf(item) : undefined;
  if (range !== undefined) return range;
  const [, bracketed, bare, only] = /^(?:\[(.+)\]|([^:]+))(?::(\d+))?$/.exec(item) ?? [];
  const wanted = (bracketed ?? bare ?? item).toLowerCase();
  const fits = (port: string) => only === undefined || only === port;
  if (isIP(wanted) !== 0) {
    const same = new BlockList();
    same.addAddress(wanted, family(wanted));
    return (host, port) => fits(port) && isIP(host) !== 0 && same.check(host, family(host));
  }
  const below = wanted.replace(/^\*?\.?/, ".");
  return (host, port) => fits(port) && (host === wanted || host.endsWith(below));
}

function rangeOf(item: string): Exception | undefined {
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
